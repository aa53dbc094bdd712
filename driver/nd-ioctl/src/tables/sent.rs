//! Requests that may wait, and the files that they came by.

use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::status::NTSTATUS;
use platform::PoolQuota;

use crate::tables::lines::Lines;
use crate::{Host, Ref};

/// The requests that wait for an object, or that came by a file.
pub(crate) type Waiting<H> = Ref<Lines<<H as Host>::Platform>, H>;

/// What the requests that came by an open file refer to.
pub(crate) struct FileState<H: Host> {
    /// Those that wait.
    pub(crate) waiting: Waiting<H>,
    /// A cleanup has begun.
    cleaning: AtomicBool,
}

impl<H: Host> FileState<H> {
    pub(crate) fn new() -> Result<Self, NTSTATUS> {
        // The lines are charged when the file joins a context.
        let waiting = Lines::new(&PoolQuota::UNLIMITED)?;
        Ok(Self { waiting, cleaning: AtomicBool::new(false) })
    }

    /// What tells the file from others while it is there.
    pub(crate) fn number(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    /// From now on nothing that comes by the file may pend. True: that was so before.
    pub(crate) fn close(&self) -> bool {
        self.cleaning.swap(true, Ordering::AcqRel)
    }

    /// Whether a cleanup has begun: no request that comes by the file may pend.
    pub(crate) fn is_closing(&self) -> bool {
        self.cleaning.load(Ordering::Acquire)
    }
}

/// A request that may wait, and the file that it came by.
pub(crate) struct Sent<H: Host> {
    pub(crate) request: H::Request,
    pub(super) by: Ref<FileState<H>, H>,
}

impl<H: Host> Sent<H> {
    pub(crate) fn new(request: H::Request, by: &Ref<FileState<H>, H>) -> Self {
        Self { request, by: by.clone() }
    }
}
