//! What happened in a seeded session, in order.

use std::{collections::VecDeque, fmt};

use crate::violation::Place;

/// Steps that are kept. Of older ones only the digest tells.
const KEPT: usize = 20_000;

/// One thing that a thread did, before which another may have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the thread or processor; 0 is the session's own thread.
    pub actor: usize,
    /// What it did.
    pub what: &'static str,
    /// To what, if it is in memory of the platform.
    pub place: Option<Place>,
}

/// What happened in a seeded session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The number of steps.
    pub count: u64,
    /// Of all steps (FNV-1a).
    pub digest: u64,
    /// The last ones.
    pub steps: VecDeque<Step>,
}

impl Trace {
    pub(super) fn note(&mut self, step: Step) {
        let place = step.place.map_or([0, 0], |place| [place.allocation, place.offset as u64]);
        let words = [step.actor as u64].into_iter().chain(place);
        let bytes = words.flat_map(u64::to_le_bytes).chain(step.what.bytes());
        self.digest = bytes.fold(self.digest ^ 0xCBF2_9CE4_8422_2325, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        self.count += 1;
        if self.steps.len() == KEPT {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { actor, what, place } in &self.steps {
            write!(f, "{actor}: {what}")?;
            place.map_or(Ok(()), |place| write!(f, " {place}"))?;
            writeln!(f)?;
        }
        write!(f, "{} steps, digest {:#018x}", self.count, self.digest)
    }
}
