//! Bytes of a client, by chains of MDLs.

use kernel::violation;
use ndk_abi::{
    wdm::{MDL_MAPPED_TO_SYSTEM_VA, MDL_SOURCE_IS_NONPAGED_POOL},
    wsk::WSK_BUF,
};

use super::linux::Part;

/// The parts of a buffer. `None`: it is not as it should be.
///
/// # Safety
/// The client's buffer, whose MDLs are valid until the request ends.
pub(super) unsafe fn parts(function: &str, buffer: *const WSK_BUF) -> Option<Vec<Part>> {
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
        parts.push(Part { start: start.cast(), length: usable });
        left -= usable;
        offset = 0;
        mdl = part.Next;
    }
    Some(parts)
}

/// Goes `count` bytes on in what is left of a buffer.
pub(super) fn advance(parts: &mut Vec<Part>, mut count: usize) {
    while let Some(first) = parts.first_mut() {
        if count < first.length {
            first.length -= count;
            first.start = first.start.wrapping_add(count);
            return;
        }
        count -= first.length;
        parts.remove(0);
    }
}
