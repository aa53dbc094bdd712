//! Inline data and flags of work requests, for both versions of the interfaces.
#![expect(unsafe_code, reason = "memory of programs, named by addresses")]

use std::ptr;

use ndk_abi::{
    nd_ioctl::{
        ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE, ND_OP_FLAG_INLINE, ND_OP_FLAG_READ_FENCE,
        ND_OP_FLAG_SEND_AND_SOLICIT_EVENT, ND_OP_FLAG_SILENT_SUCCESS,
    },
    ndkpi::{
        NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_READ_FENCE,
        NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS,
    },
    softndk_ioctl::{SOFTNDK_POST, SOFTNDK_SGE},
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INVALID_PARAMETER_4},
};
use windows_core::HRESULT;

use crate::core::queue_pair::QueuePair;

/// Flags of every initiator request.
pub(crate) const COMMON_FLAGS: u32 = ND_OP_FLAG_SILENT_SUCCESS | ND_OP_FLAG_READ_FENCE;

/// An upper bound of the inline data that an adapter takes.
const MAX_INLINE_DATA: usize = 1024;

/// Posts a request with the data of its SGEs inline. STATUS_INVALID_PARAMETER_4: the data is longer than the queue
/// pair's limit for inline data.
///
/// # Safety
/// The SGEs name memory that can be read.
pub(crate) unsafe fn post_inline(
    queue_pair: &QueuePair,
    head: &SOFTNDK_POST,
    sges: &[SOFTNDK_SGE],
) -> Result<(), NTSTATUS> {
    let mut storage = [0; MAX_INLINE_DATA];
    let room = storage.get_mut(..queue_pair.inline_data()).ok_or(STATUS_INVALID_PARAMETER_4)?;
    // SAFETY: as the caller says.
    let data = unsafe { gather(sges, room) }?;
    queue_pair.post(head, &[], data)
}

/// Copies inline data to `room`. STATUS_INVALID_PARAMETER_4: more data than `room`; STATUS_ACCESS_VIOLATION: a null
/// address.
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
        // SAFETY: as the caller says; `part` has as many bytes as the SGE, and is this DLL's memory.
        unsafe { ptr::copy_nonoverlapping(from, part.as_mut_ptr(), part.len()) };
        rest = others;
    }
    Ok(data)
}

/// Translates ND_OP_FLAG_* to NDK_OP_FLAG_*. Error `otherwise`: `given` has a flag that is not in `allowed`.
pub(crate) fn flags(given: u32, allowed: u32, otherwise: HRESULT) -> Result<u32, HRESULT> {
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
