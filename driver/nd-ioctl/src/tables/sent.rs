//! Requests that may pend, and the files that they came by.

use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::status::NTSTATUS;
use platform::PoolQuota;

use crate::tables::lines::Lines;
use crate::{Host, Ref};

/// The requests that wait for an object, or that came by a file.
pub(crate) type Waiting<H> = Ref<Lines<<H as Host>::Platform>, H>;

/// The state of an open file that the requests that came by the file refer to.
pub(crate) struct FileState<H: Host> {
    /// The pended requests that came by the file.
    pub(crate) waiting: Waiting<H>,
    /// The cleanup of the file has begun.
    cleaning: AtomicBool,
}

impl<H: Host> FileState<H> {
    pub(crate) fn new() -> Result<Self, NTSTATUS> {
        // The lines are charged when the file joins a context.
        let waiting = Lines::new(&PoolQuota::UNLIMITED)?;
        Ok(Self { waiting, cleaning: AtomicBool::new(false) })
    }

    /// A number that no other open file has.
    pub(crate) fn number(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    /// Begins the cleanup: no request that comes by the file may pend from now on. True: a cleanup has begun before.
    pub(crate) fn close(&self) -> bool {
        self.cleaning.swap(true, Ordering::AcqRel)
    }

    /// Whether the cleanup has begun: no request that comes by the file may pend.
    pub(crate) fn is_closing(&self) -> bool {
        self.cleaning.load(Ordering::Acquire)
    }
}

/// A request that may pend, and the file that it came by.
pub(crate) struct Sent<H: Host> {
    pub(crate) request: H::Request,
    pub(super) by: Ref<FileState<H>, H>,
}

impl<H: Host> Sent<H> {
    pub(crate) fn new(request: H::Request, by: &Ref<FileState<H>, H>) -> Self {
        Self { request, by: by.clone() }
    }
}
