//! The consumer's side of NDKPI: calls through dispatch tables, and a log of the callbacks.
#![expect(unsafe_code, reason = "calls functions of a C interface, through pointers to objects")]

use std::{
    ffi::c_void,
    net::SocketAddr,
    ptr::{NonNull, null_mut},
    sync::{Mutex, MutexGuard, PoisonError},
};

use ndk_abi::{
    describe::ZeroInit,
    ndkpi::*,
    sockaddr::{SOCKADDR_IN, SOCKADDR_INET},
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_PENDING, STATUS_SUCCESS},
};
use ndk_provider::Provider;
use platform::Platform as _;
use simkernel::{Mdl, SimKernel};

use crate::reference::{QpSizes, Seen, Sge, Work};

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

/// Address and length of an address structure.
fn pointer(address: &SOCKADDR_IN) -> (*const ndk_abi::sockaddr::SOCKADDR, u32) {
    (std::ptr::from_ref(address).cast(), size_of::<SOCKADDR_IN>() as u32)
}

fn ipv4(address: SocketAddr) -> SOCKADDR_IN {
    match address {
        SocketAddr::V4(address) => SOCKADDR_IN::new(address),
        SocketAddr::V6(_) => unreachable!("IPv4 only here"),
    }
}

/// Closes an adapter as NDIS does, all of whose objects are gone.
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
        call!(self.0, NdkSrqReceive(number(context), list.as_ptr(), list.len() as u32))
    }
}

impl Qp {
    pub(crate) fn flush(self) {
        call!(self.0, NdkFlush());
    }

    pub(crate) fn receive(self, context: usize, sges: &[Sge]) -> NTSTATUS {
        let list = list(sges);
        call!(self.0, NdkReceive(number(context), list.as_ptr(), list.len() as u32))
    }

    /// Posts a request; a region it names is `region`, with its pages.
    pub(crate) fn post(
        self,
        context: usize,
        work: &Work,
        sges: &[Sge],
        flags: u32,
        region: Option<(Mr, &[NDK_LOGICAL_ADDRESS])>,
    ) -> NTSTATUS {
        let (list, context) = (list(sges), number(context));
        let (sgl, count) = (list.as_ptr(), list.len() as u32);
        match (work, region) {
            (Work::Send { invalidate: None }, _) => call!(self.0, NdkSend(context, sgl, count, flags)),
            (Work::Send { invalidate: Some(token) }, _) => {
                call!(self.0, NdkSendAndInvalidate(context, sgl, count, flags, *token))
            }
            (Work::Read { address, token }, _) => {
                call!(self.0, NdkRead(context, sgl, count, *address, *token, flags))
            }
            (Work::Write { address, token }, _) => {
                call!(self.0, NdkWrite(context, sgl, count, *address, *token, flags))
            }
            (Work::Invalidate { .. }, Some((mr, _))) => {
                call!(self.0, NdkInvalidate(context, mr.0.as_ptr().cast(), flags))
            }
            (Work::FastRegister { registration, .. }, Some((mr, pages))) => call!(
                self.0,
                NdkFastRegister(
                    context,
                    mr.0.as_ptr(),
                    pages.len() as u32,
                    pages.as_ptr(),
                    registration.first_byte_offset,
                    registration.length as usize,
                    number(registration.base as usize),
                    flags,
                )
            ),
            (Work::Invalidate { .. } | Work::FastRegister { .. }, None) => unreachable!("no region given"),
        }
    }
}

/// The callback for the end of a connection.
#[derive(Clone, Copy)]
pub(crate) enum OnDisconnect {
    Plain(Option<Context>),
    Ex(Context),
}

fn plain(context: Option<Context>) -> (Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>, *mut c_void) {
    let function = context.map(|_| disconnected as NDK_FN_DISCONNECT_EVENT_CALLBACK);
    (function, context.map_or(null_mut(), number))
}

impl Connector {
    /// The connector that a connect event handed over.
    pub(crate) fn of_event(address: usize) -> Self {
        Self(NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("a connector"))
    }

    pub(crate) fn connect(
        self,
        qp: Qp,
        (local, remote): (SocketAddr, SocketAddr),
        limits: (u32, u32),
        data: &[u8],
        context: Context,
    ) -> NTSTATUS {
        let (local, remote) = (ipv4(local), ipv4(remote));
        let (local, remote) = (pointer(&local), pointer(&remote));
        call!(
            self.0,
            NdkConnect(
                qp.0.as_ptr(),
                local.0,
                local.1,
                remote.0,
                remote.1,
                limits.0,
                limits.1,
                data.as_ptr().cast(),
                data.len() as u32,
                completed,
                number(context),
            )
        )
    }

    pub(crate) fn accept(
        self,
        qp: Qp,
        limits: (u32, u32),
        data: &[u8],
        event: OnDisconnect,
        context: Context,
    ) -> NTSTATUS {
        let (qp, bytes, length, context) = (qp.0.as_ptr(), data.as_ptr().cast(), data.len() as u32, number(context));
        match event {
            OnDisconnect::Plain(event) => {
                let (function, event) = plain(event);
                call!(self.0, NdkAccept(qp, limits.0, limits.1, bytes, length, function, event, completed, context))
            }
            OnDisconnect::Ex(event) => {
                let function = Some(disconnected_ex as NDK_FN_DISCONNECT_EVENT_CALLBACK_EX);
                let event = number(event);
                call!(self.0, NdkAcceptEx(qp, limits.0, limits.1, bytes, length, function, event, completed, context))
            }
        }
    }

    pub(crate) fn complete(self, event: OnDisconnect, context: Context) -> NTSTATUS {
        let context = number(context);
        match event {
            OnDisconnect::Plain(event) => {
                let (function, event) = plain(event);
                call!(self.0, NdkCompleteConnect(function, event, completed, context))
            }
            OnDisconnect::Ex(event) => {
                let function = Some(disconnected_ex as NDK_FN_DISCONNECT_EVENT_CALLBACK_EX);
                call!(self.0, NdkCompleteConnectEx(function, number(event), completed, context))
            }
        }
    }

    pub(crate) fn reject(self, data: &[u8]) -> NTSTATUS {
        call!(self.0, NdkReject(data.as_ptr().cast(), data.len() as u32))
    }

    pub(crate) fn disconnect(self, context: Context) -> NTSTATUS {
        call!(self.0, NdkDisconnect(completed, number(context)))
    }

    /// The status, the limits, the size, and what is in a buffer of `room` bytes.
    pub(crate) fn data(self, room: usize) -> (NTSTATUS, (u32, u32), u32, Vec<u8>) {
        let mut buffer = vec![0xEE; room];
        let pointer = if room > 0 { buffer.as_mut_ptr().cast() } else { null_mut() };
        let (mut inbound, mut outbound, mut length) = (u32::MAX, u32::MAX, room as u32);
        let status = call!(self.0, NdkGetConnectionData(&raw mut inbound, &raw mut outbound, pointer, &raw mut length));
        (status, (inbound, outbound), length, buffer)
    }
}

impl Listener {
    /// Listens on any port; the status, and where.
    pub(crate) fn listen(self, address: SocketAddr, context: Context) -> (NTSTATUS, Option<SocketAddr>) {
        let address = ipv4(address);
        let address = pointer(&address);
        let status = call!(self.0, NdkListen(address.0, address.1, completed, number(context)));
        assert_ne!(status, STATUS_PENDING, "listening is inline");
        let mut storage = SOCKADDR_INET::ZERO;
        let mut length = size_of::<SOCKADDR_INET>() as u32;
        let known = call!(self.0, NdkGetLocalAddress((&raw mut storage).cast(), &raw mut length));
        (status, if known == STATUS_SUCCESS { storage.socket_addr() } else { None })
    }

    pub(crate) fn pause(self, pause: bool) {
        call!(self.0, NdkControlConnectEvents(u8::from(pause)));
    }
}
