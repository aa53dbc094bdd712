//! IND2QueuePair.
#![expect(unsafe_code, reason = "COM")]

use std::{ffi::c_void, mem::offset_of, sync::Arc};

use nd_com::{
    status::{ND_INVALID_PARAMETER_2, ND_INVALID_PARAMETER_3, ND_INVALID_PARAMETER_4, ND_INVALID_PARAMETER_6},
    v2::{IND2QueuePair, IND2QueuePair_Impl, ND2_SGE},
};
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE, ND_OP_FLAG_INLINE, ND_OP_FLAG_SEND_AND_SOLICIT_EVENT},
    ndkpi::{NDK_OP_FLAG_INLINE, NdkOperationTypeRead, NdkOperationTypeSend, NdkOperationTypeWrite},
    softndk_ioctl::{SOFTNDK_POST, SOFTNDK_SGE},
    status::{NTSTATUS, STATUS_INVALID_PARAMETER_4},
};
use windows_core::{HRESULT, implement};

use super::memory::{MemoryRegion, MemoryWindow};
use crate::{
    arguments::{array, hresult, ours},
    core::queue_pair::{self, receive_request, request},
    hold::Hold,
    requests::{COMMON_FLAGS, flags, post_inline},
};

#[implement(IND2QueuePair, Agile = false)]
pub(crate) struct QueuePair {
    core: queue_pair::QueuePair,
    _hold: Hold,
}

impl QueuePair {
    pub(super) fn new(core: queue_pair::QueuePair) -> Self {
        Self { core, _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &queue_pair::QueuePair {
        &self.core
    }

    /// Posts a send, receive, read or write.
    ///
    /// # Safety
    /// `list` is null, or valid for `count` SGEs; with NDK_OP_FLAG_INLINE the SGEs name memory that can be read.
    unsafe fn post(&self, head: &SOFTNDK_POST, list: *const ND2_SGE, count: u32) -> Result<(), NTSTATUS> {
        // SAFETY: as the caller says.
        let sges = unsafe { sges(list, count) }?;
        if head.Flags & NDK_OP_FLAG_INLINE == 0 {
            return self.core.post(head, sges, &[]);
        }
        // SAFETY: as the caller says.
        unsafe { post_inline(&self.core, head, sges) }
    }
}

const _: () = assert!(size_of::<ND2_SGE>() == size_of::<SOFTNDK_SGE>());
const _: () = assert!(offset_of!(ND2_SGE, BufferLength) == offset_of!(SOFTNDK_SGE, Length));
const _: () = assert!(offset_of!(ND2_SGE, MemoryRegionToken) == offset_of!(SOFTNDK_SGE, Token));

/// The caller's SGEs, whose layout is the driver's. STATUS_INVALID_PARAMETER: `list` is null and `count` is not 0.
///
/// # Safety
/// As for [`array`].
pub(super) unsafe fn sges<'a>(list: *const ND2_SGE, count: u32) -> Result<&'a [SOFTNDK_SGE], NTSTATUS> {
    // SAFETY: as the caller says; an address is a number here.
    unsafe { array(list.cast(), count) }
}

/// The HRESULT of a post whose flags are the sixth parameter.
fn sixth(result: Result<(), NTSTATUS>) -> HRESULT {
    match result {
        Err(STATUS_INVALID_PARAMETER_4) => ND_INVALID_PARAMETER_6,
        result => hresult(result),
    }
}

impl IND2QueuePair_Impl for QueuePair_Impl {
    unsafe fn Flush(&self) -> HRESULT {
        hresult(self.core.flush())
    }

    unsafe fn Send(&self, context: *mut c_void, list: *const ND2_SGE, count: u32, given: u32) -> HRESULT {
        let allowed = COMMON_FLAGS | ND_OP_FLAG_SEND_AND_SOLICIT_EVENT | ND_OP_FLAG_INLINE;
        let flags = match flags(given, allowed, ND_INVALID_PARAMETER_4) {
            Ok(flags) => flags,
            Err(status) => return status,
        };
        let head = request(NdkOperationTypeSend.0.cast_unsigned(), context.addr() as u64, flags);
        // SAFETY: the caller's array.
        hresult(unsafe { self.post(&head, list, count) })
    }

    unsafe fn Receive(&self, context: *mut c_void, list: *const ND2_SGE, count: u32) -> HRESULT {
        let head = receive_request(context.addr() as u64);
        // SAFETY: the caller's array.
        hresult(unsafe { self.post(&head, list, count) })
    }

    unsafe fn Bind(
        &self,
        context: *mut c_void,
        region: *mut c_void,
        window: *mut c_void,
        buffer: *const c_void,
        length: usize,
        given: u32,
    ) -> HRESULT {
        // SAFETY: null, or the caller's object.
        let region = unsafe { ours::<MemoryRegion>(region) };
        let Some(region) = region.filter(|region| Arc::ptr_eq(region.core().adapter(), self.core.adapter())) else {
            return ND_INVALID_PARAMETER_2;
        };
        // SAFETY: null, or the caller's object.
        let window = unsafe { ours::<MemoryWindow>(window) };
        let Some(window) = window.filter(|window| Arc::ptr_eq(window.core().adapter(), self.core.adapter())) else {
            return ND_INVALID_PARAMETER_3;
        };
        let allowed = COMMON_FLAGS | ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;
        let flags = match flags(given, allowed, ND_INVALID_PARAMETER_6) {
            Ok(flags) => flags,
            Err(status) => return status,
        };
        let part = (buffer.addr() as u64, length as u64);
        hresult(self.core.bind(context.addr() as u64, region.core(), window.core(), part, flags))
    }

    unsafe fn Invalidate(&self, context: *mut c_void, window: *mut c_void, given: u32) -> HRESULT {
        // SAFETY: null, or the caller's object.
        let window = unsafe { ours::<MemoryWindow>(window) };
        let Some(window) = window.filter(|window| Arc::ptr_eq(window.core().adapter(), self.core.adapter())) else {
            return ND_INVALID_PARAMETER_2;
        };
        match flags(given, COMMON_FLAGS, ND_INVALID_PARAMETER_3) {
            Ok(flags) => hresult(self.core.invalidate(context.addr() as u64, window.core(), flags)),
            Err(status) => status,
        }
    }

    unsafe fn Read(
        &self,
        context: *mut c_void,
        list: *const ND2_SGE,
        count: u32,
        address: u64,
        token: u32,
        given: u32,
    ) -> HRESULT {
        let flags = match flags(given, COMMON_FLAGS, ND_INVALID_PARAMETER_6) {
            Ok(flags) => flags,
            Err(status) => return status,
        };
        let head = SOFTNDK_POST {
            RemoteAddress: address,
            RemoteToken: u32::from_be(token),
            ..request(NdkOperationTypeRead.0.cast_unsigned(), context.addr() as u64, flags)
        };
        // SAFETY: the caller's array.
        sixth(unsafe { self.post(&head, list, count) })
    }

    unsafe fn Write(
        &self,
        context: *mut c_void,
        list: *const ND2_SGE,
        count: u32,
        address: u64,
        token: u32,
        given: u32,
    ) -> HRESULT {
        let flags = match flags(given, COMMON_FLAGS | ND_OP_FLAG_INLINE, ND_INVALID_PARAMETER_6) {
            Ok(flags) => flags,
            Err(status) => return status,
        };
        let head = SOFTNDK_POST {
            RemoteAddress: address,
            RemoteToken: u32::from_be(token),
            ..request(NdkOperationTypeWrite.0.cast_unsigned(), context.addr() as u64, flags)
        };
        // SAFETY: the caller's array.
        sixth(unsafe { self.post(&head, list, count) })
    }
}
