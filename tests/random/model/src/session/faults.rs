//! Fault rules of a session: as text for the provider, as the model's rules.

use ndk_abi::status::{
    STATUS_ACCESS_VIOLATION, STATUS_CONNECTION_INVALID, STATUS_DATA_ERROR, STATUS_INSUFFICIENT_RESOURCES,
    STATUS_IO_TIMEOUT, STATUS_REMOTE_RESOURCES,
};

use super::{Session, nth};
use crate::{
    operation::FaultRule,
    reference::{Fault, FaultPoint as Point, FaultRule as Rule, Result},
};

const INSUFFICIENT_RESOURCES: (&str, Fault) =
    ("fail STATUS_INSUFFICIENT_RESOURCES", Fault::Fail(STATUS_INSUFFICIENT_RESOURCES));
const CONNECTION_INVALID: (&str, Fault) = ("fail STATUS_CONNECTION_INVALID", Fault::Fail(STATUS_CONNECTION_INVALID));
const ACCESS_VIOLATION: (&str, Fault) = ("fail STATUS_ACCESS_VIOLATION", Fault::Fail(STATUS_ACCESS_VIOLATION));
const IO_TIMEOUT: (&str, Fault) = ("fail STATUS_IO_TIMEOUT", Fault::Fail(STATUS_IO_TIMEOUT));
const DATA_ERROR: (&str, Fault) = ("fail STATUS_DATA_ERROR", Fault::Fail(STATUS_DATA_ERROR));
const REMOTE_RESOURCES: (&str, Fault) = ("fail STATUS_REMOTE_RESOURCES", Fault::Fail(STATUS_REMOTE_RESOURCES));
const DISCONNECT: (&str, Fault) = ("disconnect", Fault::Disconnect);
const RESET: (&str, Fault) = ("reset", Fault::Reset);
const OVERRUN: (&str, Fault) = ("overrun", Fault::Overrun);

/// A point, its name, whether it takes `bytes`, and its actions.
type PointOf = (Point, &'static str, bool, &'static [(&'static str, Fault)]);

const POINTS: [PointOf; 8] = [
    (Point::Register, "register", true, &[INSUFFICIENT_RESOURCES]),
    (Point::FastRegister, "fast-register", false, &[ACCESS_VIOLATION, DISCONNECT, RESET]),
    (Point::Bind, "bind", false, &[ACCESS_VIOLATION, DISCONNECT, RESET]),
    (Point::Send, "send", true, &[IO_TIMEOUT, DATA_ERROR, ACCESS_VIOLATION, DISCONNECT, RESET]),
    (Point::Read, "read", true, &[IO_TIMEOUT, REMOTE_RESOURCES, ACCESS_VIOLATION, DISCONNECT, RESET]),
    (Point::Write, "write", true, &[IO_TIMEOUT, ACCESS_VIOLATION, DISCONNECT, RESET]),
    (Point::Post, "post", true, &[INSUFFICIENT_RESOURCES, CONNECTION_INVALID]),
    // Which of two queues completes first is not determined: the first completion of each overruns it.
    (Point::Complete, "complete", false, &[OVERRUN]),
];

fn rule(from: &FaultRule) -> Option<(String, Rule)> {
    let (point, name, takes_bytes, actions) = nth(from.point, POINTS.into_iter())?;
    let (action, fault) = nth(from.action, actions.iter().copied())?;
    let mut text = format!("on {name}");
    let mut rule = Rule { point, bytes: 0, after: 0, every: 1, times: u64::MAX, fault, passed: 0, fired: 0 };
    if takes_bytes && from.bytes > 0 {
        rule.bytes = from.bytes.into();
        text += &format!(" where bytes>={}", from.bytes);
    }
    if point != Point::Complete {
        (rule.after, rule.every) = (from.after.into(), u64::from(from.every).max(1));
        text += &format!(" after {} every {}", rule.after, rule.every);
        if from.times > 0 {
            rule.times = from.times.into();
            text += &format!(" times {}", from.times);
        }
    }
    Some((text + " do " + action, rule))
}

impl Session {
    /// Replaces the rules.
    pub(super) fn set_faults(&mut self, rules: &[FaultRule]) -> Result<()> {
        let (texts, rules): (Vec<_>, Vec<_>) = rules.iter().filter_map(rule).unzip();
        self.step(
            |session| session.provider.set_fault_rules(&texts.join("\n")),
            |session, set| {
                if let Err(error) = set {
                    crate::reference::mismatch!("{texts:?} are refused: {error}");
                }
                session.model.rules = rules;
                Ok(())
            },
        )
    }

    /// What the provider's rules have counted: passages, and firings.
    pub(super) fn counted(&self) -> Vec<(u64, u64)> {
        let rules = (0..).map_while(|place| self.provider.fault_rule(place));
        rules.map(|rule| (rule.Passed, rule.Fired)).collect()
    }
}
