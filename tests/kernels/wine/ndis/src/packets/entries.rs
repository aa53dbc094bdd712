//! What a miniport calls for its sends: their ends, looks at a frame.

use std::{sync::atomic::Ordering, time::Duration};

use kernel::{DISPATCH_LEVEL, PASSIVE_LEVEL, violation};
use ndk_abi::{ndis::*, status::*};

use super::{batch::frames_of, check::SLOW};
use crate::{
    adapter::{self, State},
    lock,
};

/// A flag that says DISPATCH_LEVEL is for that level only.
pub(super) fn check_level(function: &str, flags: u32, flag: u32) {
    kernel::at_most(DISPATCH_LEVEL, function);
    if flags & flag != 0 && kernel::irql() != DISPATCH_LEVEL {
        violation(&format!("{function}: the flags say DISPATCH_LEVEL, which it is not"));
    }
}

/// ndis/nf-ndis-ndismsendnetbufferlistscomplete: at most DISPATCH_LEVEL; the flag says at that level exactly.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMSendNetBufferListsComplete(handle: NDIS_HANDLE, list: *mut NET_BUFFER_LIST, flags: u32) {
    const NAME: &str = "NdisMSendNetBufferListsComplete";
    check_level(NAME, flags, NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL);
    let Some(adapter) = adapter::from_handle(handle, NAME) else { return };
    let mut lent = lock(&adapter.packets.lent);
    let mut next = list;
    while !next.is_null() {
        let Some(of_list) = lent.get_mut(&(next as usize)) else {
            violation(&format!("{NAME}: a list that the miniport does not have"));
            break;
        };
        if of_list.status.is_some() {
            violation(&format!("{NAME}: a list that was completed already"));
            break;
        }
        // SAFETY: one of this module's lists, which is still there.
        let list = unsafe { &*next };
        if list.Status == NDIS_STATUS_PENDING {
            violation(&format!("{NAME}: a list without a status"));
        }
        if adapter.state() == State::Paused && list.Status != NDIS_STATUS_PAUSED {
            violation(&format!(
                "{NAME}: a send that ended with {} after the pause, which had to wait for it",
                list.Status
            ));
        }
        if frames_of(list) != of_list.frames {
            violation(&format!("{NAME}: the NET_BUFFERs of a list were changed"));
        }
        let large_send = list.NetBufferListInfo[TcpLargeSendNetBufferListInfo].addr();
        if large_send != of_list.large_send {
            violation(&format!("{NAME}: a large send that says {large_send:#x}, and not LsoV2TransmitComplete"));
        }
        of_list.status = Some(list.Status);
        next = list.Next;
    }
    drop(lent);
    adapter.packets.changed.notify_all();
}

/// ndis/nf-ndis-ndisgetdatabuffer: at most DISPATCH_LEVEL. The bytes in place if they are in one piece, else a copy of them.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisGetDataBuffer(
    buffer: *mut NET_BUFFER,
    needed: u32,
    storage: *mut u8,
    align_multiple: u32,
    _align_offset: u32,
) -> *mut u8 {
    kernel::at_most(DISPATCH_LEVEL, "NdisGetDataBuffer");
    if SLOW.load(Ordering::Acquire) && kernel::irql() == PASSIVE_LEVEL {
        std::thread::sleep(Duration::from_millis(1));
    }
    if align_multiple != 1 {
        violation("NdisGetDataBuffer: the stand-in has no alignment but 1");
    }
    // SAFETY: the caller gives a frame.
    let buffer = unsafe { &*buffer };
    let needed = needed as usize;
    if needed == 0 || needed > buffer.DataLength as usize {
        return std::ptr::null_mut();
    }
    let (mut mdl, mut offset, mut copied) = (buffer.CurrentMdl, buffer.CurrentMdlOffset as usize, 0);
    // SAFETY: a chain of descriptors of memory that is there, and storage of as many bytes as are needed.
    unsafe {
        while copied < needed && !mdl.is_null() {
            let from = (*mdl).MappedSystemVa.cast::<u8>().add(offset);
            let here = ((*mdl).ByteCount as usize - offset).min(needed - copied);
            if here == needed {
                return from;
            }
            if storage.is_null() {
                return std::ptr::null_mut();
            }
            storage.add(copied).copy_from(from, here);
            copied += here;
            (mdl, offset) = ((*mdl).Next, 0);
        }
    }
    if copied == needed { storage } else { std::ptr::null_mut() }
}
