//! Where a server is.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use anyhow::Context as _;

/// Where to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// None: this computer.
    address: Option<IpAddr>,
    port: u16,
}

impl Target {
    /// The address, and the port.
    #[cfg_attr(not(windows), expect(dead_code, reason = "nobody connects without softnd.dll"))]
    pub(crate) fn parts(self) -> (Option<IpAddr>, u16) {
        (self.address, self.port)
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if let Some(port) = text.strip_prefix(':') {
            return Ok(Self { address: None, port: port.parse().context("not a port")? });
        }
        let target: SocketAddr = text.parse().context("not [ADDRESS]:PORT")?;
        Ok(Self { address: Some(target.ip()), port: target.port() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_either_family_or_none() {
        let local = |port| Target { address: None, port };
        assert_eq!(":80".parse::<Target>().unwrap(), local(80));
        let other = |address: &str, port| Target { address: Some(address.parse().unwrap()), port };
        assert_eq!("10.0.0.2:80".parse::<Target>().unwrap(), other("10.0.0.2", 80));
        assert_eq!("[fd00::2]:80".parse::<Target>().unwrap(), other("fd00::2", 80));
        for wrong in ["", ":", "80", ":65536", "10.0.0.2", "[fd00::2]", "a.b:80"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
