//! The driver on one computer, or on two that have a network between them: this system's own loopback. Or none, and a device in each
//! process instead.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::session::{self, Session};
use crate::wine_tests::{diagnostics, is_idle_again};

/// How many computers there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// One, with a driver.
    One,
    /// Two, with a driver each.
    Two,
    /// One, where no driver is loaded.
    Driverless,
    /// One, with a driver, which the program that connects does not use.
    Mixed,
}

/// Adapters that are ready.
pub(crate) struct Computers {
    count: Count,
    first: Ready,
    second: Option<Ready>,
}

/// A computer with no program at work.
struct Ready {
    session: Session,
    /// What lives in its driver then, if it has one.
    idle: Option<Value>,
}

impl Ready {
    fn load(addresses: &[IpAddr]) -> Result<Self> {
        let mut session = Session::start(addresses)?;
        session.load()?;
        let idle = Some(diagnostics(&session)?);
        Ok(Self { session, idle })
    }
}

impl Computers {
    /// Two computers whose sessions have loaded the driver.
    pub(crate) fn of([first, second]: [Session; 2]) -> Result<Self> {
        let ready = |session| anyhow::Ok(Ready { idle: Some(diagnostics(&session)?), session });
        Ok(Self { count: Count::Two, first: ready(first)?, second: Some(ready(second)?) })
    }

    /// Loads the driver on each. Two have an address each, and one of IPv6 if this system has another than that of loopback.
    pub(crate) fn load(count: Count) -> Result<Self> {
        let addresses = session::addresses(&[])?;
        let ipv6 = addresses.iter().copied().find(is_of_a_network);
        let load = |last, ipv6: Option<IpAddr>| {
            let ipv4 = Ipv4Addr::new(127, 0, 0, last).into();
            Ready::load(&[ipv4].into_iter().chain(ipv6).collect::<Vec<_>>())
        };
        let (first, second) = match count {
            Count::One | Count::Mixed => (Ready::load(&addresses)?, None),
            Count::Two => {
                let first = load(2, ipv6)?;
                (first, Some(load(3, ipv6.map(|_| Ipv6Addr::LOCALHOST.into()))?))
            }
            Count::Driverless => (Ready { session: Session::start(&addresses)?, idle: None }, None),
        };
        Ok(Self { count, first, second })
    }

    /// Where programs serve.
    pub(crate) fn serving(&self) -> &Session {
        &self.first.session
    }

    /// Where programs connect.
    pub(crate) fn connecting(&self) -> &Session {
        &self.second.as_ref().unwrap_or(&self.first).session
    }

    /// What those are told of the way between the two.
    pub(crate) fn way(&self) -> &'static [&'static str] {
        if self.count == Count::One { &[] } else { &["--wire"] }
    }

    /// The environment of those.
    pub(crate) fn environment(&self) -> Option<(&'static str, &'static str)> {
        (self.count == Count::Mixed).then_some(("SOFTND_MODE", "hosted"))
    }

    /// Waits until no more is alive in the drivers than before. In devices of their own processes look themselves.
    pub(crate) fn are_idle_again(&self) -> Result<()> {
        [Some(&self.first), self.second.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|ready| Some((&ready.session, ready.idle.as_ref()?)))
            .try_for_each(|(session, idle)| is_idle_again(session, idle))
    }

    /// Unloads; nothing may be left behind.
    pub(crate) fn unload(self) -> Result<()> {
        let with_driver = [Some(self.first), self.second].into_iter().flatten().filter(|ready| ready.idle.is_some());
        for mut ready in with_driver {
            let report = ready.session.unload()?;
            ensure!(report.is_clean(), "left behind: {report}");
        }
        Ok(())
    }
}

/// Whether it is one of IPv6 by which other computers could be reached.
fn is_of_a_network(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(ipv6) if !ipv6.is_loopback() && !ipv6.is_unicast_link_local())
}
