//! The places a device can be in.

use clap::ValueEnum;
use conformance::Transport;

/// Where the device under test is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FrontEnd {
    /// The simulated kernel, in this process. Needs nothing installed.
    Sim,
    /// The loaded softndk.sys, through \\.\SoftNdk. On Windows, or under Wine.
    Ioctl,
    /// The loaded softndk.sys, through NetworkDirect 2: softnd.dll beside this program.
    Nd2,
}

/// How softnd.dll reaches the driver.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Path {
    /// Rings of memory that it shares with the driver.
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
            Self::Ioctl | Self::Nd2 => Ok(Box::new(crate::ioctl::Device::new())),
            #[cfg(not(windows))]
            Self::Ioctl | Self::Nd2 => anyhow::bail!(
                "this front end needs Windows: `cargo xtask run` builds the driver and runs this program under Wine"
            ),
        }
    }
}

#[cfg(windows)]
impl Path {
    /// As the DLL is told it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rings => "rings",
            Self::Plain => "plain",
        }
    }
}
