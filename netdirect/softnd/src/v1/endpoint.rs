//! INDEndpoint.
#![expect(unsafe_code, reason = "COM")]

use std::{ffi::c_void, sync::Arc};

use nd_com::{
    status::{
        ND_INVALID_PARAMETER_1, ND_INVALID_PARAMETER_2, ND_INVALID_PARAMETER_3, ND_INVALID_PARAMETER_4,
        ND_INVALID_PARAMETER_5, ND_INVALID_PARAMETER_6, ND_INVALID_PARAMETER_7, ND_SUCCESS, from_nt,
    },
    v1::{INDEndpoint, INDEndpoint_Impl, ND_MR_HANDLE, ND_MW_DESCRIPTOR, ND_RESULT, ND_SGE},
};
use ndk_abi::{
    describe::ZeroInit,
    nd_ioctl::{ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE, ND_OP_FLAG_SEND_AND_SOLICIT_EVENT, ND_READ_LIMITS},
    ndkpi::{NDK_OP_FLAG_INLINE, NdkOperationTypeRead, NdkOperationTypeSend, NdkOperationTypeWrite},
    softndk_ioctl::{SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE, SOFTNDK_SGE},
    status::{NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_DATA_OVERRUN},
};
use windows_core::{ComObject, HRESULT, implement};

use super::{adapter::AdapterInner, completion_queue::Results, memory_window::MemoryWindow};
use crate::{
    arguments::{array, hresult, ours},
    core::queue_pair::{QueuePair, receive_request, request},
    hold::Hold,
    requests::{COMMON_FLAGS, flags, post_inline},
};

/// An upper bound of the SGEs that an adapter takes.
const MAX_SGES: usize = 64;

#[implement(INDEndpoint, Agile = false)]
pub(crate) struct Endpoint {
    core: QueuePair,
    adapter: Arc<AdapterInner>,
    limits: Limits,
    /// The endpoint's name in completions.
    name: u64,
    /// The results of the endpoint's two completion queues.
    results: [Arc<Results>; 2],
    _hold: Hold,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.results.iter().for_each(|results| results.remove(self.name));
    }
}

/// The limits that an endpoint was made with.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) inbound_sges: usize,
    pub(super) outbound_sges: usize,
    pub(super) reads: ND_READ_LIMITS,
}

impl Endpoint {
    pub(super) fn new(
        core: QueuePair,
        adapter: Arc<AdapterInner>,
        limits: Limits,
        name: u64,
        results: [Arc<Results>; 2],
    ) -> Self {
        results.iter().for_each(|results| results.add(name));
        Self { core, adapter, limits, name, results, _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &QueuePair {
        &self.core
    }

    pub(super) fn read_limits(&self) -> ND_READ_LIMITS {
        self.limits.reads
    }

    /// Posts the request with this `head` and at most `most` SGEs: inline if `may_be_inline` and there is data, no more
    /// than the queue pair's limit for inline data.
    ///
    /// # Safety
    /// `list` is null, or valid for `count` SGEs, which name memory that can be read if `may_be_inline`.
    unsafe fn post(
        &self,
        head: &SOFTNDK_POST,
        (list, count): (*const ND_SGE, usize),
        most: usize,
        may_be_inline: bool,
    ) -> Result<(), NTSTATUS> {
        let mut storage = [SOFTNDK_SGE::ZERO; MAX_SGES];
        let sges = storage.get_mut(..count).filter(|_| count <= most).ok_or(STATUS_DATA_OVERRUN)?;
        // SAFETY: as the caller says.
        let given = unsafe { array(list, count) }?;
        for (sge, given) in sges.iter_mut().zip(given) {
            // The length of an SGE has 32 bits.
            let length = u32::try_from(given.Length).map_err(|_| STATUS_BUFFER_OVERFLOW)?;
            *sge = SOFTNDK_SGE { Address: given.pAddr.expose_provenance() as u64, Length: length, Token: 0 };
        }
        let length = sges.iter().map(|sge| u64::from(sge.Length)).sum::<u64>();
        if may_be_inline && (1..=self.core.inline_data() as u64).contains(&length) {
            let head = SOFTNDK_POST { Flags: head.Flags | NDK_OP_FLAG_INLINE, ..*head };
            // SAFETY: as the caller says.
            return unsafe { post_inline(&self.core, &head, sges) };
        }
        for (sge, given) in sges.iter_mut().zip(given) {
            sge.Token = self.adapter.regions.local_token(handle(given.hMr));
        }
        self.core.post(head, sges, &[])
    }

    /// Posts a send, read or write.
    ///
    /// # Safety
    /// As for [`Self::post`].
    unsafe fn initiate(
        &self,
        head: Result<SOFTNDK_POST, HRESULT>,
        list: (*const ND_SGE, usize),
        may_be_inline: bool,
    ) -> HRESULT {
        match head {
            // SAFETY: as the caller says.
            Ok(head) => hresult(unsafe { self.post(&head, list, self.limits.outbound_sges, may_be_inline) }),
            Err(status) => status,
        }
    }

    /// The window behind an interface pointer. Error `otherwise`: not a window of this adapter.
    ///
    /// # Safety
    /// `window` is null, or a COM object that outlives the call.
    unsafe fn window(&self, window: *mut c_void, otherwise: HRESULT) -> Result<ComObject<MemoryWindow>, HRESULT> {
        // SAFETY: as the caller says.
        let found = unsafe { ours::<MemoryWindow>(window) };
        found.filter(|window| Arc::ptr_eq(window.core().adapter(), self.core.adapter())).ok_or(otherwise)
    }
}

/// The context of a request: the address of its ND_RESULT. ND_INVALID_PARAMETER_1: null.
fn context(result: *mut ND_RESULT) -> Result<u64, HRESULT> {
    if result.is_null() { Err(ND_INVALID_PARAMETER_1) } else { Ok(result.expose_provenance() as u64) }
}

/// A handle of registered memory, as [`AdapterInner::regions`] takes it.
pub(super) fn handle(handle: ND_MR_HANDLE) -> u64 {
    handle.addr() as u64
}

/// The descriptor of a peer's window. ND_INVALID_PARAMETER_4: null.
///
/// # Safety
/// `descriptor` is null or valid.
unsafe fn descriptor(descriptor: *const ND_MW_DESCRIPTOR) -> Result<ND_MW_DESCRIPTOR, HRESULT> {
    // SAFETY: as the caller says. Its alignment is 1.
    unsafe { descriptor.as_ref() }.copied().ok_or(ND_INVALID_PARAMETER_4)
}

/// The head of a read or write.
///
/// # Safety
/// `remote` is null or valid.
unsafe fn transfer(
    operation: u32,
    result: *mut ND_RESULT,
    remote: *const ND_MW_DESCRIPTOR,
    offset: u64,
    given: u32,
) -> Result<SOFTNDK_POST, HRESULT> {
    let context = context(result)?;
    // SAFETY: as the caller says.
    let remote = unsafe { descriptor(remote) }?;
    let flags = flags(given, COMMON_FLAGS, ND_INVALID_PARAMETER_6)?;
    Ok(SOFTNDK_POST {
        // If the address is outside of the window, also because the sum overflows, the peer refuses the request.
        RemoteAddress: u64::from_be(remote.Base).wrapping_add(offset),
        RemoteToken: u32::from_be(remote.Token),
        ..request(operation, context, flags)
    })
}

impl INDEndpoint_Impl for Endpoint_Impl {
    unsafe fn Flush(&self) -> HRESULT {
        hresult(self.core.flush())
    }

    unsafe fn StartRequestBatch(&self) {
        self.core.start_batch();
    }

    unsafe fn SubmitRequestBatch(&self) {
        self.core.submit_batch();
    }

    unsafe fn Send(&self, result: *mut ND_RESULT, list: *const ND_SGE, count: usize, given: u32) -> HRESULT {
        let head = || {
            let context = context(result)?;
            let flags = flags(given, COMMON_FLAGS | ND_OP_FLAG_SEND_AND_SOLICIT_EVENT, ND_INVALID_PARAMETER_4)?;
            Ok(request(NdkOperationTypeSend.0.cast_unsigned(), context, flags))
        };
        // SAFETY: the caller's array.
        unsafe { self.initiate(head(), (list, count), true) }
    }

    unsafe fn SendAndInvalidate(
        &self,
        result: *mut ND_RESULT,
        list: *const ND_SGE,
        count: usize,
        remote: *const ND_MW_DESCRIPTOR,
        given: u32,
    ) -> HRESULT {
        let head = || {
            let context = context(result)?;
            // SAFETY: the caller's pointer.
            let remote = unsafe { descriptor(remote) }?;
            let flags = flags(given, COMMON_FLAGS | ND_OP_FLAG_SEND_AND_SOLICIT_EVENT, ND_INVALID_PARAMETER_5)?;
            let token = u32::from_be(remote.Token);
            Ok(SOFTNDK_POST { RemoteToken: token, ..request(SOFTNDK_POST_SEND_AND_INVALIDATE, context, flags) })
        };
        // SAFETY: the caller's array.
        unsafe { self.initiate(head(), (list, count), true) }
    }

    unsafe fn Receive(&self, result: *mut ND_RESULT, list: *const ND_SGE, count: usize) -> HRESULT {
        let context = match context(result) {
            Ok(context) => context,
            Err(status) => return status,
        };
        // SAFETY: the caller's array.
        hresult(unsafe { self.post(&receive_request(context), (list, count), self.limits.inbound_sges, false) })
    }

    unsafe fn Bind(
        &self,
        result: *mut ND_RESULT,
        region: ND_MR_HANDLE,
        window: *mut c_void,
        buffer: *const c_void,
        length: usize,
        given: u32,
        out: *mut ND_MW_DESCRIPTOR,
    ) -> HRESULT {
        let bind = || {
            let context = context(result)?;
            let region = self.adapter.regions.find(handle(region)).ok_or(ND_INVALID_PARAMETER_2)?;
            // SAFETY: null, or the caller's object.
            let window = unsafe { self.window(window, ND_INVALID_PARAMETER_3) }?;
            let allowed = COMMON_FLAGS | ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;
            let flags = flags(given, allowed, ND_INVALID_PARAMETER_6)?;
            if out.is_null() {
                return Err(ND_INVALID_PARAMETER_7);
            }
            let (base, length) = (buffer.addr() as u64, length as u64);
            let before = window.core().token();
            self.core.bind(context, &region, window.core(), (base, length), flags).map_err(from_nt)?;
            window.bound(before);
            let token = window.core().token();
            // SAFETY: not null, so valid.
            unsafe {
                out.write(ND_MW_DESCRIPTOR { Base: base.to_be(), Length: length.to_be(), Token: token.to_be() });
            };
            Ok(())
        };
        bind().err().unwrap_or(ND_SUCCESS)
    }

    unsafe fn Invalidate(&self, result: *mut ND_RESULT, window: *mut c_void, given: u32) -> HRESULT {
        let invalidate = || {
            let context = context(result)?;
            // SAFETY: null, or the caller's object.
            let window = unsafe { self.window(window, ND_INVALID_PARAMETER_2) }?;
            let flags = flags(given, COMMON_FLAGS, ND_INVALID_PARAMETER_3)?;
            self.core.invalidate(context, window.core(), flags).map_err(from_nt)?;
            window.unbound();
            Ok(())
        };
        invalidate().err().unwrap_or(ND_SUCCESS)
    }

    unsafe fn Read(
        &self,
        result: *mut ND_RESULT,
        list: *const ND_SGE,
        count: usize,
        remote: *const ND_MW_DESCRIPTOR,
        offset: u64,
        given: u32,
    ) -> HRESULT {
        // SAFETY: the caller's pointer.
        let head = unsafe { transfer(NdkOperationTypeRead.0.cast_unsigned(), result, remote, offset, given) };
        // SAFETY: the caller's array.
        unsafe { self.initiate(head, (list, count), false) }
    }

    unsafe fn Write(
        &self,
        result: *mut ND_RESULT,
        list: *const ND_SGE,
        count: usize,
        remote: *const ND_MW_DESCRIPTOR,
        offset: u64,
        given: u32,
    ) -> HRESULT {
        // SAFETY: the caller's pointer.
        let head = unsafe { transfer(NdkOperationTypeWrite.0.cast_unsigned(), result, remote, offset, given) };
        // SAFETY: the caller's array.
        unsafe { self.initiate(head, (list, count), true) }
    }
}
