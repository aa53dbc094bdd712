//! The one processor of the host on which the threads of a seeded session run, as only one of them runs at a time. To wake a thread on another
//! processor takes several times as long.

/// Until it is dropped, on the thread that made it: this thread, and those that it starts, run on the processor where it was.
#[derive(Debug)]
pub(crate) struct OneProcessor {
    /// Where the thread may run otherwise.
    #[cfg(target_os = "linux")]
    before: Option<rustix::thread::CpuSet>,
}

impl OneProcessor {
    #[cfg(target_os = "linux")]
    pub(crate) fn enter() -> Self {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
        let before = sched_getaffinity(None).ok();
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        // Without it the session takes longer.
        let _slower = sched_setaffinity(None, &one);
        Self { before }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn enter() -> Self {
        Self {}
    }
}

#[cfg(target_os = "linux")]
impl Drop for OneProcessor {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _as_before = rustix::thread::sched_setaffinity(None, before);
        }
    }
}
