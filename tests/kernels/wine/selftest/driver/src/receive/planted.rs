//! What a miniport must not do with lists: committed on purpose, to see it caught. What can be used again afterwards is.
//!
//! All functions: at PASSIVE_LEVEL, with the adapter running.

use super::*;

unsafe fn pool() -> NDIS_HANDLE {
    // SAFETY: as documented.
    unsafe { NdisAllocateNetBufferListPool(adapter_handle(), &pool_parameters()) }
}

unsafe fn list_of(pool: NDIS_HANDLE) -> *mut NET_BUFFER_LIST {
    // SAFETY: as documented.
    unsafe { NdisAllocateNetBufferAndNetBufferList(pool, 0, 0, core::ptr::null_mut(), 0, 0) }
}

pub(crate) unsafe fn leak() {
    // SAFETY: as documented.
    unsafe { list_of(pool()) };
}

pub(crate) unsafe fn pool_above_dispatch() {
    // SAFETY: wrong on purpose.
    unsafe {
        KfRaiseIrql(3);
        let pool = pool();
        KeLowerIrql(0);
        NdisFreeNetBufferListPool(pool);
    }
}

pub(crate) unsafe fn pool_of_wrong_handle() {
    let nothing = 0_u64;
    // SAFETY: wrong on purpose; the handle is compared only.
    unsafe { NdisAllocateNetBufferListPool((&raw const nothing).cast_mut().cast(), &pool_parameters()) };
}

pub(crate) unsafe fn pool_with_wrong_parameters() {
    let parameters = NET_BUFFER_LIST_POOL_PARAMETERS { ProtocolId: 1, PoolTag: 0, ..pool_parameters() };
    // SAFETY: wrong on purpose.
    unsafe { NdisFreeNetBufferListPool(NdisAllocateNetBufferListPool(adapter_handle(), &parameters)) };
}

pub(crate) unsafe fn pool_with_list() {
    // SAFETY: wrong on purpose; it is not freed the first time.
    unsafe {
        let pool = pool();
        let list = list_of(pool);
        NdisFreeNetBufferListPool(pool);
        NdisFreeNetBufferList(list);
        NdisFreeNetBufferListPool(pool);
    }
}

/// The last is used, too.
pub(crate) unsafe fn pool_twice() {
    // SAFETY: wrong on purpose.
    unsafe {
        let pool = pool();
        NdisFreeNetBufferListPool(pool);
        NdisFreeNetBufferListPool(pool);
        list_of(pool);
    }
}

pub(crate) unsafe fn pool_without_buffers() {
    let parameters = NET_BUFFER_LIST_POOL_PARAMETERS { fAllocateNetBuffer: 0, ..pool_parameters() };
    // SAFETY: wrong on purpose.
    unsafe {
        let pool = NdisAllocateNetBufferListPool(adapter_handle(), &parameters);
        list_of(pool);
        NdisFreeNetBufferListPool(pool);
    }
}

pub(crate) unsafe fn list_beyond_memory() {
    // SAFETY: wrong on purpose.
    unsafe {
        let pool = pool();
        let mdl = NdisAllocateMdl(adapter_handle(), MEMORIES.load(Ordering::Relaxed).cast(), 110);
        NdisAllocateNetBufferAndNetBufferList(pool, 0, 0, mdl, 10, 101);
        NdisFreeMdl(mdl);
        NdisFreeNetBufferListPool(pool);
    }
}

pub(crate) unsafe fn list_twice() {
    // SAFETY: wrong on purpose.
    unsafe {
        let pool = pool();
        let list = list_of(pool);
        NdisFreeNetBufferList(list);
        NdisFreeNetBufferList(list);
        NdisFreeNetBufferListPool(pool);
    }
}

pub(crate) unsafe fn free_without_buffer() {
    // SAFETY: wrong on purpose.
    unsafe {
        let pool = pool();
        let list = list_of(pool);
        (*list).FirstNetBuffer = core::ptr::null_mut();
        NdisFreeNetBufferList(list);
        NdisFreeNetBufferListPool(pool);
    }
}

/// Does something while the protocol has the first list, which comes back in a pause.
unsafe fn while_lent(work: impl FnOnce(*mut NET_BUFFER_LIST)) {
    // SAFETY: as documented.
    unsafe { SoftNdkStandInExercise(HOLD_RECEIVES) };
    give(chain(0..1, FRAME), 1, 0);
    work(list(0));
    // SAFETY: as above.
    unsafe { SoftNdkStandInExercise(CHECK_PAUSE_WITH_RECEIVES) };
}

pub(crate) unsafe fn free_lent() {
    // SAFETY: wrong on purpose; it is not freed.
    unsafe { while_lent(|list| NdisFreeNetBufferList(list)) };
}

/// An indication whose list NDIS does not take, or that breaks another rule.
unsafe fn indicate_wrongly(first: *mut NET_BUFFER_LIST, port: u32, flags: u32) {
    // SAFETY: wrong on purpose.
    unsafe { NdisMIndicateReceiveNetBufferLists(adapter_handle(), first, port, 1, flags) };
}

pub(crate) unsafe fn indicate_lent() {
    // SAFETY: wrong on purpose.
    unsafe { while_lent(|list| indicate_wrongly(list, 0, 0)) };
}

pub(crate) unsafe fn indicate_freed() {
    // SAFETY: wrong on purpose.
    unsafe {
        let pool = pool();
        let list = list_of(pool);
        NdisFreeNetBufferList(list);
        indicate_wrongly(list, 0, 0);
        NdisFreeNetBufferListPool(pool);
    }
}

pub(crate) unsafe fn indicate_of_no_pool() {
    let mut list = NET_BUFFER_LIST::ZERO;
    // SAFETY: wrong on purpose; NDIS does not take it.
    unsafe { indicate_wrongly(&mut list, 0, RESOURCES) };
}

pub(crate) unsafe fn indicate_with(flags: u32, port: u32) {
    // SAFETY: wrong on purpose.
    unsafe { indicate_wrongly(chain(0..1, FRAME), port, flags) };
}

pub(crate) unsafe fn indicate_without_status() {
    let first = chain(0..1, FRAME);
    // SAFETY: wrong on purpose.
    unsafe {
        (*first).Status = NDIS_STATUS_PENDING;
        indicate_wrongly(first, 0, RESOURCES);
    }
}

pub(crate) unsafe fn indicate_two_buffers() {
    let first = chain(0..1, FRAME);
    // SAFETY: wrong on purpose.
    unsafe {
        let buffer = (*first).FirstNetBuffer;
        (*buffer).Next = (*list(1)).FirstNetBuffer;
        indicate_wrongly(first, 0, RESOURCES);
        (*buffer).Next = core::ptr::null_mut();
    }
}

pub(crate) unsafe fn indicate_beyond_memory() {
    let first = chain(0..1, FRAME);
    // SAFETY: wrong on purpose.
    unsafe {
        (*(*first).FirstNetBuffer).CurrentMdlOffset = MEMORY as u32 - 20;
        indicate_wrongly(first, 0, RESOURCES);
    }
}

/// Starts of frames: of no protocol, of a TCP segment with FIN, of one that is shorter than its frame, of one that ends with its header.
pub(crate) const FRAME_OF_NOTHING: &[u8] = &[0; 14];
pub(crate) const SEGMENT_WITH_FIN: &[u8] = &segment(FRAME as u16 - 14, 0x11);
pub(crate) const SEGMENT_OF_ANOTHER_LENGTH: &[u8] = &segment(FRAME as u16 - 15, 0x10);
pub(crate) const SEGMENT_WITHOUT_DATA: &[u8] = &segment(40, 0x10);

/// Headers of Ethernet, IPv4 and TCP.
const fn segment(length: u16, flags: u8) -> [u8; 54] {
    let mut frame = [0; 54];
    (frame[12], frame[14], frame[23]) = (0x08, 0x45, 6);
    [frame[16], frame[17]] = length.to_be_bytes();
    (frame[46], frame[47]) = (0x50, flags);
    frame
}

/// A list with this information of receive segment coalescing.
pub(crate) unsafe fn indicate_unit(start: &[u8], info: usize) {
    let length = if start == SEGMENT_WITHOUT_DATA { start.len() as u32 } else { FRAME };
    let first = chain(0..1, length);
    // SAFETY: wrong on purpose; the list's memory is longer.
    unsafe {
        MEMORIES.load(Ordering::Relaxed).copy_from(start.as_ptr(), start.len());
        (*first).NetBufferListInfo[TcpRecvSegCoalesceInfo] = core::ptr::without_provenance_mut(info);
        indicate_wrongly(first, 0, RESOURCES);
        (*first).NetBufferListInfo[TcpRecvSegCoalesceInfo] = core::ptr::null_mut();
    }
}

pub(crate) unsafe fn change_frame() {
    let memory = MEMORIES.load(Ordering::Relaxed);
    // SAFETY: wrong on purpose.
    unsafe { while_lent(|_| memory.add(20).write(!byte(0, 20))) };
}

pub(crate) unsafe fn change_list() {
    // SAFETY: wrong on purpose.
    unsafe { while_lent(|list| (*(*list).FirstNetBuffer).DataLength -= 1) };
}

/// MiniportPause does not wait.
pub(crate) unsafe fn forget_lists() {
    // SAFETY: PASSIVE_LEVEL, with the adapter running.
    unsafe { SoftNdkStandInExercise(HOLD_RECEIVES) };
    give(chain(0..1, FRAME), 1, 0);
    Fault::ForgetsReceives.during(CHECK_PAUSE_WITH_RECEIVES);
}
