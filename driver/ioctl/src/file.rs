//! One open file: a handle space and the requests it pended.

use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_SUCCESS};
use platform::{Arc, Event, OutOfMemory, Passive};

use crate::decode::{Failure, Reply};
use crate::device::Shared;
use crate::handles::{Handles, Object, Typed};
use crate::pended::{Pended, PendedRequests};
use crate::qp::Qp;
use crate::srq::Srq;
use crate::{Host, Ref, Request, dispatch};
use ndk_consumer::OpenAdapters;

/// One open of the control device.
///
/// The host keeps it (in `FileObject->FsContext`) from IRP_MJ_CREATE to IRP_MJ_CLOSE and drops it then; all methods may
/// be called at the same time from several threads.
pub struct File<H: Host> {
    space: Ref<Space<H>, H>,
    /// A cleanup has begun.
    cleaning: AtomicBool,
    /// It is done.
    clean: Ref<Event<H::Platform>, H>,
}

/// What a file owns. NDK callbacks refer to it, so it may outlive the file a little.
pub(crate) struct Space<H: Host> {
    pub(crate) device: Ref<Shared<H>, H>,
    /// PROVIDER_INIT has come.
    pub(crate) initialised: AtomicBool,
    pub(crate) handles: Handles<H>,
    pub(crate) pended: PendedRequests<H>,
    pub(crate) adapters: OpenAdapters<H::Platform>,
}

impl<H: Host> File<H> {
    pub(crate) fn new(device: Ref<Shared<H>, H>) -> Result<Self, OutOfMemory> {
        let space = Arc::try_new(Space {
            initialised: AtomicBool::new(false),
            handles: Handles::new(),
            pended: PendedRequests::new(device.clone()),
            adapters: OpenAdapters::default(),
            device,
        })?;
        let file = Self { cleaning: AtomicBool::new(false), clean: Event::new()?, space };
        file.space.device.files.fetch_add(1, Ordering::Relaxed);
        Ok(file)
    }

    /// Serves a request: completes it or pends it. Returns what the dispatch routine has to return: the status the
    /// request was completed with, or STATUS_PENDING.
    pub fn dispatch(&self, request: H::Request, passive: &Passive<'_>) -> NTSTATUS {
        dispatch::dispatch(&self.space, request, passive)
    }

    /// The cancel routine of a pended request: completes it. `id` is what [`Request::pend`] got. IRQL <= DISPATCH, no lock
    /// held.
    pub fn cancel(&self, id: u64) {
        if let Some(pended) = self.space.pended.cancelled(id) {
            pended.cancel();
        }
    }

    /// The last handle is closed (IRP_MJ_CLEANUP): cancels what is pended, closes all objects, waits until they are gone.
    /// When it returns no memory of the user is locked.
    ///
    /// Requests may still be in progress; later ones that name or want a handle get STATUS_DEVICE_REMOVED. To be called once
    /// at least: also before that, when the device goes or the process ends. The first call does the work, others wait for it.
    pub fn cleanup(&self, passive: &Passive<'_>) {
        if self.cleaning.swap(true, Ordering::AcqRel) {
            return self.clean.wait(passive);
        }
        let space = &self.space;
        space.handles.close();
        // In order of issue; a request that is being pended now ends with its object, below.
        space.cancel_all(|_| true);
        // Connections end before the queues they feed.
        space.close_objects(|object| matches!(object, Object::Connector(_) | Object::Listener(_)), passive);
        space.close_objects(|object| matches!(object, Object::Qp(_)), passive);
        // Windows let go of their regions, whose memory can be unlocked here then.
        space.close_objects(|object| matches!(object, Object::Mw(_)), passive);
        space.close_objects(|_| true, passive);
        space.adapters.close_all(&space.device.host, passive);
        self.clean.set();
    }
}

impl<H: Host> Drop for File<H> {
    fn drop(&mut self) {
        self.space.device.files.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<H: Host> Space<H> {
    /// Cancels, in order of issue, the requests that `wanted` accepts.
    pub(crate) fn cancel_all(&self, wanted: impl Fn(&Pended<H>) -> bool) {
        self.pended.take_all(wanted, Pended::cancel);
    }

    /// Cancels the requests that wait for the object of a handle.
    pub(crate) fn cancel_io<T: Typed<H>>(&self, handle: u64) -> Reply {
        self.handles.get::<T>(handle)?;
        self.cancel_all(|pended| pended.owner == handle);
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
            Object::Adapter(_) | Object::Pd(_) | Object::Mw(_) => {}
        });
    }
}

/// Completes a request that does not pend. Returns its status, for the dispatch routine.
pub(crate) fn finish(request: impl Request, reply: Reply) -> NTSTATUS {
    let (status, information) = match reply {
        Ok(length) => (STATUS_SUCCESS, length),
        Err(Failure { status, information }) => (status, information),
    };
    request.complete(status, information)
}
