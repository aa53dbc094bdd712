//! Open files, and the provider contexts that they are of: a handle space, and the requests that wait.
//!
//! A file has a context of its own by PROVIDER_INIT, or shares that of another file ([`crate::attach`]), to which requests
//! come by several files then. The context ends with the file that it began with.

use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::status::{
    NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_REQUEST,
    STATUS_INVALID_DEVICE_STATE, STATUS_SUCCESS,
};
use platform::{Arc, Charge, Event, OutOfMemory, Passive, PoolQuota, SpinLock};

use crate::decode::{Failure, Reply};
use crate::device::Shared;
use crate::objects::pd::shared;
use crate::objects::qp::Qp;
use crate::objects::srq::Srq;
use crate::session::handles::{Handles, Object};
use crate::session::lines::Lines;
use crate::session::pended::{PendedRequests, Waiting};
use crate::session::quota::Quota;
use crate::{Host, Ref, Request, dispatch};
use ndk_consumer::OpenAdapters;

/// One open of the control device.
///
/// The host keeps it (in `FileObject->FsContext`) from IRP_MJ_CREATE to IRP_MJ_CLOSE and drops it then; all methods may
/// be called at the same time from several threads.
pub struct File<H: Host> {
    pub(crate) opened: Ref<Opened<H>, H>,
    /// The cleanup is done.
    clean: Ref<Event<H::Platform>, H>,
}

/// What requests know of the file they came by.
pub(crate) struct Opened<H: Host> {
    pub(crate) device: Ref<Shared<H>, H>,
    /// The process that opened it.
    pub(crate) process: u64,
    joined: SpinLock<Option<Joined<H>>, H::Platform>,
    /// What came by it.
    pub(crate) waiting: Waiting<H>,
    /// A cleanup has begun.
    cleaning: AtomicBool,
}

/// The provider context of a file.
struct Joined<H: Host> {
    space: Ref<Space<H>, H>,
    /// It began with this file, and ends with it.
    is_own: bool,
    /// For the file.
    _charge: Charge<H::Platform>,
}

/// A provider context. NDK callbacks refer to it, so it may outlive its files a little.
pub(crate) struct Space<H: Host> {
    pub(crate) device: Ref<Shared<H>, H>,
    /// What names it to [`crate::attach`].
    pub(crate) id: u64,
    /// The process whose it is.
    pub(crate) process: u64,
    pub(crate) quota: Ref<Quota<H>, H>,
    pub(crate) handles: Handles<H>,
    pub(crate) pended: PendedRequests<H>,
    pub(crate) adapters: OpenAdapters<H::Platform>,
    _charge: Charge<H::Platform>,
}

impl<H: Host> File<H> {
    pub(crate) fn new(device: Ref<Shared<H>, H>, process: u64) -> Result<Self, NTSTATUS> {
        // What they take is charged when the file joins a context.
        let waiting = Lines::new(&PoolQuota::UNLIMITED)?;
        let opened = shared(Opened {
            device,
            process,
            waiting,
            joined: SpinLock::<_, H::Platform>::new(None),
            cleaning: AtomicBool::new(false),
        })?;
        let clean = Event::new().map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        let file = Self { clean, opened };
        file.opened.device.files.fetch_add(1, Ordering::Relaxed);
        Ok(file)
    }

    /// Serves a request of the process with number `process`: completes it or pends it. Returns what the dispatch routine has to
    /// return: the status the request was completed with, or STATUS_PENDING.
    ///
    /// Handles of files can be inherited and duplicated. Of another process than the one that opened the file each request is
    /// STATUS_INVALID_DEVICE_REQUEST: the addresses in it mean other memory.
    pub fn dispatch(&self, request: H::Request, process: u64, passive: &Passive<'_>) -> NTSTATUS {
        if process != self.opened.process {
            return request.complete(STATUS_INVALID_DEVICE_REQUEST, 0);
        }
        dispatch::dispatch(&self.opened, request, passive)
    }

    /// The cancel routine of a pended request: completes it. `id` is what [`Request::pend`] got. IRQL <= DISPATCH, no lock
    /// held.
    pub fn cancel(&self, id: u64) {
        if let Some(pended) = self.opened.space().and_then(|space| space.pended.cancelled(id)) {
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
        let opened = &self.opened;
        if opened.cleaning.swap(true, Ordering::AcqRel) {
            return self.clean.wait(passive);
        }
        let joined = opened.joined.lock();
        let context = joined.as_ref().map(|joined| (joined.space.clone(), joined.is_own));
        drop(joined);
        opened.device.host.end_test_link(opened.number(), passive);
        match context {
            Some((space, true)) => space.end(passive),
            // In order of issue. What is being pended now is refused.
            Some((space, false)) => space.pended.cancel(&opened.waiting),
            None => {}
        }
        self.clean.set();
    }
}

impl<H: Host> Drop for File<H> {
    fn drop(&mut self) {
        self.opened.device.files.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<H: Host> Opened<H> {
    /// The provider context, if it has one.
    pub(crate) fn space(&self) -> Option<Ref<Space<H>, H>> {
        self.joined.lock().as_ref().map(|joined| joined.space.clone())
    }

    /// Makes it a file of a provider context. STATUS_INVALID_DEVICE_STATE: it is one already; STATUS_DEVICE_REMOVED: it was
    /// cleaned up.
    pub(crate) fn join(&self, space: &Ref<Space<H>, H>, is_own: bool) -> Result<(), NTSTATUS> {
        let mut charge = space.quota.charge::<Self, Event<H::Platform>>()?;
        charge.absorb(space.quota.charge_bytes(Arc::<Lines<H::Platform>, H::Platform>::POOL_BYTES)?);
        let mut joined = self.joined.lock();
        if joined.is_some() {
            return Err(STATUS_INVALID_DEVICE_STATE);
        }
        // A cleanup that has begun may not look any more.
        if self.is_closing() {
            return Err(STATUS_DEVICE_REMOVED);
        }
        *joined = Some(Joined { space: space.clone(), is_own, _charge: charge });
        Ok(())
    }

    /// What tells it from other files while it is there.
    pub(crate) fn number(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    /// Whether nothing that comes by it may pend any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.cleaning.load(Ordering::Acquire)
    }
}

impl<H: Host> Space<H> {
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
            handles: Handles::new(&quota.pool),
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

    /// Cancels the requests that wait for an object.
    pub(crate) fn cancel_io(&self, waiting: &Waiting<H>) -> Reply {
        self.pended.cancel_io(waiting);
        Ok(0)
    }

    fn close_objects(&self, wanted: impl Fn(&Object<H>) -> bool, passive: &Passive<'_>) {
        self.handles.drain(wanted, |object| match object {
            Object::Connector(connector) => connector.close(self),
            Object::Listener(listener) => listener.close(self),
            Object::Qp(qp) => Qp::close(&qp),
            Object::Cq(cq) => cq.close(self),
            Object::Srq(srq) => Srq::close(&srq, self),
            Object::Mr(mr) => mr.close(passive),
            Object::Adapter(_) | Object::Pd(_) | Object::Mw(_) | Object::Freed(_) => {}
        });
    }
}

/// Completes a request in its dispatch routine. Returns the status for that to return.
///
/// Of a warning the I/O manager tells the sender twice if the file is for overlapped requests and the request has not pended: as the call's
/// status, and by event and packet, as of a success. So it pends.
pub(crate) fn finish(request: impl Request, reply: Reply) -> NTSTATUS {
    let (status, information) = match reply {
        Ok(length) => (STATUS_SUCCESS, length),
        Err(Failure { status, information }) => (status, information),
    };
    if status.is_warning() {
        request.complete_pending(status, information)
    } else {
        request.complete(status, information)
    }
}
