//! Open files, and the provider context of each.

use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_STATE};
use platform::{Charge, Event, OutOfMemory, Passive, SpinLock};

use crate::device_state::DeviceState;
use crate::session::contexts::Contexts;
use crate::session::provider_context::ProviderContext;
use crate::tables::lines::Lines;
use crate::tables::sent::FileState;
use crate::{Host, Ref, shared};

/// One open of the control device.
///
/// The host keeps the value (in `FileObject->FsContext`) from IRP_MJ_CREATE to IRP_MJ_CLOSE, then drops it. Several threads may call its
/// methods at the same time.
pub struct File<H: Host> {
    pub(crate) device: Ref<DeviceState<H>, H>,
    pub(super) contexts: Ref<Contexts<H>, H>,
    /// The process that opened the file.
    pub(crate) process: u64,
    pub(crate) state: Ref<FileState<H>, H>,
    /// Signalled when the cleanup is over.
    clean: Ref<Event<H::Platform>, H>,
    /// The file counts as open: [`File::looks_on`].
    is_counted: AtomicBool,
    /// Dropped last, as it charges the fields above.
    membership: SpinLock<Option<Membership<H>>, H::Platform>,
}

/// The provider context of a file.
struct Membership<H: Host> {
    context: Ref<ProviderContext<H>, H>,
    /// This file's PROVIDER_INIT made the context: it ends with the file.
    is_own: bool,
    /// Charges the file's own memory.
    _charge: Charge<H::Platform>,
}

impl<H: Host> File<H> {
    pub(crate) fn new(
        device: Ref<DeviceState<H>, H>,
        contexts: Ref<Contexts<H>, H>,
        process: u64,
    ) -> Result<Self, NTSTATUS> {
        let state = shared(FileState::new()?)?;
        let clean = Event::new().map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        device.files.fetch_add(1, Ordering::Relaxed);
        let membership = SpinLock::<_, H::Platform>::new(None);
        Ok(Self { device, contexts, process, membership, state, clean, is_counted: AtomicBool::new(true) })
    }

    /// The cancel routine of a pended request: completes the request. `id` is the argument of [`crate::Request::pend`]. IRQL <= DISPATCH,
    /// no lock held.
    pub fn cancel(&self, id: u64) {
        if let Some(pended) = self.context().and_then(|context| context.pended.cancelled(id)) {
            pended.cancel();
        }
    }

    /// The last handle is closed (IRP_MJ_CLEANUP). Cancels the pended requests that came by this file. If this file's PROVIDER_INIT made
    /// the context, also cancels those that came by other files, closes all objects and waits until they are gone: when this returns, no
    /// memory of the context is locked.
    ///
    /// Requests may still be in progress; those that then name or want a handle of the ended context fail with STATUS_DEVICE_REMOVED. The
    /// host calls this at least once, also earlier: when the device goes or the process ends. The first call does the work, later calls
    /// wait for it.
    pub fn cleanup(&self, passive: &Passive<'_>) {
        if self.state.close() {
            return self.clean.wait(passive);
        }
        let membership = self.membership.lock();
        let found = membership.as_ref().map(|membership| (membership.context.clone(), membership.is_own));
        drop(membership);
        self.device.host.end_tests(self.state.number(), passive);
        self.device.host.end_capture(self.state.number());
        match found {
            Some((context, true)) => {
                let named = self.contexts.lock().remove(context.id);
                drop(named);
                context.end(passive);
            }
            // In order of issue. Requests that would pend from now on complete with STATUS_CANCELLED.
            Some((context, false)) => context.pended.cancel(&self.state.waiting),
            None => {}
        }
        self.clean.set();
    }

    /// The file looks on at others, or is gone: it no longer counts as open. So a program that checks that its files are closed may be captured.
    pub(crate) fn looks_on(&self) {
        if self.is_counted.swap(false, Ordering::Relaxed) {
            self.device.files.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The file's provider context, if it has one.
    pub(crate) fn context(&self) -> Option<Ref<ProviderContext<H>, H>> {
        self.membership.lock().as_ref().map(|membership| membership.context.clone())
    }

    /// Adds the file to a provider context. STATUS_INVALID_DEVICE_STATE: the file has a context already; STATUS_DEVICE_REMOVED: its cleanup
    /// has begun.
    pub(crate) fn join(&self, context: &Ref<ProviderContext<H>, H>, is_own: bool) -> Result<(), NTSTATUS> {
        let mut charge = context.quota.charge::<FileState<H>, Event<H::Platform>>()?;
        // The allocation in which the host keeps the file, and its lines of requests.
        charge.absorb(context.quota.charge::<Self, Lines<H::Platform>>()?);
        let mut membership = self.membership.lock();
        if membership.is_some() {
            return Err(STATUS_INVALID_DEVICE_STATE);
        }
        // A cleanup that has begun may have read `membership` before.
        if self.state.is_closing() {
            return Err(STATUS_DEVICE_REMOVED);
        }
        *membership = Some(Membership { context: context.clone(), is_own, _charge: charge });
        Ok(())
    }
}

impl<H: Host> Drop for File<H> {
    fn drop(&mut self) {
        self.looks_on();
    }
}
