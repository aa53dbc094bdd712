//! Handles of NDK objects, with their entries as methods.
#![expect(unsafe_code, reason = "calls functions of a C interface, through pointers to objects")]

use std::{
    ffi::c_void,
    net::SocketAddr,
    ptr::{NonNull, null, null_mut},
    thread,
    time::Instant,
};

use ndk_abi::{
    describe::ZeroInit,
    ndkpi::*,
    sockaddr::SOCKADDR_INET,
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_PENDING, STATUS_SUCCESS},
    wdm::GUID,
};
use simkernel::Mdl;

use super::{
    LIMIT, Lam, Request, Waiter,
    call::{call, handle},
    transport::Address,
    waiter,
};

handle!(
    /// A completion queue; `notified` gets its notifications.
    Cq(NDK_CQ, NdkObjectTypeCq) { notified: &'static Waiter }, NdkCloseCq);
handle!(
    /// A protection domain.
    Pd(NDK_PD, NdkObjectTypePd) {}, NdkClosePd);
handle!(
    /// A memory region.
    Mr(NDK_MR, NdkObjectTypeMr) {}, NdkCloseMr);
handle!(
    /// A shared receive queue; `notified` gets its notifications.
    Srq(NDK_SRQ, NdkObjectTypeSrq) { notified: &'static Waiter }, NdkCloseSrq);
handle!(
    /// A queue pair.
    Qp(NDK_QP, NdkObjectTypeQp) {}, NdkCloseQp);
handle!(
    /// A connector.
    Connector(NDK_CONNECTOR, NdkObjectTypeConnector) {}, NdkCloseConnector);
handle!(
    /// A listener; `events` gets its connectors.
    Listener(NDK_LISTENER, NdkObjectTypeListener) { events: &'static Waiter }, NdkCloseListener);

/// The words of an object's head that belong to the consumer.
pub(crate) struct Head {
    dispatch: *mut *const c_void,
    interposed: *const c_void,
    reserved: *mut [*mut c_void; 4],
}

impl Head {
    const MARKS: [usize; 4] = [1, 2, 3, 4];

    fn new(dispatch: *mut *const c_void, reserved: *mut [*mut c_void; 4]) -> Self {
        // SAFETY: in an open object.
        let interposed = unsafe { dispatch.read() };
        Self { dispatch, interposed, reserved }
    }

    fn mark(&self) {
        // SAFETY: in an open object, the consumer's to write.
        unsafe { self.reserved.write(Self::MARKS.map(number)) };
    }

    /// Whether they are still what the consumer made of them; the object is open.
    pub(crate) fn is_ours(&self) -> bool {
        // SAFETY: in an open object.
        let dispatch = unsafe { self.dispatch.read() };
        // SAFETY: in an open object.
        let reserved = unsafe { self.reserved.read() };
        dispatch == self.interposed && reserved.map(|word| word.addr()) == Self::MARKS
    }
}

/// An adapter, which NDIS closes.
#[derive(Clone, Copy)]
pub(crate) struct Adapter(pub(crate) NonNull<NDK_ADAPTER>);

// SAFETY: NDK objects may be used on any thread.
unsafe impl Send for Adapter {}
// SAFETY: as above.
unsafe impl Sync for Adapter {}

/// The outcome of a create call: inline in `out`, or by callback.
fn made<T>(returned: NTSTATUS, out: *mut T, completion: &'static Waiter) -> Result<NonNull<T>, NTSTATUS> {
    let (status, object) = match returned {
        STATUS_PENDING => {
            assert!(out.is_null(), "the out parameter of a pending create is not touched");
            let call = completion.wait_for(1)[0];
            (call.status, std::ptr::with_exposed_provenance_mut(call.value))
        }
        inline => {
            assert_eq!(completion.count(), 0, "called although the answer was inline");
            (inline, out)
        }
    };
    if status == STATUS_SUCCESS { Ok(NonNull::new(object).expect("an object")) } else { Err(status) }
}

/// A context or address that is a number.
fn number(value: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(value)
}

impl Adapter {
    pub(crate) fn header(&self) -> NDK_OBJECT_HEADER {
        // SAFETY: the consumer's open object.
        unsafe { (*self.0.as_ptr()).Header }
    }

    pub(crate) fn query_extension(&self) -> NTSTATUS {
        let mut guid = GUID::from_u128(1);
        let mut interface = NDK_EXTENSION_INTERFACE { Dispatch: null() };
        let version = NDK_VERSION { Major: 1, Minor: 0 };
        call!(self.0, NdkQueryExtension(&raw mut guid, version, &raw mut interface))
    }

    pub(crate) fn info(&self) -> NDK_ADAPTER_INFO {
        let mut info = NDK_ADAPTER_INFO::ZERO;
        let mut size = size_of::<NDK_ADAPTER_INFO>() as u32;
        assert_eq!(call!(self.0, NdkQueryAdapterInfo(&raw mut info, &raw mut size)), STATUS_SUCCESS);
        info
    }

    pub(crate) fn create_cq(&self, depth: u32) -> Result<Cq, NTSTATUS> {
        let notified = Waiter::new("CQ notification");
        let completion = Waiter::new("create completion of a CQ");
        let mut out = null_mut();
        let returned = call!(
            self.0,
            NdkCreateCq(
                depth,
                waiter::completed,
                notified.context(),
                null_mut(),
                waiter::created,
                completion.context(),
                &raw mut out,
            )
        );
        let cq = Cq { raw: made(returned, out, completion)?, notified };
        cq.check_header();
        Ok(cq)
    }

    pub(crate) fn create_pd(&self) -> Result<Pd, NTSTATUS> {
        let completion = Waiter::new("create completion of a PD");
        let mut out = null_mut();
        let returned = call!(self.0, NdkCreatePd(waiter::created, completion.context(), &raw mut out));
        let pd = Pd { raw: made(returned, out, completion)? };
        pd.check_header();
        Ok(pd)
    }

    pub(crate) fn create_connector(&self) -> Result<Connector, NTSTATUS> {
        let completion = Waiter::new("create completion of a connector");
        let mut out = null_mut();
        let returned = call!(self.0, NdkCreateConnector(waiter::created, completion.context(), &raw mut out));
        let connector = Connector { raw: made(returned, out, completion)? };
        connector.check_header();
        Ok(connector)
    }

    pub(crate) fn create_listener(&self) -> Result<Listener, NTSTATUS> {
        // Requests of different peers are independent.
        let events = Waiter::concurrent("connect event");
        let completion = Waiter::new("create completion of a listener");
        let mut out = null_mut();
        let returned = call!(
            self.0,
            NdkCreateListener(
                waiter::connect_event,
                events.context(),
                waiter::created,
                completion.context(),
                &raw mut out
            )
        );
        let listener = Listener { raw: made(returned, out, completion)?, events };
        listener.check_header();
        Ok(listener)
    }

    pub(crate) fn create_shared_endpoint(&self, address: SocketAddr) -> NTSTATUS {
        let address = Address::new(address);
        let completion = Waiter::new("create completion of a shared endpoint");
        let mut out = null_mut();
        call!(
            self.0,
            NdkCreateSharedEndpoint(
                address.pointer(),
                address.length(),
                waiter::created,
                completion.context(),
                &raw mut out,
            )
        )
    }

    /// Builds a mapping in two calls, size first, and releases it: its addresses are good as long as the MDL is mapped.
    pub(crate) fn build_lam(&self, mdl: &Mdl, length: usize) -> Result<Lam, NTSTATUS> {
        let mut size = 0;
        let mut offset = u32::MAX;
        let mdl = mdl.as_ptr();
        let sized =
            call!(self.0, NdkBuildLAM(mdl, length, None, null_mut(), null_mut(), &raw mut size, &raw mut offset));
        if sized != STATUS_BUFFER_TOO_SMALL {
            assert_ne!(sized, STATUS_SUCCESS, "a mapping without a buffer");
            return Err(sized);
        }
        let mut storage = vec![0u64; (size as usize).div_ceil(size_of::<u64>())];
        let lam: *mut NDK_LOGICAL_ADDRESS_MAPPING = storage.as_mut_ptr().cast();
        let built = call!(self.0, NdkBuildLAM(mdl, length, None, null_mut(), lam, &raw mut size, &raw mut offset));
        if built != STATUS_SUCCESS {
            return Err(built);
        }
        call!(self.0, NdkReleaseLAM(lam));
        // SAFETY: built: the head is there, then that many addresses.
        let count = unsafe { (*lam).AdapterPageCount } as usize;
        assert_eq!(NDK_LOGICAL_ADDRESS_MAPPING::size_for(count), Some(size as usize));
        let pages = storage[storage.len() - count..].iter();
        let pages = pages.map(|&page| NDK_LOGICAL_ADDRESS { QuadPart: page.cast_signed() }).collect();
        Ok(Lam { pages, first_byte_offset: offset })
    }
}

/// NdkQueryAdapterInfo with a buffer of `size` bytes (none: only asks for the size). The status, the size reported, and
/// what was written.
pub(crate) fn adapter_info_sized(adapter: &Adapter, size: Option<u32>) -> (NTSTATUS, u32, Vec<u8>) {
    const UNTOUCHED: u8 = 0xEE;
    let mut storage = vec![u64::from_ne_bytes([UNTOUCHED; 8]); 32];
    let pointer = if size.is_some() { storage.as_mut_ptr().cast() } else { null_mut() };
    let mut reported = size.unwrap_or(0);
    let status = call!(adapter.0, NdkQueryAdapterInfo(pointer, &raw mut reported));
    let bytes: Vec<u8> = storage.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let written = bytes.iter().rposition(|&byte| byte != UNTOUCHED).map_or(0, |last| last + 1);
    (status, reported, bytes[..written].to_vec())
}

/// The sizes of a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct QpSizes {
    pub(crate) receives: u32,
    pub(crate) requests: u32,
    pub(crate) receive_sges: u32,
    pub(crate) request_sges: u32,
    pub(crate) inline: u32,
}

impl Default for QpSizes {
    fn default() -> Self {
        Self { receives: 64, requests: 64, receive_sges: 16, request_sges: 16, inline: 1024 }
    }
}

impl Pd {
    pub(crate) fn create_mr(&self, fast: bool) -> Result<Mr, NTSTATUS> {
        let completion = Waiter::new("create completion of an MR");
        let mut out = null_mut();
        let returned =
            call!(self.raw, NdkCreateMr(u8::from(fast), waiter::created, completion.context(), &raw mut out));
        let mr = Mr { raw: made(returned, out, completion)? };
        mr.check_header();
        Ok(mr)
    }

    pub(crate) fn create_mw(&self) -> NTSTATUS {
        let completion = Waiter::new("create completion of an MW");
        let mut out = null_mut();
        call!(self.raw, NdkCreateMw(waiter::created, completion.context(), &raw mut out))
    }

    pub(crate) fn create_srq(&self, depth: u32, sges: u32, threshold: u32) -> Result<Srq, NTSTATUS> {
        let notified = Waiter::new("SRQ notification");
        let completion = Waiter::new("create completion of an SRQ");
        let mut out = null_mut();
        let returned = call!(
            self.raw,
            NdkCreateSrq(
                depth,
                sges,
                threshold,
                Some(waiter::completed),
                notified.context(),
                null_mut(),
                waiter::created,
                completion.context(),
                &raw mut out,
            )
        );
        let srq = Srq { raw: made(returned, out, completion)?, notified };
        srq.check_header();
        Ok(srq)
    }

    pub(crate) fn create_qp(&self, receive: &Cq, initiator: &Cq, tag: usize, sizes: QpSizes) -> Result<Qp, NTSTATUS> {
        let completion = Waiter::new("create completion of a QP");
        let mut out = null_mut();
        let returned = call!(
            self.raw,
            NdkCreateQp(
                receive.raw.as_ptr(),
                initiator.raw.as_ptr(),
                number(tag),
                sizes.receives,
                sizes.requests,
                sizes.receive_sges,
                sizes.request_sges,
                sizes.inline,
                waiter::created,
                completion.context(),
                &raw mut out,
            )
        );
        let qp = Qp { raw: made(returned, out, completion)? };
        qp.check_header();
        Ok(qp)
    }

    pub(crate) fn create_qp_with_srq(
        &self,
        receive: &Cq,
        initiator: &Cq,
        srq: &Srq,
        tag: usize,
        sizes: QpSizes,
    ) -> Result<Qp, NTSTATUS> {
        let completion = Waiter::new("create completion of a QP");
        let mut out = null_mut();
        let returned = call!(
            self.raw,
            NdkCreateQpWithSrq(
                receive.raw.as_ptr(),
                initiator.raw.as_ptr(),
                srq.raw.as_ptr(),
                number(tag),
                sizes.requests,
                sizes.request_sges,
                sizes.inline,
                waiter::created,
                completion.context(),
                &raw mut out,
            )
        );
        let qp = Qp { raw: made(returned, out, completion)? };
        qp.check_header();
        Ok(qp)
    }

    pub(crate) fn privileged_token(&self) -> u32 {
        let mut token = u32::MAX;
        call!(self.raw, NdkGetPrivilegedMemoryRegionToken(&raw mut token));
        token
    }
}

impl Mr {
    pub(crate) fn register(&self, mdl: &Mdl, length: usize, flags: u32) -> Request {
        let completion = Waiter::new("completion of NdkRegisterMr");
        let returned =
            call!(self.raw, NdkRegisterMr(mdl.as_ptr(), length, flags, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    pub(crate) fn deregister(&self) -> Request {
        let completion = Waiter::new("completion of NdkDeregisterMr");
        let returned = call!(self.raw, NdkDeregisterMr(waiter::completed, completion.context()));
        Request { returned, completion }
    }

    pub(crate) fn initialize_fast(&self, pages: u32, remote_access: bool) -> Request {
        let completion = Waiter::new("completion of NdkInitializeFastRegisterMr");
        let remote_access = u8::from(remote_access);
        let returned =
            call!(self.raw, NdkInitializeFastRegisterMr(pages, remote_access, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    /// The local token, which is the remote one too.
    pub(crate) fn token(&self) -> u32 {
        let local = call!(self.raw, NdkGetLocalTokenFromMr());
        assert_eq!(call!(self.raw, NdkGetRemoteTokenFromMr()), local);
        local
    }
}

impl Cq {
    pub(crate) fn arm(&self, notify: u32) {
        call!(self.raw, NdkArmCq(notify));
    }

    pub(crate) fn resize(&self, depth: u32) -> Request {
        let completion = Waiter::new("completion of NdkResizeCq");
        let returned = call!(self.raw, NdkResizeCq(depth, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    pub(crate) fn moderate(&self, interval: u32, count: u32) -> NTSTATUS {
        call!(self.raw, NdkControlCqInterruptModeration(interval, count))
    }

    /// NdkGetCqResults.
    pub(crate) fn results(&self, count: usize) -> Vec<NDK_RESULT> {
        let mut results = vec![NDK_RESULT::ZERO; count];
        let taken = call!(self.raw, NdkGetCqResults(results.as_mut_ptr(), count as u32));
        results.truncate(taken as usize);
        results
    }

    /// NdkGetCqResultsEx.
    pub(crate) fn poll(&self, count: usize) -> Vec<NDK_RESULT_EX> {
        let mut results = vec![NDK_RESULT_EX::ZERO; count];
        let taken = call!(self.raw, NdkGetCqResultsEx(results.as_mut_ptr(), count as u32));
        assert!(taken as usize <= count);
        results.truncate(taken as usize);
        for result in &results {
            assert!(result.Status != STATUS_SUCCESS || result.ProviderErrorCode == 0);
        }
        results
    }

    /// Polls until there have been `count` completions.
    #[track_caller]
    pub(crate) fn wait(&self, count: usize) -> Vec<NDK_RESULT_EX> {
        let deadline = Instant::now() + LIMIT;
        let mut results = Vec::new();
        while results.len() < count {
            assert!(Instant::now() < deadline, "{} of {count} completions: {results:?}", results.len());
            results.extend(self.poll(count - results.len()));
            thread::yield_now();
        }
        results
    }

    #[track_caller]
    pub(crate) fn wait_one(&self) -> NDK_RESULT_EX {
        self.wait(1)[0]
    }
}

impl Srq {
    pub(crate) fn modify(&self, depth: u32, threshold: u32) -> Request {
        let completion = Waiter::new("completion of NdkModifySrq");
        let returned = call!(self.raw, NdkModifySrq(depth, threshold, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    pub(crate) fn receive(&self, context: usize, sges: &[NDK_SGE]) -> NTSTATUS {
        call!(self.raw, NdkSrqReceive(number(context), sges.as_ptr(), sges.len() as u32))
    }
}

impl Qp {
    pub(crate) fn flush(&self) {
        call!(self.raw, NdkFlush());
    }

    pub(crate) fn send(&self, context: usize, sges: &[NDK_SGE], flags: u32) -> NTSTATUS {
        call!(self.raw, NdkSend(number(context), sges.as_ptr(), sges.len() as u32, flags))
    }

    pub(crate) fn send_and_invalidate(&self, context: usize, sges: &[NDK_SGE], flags: u32, token: u32) -> NTSTATUS {
        call!(self.raw, NdkSendAndInvalidate(number(context), sges.as_ptr(), sges.len() as u32, flags, token))
    }

    pub(crate) fn receive(&self, context: usize, sges: &[NDK_SGE]) -> NTSTATUS {
        call!(self.raw, NdkReceive(number(context), sges.as_ptr(), sges.len() as u32))
    }

    pub(crate) fn read(&self, context: usize, sges: &[NDK_SGE], address: u64, token: u32, flags: u32) -> NTSTATUS {
        call!(self.raw, NdkRead(number(context), sges.as_ptr(), sges.len() as u32, address, token, flags))
    }

    pub(crate) fn write(&self, context: usize, sges: &[NDK_SGE], address: u64, token: u32, flags: u32) -> NTSTATUS {
        call!(self.raw, NdkWrite(number(context), sges.as_ptr(), sges.len() as u32, address, token, flags))
    }

    pub(crate) fn fast_register(
        &self,
        context: usize,
        mr: &Mr,
        lam: &Lam,
        length: usize,
        base: u64,
        flags: u32,
    ) -> NTSTATUS {
        call!(
            self.raw,
            NdkFastRegister(
                number(context),
                mr.raw.as_ptr(),
                lam.pages.len() as u32,
                lam.pages.as_ptr(),
                lam.first_byte_offset,
                length,
                number(base as usize),
                flags,
            )
        )
    }

    pub(crate) fn invalidate(&self, context: usize, mr: &Mr, flags: u32) -> NTSTATUS {
        call!(self.raw, NdkInvalidate(number(context), mr.raw.as_ptr().cast(), flags))
    }

    /// NdkBind, of a window that cannot exist.
    pub(crate) fn bind(&self, mr: &Mr) -> NTSTATUS {
        call!(self.raw, NdkBind(null_mut(), mr.raw.as_ptr(), null_mut(), null_mut(), 0, 0))
    }
}

/// Private data as it crosses the interface.
fn data(bytes: &[u8]) -> (*const c_void, u32) {
    (bytes.as_ptr().cast(), bytes.len() as u32)
}

impl Connector {
    pub(crate) fn connect(
        &self,
        qp: &Qp,
        local: SocketAddr,
        remote: SocketAddr,
        limits: (u32, u32),
        private_data: &[u8],
    ) -> Request {
        let (local, remote) = (Address::new(local), Address::new(remote));
        self.connect_to(
            qp,
            (local.pointer(), local.length()),
            (remote.pointer(), remote.length()),
            limits,
            private_data,
        )
    }

    /// NdkConnect with addresses as they come.
    pub(crate) fn connect_to(
        &self,
        qp: &Qp,
        local: (*const ndk_abi::sockaddr::SOCKADDR, u32),
        remote: (*const ndk_abi::sockaddr::SOCKADDR, u32),
        limits: (u32, u32),
        private_data: &[u8],
    ) -> Request {
        let completion = Waiter::new("completion of NdkConnect");
        let (bytes, length) = data(private_data);
        let returned = call!(
            self.raw,
            NdkConnect(
                qp.raw.as_ptr(),
                local.0,
                local.1,
                remote.0,
                remote.1,
                limits.0,
                limits.1,
                bytes,
                length,
                waiter::completed,
                completion.context(),
            )
        );
        Request { returned, completion }
    }

    pub(crate) fn connect_with_shared_endpoint(&self, qp: &Qp, remote: SocketAddr) -> NTSTATUS {
        let remote = Address::new(remote);
        call!(
            self.raw,
            NdkConnectWithSharedEndpoint(
                qp.raw.as_ptr(),
                null_mut(),
                remote.pointer(),
                remote.length(),
                0,
                0,
                null(),
                0,
                waiter::completed,
                null_mut(),
            )
        )
    }

    /// NdkCompleteConnect.
    pub(crate) fn complete(&self, event: Option<&'static Waiter>) -> Request {
        let completion = Waiter::new("completion of NdkCompleteConnect");
        let function = event.map(|_| waiter::disconnected as NDK_FN_DISCONNECT_EVENT_CALLBACK);
        let context = event.map_or(null_mut(), Waiter::context);
        let returned = call!(self.raw, NdkCompleteConnect(function, context, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    /// NdkCompleteConnectEx.
    pub(crate) fn complete_ex(&self, event: Option<&'static Waiter>) -> Request {
        let completion = Waiter::new("completion of NdkCompleteConnectEx");
        let function = event.map(|_| waiter::disconnected_ex as NDK_FN_DISCONNECT_EVENT_CALLBACK_EX);
        let context = event.map_or(null_mut(), Waiter::context);
        let returned =
            call!(self.raw, NdkCompleteConnectEx(function, context, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    /// NdkAccept.
    pub(crate) fn accept(
        &self,
        qp: &Qp,
        limits: (u32, u32),
        private_data: &[u8],
        event: Option<&'static Waiter>,
    ) -> Request {
        let completion = Waiter::new("completion of NdkAccept");
        let function = event.map(|_| waiter::disconnected as NDK_FN_DISCONNECT_EVENT_CALLBACK);
        let context = event.map_or(null_mut(), Waiter::context);
        let (bytes, length) = data(private_data);
        let returned = call!(
            self.raw,
            NdkAccept(
                qp.raw.as_ptr(),
                limits.0,
                limits.1,
                bytes,
                length,
                function,
                context,
                waiter::completed,
                completion.context(),
            )
        );
        Request { returned, completion }
    }

    /// NdkAcceptEx.
    pub(crate) fn accept_ex(
        &self,
        qp: &Qp,
        limits: (u32, u32),
        private_data: &[u8],
        event: Option<&'static Waiter>,
    ) -> Request {
        let completion = Waiter::new("completion of NdkAcceptEx");
        let function = event.map(|_| waiter::disconnected_ex as NDK_FN_DISCONNECT_EVENT_CALLBACK_EX);
        let context = event.map_or(null_mut(), Waiter::context);
        let (bytes, length) = data(private_data);
        let returned = call!(
            self.raw,
            NdkAcceptEx(
                qp.raw.as_ptr(),
                limits.0,
                limits.1,
                bytes,
                length,
                function,
                context,
                waiter::completed,
                completion.context(),
            )
        );
        Request { returned, completion }
    }

    pub(crate) fn reject(&self, private_data: &[u8]) -> NTSTATUS {
        let (bytes, length) = data(private_data);
        call!(self.raw, NdkReject(bytes, length))
    }

    pub(crate) fn disconnect(&self) -> Request {
        let completion = Waiter::new("completion of NdkDisconnect");
        let returned = call!(self.raw, NdkDisconnect(waiter::completed, completion.context()));
        Request { returned, completion }
    }

    /// NdkGetConnectionData with a buffer of `room` bytes (none: no buffer): the status, the read limits, the size
    /// reported, and the buffer.
    pub(crate) fn data_sized(&self, room: Option<usize>) -> (NTSTATUS, (u32, u32), u32, Vec<u8>) {
        let mut buffer = vec![0xEE; room.unwrap_or(0)];
        let pointer = if room.is_some() { buffer.as_mut_ptr().cast() } else { null_mut() };
        let (mut inbound, mut outbound) = (u32::MAX, u32::MAX);
        let mut length = buffer.len() as u32;
        let status =
            call!(self.raw, NdkGetConnectionData(&raw mut inbound, &raw mut outbound, pointer, &raw mut length));
        (status, (inbound, outbound), length, buffer)
    }

    /// The read limits and the peer's private data.
    #[track_caller]
    pub(crate) fn data(&self) -> ((u32, u32), Vec<u8>) {
        let (status, limits, length, mut data) = self.data_sized(Some(512));
        assert_eq!(status, STATUS_SUCCESS);
        data.truncate(length as usize);
        (limits, data)
    }

    pub(crate) fn local_address(&self) -> Result<SocketAddr, NTSTATUS> {
        query_address(|buffer, length| call!(self.raw, NdkGetLocalAddress(buffer, length)))
    }

    pub(crate) fn peer_address(&self) -> Result<SocketAddr, NTSTATUS> {
        query_address(|buffer, length| call!(self.raw, NdkGetPeerAddress(buffer, length)))
    }
}

/// Asks for an address in two calls, size first.
fn query_address(
    query: impl Fn(*mut ndk_abi::sockaddr::SOCKADDR, *mut u32) -> NTSTATUS,
) -> Result<SocketAddr, NTSTATUS> {
    let mut length = 0;
    let sized = query(null_mut(), &raw mut length);
    if sized != STATUS_BUFFER_TOO_SMALL {
        assert_ne!(sized, STATUS_SUCCESS);
        return Err(sized);
    }
    let mut storage = SOCKADDR_INET::ZERO;
    assert!(length as usize <= size_of::<SOCKADDR_INET>());
    let needed = length;
    length -= 1;
    assert_eq!(query((&raw mut storage).cast(), &raw mut length), STATUS_BUFFER_TOO_SMALL);
    assert_eq!(length, needed);
    assert_eq!(query((&raw mut storage).cast(), &raw mut length), STATUS_SUCCESS);
    Ok(storage.socket_addr().expect("a known family"))
}

impl Listener {
    pub(crate) fn listen(&self, address: SocketAddr) -> NTSTATUS {
        let address = Address::new(address);
        let completion = Waiter::new("completion of NdkListen");
        let returned =
            call!(self.raw, NdkListen(address.pointer(), address.length(), waiter::completed, completion.context()));
        Request { returned, completion }.wait()
    }

    pub(crate) fn local_address(&self) -> Result<SocketAddr, NTSTATUS> {
        query_address(|buffer, length| call!(self.raw, NdkGetLocalAddress(buffer, length)))
    }

    pub(crate) fn pause(&self, pause: bool) {
        call!(self.raw, NdkControlConnectEvents(u8::from(pause)));
    }

    /// The connector of the next connect event.
    #[track_caller]
    pub(crate) fn take(&self) -> Connector {
        Connector::of_event(self.events.take().value)
    }
}

impl Connector {
    /// The connector that a connect event handed over.
    #[track_caller]
    pub(crate) fn of_event(value: usize) -> Self {
        let raw = NonNull::new(std::ptr::with_exposed_provenance_mut(value)).expect("a connector");
        let connector = Self { raw };
        connector.check_header();
        connector
    }
}
