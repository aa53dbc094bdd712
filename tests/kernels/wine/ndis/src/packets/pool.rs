//! Pools of NET_BUFFER_LISTs. A list is the miniport's, but from its indication until it is returned.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::c_void,
    sync::Mutex,
};

use kernel::{DISPATCH_LEVEL, violation};
use ndk_abi::{describe::ZeroInit, ndis::*, status::*, wdm::MDL};

use super::batch::{Buffer, IoAllocateMdl, IoFreeMdl, List, MmBuildMdlForNonPagedPool, pieces};
use crate::{adapter, check_header, driver, lock};

const POOL: &str = "NET_BUFFER_LIST pool";
const LIST: &str = "NET_BUFFER_LIST";

struct Pool {
    /// Its lists come with a NET_BUFFER.
    with_buffer: bool,
    lists: usize,
}

/// A list that is not freed.
struct Allocated {
    pool: usize,
    buffer: *mut Buffer,
    /// The protocol has it.
    is_lent: bool,
}

// SAFETY: an address of memory that this module frees, once.
unsafe impl Send for Allocated {}

struct State {
    /// By handle: a number that was no other pool's before.
    pools: BTreeMap<usize, Pool>,
    made: usize,
    /// By address.
    lists: BTreeMap<usize, Allocated>,
    /// Lists that were freed, the latest last: their memory is kept for a while, so that no new list has the address.
    freed: VecDeque<(usize, Allocated)>,
}

/// How many freed lists keep their memory.
const KEPT: usize = 1024;
/// What a freed list is filled with.
const FREED: u8 = 0xDD;

static STATE: Mutex<State> =
    Mutex::new(State { pools: BTreeMap::new(), made: 0, lists: BTreeMap::new(), freed: VecDeque::new() });

impl State {
    /// Err: why the miniport does not have this list.
    fn check_of_miniport(&self, list: usize) -> Result<(), &'static str> {
        match self.lists.get(&list) {
            Some(allocated) if allocated.is_lent => Err("a list that the protocol has"),
            Some(_) => Ok(()),
            None if self.freed.iter().any(|(freed, _)| *freed == list) => Err("a list that was freed"),
            None => Err("a list of no pool"),
        }
    }
}

/// Gives a list to the protocol. Err: why that cannot be.
pub(super) fn lend(list: usize) -> Result<(), &'static str> {
    let mut state = lock(&STATE);
    state.check_of_miniport(list)?;
    if let Some(allocated) = state.lists.get_mut(&list) {
        allocated.is_lent = true;
    }
    Ok(())
}

/// Gives it back to the miniport.
pub(super) fn give_back(list: usize) {
    if let Some(allocated) = lock(&STATE).lists.get_mut(&list) {
        allocated.is_lent = false;
    }
}

/// ndis/nf-ndis-ndisallocatenetbufferlistpool: at most DISPATCH_LEVEL; the handle is the driver's or an adapter's.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisAllocateNetBufferListPool(
    handle: NDIS_HANDLE,
    parameters: *const NET_BUFFER_LIST_POOL_PARAMETERS,
) -> NDIS_HANDLE {
    const WHAT: &str = "NET_BUFFER_LIST_POOL_PARAMETERS";
    kernel::at_most(DISPATCH_LEVEL, "NdisAllocateNetBufferListPool");
    if driver::from_handle(handle).is_none() && adapter::from_handle(handle, "NdisAllocateNetBufferListPool").is_none()
    {
        return std::ptr::null_mut();
    }
    let sizes = [NDIS_SIZEOF_NET_BUFFER_LIST_POOL_PARAMETERS_REVISION_1];
    // SAFETY: the caller gives parameters.
    if unsafe { check_header(parameters.cast(), WHAT, NDIS_OBJECT_TYPE_DEFAULT, &sizes) }.is_err() {
        return std::ptr::null_mut();
    }
    // SAFETY: the size has been checked.
    let parameters = unsafe { &*parameters };
    // NDIS_PROTOCOL_ID_DEFAULT is what a miniport gives.
    if parameters.ProtocolId != 0 {
        violation(&format!("{WHAT}: the protocol {:#x} of a miniport", parameters.ProtocolId));
    }
    if parameters.PoolTag == 0 {
        violation(&format!("{WHAT}: no tag"));
    }
    if parameters.ContextSize != 0 || parameters.DataSize != 0 {
        violation(&format!("stand-in: {WHAT}: lists with a context or data of their own"));
        return std::ptr::null_mut();
    }
    let mut state = lock(&STATE);
    state.made += 1;
    let number = state.made << 4;
    state.pools.insert(number, Pool { with_buffer: parameters.fAllocateNetBuffer != 0, lists: 0 });
    drop(state);
    kernel::object(POOL, 1);
    std::ptr::without_provenance_mut(number)
}

/// ndis/nf-ndis-ndisfreenetbufferlistpool: at most DISPATCH_LEVEL; all lists have been freed.
#[unsafe(no_mangle)]
extern "system" fn NdisFreeNetBufferListPool(pool: NDIS_HANDLE) {
    kernel::at_most(DISPATCH_LEVEL, "NdisFreeNetBufferListPool");
    let mut state = lock(&STATE);
    let lists = state.pools.get(&pool.addr()).map(|pool| pool.lists);
    if lists == Some(0) {
        state.pools.remove(&pool.addr());
    }
    drop(state);
    match lists {
        None => violation("NdisFreeNetBufferListPool: no such pool, or it was freed"),
        Some(0) => kernel::object(POOL, -1),
        Some(lists) => violation(&format!("NdisFreeNetBufferListPool: {lists} lists of the pool are not freed")),
    }
}

/// ndis/nf-ndis-ndisallocatenetbufferandnetbufferlist: at most DISPATCH_LEVEL; a list of one NET_BUFFER for memory that the caller has
/// described.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisAllocateNetBufferAndNetBufferList(
    pool: NDIS_HANDLE,
    context_size: u16,
    context_backfill: u16,
    chain: *mut MDL,
    offset: u32,
    length: usize,
) -> *mut NET_BUFFER_LIST {
    const NAME: &str = "NdisAllocateNetBufferAndNetBufferList";
    kernel::at_most(DISPATCH_LEVEL, "NdisAllocateNetBufferAndNetBufferList");
    let with_buffer = lock(&STATE).pools.get(&pool.addr()).map(|pool| pool.with_buffer);
    match with_buffer {
        None => violation(&format!("{NAME}: no such pool, or it was freed")),
        Some(false) => violation(&format!("{NAME}: the pool was made without fAllocateNetBuffer")),
        Some(true) if context_size != 0 || context_backfill != 0 => {
            violation(&format!("stand-in: {NAME}: a list with a context"));
        }
        Some(true) => return allocate(pool, chain, offset, length),
    }
    std::ptr::null_mut()
}

fn allocate(pool: NDIS_HANDLE, chain: *mut MDL, offset: u32, length: usize) -> *mut NET_BUFFER_LIST {
    // SAFETY: the caller gives null or a chain of descriptors.
    let pieces = unsafe { pieces(chain, offset as usize) };
    let described = pieces.iter().map(|(_, _, bytes)| bytes).sum::<usize>();
    if length > described {
        violation(&format!(
            "NdisAllocateNetBufferAndNetBufferList: {length} bytes, of which the MDLs describe {described}"
        ));
        return std::ptr::null_mut();
    }
    let (mdl, within) = pieces.first().map_or((chain, offset as usize), |(mdl, within, _)| (*mdl, *within));
    let buffer = Box::into_raw(Box::new(Buffer {
        head: NET_BUFFER {
            CurrentMdl: mdl,
            CurrentMdlOffset: within as u32,
            DataLength: length as u32,
            MdlChain: chain,
            DataOffset: offset,
            ..NET_BUFFER::ZERO
        },
        rest: [0; _],
    }));
    let list = Box::into_raw(Box::new(List {
        // A status that says whether the miniport has set another.
        head: NET_BUFFER_LIST {
            FirstNetBuffer: buffer.cast(),
            NdisPoolHandle: pool,
            Status: NDIS_STATUS_PENDING,
            ..NET_BUFFER_LIST::ZERO
        },
        rest: [0; _],
    }));
    let mut state = lock(&STATE);
    if let Some(pool) = state.pools.get_mut(&pool.addr()) {
        pool.lists += 1;
    }
    state.lists.insert(list as usize, Allocated { pool: pool.addr(), buffer, is_lent: false });
    drop(state);
    kernel::object(LIST, 1);
    list.cast()
}

/// ndis/nf-ndis-ndisfreenetbufferlist: at most DISPATCH_LEVEL; frees the NET_BUFFER that was allocated with the list, not what that describes.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisFreeNetBufferList(list: *mut NET_BUFFER_LIST) {
    const NAME: &str = "NdisFreeNetBufferList";
    kernel::at_most(DISPATCH_LEVEL, "NdisFreeNetBufferList");
    let mut state = lock(&STATE);
    if let Err(problem) = state.check_of_miniport(list as usize) {
        drop(state);
        violation(&format!("{NAME}: {problem}"));
        return;
    }
    let Some(allocated) = state.lists.remove(&(list as usize)) else { return };
    if let Some(pool) = state.pools.get_mut(&allocated.pool) {
        pool.lists -= 1;
    }
    // SAFETY: a list that was not freed before.
    let is_whole = unsafe { (*list).FirstNetBuffer } == allocated.buffer.cast();
    // SAFETY: the memory of both, which is the miniport's no more, and which stays allocated for now.
    unsafe {
        list.cast::<List>().cast::<u8>().write_bytes(FREED, size_of::<List>());
        allocated.buffer.cast::<u8>().write_bytes(FREED, size_of::<Buffer>());
    }
    state.freed.push_back((list as usize, allocated));
    if state.freed.len() > KEPT
        && let Some((list, allocated)) = state.freed.pop_front()
    {
        // SAFETY: made by `allocate`, and freed by the miniport long ago; both are plain memory.
        unsafe {
            drop(Box::from_raw(list as *mut List));
            drop(Box::from_raw(allocated.buffer));
        }
    }
    drop(state);
    kernel::object(LIST, -1);
    if !is_whole {
        violation(&format!("{NAME}: another NET_BUFFER than the list was allocated with"));
    }
}

/// ndis/nf-ndis-ndisallocatemdl: at most DISPATCH_LEVEL; for non-paged memory. The handle is the driver's or an adapter's.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisAllocateMdl(handle: NDIS_HANDLE, address: *mut c_void, length: u32) -> *mut MDL {
    kernel::at_most(DISPATCH_LEVEL, "NdisAllocateMdl");
    if driver::from_handle(handle).is_none() && adapter::from_handle(handle, "NdisAllocateMdl").is_none() {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller describes its memory.
    unsafe {
        let mdl = IoAllocateMdl(address, length, 0, 0, std::ptr::null_mut());
        if !mdl.is_null() {
            MmBuildMdlForNonPagedPool(mdl);
        }
        mdl
    }
}

/// ndis/nf-ndis-ndisfreemdl: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisFreeMdl(mdl: *mut MDL) {
    kernel::at_most(DISPATCH_LEVEL, "NdisFreeMdl");
    // SAFETY: the caller gives a descriptor of the function above, once.
    unsafe { IoFreeMdl(mdl) };
}
