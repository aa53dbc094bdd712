//! The driver on one computer, or on two that have a network between them: this system's own loopback.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::prefix::Computer;
use crate::session::{self, Session};
use crate::wine_tests::{diagnostics, is_idle_again};

/// How many computers there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    Two,
}

/// Adapters that are ready.
pub(crate) struct Computers {
    first: Ready,
    second: Option<Ready>,
}

/// A driver with no program at work.
struct Ready {
    session: Session,
    idle: Value,
}

impl Ready {
    fn load(computer: Computer, addresses: &[IpAddr]) -> Result<Self> {
        let mut session = Session::start_on(computer, "softndk.sys", addresses, true)?;
        session.load()?;
        let idle = diagnostics(&session)?;
        Ok(Self { session, idle })
    }
}

impl Computers {
    /// Loads the driver on each; two have an address each.
    pub(crate) fn load(count: Count) -> Result<Self> {
        if count == Count::One {
            return Ok(Self { first: Ready::load(Computer::First, &session::addresses(&[])?)?, second: None });
        }
        let load = |computer, last| Ready::load(computer, &[Ipv4Addr::new(127, 0, 0, last).into()]);
        Ok(Self { first: load(Computer::First, 2)?, second: Some(load(Computer::Second, 3)?) })
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
        if self.second.is_some() { &["--wire"] } else { &[] }
    }

    /// Waits until no more is alive in the drivers than before.
    pub(crate) fn are_idle_again(&self) -> Result<()> {
        [Some(&self.first), self.second.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|ready| is_idle_again(&ready.session, &ready.idle))
    }

    /// Unloads; nothing may be left behind.
    pub(crate) fn unload(self) -> Result<()> {
        for mut ready in [Some(self.first), self.second].into_iter().flatten() {
            let report = ready.session.unload()?;
            ensure!(report.is_clean(), "left behind: {report}");
        }
        Ok(())
    }
}
