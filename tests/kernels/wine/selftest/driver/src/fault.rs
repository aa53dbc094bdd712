//! What this miniport does wrong, if anything, while a check of NDIS runs.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::imports::SoftNdkStandInExercise;

/// A rule to break.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A send is kept, until the next restart or [`crate::miniport::complete_held`].
    HoldsSends,
    CompletesTwice,
    SetsNoStatus,
    ChangesFrames,
    SaysDispatchLevel,
    SendsWhilePaused,
    /// In MiniportPause.
    ReceivesWhilePaused,
    /// In MiniportHaltEx.
    ReceivesInHalt,
    /// A pause does not wait for lists that the protocol has.
    ForgetsReceives,
    /// A pause ends within an indication.
    PausesInIndication,
    /// Not wrong: a pause pends, and ends when the last list comes back.
    PausesWithLastList,
    /// Not wrong: a thread indicates once after MiniportPause has returned.
    ReceivesLate,
    /// It does so again.
    ReceivesLateAgain,
    CountsNothing,
    TakesLock,
    CompletesWhatDidNotPend,
    PendsSetState,
    RaisesEventInHandler,
    ListsNoPairs,
    /// Answers begin with a header of another type, revision or size.
    AnswersWithType,
    AnswersWithRevision,
    AnswersWithSize,
    AnswersNothing,
    TakesAnyLength,
    CountsNoErrors,
    RefusesPower,
    /// Once.
    DoesNotWake,
    /// A large send comes back as it was.
    LeavesLargeSends,
    SegmentsWhileOff,
    /// A large send that is not what it says.
    SegmentsAnything,
    /// Sets that are none of the documented ones succeed.
    TakesAnySetting,
    TellsNoOffloads,
    /// One OID request pends for ever.
    KeepsRequest,
}

static FAULT: AtomicU32 = AtomicU32::new(Fault::None as u32);

impl Fault {
    /// Whether it is to be done now.
    pub(crate) fn is_planted(self) -> bool {
        FAULT.load(Ordering::Acquire) == self as u32
    }

    /// The same of what is done wrong once.
    pub(crate) fn is_planted_once(self) -> bool {
        FAULT.compare_exchange(self as u32, Self::None as u32, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Has NDIS make a check, and does it wrong.
    pub(crate) fn during(self, check: u32) {
        FAULT.store(self as u32, Ordering::Release);
        // SAFETY: PASSIVE_LEVEL, with the adapter running.
        unsafe { SoftNdkStandInExercise(check) };
        FAULT.store(Self::None as u32, Ordering::Release);
    }
}
