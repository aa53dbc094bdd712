//! What `ndharness perf` and `ping` measure: two connected queue pairs, of one process or two, and the loops over them, which call the
//! interfaces of the DLL as a program does.

#[cfg(windows)]
mod far;
#[cfg(windows)]
mod here;
#[cfg(windows)]
mod link;
#[cfg(windows)]
mod server;
#[cfg(windows)]
mod side;
#[cfg(any(windows, test))]
mod tcp;
#[cfg(windows)]
mod there;
#[cfg(windows)]
mod vain;

use std::{fmt, str::FromStr, time::Duration};

#[cfg(windows)]
pub use here::Here;
#[cfg(windows)]
pub use link::Link;
#[cfg(windows)]
pub(super) use server::serve;
#[cfg(any(windows, test))]
pub use tcp::Tcp;
#[cfg(windows)]
pub use there::There;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends into posted receives.
    Send,
    /// Reads of the peer's memory.
    Read,
    /// Writes to the peer's memory.
    Write,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Send, Self::Read, Self::Write];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|operation| operation.name() == name);
        found.ok_or_else(|| format!("there are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// Operations, and how long they took together.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// How many.
    pub operations: u64,
    /// How long.
    pub elapsed: Duration,
}

impl Counted {
    /// Operations in a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}
