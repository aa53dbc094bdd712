//! The places a device can be in.

use clap::ValueEnum;
use conformance::Transport;

/// Where the device under test is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FrontEnd {
    /// The simulated kernel, in this process. Needs nothing installed.
    Sim,
    /// The first adapter of the loaded softndk.sys, through \\.\SoftNdk. On Windows, or under Wine.
    Ioctl,
    /// NetworkDirect 1: softnd.dll beside this program, on the loaded softndk.sys or, as SOFTND_MODE says, on a device of this process.
    Nd1,
    /// NetworkDirect 2: the same.
    Nd2,
}

/// How requests and completions go between a program and the driver.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Path {
    /// Rings of memory that both share.
    Rings,
    /// A control code for each request.
    Plain,
}

impl FrontEnd {
    /// The way to it, or why there is none.
    pub(crate) fn transport(self) -> anyhow::Result<Box<dyn Transport>> {
        match self {
            Self::Sim => Ok(Box::new(conformance::sim::Simulated::boot())),
            #[cfg(windows)]
            Self::Ioctl | Self::Nd1 | Self::Nd2 => Ok(Box::new(crate::ioctl::Device::new())),
            #[cfg(not(windows))]
            Self::Ioctl | Self::Nd1 | Self::Nd2 => anyhow::bail!(
                "this front end needs Windows: `cargo xtask run` builds the driver and runs this program under Wine"
            ),
        }
    }
}

impl Path {
    /// The one that was asked for, else both.
    pub(crate) fn chosen(path: Option<Self>) -> Vec<Self> {
        path.map_or_else(|| vec![Self::Rings, Self::Plain], |path| vec![path])
    }

    /// As clients of the IOCTLs are told it.
    pub(crate) const fn of_client(self) -> conformance::client::Path {
        match self {
            Self::Rings => conformance::client::Path::Rings,
            Self::Plain => conformance::client::Path::Plain,
        }
    }

    /// As softnd.dll is told it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rings => "rings",
            Self::Plain => "plain",
        }
    }
}
