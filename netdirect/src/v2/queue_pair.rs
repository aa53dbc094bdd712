//! IND2QueuePair.
#![expect(unsafe_code, reason = "COM")]

use std::{ffi::c_void, ptr, sync::Arc};

use nd_com::{
    status::{ND_INVALID_PARAMETER_2, ND_INVALID_PARAMETER_3, ND_INVALID_PARAMETER_4, ND_INVALID_PARAMETER_6},
    v2::{IND2QueuePair, IND2QueuePair_Impl, ND2_SGE},
};
use ndk_abi::{
    nd_ioctl::{
        ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE, ND_OP_FLAG_INLINE, ND_OP_FLAG_READ_FENCE,
        ND_OP_FLAG_SEND_AND_SOLICIT_EVENT, ND_OP_FLAG_SILENT_SUCCESS,
    },
    ndkpi::{
        NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_READ_FENCE,
        NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeRead, NdkOperationTypeSend,
        NdkOperationTypeWrite,
    },
    softndk_ioctl::{SOFTNDK_POST, SOFTNDK_SGE},
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INVALID_PARAMETER_4},
};
use windows_core::{HRESULT, implement};

use super::{
    arguments::{hresult, ours, sges},
    memory::{MemoryRegion, MemoryWindow},
};
use crate::{
    core::queue_pair::{self, receive_request, request},
    hold::Hold,
};

/// Flags of every initiator request.
const COMMON: u32 = ND_OP_FLAG_SILENT_SUCCESS | ND_OP_FLAG_READ_FENCE;

/// More inline data than any adapter takes.
const MAX_INLINE_DATA: usize = 1024;

/// A queue pair.
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

    /// Posts a send, read or write.
    ///
    /// # Safety
    /// `list` is null, or valid for `count` SGEs; with NDK_OP_FLAG_INLINE they name memory that can be read.
    unsafe fn post(&self, head: &SOFTNDK_POST, list: *const ND2_SGE, count: u32) -> Result<(), NTSTATUS> {
        // SAFETY: as the caller says.
        let sges = unsafe { sges(list, count) }?;
        if head.Flags & NDK_OP_FLAG_INLINE == 0 {
            return self.core.post(head, sges, &[]);
        }
        let mut storage = [0; MAX_INLINE_DATA];
        let room = storage.get_mut(..self.core.inline_data()).ok_or(STATUS_INVALID_PARAMETER_4)?;
        // SAFETY: as the caller says.
        let data = unsafe { gather(sges, room) }?;
        self.core.post(head, &[], data)
    }
}

/// Copies inline data to `room`. STATUS_INVALID_PARAMETER_4: there is not so much.
///
/// # Safety
/// The SGEs name memory that can be read.
unsafe fn gather<'a>(sges: &[SOFTNDK_SGE], room: &'a mut [u8]) -> Result<&'a [u8], NTSTATUS> {
    let length = sges.iter().fold(0usize, |sum, sge| sum.saturating_add(sge.Length as usize));
    let data = room.get_mut(..length).ok_or(STATUS_INVALID_PARAMETER_4)?;
    let mut rest = &mut *data;
    for sge in sges {
        let (part, others) = rest.split_at_mut(sge.Length as usize);
        let from: *const u8 = ptr::with_exposed_provenance(sge.Address as usize);
        if from.is_null() && !part.is_empty() {
            return Err(STATUS_ACCESS_VIOLATION);
        }
        // SAFETY: as the caller says; `part` is as long, and memory of ours.
        unsafe { ptr::copy_nonoverlapping(from, part.as_mut_ptr(), part.len()) };
        rest = others;
    }
    Ok(data)
}

/// The flags of a request as the driver has them, or `otherwise` if it has others than `allowed`.
fn flags(given: u32, allowed: u32, otherwise: HRESULT) -> Result<u32, HRESULT> {
    if given & !allowed != 0 {
        return Err(otherwise);
    }
    let same = [
        (ND_OP_FLAG_SILENT_SUCCESS, NDK_OP_FLAG_SILENT_SUCCESS),
        (ND_OP_FLAG_READ_FENCE, NDK_OP_FLAG_READ_FENCE),
        (ND_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT),
        (ND_OP_FLAG_ALLOW_READ, NDK_OP_FLAG_ALLOW_REMOTE_READ),
        (ND_OP_FLAG_ALLOW_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_WRITE),
        (ND_OP_FLAG_INLINE, NDK_OP_FLAG_INLINE),
    ];
    Ok(same.into_iter().filter(|(nd, _)| given & nd != 0).fold(0, |flags, (_, ndk)| flags | ndk))
}

/// An end of a request whose flags are its sixth parameter.
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
        let allowed = COMMON | ND_OP_FLAG_SEND_AND_SOLICIT_EVENT | ND_OP_FLAG_INLINE;
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
        let allowed = COMMON | ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;
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
        match flags(given, COMMON, ND_INVALID_PARAMETER_3) {
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
        let flags = match flags(given, COMMON, ND_INVALID_PARAMETER_6) {
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
        let flags = match flags(given, COMMON | ND_OP_FLAG_INLINE, ND_INVALID_PARAMETER_6) {
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
