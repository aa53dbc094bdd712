//! Open files, and their provider contexts: handles, and the requests that wait.
//!
//! PROVIDER_INIT makes a context for a file. Another file may share it ([`crate::session::attach`]): then requests to the context come
//! by several files. The context ends with the file whose PROVIDER_INIT made it.

use core::sync::atomic::Ordering;

use ndk_abi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_STATE};
use platform::{Arc, Charge, Event, OutOfMemory, Passive, SpinLock};

use crate::device::Shared;
use crate::objects::{Handles, Object, PendedRequests};
use crate::session::lines::Lines;
use crate::session::quota::Quota;
use crate::session::sent::FileState;
use crate::{Host, Ref, shared};
use ndk_consumer::OpenAdapters;

/// One open of the control device.
///
/// The host keeps it (in `FileObject->FsContext`) from IRP_MJ_CREATE to IRP_MJ_CLOSE and drops it then; all methods may
/// be called at the same time from several threads.
pub struct File<H: Host> {
    pub(crate) device: Ref<Shared<H>, H>,
    /// The process that opened it.
    pub(crate) process: u64,
    membership: SpinLock<Option<Membership<H>>, H::Platform>,
    pub(crate) state: Ref<FileState<H>, H>,
    /// The cleanup is done.
    clean: Ref<Event<H::Platform>, H>,
}

/// The provider context of a file.
struct Membership<H: Host> {
    context: Ref<ProviderContext<H>, H>,
    /// It began with this file, and ends with it.
    is_own: bool,
    /// For the file.
    _charge: Charge<H::Platform>,
}

/// A provider context. NDK callbacks refer to it, so it may outlive its files.
pub(crate) struct ProviderContext<H: Host> {
    pub(crate) device: Ref<Shared<H>, H>,
    /// Its name for SOFTNDK_ATTACH.
    pub(crate) id: u64,
    /// The process whose files they are.
    pub(crate) process: u64,
    pub(crate) quota: Ref<Quota<H>, H>,
    pub(crate) handles: Ref<Handles<H>, H>,
    pub(crate) pended: Ref<PendedRequests<H>, H>,
    pub(crate) adapters: OpenAdapters<H::Platform>,
    _charge: Charge<H::Platform>,
}

impl<H: Host> File<H> {
    pub(crate) fn new(device: Ref<Shared<H>, H>, process: u64) -> Result<Self, NTSTATUS> {
        let state = shared(FileState::new()?)?;
        let clean = Event::new().map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        device.files.fetch_add(1, Ordering::Relaxed);
        Ok(Self { device, process, membership: SpinLock::<_, H::Platform>::new(None), state, clean })
    }

    /// The cancel routine of a pended request: completes it. `id` is what [`Request::pend`] got. IRQL <= DISPATCH, no lock
    /// held.
    pub fn cancel(&self, id: u64) {
        if let Some(pended) = self.context().and_then(|context| context.pended.cancelled(id)) {
            pended.cancel();
        }
    }

    /// The last handle is closed (IRP_MJ_CLEANUP): cancels what came by this file and is pended; if the context began with it,
    /// what came by others too, closes all objects and waits until they are gone. When it returns no memory of that context's
    /// user is locked.
    ///
    /// Requests may still be in progress; later ones that name or want a handle of a context that has ended get
    /// STATUS_DEVICE_REMOVED. To be called once at least: also before that, when the device goes or the process ends. The first
    /// call does the work, others wait for it.
    pub fn cleanup(&self, passive: &Passive<'_>) {
        if self.state.close() {
            return self.clean.wait(passive);
        }
        let membership = self.membership.lock();
        let found = membership.as_ref().map(|membership| (membership.context.clone(), membership.is_own));
        drop(membership);
        self.device.host.end_test_link(self.state.number(), passive);
        match found {
            Some((context, true)) => context.end(passive),
            // In order of issue. What is being pended now is refused.
            Some((context, false)) => context.pended.cancel(&self.state.waiting),
            None => {}
        }
        self.clean.set();
    }

    /// The provider context, if it has one.
    pub(crate) fn context(&self) -> Option<Ref<ProviderContext<H>, H>> {
        self.membership.lock().as_ref().map(|membership| membership.context.clone())
    }

    /// Makes it a file of a provider context. STATUS_INVALID_DEVICE_STATE: it is one already; STATUS_DEVICE_REMOVED: it was
    /// cleaned up.
    pub(crate) fn join(&self, context: &Ref<ProviderContext<H>, H>, is_own: bool) -> Result<(), NTSTATUS> {
        let mut charge = context.quota.charge::<FileState<H>, Event<H::Platform>>()?;
        // The file itself is in the host's memory.
        charge.absorb(context.quota.charge::<Self, Lines<H::Platform>>()?);
        let mut membership = self.membership.lock();
        if membership.is_some() {
            return Err(STATUS_INVALID_DEVICE_STATE);
        }
        // A cleanup that has begun may not look any more.
        if self.state.is_closing() {
            return Err(STATUS_DEVICE_REMOVED);
        }
        *membership = Some(Membership { context: context.clone(), is_own, _charge: charge });
        Ok(())
    }
}

impl<H: Host> Drop for File<H> {
    fn drop(&mut self) {
        self.device.files.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<H: Host> ProviderContext<H> {
    pub(crate) fn new(
        device: Ref<Shared<H>, H>,
        id: u64,
        process: u64,
        quota: Ref<Quota<H>, H>,
    ) -> Result<Self, NTSTATUS> {
        Ok(Self {
            _charge: quota.charge_bytes(Arc::<Self, H::Platform>::POOL_BYTES)?,
            id,
            process,
            handles: Handles::new(&quota.pool)?,
            pended: PendedRequests::new(device.clone(), &quota.pool)?,
            quota,
            adapters: OpenAdapters::default(),
            device,
        })
    }

    /// Its file is closed.
    fn end(&self, passive: &Passive<'_>) {
        let named = self.device.contexts.lock().remove(self.id);
        drop(named);
        self.handles.close();
        // In order of issue; a request that is being pended now ends with its object, below.
        self.pended.cancel_all();
        // Connections end before the queues they feed.
        self.close_objects(|object| matches!(object, Object::Connector(_) | Object::Listener(_)), passive);
        self.close_objects(|object| matches!(object, Object::Qp(_)), passive);
        // Windows let go of their regions, whose memory can be unlocked here then.
        self.close_objects(|object| matches!(object, Object::Mw(_)), passive);
        self.close_objects(|_| true, passive);
        self.handles.free(passive);
        self.adapters.close_all(&self.device.host, passive);
    }

    fn close_objects(&self, wanted: impl Fn(&Object<H>) -> bool, passive: &Passive<'_>) {
        self.handles.drain(wanted, |object| object.close(passive));
    }
}
