//! The fault rules of a device: what passes their points, and what they have counted. `fault-rules` has the rules themselves.

use core::{
    fmt,
    sync::atomic::{AtomicU32, Ordering},
};

use fault_rules::{Action, Counts, LONGEST_RULE, ParseError, Passage, Point, Rule, parse};
use platform::{Addresses, Notice, OutOfMemory, Platform, Slice, SpinLock};

use crate::{Counter, Device, Error, limits, watch};

/// The rules of a device.
pub(crate) struct Faults<P: Platform> {
    /// The points of the rules, one bit each. Written with the lock held.
    points: AtomicU32,
    rules: SpinLock<Slice<Option<CountedRule>, P>, P>,
}

/// A rule of a device, as it was written, and what it has counted.
#[derive(Clone, Copy, Debug)]
pub struct CountedRule {
    rule: Rule,
    counts: Counts,
    text: [u8; LONGEST_RULE],
}

impl CountedRule {
    fn new(rule: Rule, text: &str) -> Self {
        let mut copy = [0; LONGEST_RULE];
        copy.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
        Self { rule, counts: Counts::default(), text: copy }
    }

    /// The rule's text in UTF-8, padded with zeros.
    pub fn text(&self) -> &[u8; LONGEST_RULE] {
        &self.text
    }

    /// What the rule has counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Why a device did not take rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesError {
    /// A rule is wrong.
    Wrong(ParseError),
    /// There are more than [`limits::FAULT_RULES`].
    TooMany,
    /// There is no memory.
    OutOfMemory,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(error) => error.fmt(f),
            Self::TooMany => write!(f, "more than {} rules", limits::FAULT_RULES),
            Self::OutOfMemory => f.write_str("no memory for the rules"),
        }
    }
}

impl From<OutOfMemory> for RulesError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The errors that rules name.
const ERRORS: [Error; 12] = [
    Error::InsufficientResources,
    Error::SharingViolation,
    Error::TooManyAddresses,
    Error::ConnectionRefused,
    Error::ConnectionAborted,
    Error::NetworkUnreachable,
    Error::HostUnreachable,
    Error::ConnectionInvalid,
    Error::TimedOut,
    Error::AccessViolation,
    Error::RemoteResources,
    Error::DataError,
];

/// The error of a rule that fails a request with `status`.
pub(crate) fn error(status: u32) -> Error {
    let error = ERRORS.into_iter().find(|&error| error as u32 == status);
    error.unwrap_or(Error::InternalError)
}

impl<P: Platform> Default for Faults<P> {
    fn default() -> Self {
        Self { points: AtomicU32::new(0), rules: SpinLock::<_, P>::new(Slice::empty()) }
    }
}

impl<P: Platform> Faults<P> {
    /// Replaces the rules, and begins their counts anew. After an error the device keeps its old rules. IRQL <= DISPATCH; the time is linear in the
    /// length of the text.
    pub(crate) fn set(&self, text: &str) -> Result<(), RulesError> {
        let (mut count, mut points) = (0_usize, 0);
        for rule in parse(text) {
            points |= bit(rule.map_err(RulesError::Wrong)?.0.point);
            count = count.saturating_add(1);
        }
        if count > limits::FAULT_RULES {
            return Err(RulesError::TooMany);
        }
        let mut rules = parse(text).map_while(Result::ok);
        let rules = Slice::from_fn(count, |_| rules.next().map(|(rule, text)| CountedRule::new(rule, text)))?;
        let mut locked = self.rules.lock();
        let old = core::mem::replace(&mut *locked, rules);
        self.set_points(points);
        drop(locked);
        drop(old);
        Ok(())
    }

    fn set_points(&self, points: u32) {
        let watches = |points: u32| Point::ALL.into_iter().any(|point| is_watched(point) && points & bit(point) != 0);
        watch::change(watches(self.points.swap(points, Ordering::Relaxed)), watches(points));
    }

    /// Rule number `index`; `None` from the number of rules on. IRQL <= DISPATCH.
    pub(crate) fn rule(&self, index: usize) -> Option<CountedRule> {
        *self.rules.lock().get(index)?
    }

    /// Whether a rule is for `point`.
    #[inline]
    pub(crate) fn has_rule_for(&self, point: Point) -> bool {
        self.points.load(Ordering::Relaxed) & bit(point) != 0
    }

    /// Counts a passage. The rules are asked in order; `Some`: one fires, and those behind it are not asked. IRQL <= DISPATCH; the time is linear in
    /// the number of rules.
    pub(crate) fn fault(&self, device: &Device<P>, passage: &Passage) -> Option<Action> {
        let mut rules = self.rules.lock();
        let (number, action, text) =
            (1..).zip(rules.iter_mut().flatten()).find_map(|(number, CountedRule { rule, counts, text })| {
                Some((number, rule.fires(counts, passage)?, *text))
            })?;
        drop(rules);
        device.counters().count(Counter::Faults);
        let status = if let Action::Fail(status) = action { status } else { 0 };
        let addresses = Addresses { local: passage.local, remote: passage.remote };
        // No capture has frames.
        if !matches!(passage.point, Point::FrameOut | Point::FrameIn) {
            device.capture().fault(addresses, number, &text);
        }
        P::notice(&Notice::Fault { rule: number, addresses, queue_pair: passage.queue_pair, status });
        Some(action)
    }

    /// As [`Self::fault`], for a call. `Some`: the seconds of an [`Action::SendTimeout`].
    pub(crate) fn check(&self, device: &Device<P>, passage: &Passage) -> Result<Option<u32>, Error> {
        if !self.has_rule_for(passage.point) {
            return Ok(None);
        }
        match self.fault(device, passage) {
            Some(Action::Fail(status)) => Err(error(status)),
            Some(Action::SendTimeout(seconds)) => Ok(Some(seconds)),
            // The parser takes no other rule for a call.
            Some(_) | None => Ok(None),
        }
    }
}

impl<P: Platform> Device<P> {
    /// Has a frame of the cable with `bytes` bytes pass its point. `packet`: the addresses of its IP packet, if it is one, and whether it is a TCP
    /// segment; called only if a rule is for the point. IRQL <= DISPATCH.
    pub fn pass_frame(
        &self,
        is_received: bool,
        bytes: usize,
        packet: impl FnOnce() -> (Addresses, bool),
    ) -> Option<Action> {
        if !self.has_frame_rule(is_received) {
            return None;
        }
        let point = frame_point(is_received);
        let (Addresses { local, remote }, is_checked) = packet();
        let bytes = Some(bytes as u64);
        let passage = Passage { local, remote, bytes, is_checked, ..Passage::new(point, P::system_time()) };
        self.faults().fault(self, &passage)
    }

    /// Whether a rule is for frames of this direction.
    pub fn has_frame_rule(&self, is_received: bool) -> bool {
        self.faults().has_rule_for(frame_point(is_received))
    }
}

fn frame_point(is_received: bool) -> Point {
    if is_received { Point::FrameIn } else { Point::FrameOut }
}

impl<P: Platform> Drop for Faults<P> {
    fn drop(&mut self) {
        self.set_points(0);
    }
}

/// Whether the engine, or a completion queue, looks for rules by [`watch::any`].
fn is_watched(point: Point) -> bool {
    point.is_request() || matches!(point, Point::Complete | Point::Notify)
}

fn bit(point: Point) -> u32 {
    1_u32.checked_shl(point as u32).unwrap_or(0)
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn each_status_of_a_rule_is_an_error_of_the_device() {
        for &(name, status) in Point::ALL.into_iter().flat_map(Point::statuses) {
            assert_eq!(error(status) as u32, status, "{name}");
        }
    }
}
