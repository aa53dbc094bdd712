//! Receives of an adapter with the parameter `Unchecked`, for benchmarks: frames go to Linux from the miniport's memory, and the lists go back within the
//! indication. Nothing is looked at, nothing copied.

use ndk_abi::ndis::*;

use super::{batch::pieces, coalesced};
use crate::{adapter::Adapter, registry};

const KEYWORD: &str = "Unchecked";

/// Whether an adapter has the parameter.
pub(super) fn is_wanted(adapter: &Adapter) -> bool {
    registry::text_parameter(&adapter.driver.service, adapter.number, KEYWORD).is_some_and(|value| value == "1")
}

/// Takes the lists of an indication.
///
/// # Safety
/// Lists of the miniport's, as it indicates them.
pub(super) unsafe fn indicate(adapter: &Adapter, first: *mut NET_BUFFER_LIST, flags: u32) {
    let tap = adapter.packets.tap.get();
    let mut next = first;
    // SAFETY: null, or a list of the chain.
    while let Some(list) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        let parts = unsafe { parts(list) };
        if let Some((tap, start)) = tap.as_ref().zip(parts.first()) {
            let length = parts.iter().map(|part| part.len()).sum();
            tap.write_parts(&parts, coalesced::of(list, start, length).as_ref());
        }
        next = list.Next;
    }
    if flags & NDIS_RECEIVE_FLAGS_RESOURCES != 0 {
        return;
    }
    let Some(handler) = adapter.driver.characteristics.ReturnNetBufferListsHandler else { return };
    // The flags have one number for both calls.
    let flags = flags & NDIS_RETURN_FLAGS_DISPATCH_LEVEL;
    // SAFETY: the driver's handler, called as documented.
    kernel::balanced("MiniportReturnNetBufferLists", || unsafe { handler(adapter.context(), first, flags) });
}

const _: () = assert!(NDIS_RETURN_FLAGS_DISPATCH_LEVEL == NDIS_RECEIVE_FLAGS_DISPATCH_LEVEL);

/// The bytes of a list's frame.
///
/// # Safety
/// As for [`indicate`].
unsafe fn parts(list: &NET_BUFFER_LIST) -> Vec<&[u8]> {
    // SAFETY: null, or the list's NET_BUFFER.
    let Some(buffer) = (unsafe { list.FirstNetBuffer.as_ref() }) else { return vec![] };
    let mut left = buffer.DataLength as usize;
    // SAFETY: its chain of descriptors.
    let pieces = unsafe { pieces(buffer.CurrentMdl, buffer.CurrentMdlOffset as usize) };
    let parts = pieces.into_iter().map(|(mdl, at, length)| {
        let here = length.min(left);
        left -= here;
        // SAFETY: the descriptor's memory is mapped, and has as many bytes from there on.
        unsafe { std::slice::from_raw_parts((*mdl).MappedSystemVa.cast::<u8>().add(at), here) }
    });
    parts.collect()
}
