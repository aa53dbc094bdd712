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
}

impl FrontEnd {
    /// The way to it, or why there is none.
    pub(crate) fn transport(self) -> anyhow::Result<Box<dyn Transport>> {
        match self {
            Self::Sim => Ok(Box::new(conformance::sim::Simulated::boot())),
            #[cfg(windows)]
            Self::Ioctl => Ok(Box::new(crate::ioctl::Device::new())),
            #[cfg(not(windows))]
            Self::Ioctl => anyhow::bail!(
                "the ioctl front end needs Windows: `cargo xtask run` builds the driver and runs this program under Wine"
            ),
        }
    }
}
