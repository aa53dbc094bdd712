//! One open file: a handle space and the requests it pended.

use core::sync::atomic::Ordering;

use ndk_abi::status::{NTSTATUS, STATUS_NOT_SUPPORTED};
use platform::{Arc, OutOfMemory, Passive};

use crate::device::Shared;
use crate::{Host, Request};

/// One open of the control device.
///
/// The host keeps it (in `FileObject->FsContext`) from IRP_MJ_CREATE to IRP_MJ_CLOSE and drops it then; all methods may
/// be called at the same time from several threads.
pub struct File<H: Host> {
    device: Arc<Shared<H>, H::Platform>,
}

impl<H: Host> File<H> {
    pub(crate) fn new(device: Arc<Shared<H>, H::Platform>) -> Result<Self, OutOfMemory> {
        Ok(Self { device })
    }

    /// Serves a request: completes it or pends it. Returns what the dispatch routine has to return: the status the
    /// request was completed with, or STATUS_PENDING.
    pub fn dispatch(&self, request: H::Request, _passive: &Passive<'_>) -> NTSTATUS {
        request.complete(STATUS_NOT_SUPPORTED, 0);
        STATUS_NOT_SUPPORTED
    }

    /// The cancel routine of a pended request: completes it. `id` is what [`Request::pend`] got. IRQL <= DISPATCH, no lock
    /// held.
    pub fn cancel(&self, _id: u64) {}

    /// The last handle is closed (IRP_MJ_CLEANUP): cancels what is pended, closes all objects, waits until they are gone.
    /// Requests may still be in progress; later ones fail. To be called once at least.
    pub fn cleanup(&self, _passive: &Passive<'_>) {}
}

impl<H: Host> Drop for File<H> {
    fn drop(&mut self) {
        self.device.files.fetch_sub(1, Ordering::Relaxed);
    }
}
