//! The consumer's side of NDKPI: calls through dispatch tables, and a log of the callbacks.
//!
//! It does not use `driver/ndk-consumer`, which waits for completions, closes objects in the right order, and has no wrong arguments: the model
//! needs each status and each callback by itself. Nor the kit of `driver/ndk-provider/tests`, which never frees the context of a callback: a
//! random run makes too many calls for that.
#![expect(unsafe_code, reason = "calls functions of a C interface, through pointers to objects")]

use std::{
    ffi::c_void,
    ptr::{NonNull, null_mut},
    sync::{Mutex, MutexGuard, PoisonError},
};

use ndk_abi::{
    describe::ZeroInit,
    ndkpi::*,
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_SUCCESS},
};
use ndk_provider::Provider;
use platform::Platform as _;
use simkernel::{Mdl, SimKernel};

use crate::reference::{QpSizes, Seen, Sge};

mod connection;
mod qp;

pub(crate) use connection::OnDisconnect;
pub(crate) use qp::Named;

/// What a callback is for: a number of the executor's.
pub(crate) type Context = usize;

/// A callback that was called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Called {
    /// A request completion, or a notification.
    Status(Context, NTSTATUS),
    Closed(Context),
    /// With the reason, if it was an Ex callback.
    Disconnected(Context, Option<u32>),
    /// With the connector's address.
    ConnectEvent(Context, usize),
    /// A callback that broke a rule.
    Wrong(&'static str),
}

static LOG: Mutex<Vec<Called>> = Mutex::new(Vec::new());

fn log() -> MutexGuard<'static, Vec<Called>> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The callbacks since the last look.
pub(crate) fn take_log() -> Vec<Called> {
    std::mem::take(&mut *log())
}

fn called(call: Called) {
    let mut log = log();
    if SimKernel::irql() > platform::DISPATCH_LEVEL {
        log.push(Called::Wrong("called above DISPATCH_LEVEL"));
    }
    if !simkernel::held_locks().is_empty() {
        log.push(Called::Wrong("called with a spin lock held"));
    }
    log.push(call);
}

unsafe extern "system" fn completed(context: *mut c_void, status: NTSTATUS) {
    called(Called::Status(context.addr(), status));
}

unsafe extern "system" fn closed(context: *mut c_void) {
    called(Called::Closed(context.addr()));
}

unsafe extern "system" fn created(_context: *mut c_void, _status: NTSTATUS, _object: *mut NDK_OBJECT_HEADER) {
    called(Called::Wrong("a creation pended"));
}

unsafe extern "system" fn disconnected(context: *mut c_void) {
    called(Called::Disconnected(context.addr(), None));
}

unsafe extern "system" fn disconnected_ex(context: *mut c_void, reason: u32) {
    called(Called::Disconnected(context.addr(), Some(reason)));
}

unsafe extern "system" fn connect_event(context: *mut c_void, connector: *mut NDK_CONNECTOR) {
    called(Called::ConnectEvent(context.addr(), connector.expose_provenance()));
}

/// Calls an entry of an object's dispatch table with the object as its first argument.
macro_rules! call {
    ($object:expr, $entry:ident($($argument:expr),* $(,)?)) => {{
        let object = $object.as_ptr();
        // SAFETY: the consumer's open object.
        let dispatch = unsafe { (*object).Dispatch };
        // SAFETY: the provider's table, which is static.
        let entry = unsafe { (*dispatch).$entry };
        // SAFETY: the documented contract of the entry, which the executor keeps.
        unsafe { entry(object.cast(), $($argument),*) }
    }};
}

use call;

/// A handle with its close function.
macro_rules! handle {
    ($name:ident($raw:ty), $close:ident) => {
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(NonNull<$raw>);

        // SAFETY: NDK objects may be used on any thread.
        unsafe impl Send for $name {}

        impl $name {
            pub(crate) fn close(self, context: Context) -> NTSTATUS {
                call!(self.0, $close(closed, number(context)))
            }
        }
    };
}

handle!(Cq(NDK_CQ), NdkCloseCq);
handle!(Pd(NDK_PD), NdkClosePd);
handle!(Mr(NDK_MR), NdkCloseMr);
handle!(Mw(NDK_MW), NdkCloseMw);
handle!(Srq(NDK_SRQ), NdkCloseSrq);
handle!(Qp(NDK_QP), NdkCloseQp);
handle!(Connector(NDK_CONNECTOR), NdkCloseConnector);
handle!(Listener(NDK_LISTENER), NdkCloseListener);

/// An open adapter; NDIS closes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adapter(pub(crate) NonNull<NDK_ADAPTER>);

/// A context or an address that is a number.
fn number(value: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(value)
}

/// The outcome of a creation, which nothing makes fail here.
fn made<T>(status: NTSTATUS, out: *mut T) -> NonNull<T> {
    assert_eq!(status, STATUS_SUCCESS, "creations are inline");
    NonNull::new(out).expect("an object")
}

fn list(sges: &[Sge]) -> Vec<NDK_SGE> {
    let entry = |sge: &Sge| NDK_SGE {
        u: NDK_SGE_ADDRESS::from_virtual(std::ptr::with_exposed_provenance_mut(sge.address as usize)),
        Length: sge.length,
        MemoryRegionToken: sge.token,
    };
    sges.iter().map(entry).collect()
}

/// The address of an array; null if it is empty.
fn pointer<T>(array: &[T]) -> *const T {
    if array.is_empty() { std::ptr::null() } else { array.as_ptr() }
}

/// Closes an adapter as NDIS does; the test has freed all of its objects.
pub(crate) fn close_adapter(adapter: Adapter) {
    // SAFETY: opened by this provider, closed once.
    unsafe { Provider::<SimKernel>::close(adapter.0, &simkernel::passive()) };
}

impl Adapter {
    pub(crate) fn create_cq(self, depth: u32, context: Context) -> Cq {
        let mut out = null_mut();
        let (notified, context) = (completed, number(context));
        Cq(made(
            call!(self.0, NdkCreateCq(depth, notified, context, null_mut(), created, null_mut(), &raw mut out)),
            out,
        ))
    }

    pub(crate) fn create_pd(self) -> Pd {
        let mut out = null_mut();
        Pd(made(call!(self.0, NdkCreatePd(created, null_mut(), &raw mut out)), out))
    }

    pub(crate) fn create_connector(self) -> Connector {
        let mut out = null_mut();
        Connector(made(call!(self.0, NdkCreateConnector(created, null_mut(), &raw mut out)), out))
    }

    pub(crate) fn create_listener(self, context: Context) -> Listener {
        let mut out = null_mut();
        let context = number(context);
        Listener(made(call!(self.0, NdkCreateListener(connect_event, context, created, null_mut(), &raw mut out)), out))
    }

    /// The logical addresses of an MDL's pages, good as long as the MDL is.
    pub(crate) fn pages(self, mdl: &Mdl, length: usize) -> Vec<NDK_LOGICAL_ADDRESS> {
        let (mut size, mut offset) = (0, 0);
        let sized = call!(
            self.0,
            NdkBuildLAM(mdl.as_ptr(), length, None, null_mut(), null_mut(), &raw mut size, &raw mut offset)
        );
        assert_eq!(sized, STATUS_BUFFER_TOO_SMALL);
        let mut storage = vec![0u64; (size as usize).div_ceil(size_of::<u64>())];
        let lam: *mut NDK_LOGICAL_ADDRESS_MAPPING = storage.as_mut_ptr().cast();
        let built =
            call!(self.0, NdkBuildLAM(mdl.as_ptr(), length, None, null_mut(), lam, &raw mut size, &raw mut offset));
        assert_eq!(built, STATUS_SUCCESS);
        call!(self.0, NdkReleaseLAM(lam));
        // SAFETY: built: the head is there, then that many addresses.
        let count = unsafe { (*lam).AdapterPageCount } as usize;
        let pages = storage[storage.len() - count..].iter();
        pages.map(|&page| NDK_LOGICAL_ADDRESS { QuadPart: page.cast_signed() }).collect()
    }
}

impl Pd {
    pub(crate) fn create_mr(self, fast: bool) -> Mr {
        let mut out = null_mut();
        Mr(made(call!(self.0, NdkCreateMr(u8::from(fast), created, null_mut(), &raw mut out)), out))
    }

    pub(crate) fn create_mw(self) -> Mw {
        let mut out = null_mut();
        Mw(made(call!(self.0, NdkCreateMw(created, null_mut(), &raw mut out)), out))
    }

    pub(crate) fn create_srq(self, depth: u32, sges: u32, threshold: u32, context: Context) -> Srq {
        let mut out = null_mut();
        let notified = Some(completed as NDK_FN_SRQ_NOTIFICATION_CALLBACK);
        let status = call!(
            self.0,
            NdkCreateSrq(
                depth,
                sges,
                threshold,
                notified,
                number(context),
                null_mut(),
                created,
                null_mut(),
                &raw mut out
            )
        );
        Srq(made(status, out))
    }

    pub(crate) fn create_qp(self, cqs: (Cq, Cq), srq: Option<Srq>, sizes: QpSizes, context: usize) -> Qp {
        let mut out = null_mut();
        let (receive, initiator) = (cqs.0.0.as_ptr(), cqs.1.0.as_ptr());
        let status = match srq {
            Some(srq) => call!(
                self.0,
                NdkCreateQpWithSrq(
                    receive,
                    initiator,
                    srq.0.as_ptr(),
                    number(context),
                    sizes.requests,
                    sizes.request_sges,
                    sizes.inline,
                    created,
                    null_mut(),
                    &raw mut out,
                )
            ),
            None => call!(
                self.0,
                NdkCreateQp(
                    receive,
                    initiator,
                    number(context),
                    sizes.receives,
                    sizes.requests,
                    sizes.receive_sges,
                    sizes.request_sges,
                    sizes.inline,
                    created,
                    null_mut(),
                    &raw mut out,
                )
            ),
        };
        Qp(made(status, out))
    }
}

impl Mr {
    pub(crate) fn register(self, mdl: &Mdl, length: usize, flags: u32, context: Context) -> NTSTATUS {
        call!(self.0, NdkRegisterMr(mdl.as_ptr(), length, flags, completed, number(context)))
    }

    pub(crate) fn deregister(self, context: Context) -> NTSTATUS {
        call!(self.0, NdkDeregisterMr(completed, number(context)))
    }

    pub(crate) fn initialize_fast(self, pages: u32, remote_access: bool, context: Context) -> NTSTATUS {
        call!(self.0, NdkInitializeFastRegisterMr(pages, u8::from(remote_access), completed, number(context)))
    }

    /// The token for both uses.
    pub(crate) fn token(self) -> u32 {
        let local = call!(self.0, NdkGetLocalTokenFromMr());
        assert_eq!(call!(self.0, NdkGetRemoteTokenFromMr()), local);
        local
    }
}

impl Mw {
    pub(crate) fn token(self) -> u32 {
        call!(self.0, NdkGetRemoteTokenFromMw())
    }
}

impl Cq {
    pub(crate) fn arm(self, notify: u32) {
        call!(self.0, NdkArmCq(notify));
    }

    pub(crate) fn resize(self, depth: u32, context: Context) -> NTSTATUS {
        call!(self.0, NdkResizeCq(depth, completed, number(context)))
    }

    pub(crate) fn poll(self, count: usize) -> Vec<Seen> {
        let mut results = vec![NDK_RESULT_EX::ZERO; count];
        let taken = call!(self.0, NdkGetCqResultsEx(results.as_mut_ptr(), count as u32));
        let seen = |result: &NDK_RESULT_EX| Seen {
            status: result.Status,
            bytes: result.BytesTransferred,
            qp_context: result.QPContext.addr(),
            context: result.RequestContext.addr(),
            extended: Some((result.Type, result.ProviderErrorCode, result.TypeSpecificCompletionOutput)),
        };
        results[..taken as usize].iter().map(seen).collect()
    }

    pub(crate) fn poll_plain(self, count: usize) -> Vec<Seen> {
        let mut results = vec![NDK_RESULT::ZERO; count];
        let taken = call!(self.0, NdkGetCqResults(results.as_mut_ptr(), count as u32));
        let seen = |result: &NDK_RESULT| Seen {
            status: result.Status,
            bytes: result.BytesTransferred,
            qp_context: result.QPContext.addr(),
            context: result.RequestContext.addr(),
            extended: None,
        };
        results[..taken as usize].iter().map(seen).collect()
    }
}

impl Srq {
    pub(crate) fn modify(self, depth: u32, threshold: u32, context: Context) -> NTSTATUS {
        call!(self.0, NdkModifySrq(depth, threshold, completed, number(context)))
    }

    pub(crate) fn receive(self, context: usize, sges: &[Sge]) -> NTSTATUS {
        let list = list(sges);
        call!(self.0, NdkSrqReceive(number(context), pointer(&list), list.len() as u32))
    }
}
