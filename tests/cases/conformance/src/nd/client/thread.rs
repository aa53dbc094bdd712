//! The calling thread.
#![expect(unsafe_code, reason = "calls into kernel32")]

use anyhow::ensure;
use windows_sys::Win32::System::Threading::{GetCurrentThread, SetThreadAffinityMask};

/// The calling thread runs on the first processor only, as long as this lives.
pub(crate) struct OnFirstProcessor {
    before: usize,
}

impl OnFirstProcessor {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let before = run_on(1);
        ensure!(before != 0, "cannot have the thread run on one processor: {}", std::io::Error::last_os_error());
        Ok(Self { before })
    }
}

impl Drop for OnFirstProcessor {
    fn drop(&mut self) {
        run_on(self.before);
    }
}

/// Returns the processors that it ran on, 0 for an error.
fn run_on(processors: usize) -> usize {
    // SAFETY: a pseudo handle, which is not to be closed.
    let thread = unsafe { GetCurrentThread() };
    // SAFETY: the thread itself; what cannot be is an error.
    unsafe { SetThreadAffinityMask(thread, processors) }
}
