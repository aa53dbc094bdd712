//! What the miniport receives: lists of a pool of its own, which it indicates and gets back.

pub(crate) mod checks;
pub(crate) mod planted;

use core::{
    ffi::c_void,
    ops::Range,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering},
};

use ndk_abi::{describe::ZeroInit, ndis::*, status::*, wdm::MDL};

use crate::{
    attributes::FRAME,
    checks::{NON_PAGED, TAG, irql, sleep},
    fault::Fault,
    imports::*,
    miniport::adapter_handle,
};

pub(crate) const AT_DISPATCH: u32 = NDIS_RECEIVE_FLAGS_DISPATCH_LEVEL;
pub(crate) const RESOURCES: u32 = NDIS_RECEIVE_FLAGS_RESOURCES;

/// Lists of the pool, and the memory of each.
const LISTS: usize = 8;
const MEMORY: usize = 2048;

static POOL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static MEMORIES: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static MDLS: [AtomicPtr<MDL>; LISTS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; LISTS];
static ALL: [AtomicPtr<NET_BUFFER_LIST>; LISTS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; LISTS];

/// Lists that are to come back.
static OUT: AtomicU32 = AtomicU32::new(0);
/// The thread that is in an indication.
static INDICATES: AtomicUsize = AtomicUsize::new(0);
/// Indications so far.
static INDICATIONS: AtomicUsize = AtomicUsize::new(0);

/// How lists came back: bits.
static SEEN: AtomicU32 = AtomicU32::new(0);
const WITHIN_THE_CALL: u32 = 1;
const FROM_ANOTHER_THREAD: u32 = 2;
const CAME_AT_DISPATCH: u32 = 4;
const CAME_AT_PASSIVE: u32 = 8;
const IN_ANOTHER_ORDER: u32 = 0x10;
const OF_TWO_INDICATIONS: u32 = 0x20;
const IN_A_CHAIN: u32 = 0x40;
/// The flags are not of the level.
const WRONG_FLAGS: u32 = 0x100;
/// A list came back with other contents.
const CHANGED: u32 = 0x200;

pub(crate) fn pool_parameters() -> NET_BUFFER_LIST_POOL_PARAMETERS {
    NET_BUFFER_LIST_POOL_PARAMETERS {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NET_BUFFER_LIST_POOL_PARAMETERS_REVISION_1,
            NDIS_SIZEOF_NET_BUFFER_LIST_POOL_PARAMETERS_REVISION_1,
        ),
        ProtocolId: 0,
        fAllocateNetBuffer: 1,
        ContextSize: 0,
        PoolTag: TAG,
        DataSize: 0,
    }
}

/// Makes a pool and frees it; a status that says whether there was one.
///
/// # Safety
/// The parameters begin with a header.
pub(crate) unsafe fn pool_status(handle: NDIS_HANDLE, parameters: *const NET_BUFFER_LIST_POOL_PARAMETERS) -> i32 {
    // SAFETY: passed on to the caller.
    let pool = unsafe { NdisAllocateNetBufferListPool(handle, parameters) };
    if pool.is_null() {
        return NDIS_STATUS_RESOURCES.0;
    }
    // SAFETY: the new pool.
    unsafe { NdisFreeNetBufferListPool(pool) };
    0
}

/// The lists, in MiniportInitializeEx.
///
/// # Safety
/// At PASSIVE_LEVEL, without lists.
pub(crate) unsafe fn create() -> bool {
    // SAFETY: as documented.
    unsafe {
        let pool = NdisAllocateNetBufferListPool(adapter_handle(), &pool_parameters());
        let memory = ExAllocatePool2(NON_PAGED, LISTS * MEMORY, TAG);
        POOL.store(pool, Ordering::Relaxed);
        MEMORIES.store(memory, Ordering::Relaxed);
        for number in 0..LISTS {
            let mdl = NdisAllocateMdl(adapter_handle(), memory.add(number * MEMORY).cast(), MEMORY as u32);
            let list = NdisAllocateNetBufferAndNetBufferList(pool, 0, 0, mdl, 0, 0);
            if list.is_null() {
                return false;
            }
            MDLS[number].store(mdl, Ordering::Relaxed);
            ALL[number].store(list, Ordering::Relaxed);
            (*list).MiniportReserved[0] = core::ptr::without_provenance_mut(number);
        }
    }
    true
}

/// Frees them, in MiniportHaltEx.
///
/// # Safety
/// They were made, and are all here.
pub(crate) unsafe fn delete() {
    // SAFETY: made by `create`, freed once.
    unsafe {
        for number in 0..LISTS {
            NdisFreeNetBufferList(ALL[number].load(Ordering::Relaxed));
            NdisFreeMdl(MDLS[number].load(Ordering::Relaxed));
        }
        NdisFreeNetBufferListPool(POOL.load(Ordering::Relaxed));
        ExFreePoolWithTag(MEMORIES.load(Ordering::Relaxed), TAG);
    }
}

fn thread() -> usize {
    // SAFETY: no preconditions.
    unsafe { PsGetCurrentThreadId() }.addr()
}

fn list(number: usize) -> *mut NET_BUFFER_LIST {
    ALL[number].load(Ordering::Relaxed)
}

/// The byte of a frame at a place.
fn byte(number: usize, at: usize) -> u8 {
    (number * 31 + at) as u8
}

/// A chain of these lists, with a frame of `length` bytes in each.
fn chain(numbers: Range<usize>, length: u32) -> *mut NET_BUFFER_LIST {
    let indication = INDICATIONS.fetch_add(1, Ordering::Relaxed);
    let mut next = core::ptr::null_mut();
    // SAFETY: lists of this driver, which it has.
    unsafe {
        for number in numbers.rev() {
            let list = list(number);
            let memory = MEMORIES.load(Ordering::Relaxed).add(number * MEMORY);
            for at in 0..length as usize {
                memory.add(at).write(byte(number, at));
            }
            (*list).Next = next;
            (*list).Status = NDIS_STATUS_SUCCESS;
            (*list).SourceHandle = adapter_handle();
            (*list).MiniportReserved[1] = core::ptr::without_provenance_mut(indication);
            (*(*list).FirstNetBuffer).DataLength = length;
            (*(*list).FirstNetBuffer).CurrentMdlOffset = 0;
            next = list;
        }
    }
    next
}

/// Whether the frame of a list is as `chain` made it.
unsafe fn is_whole(list: *const NET_BUFFER_LIST) -> bool {
    // SAFETY: passed on to the caller.
    unsafe {
        let number = (*list).MiniportReserved[0].addr();
        let memory = MEMORIES.load(Ordering::Relaxed).add(number * MEMORY);
        let length = (*(*list).FirstNetBuffer).DataLength as usize;
        (0..length).all(|at| memory.add(at).read() == byte(number, at))
    }
}

/// Indicates a chain of this number of lists.
fn give(first: *mut NET_BUFFER_LIST, count: u32, flags: u32) {
    if flags & RESOURCES == 0 {
        OUT.fetch_add(count, Ordering::AcqRel);
    }
    let before = INDICATES.swap(thread(), Ordering::AcqRel);
    // SAFETY: a chain of lists, unless a fault is planted.
    unsafe { NdisMIndicateReceiveNetBufferLists(adapter_handle(), first, 0, count, flags) };
    INDICATES.store(before, Ordering::Release);
}

/// Indicates one list with one frame of `length` bytes, of `source`, as `count` lists. The list is this driver's again when the call returns.
pub(crate) fn indicate(source: NDIS_HANDLE, count: u32, length: u32) {
    let first = chain(0..1, length);
    // SAFETY: a list of this driver, which it has.
    unsafe { (*first).SourceHandle = source };
    give(first, count, RESOURCES);
}

/// Waits until all lists have come back; whether they have.
fn are_back() -> bool {
    for _ in 0..5000 {
        if OUT.load(Ordering::Acquire) == 0 {
            return true;
        }
        sleep(1);
    }
    false
}

/// In MiniportPause: waits for the lists that the protocol has, unless a fault is planted.
pub(crate) fn pause() -> NDIS_STATUS {
    if OUT.load(Ordering::Acquire) > 0 {
        checks::WAITED.store(true, Ordering::Release);
        if Fault::PausesWithLastList.is_planted() {
            return NDIS_STATUS_PENDING;
        }
    }
    if Fault::PausesInIndication.is_planted() {
        return pend(indicate_until_paused);
    }
    if Fault::ReceivesLate.is_planted() || Fault::ReceivesLateAgain.is_planted() {
        return pend(indicate_late);
    }
    if !Fault::ForgetsReceives.is_planted() {
        are_back();
    }
    NDIS_STATUS_SUCCESS
}

/// Leaves the end of a pause to a thread.
fn pend(routine: ThreadRoutine) -> NDIS_STATUS {
    let (mut handle, none) = (0, core::ptr::null_mut());
    // SAFETY: as documented.
    unsafe {
        PsCreateSystemThread(&mut handle, 0x1F_FFFF, none, 0, none, routine, none);
        ZwClose(handle);
    }
    NDIS_STATUS_PENDING
}

/// Indicates lists one by one until one comes back within its indication, in which the pause ends.
unsafe extern "system" fn indicate_until_paused(_context: *mut c_void) {
    sleep(20);
    for _ in 0..8 {
        if !Fault::PausesInIndication.is_planted() {
            break;
        }
        give(chain(0..1, FRAME), 1, 0);
        are_back();
    }
}

/// Indicates once, or until NDIS has seen that it is more than once; then the pause ends.
unsafe extern "system" fn indicate_late(_context: *mut c_void) {
    sleep(20);
    // SAFETY: no preconditions.
    let violations = || unsafe { SoftNdkStandInViolationCount() };
    let before = violations();
    for _ in 0..5000 {
        indicate(adapter_handle(), 1, FRAME);
        if Fault::ReceivesLate.is_planted() || violations() > before {
            break;
        }
        sleep(1);
    }
    // SAFETY: the adapter is pausing and waits for this.
    unsafe { NdisMPauseComplete(adapter_handle()) };
}

/// ndis/nc-ndis-miniport_return_net_buffer_lists.
pub(crate) unsafe extern "system" fn returned(_context: NDIS_HANDLE, lists: *mut NET_BUFFER_LIST, flags: u32) {
    let is_within = INDICATES.load(Ordering::Acquire) == thread();
    let is_at_dispatch = irql() == 2;
    let mut seen = if is_within { WITHIN_THE_CALL } else { FROM_ANOTHER_THREAD };
    seen |= if is_at_dispatch { CAME_AT_DISPATCH } else { CAME_AT_PASSIVE };
    if flags != u32::from(is_at_dispatch) {
        seen |= WRONG_FLAGS;
    }
    let (mut list, mut count) = (lists, 0);
    // SAFETY: NDIS returns a chain of lists of this driver.
    unsafe {
        while let Some(this) = list.as_ref() {
            count += 1;
            if !is_whole(this) {
                seen |= CHANGED;
            }
            if let Some(next) = this.Next.as_ref() {
                seen |= IN_A_CHAIN;
                let of = |list: &NET_BUFFER_LIST| list.MiniportReserved.map(|field| field.addr());
                let ([number, indication], [next_number, next_indication]) = (of(this), of(next));
                if indication != next_indication {
                    seen |= OF_TWO_INDICATIONS;
                } else if number > next_number {
                    seen |= IN_ANOTHER_ORDER;
                }
            }
            list = this.Next;
        }
    }
    SEEN.fetch_or(seen, Ordering::AcqRel);
    if is_within && Fault::PausesInIndication.is_planted_once() {
        // SAFETY: the adapter is pausing and waits for this.
        unsafe { NdisMPauseComplete(adapter_handle()) };
    }
    if OUT.fetch_sub(count, Ordering::AcqRel) == count && Fault::PausesWithLastList.is_planted_once() {
        // SAFETY: as above.
        unsafe { NdisMPauseComplete(adapter_handle()) };
    }
}
