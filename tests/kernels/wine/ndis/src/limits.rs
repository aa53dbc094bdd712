//! How long a miniport may take, by the rules that Driver Verifier holds it to (devtest/ndis-wifi-verification).

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Rule NdisTimedOidComplete: an OID request has been completed.
pub(crate) const OID: Duration = Duration::from_secs(12);
/// Rule NdisTimedDataHang: while sends are pending, one has been completed.
pub(crate) const SENDS: Duration = Duration::from_secs(22);
/// Seconds are so many times shorter where the rules are broken on purpose.
const HURRY: u32 = 50;

static IN_A_HURRY: AtomicBool = AtomicBool::new(false);

/// One of them, as it is now.
pub(crate) fn now(limit: Duration) -> Duration {
    if IN_A_HURRY.load(Ordering::Relaxed) { limit / HURRY } else { limit }
}

/// Runs `work` with shorter limits.
pub(crate) fn in_a_hurry(work: impl FnOnce()) {
    IN_A_HURRY.store(true, Ordering::Relaxed);
    work();
    IN_A_HURRY.store(false, Ordering::Relaxed);
}
