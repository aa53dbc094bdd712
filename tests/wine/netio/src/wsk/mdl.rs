//! Bytes of a client, by chains of MDLs.

use kernel::violation;
use ndk_abi::{
    wdm::{MDL_MAPPED_TO_SYSTEM_VA, MDL_SOURCE_IS_NONPAGED_POOL},
    wsk::WSK_BUF,
};
use windows_sys::Win32::Networking::WinSock::WSABUF;

/// The parts of a buffer. `None`: it is not as it should be.
///
/// # Safety
/// The client's buffer, whose MDLs are valid until the request ends.
pub(super) unsafe fn parts(function: &str, buffer: *const WSK_BUF) -> Option<Vec<WSABUF>> {
    if buffer.is_null() {
        violation(&format!("{function}: no buffer"));
        return None;
    }
    // SAFETY: passed on to the caller.
    let WSK_BUF { Mdl: mut mdl, Offset: offset, Length: mut left } = unsafe { *buffer };
    let mut offset = offset as usize;
    let mut parts = Vec::new();
    while left > 0 {
        if mdl.is_null() {
            violation(&format!("{function}: the buffer is longer than its MDLs by {left} bytes"));
            return None;
        }
        // SAFETY: passed on to the caller.
        let part = unsafe { *mdl };
        if part.MdlFlags & (MDL_SOURCE_IS_NONPAGED_POOL | MDL_MAPPED_TO_SYSTEM_VA) == 0 {
            violation(&format!("{function}: an MDL is neither of non-paged pool nor mapped"));
            return None;
        }
        let length = part.ByteCount as usize;
        if offset > 0 && offset >= length {
            violation(&format!("{function}: the buffer does not begin in its first MDL"));
            return None;
        }
        let usable = (length - offset).min(left);
        let start = part.MappedSystemVa.wrapping_byte_add(offset);
        parts.push(WSABUF { len: usable as u32, buf: start.cast() });
        left -= usable;
        offset = 0;
        mdl = part.Next;
    }
    Some(parts)
}

/// Goes `count` bytes on in what is left of a buffer.
pub(super) fn advance(parts: &mut Vec<WSABUF>, mut count: usize) {
    while let Some(first) = parts.first_mut() {
        let length = first.len as usize;
        if count < length {
            first.len -= count as u32;
            first.buf = first.buf.wrapping_add(count);
            return;
        }
        count -= length;
        parts.remove(0);
    }
}
