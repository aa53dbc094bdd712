//! Fault rules (docs/faults.md).

use ndk_abi::status::NTSTATUS;

use super::{Mistake, Model, Result, Work, mismatch};

/// A point that calls, requests and completions pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Register,
    FastRegister,
    Bind,
    Send,
    Read,
    Write,
    Post,
    Complete,
}

/// What a firing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Fail(NTSTATUS),
    Disconnect,
    Reset,
    Overrun,
}

/// A rule: of the passages of `bytes` and more, the first `after` do not fire; of the others each `every`th does, `times` at most.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) point: Point,
    pub(crate) bytes: u64,
    pub(crate) after: u64,
    pub(crate) every: u64,
    pub(crate) times: u64,
    pub(crate) fault: Fault,
    pub(crate) passed: u64,
    pub(crate) fired: u64,
}

impl Model {
    /// A passage: the first rule that fires counts, and those behind it do not see it.
    pub(super) fn pass(&mut self, point: Point, bytes: u64) -> Option<Fault> {
        let forgets_after = self.mistake == Some(Mistake::RulesForgetAfter);
        self.rules.iter_mut().filter(|rule| rule.point == point && bytes >= rule.bytes).find_map(|rule| {
            let nth = rule.passed;
            rule.passed += 1;
            let after = if forgets_after { 0 } else { rule.after };
            let fires = nth >= after && (nth - after) % rule.every == 0 && rule.fired < rule.times;
            rule.fired += u64::from(fires);
            fires.then_some(rule.fault)
        })
    }

    /// The request that a queue pair begins to carry out passes its point.
    pub(super) fn pass_request(&mut self, work: &Work, bytes: u64) -> Option<Fault> {
        let point = match work {
            Work::Send { .. } => Point::Send,
            Work::Read { .. } => Point::Read,
            Work::Write { .. } => Point::Write,
            Work::FastRegister { .. } => Point::FastRegister,
            Work::Bind(_) => Point::Bind,
            Work::Invalidate { .. } | Work::InvalidateWindow { .. } => return None,
        };
        self.pass(point, bytes)
    }

    /// Compares what the provider's rules have counted: passages, and firings.
    pub(crate) fn compare_rules(&self, counts: &[(u64, u64)]) -> Result<()> {
        // Completions on two processors may pass before the first of them has the queue fail.
        let same = |(rule, counted): (&Rule, &(u64, u64))| match rule.point {
            Point::Complete => (rule.fired > 0) == (counted.1 > 0),
            _ => (rule.passed, rule.fired) == *counted,
        };
        if self.rules.len() != counts.len() || !self.rules.iter().zip(counts).all(same) {
            mismatch!("the rules have counted {counts:?}, not as {:?}", self.rules);
        }
        Ok(())
    }
}
