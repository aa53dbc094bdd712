//! Frames on their way in: a fixed number of NET_BUFFER_LISTs, each with a buffer for the longest datagram.
//!
//! The callback of Winsock Kernel, or the run of a patch cable's other end, copies each datagram into a free list, and queues the list. A deferred
//! call indicates the queued lists to NDIS: not the callback, which may run deep in TCP/IP's stack. Each queued or indicated list counts in
//! `Traffic`, so a pause waits for them. Segments that were joined (`unit`) are indicated as one list, which the others follow back to the free ones.
#![expect(unsafe_code, reason = "lists that NDIS has by pointer, and datagrams of Winsock Kernel")]

use core::{cell::Cell, ptr::null_mut};

use ndk_abi::{
    ndis::{
        NDIS_HANDLE, NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_DEFAULT, NDIS_RECEIVE_FLAGS_DISPATCH_LEVEL,
        NDIS_RECEIVE_FLAGS_RESOURCES, NDIS_SIZEOF_NET_BUFFER_LIST_POOL_PARAMETERS_REVISION_1, NET_BUFFER_LIST,
        NET_BUFFER_LIST_POOL_PARAMETERS, NET_BUFFER_LIST_POOL_PARAMETERS_REVISION_1, NetBufferListFrameType,
    },
    status::STATUS_SUCCESS,
    wdm::MDL,
};
use platform::{OutOfMemory, Slice, SpinLock};
use vxlan::{header::HEADER, vtep::Dropped};
use wdk_sys::ntddk::{IoAllocateMdl, IoFreeMdl, MmBuildMdlForNonPagedPool};
use zerocopy::network_endian::U16 as EtherType;

use super::{counters::Lost, faults::Turn, unit};
use crate::{lists::Chain, ndis, ndis::Handle, platform::Windows};

/// Bytes for the frames that wait for NDIS, or are with NDIS, at a time. A frame that finds no list is dropped, and TCP sends it again, slower: of
/// 256 lists, under Wine, one frame in twelve found none.
const MEMORY: usize = 4 << 20;
const MOST_LISTS: usize = 2048;

/// Lists for datagrams of `length` bytes.
const fn lists(length: usize) -> usize {
    match MEMORY.checked_div(length) {
        Some(lists) if lists < MOST_LISTS => lists,
        _ => MOST_LISTS,
    }
}

/// The tag of the pool of lists.
const TAG: u32 = u32::from_le_bytes(*b"SNdk");

/// A list, its MDL, the memory that the MDL describes, and an MDL for the part of the memory that is a unit's.
pub(super) struct Entry {
    list: *mut NET_BUFFER_LIST,
    pub(super) mdl: *mut MDL,
    pub(super) part: *mut MDL,
    memory: Slice<u8, Windows>,
    /// Of a list in `delayed`: when it is queued.
    due: Cell<u64>,
}

impl Entry {
    /// No list.
    const fn none() -> Self {
        Self { list: null_mut(), mdl: null_mut(), part: null_mut(), memory: Slice::empty(), due: Cell::new(0) }
    }

    fn new(pool: NDIS_HANDLE, length: usize) -> Result<Self, OutOfMemory> {
        let mut entry = Self::none();
        entry.memory = Slice::filled(length, 0)?;
        let memory = entry.memory.as_mut_ptr().cast();
        for mdl in [&mut entry.mdl, &mut entry.part] {
            // SAFETY: non-paged memory that `entry` keeps.
            *mdl = unsafe { IoAllocateMdl(memory, length as u32, 0, 0, null_mut()) }.cast();
            if mdl.is_null() {
                return Err(OutOfMemory);
            }
        }
        // SAFETY: the MDL of non-paged memory, just allocated.
        unsafe { MmBuildMdlForNonPagedPool(entry.mdl.cast()) };
        // SAFETY: a pool whose lists have a NET_BUFFER; the MDL lives as long as the list.
        entry.list = unsafe { ndis::NdisAllocateNetBufferAndNetBufferList(pool, 0, 0, entry.mdl, 0, 0) };
        if entry.list.is_null() { Err(OutOfMemory) } else { Ok(entry) }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.list.is_null() {
            // SAFETY: allocated by `new`, freed once; NDIS has returned the list.
            unsafe { ndis::NdisFreeNetBufferList(self.list) };
        }
        for mdl in [self.mdl, self.part] {
            if !mdl.is_null() {
                // SAFETY: as above.
                unsafe { IoFreeMdl(mdl.cast()) };
            }
        }
    }
}

/// A pool of NDIS.
struct Pool(Handle);

impl Pool {
    fn new(miniport: NDIS_HANDLE) -> Result<Self, OutOfMemory> {
        let parameters = NET_BUFFER_LIST_POOL_PARAMETERS {
            Header: NDIS_OBJECT_HEADER::new(
                NDIS_OBJECT_TYPE_DEFAULT,
                NET_BUFFER_LIST_POOL_PARAMETERS_REVISION_1,
                NDIS_SIZEOF_NET_BUFFER_LIST_POOL_PARAMETERS_REVISION_1,
            ),
            // NDIS_PROTOCOL_ID_DEFAULT.
            ProtocolId: 0,
            fAllocateNetBuffer: 1,
            ContextSize: 0,
            PoolTag: TAG,
            DataSize: 0,
        };
        // SAFETY: the adapter's handle, and parameters that outlive the call.
        let pool = unsafe { ndis::NdisAllocateNetBufferListPool(miniport, &raw const parameters) };
        if pool.is_null() { Err(OutOfMemory) } else { Ok(Self(Handle(pool))) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: made by `new`, deleted once, after its lists.
        unsafe { ndis::NdisFreeNetBufferListPool(self.0.0) };
    }
}

/// A free list that was taken for a datagram.
pub(super) struct Taken(*mut NET_BUFFER_LIST);

// SAFETY: the owner of the list owns its memory.
unsafe impl Send for Taken {}

/// Lists for the next indication.
struct Queued {
    lists: Chain,
    /// A list that a fault rule has wait for the next one.
    held: Option<Taken>,
    /// Lists that a fault rule delays.
    delayed: Chain,
}

impl Queued {
    /// Queues a list, and behind it the one that waits for it; or has it wait itself.
    fn queue(&mut self, taken: Taken, turn: Turn) {
        match turn {
            Turn::BehindNext if self.held.is_none() => self.held = Some(taken),
            Turn::At(due) => {
                // SAFETY: a list of this module's, which is owned.
                unsafe { entry(taken.0) }.due.set(due);
                // SAFETY: a single list, which is owned.
                self.delayed.append(unsafe { Chain::of(taken.0) });
            }
            Turn::Now | Turn::BehindNext => {
                self.push(taken);
                self.release();
            }
        }
    }

    fn push(&mut self, taken: Taken) {
        // SAFETY: a single list, which is owned.
        self.lists.append(unsafe { Chain::of(taken.0) });
    }

    /// Queues the list that waits for the next one.
    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            self.push(held);
        }
    }
}

/// The lists.
pub(super) struct Receive {
    miniport: Handle,
    free: SpinLock<Chain, Windows>,
    queued: SpinLock<Queued, Windows>,
    /// Bytes of the longest datagram.
    length: usize,
    /// Dropped before the pool.
    entries: Slice<Entry, Windows>,
    _pool: Pool,
}

// SAFETY: only the owner of a list uses its entry's pointers; the entries are dropped when all lists are back.
unsafe impl Send for Receive {}
// SAFETY: as for Send.
unsafe impl Sync for Receive {}

impl Receive {
    /// Lists for datagrams of `length` bytes at most.
    pub(super) fn new(miniport: NDIS_HANDLE, length: usize) -> Result<Self, OutOfMemory> {
        let pool = Pool::new(miniport)?;
        let mut failed = None;
        let entries = Slice::from_fn(lists(length), |_| match failed {
            Some(_) => Entry::none(),
            None => Entry::new(pool.0.0, length).unwrap_or_else(|error| {
                failed = Some(error);
                Entry::none()
            }),
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let mut free = Chain::empty();
        for entry in entries.iter() {
            // SAFETY: a list of its own; the entries do not move any more.
            unsafe { (*entry.list).MiniportReserved = [(&raw const *entry).cast_mut().cast(), null_mut()] };
            // SAFETY: a list of its own, which no chain has yet.
            free.append(unsafe { Chain::of(entry.list) });
        }
        let queued = Queued { lists: Chain::empty(), held: None, delayed: Chain::empty() };
        let (free, queued) = (SpinLock::<_, Windows>::new(free), SpinLock::<_, Windows>::new(queued));
        Ok(Self { miniport: Handle(miniport), free, queued, length, entries, _pool: pool })
    }

    /// The adapter's handle.
    pub(super) fn miniport(&self) -> NDIS_HANDLE {
        self.miniport.0
    }

    /// Takes a free list. `None`: all are with NDIS, or on their way.
    pub(super) fn take(&self) -> Option<Taken> {
        self.free.lock().pop().map(Taken)
    }

    /// Has `read` copy a datagram of `length` bytes into the list, unless it is longer than the longest. `read` returns false if the datagram's
    /// memory cannot be mapped.
    pub(super) fn fill<'a>(
        &self,
        taken: &'a mut Taken,
        length: usize,
        read: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<&'a mut [u8], Lost> {
        if length > self.length {
            return Err(Lost::Invalid(Dropped::Long));
        }
        // SAFETY: a list of this module's, with one NET_BUFFER.
        let frame = unsafe { (*taken.0).FirstNetBuffer };
        // SAFETY: as above, with one MDL.
        let mdl = unsafe { (*frame).MdlChain };
        // A driver above may have put another MDL in front, against the rules of NDIS.
        // SAFETY: as above.
        if unsafe { (*mdl).ByteCount } as usize != self.length {
            return Err(Lost::NotMapped);
        }
        // SAFETY: as above; the memory is non-paged, so the MDL has its address.
        let memory = unsafe { (*mdl).MappedSystemVa }.cast::<u8>();
        // SAFETY: `length` bytes of the list's memory, which the caller owns with the list.
        let room = unsafe { core::slice::from_raw_parts_mut(memory, length) };
        if read(room) { Ok(room) } else { Err(Lost::NotMapped) }
    }

    /// Copies a datagram into a free list, if there is one.
    pub(super) fn copy(&self, datagram: &[u8]) -> Option<Taken> {
        let mut taken = self.take()?;
        let copy = |room: &mut [u8]| {
            room.copy_from_slice(datagram);
            true
        };
        if self.fill(&mut taken, datagram.len(), copy).is_ok() {
            return Some(taken);
        }
        self.give_back(taken);
        None
    }

    /// Queues a list for an indication: the frame is what follows the header of its datagram, of `length` bytes and this EtherType; at its
    /// turn, or by [`Self::release`].
    pub(super) fn queue(&self, taken: Taken, length: usize, ether_type: EtherType, turn: Turn) {
        let list = taken.0;
        // SAFETY: a list of this module's, which the caller owns.
        let frame = unsafe { (*list).FirstNetBuffer };
        // A protocol may have moved the frame's start.
        // SAFETY: the list's one NET_BUFFER.
        let mdl = unsafe { (*frame).MdlChain };
        // SAFETY: as above.
        unsafe { (*frame).CurrentMdl = mdl };
        // SAFETY: as above.
        unsafe { (*frame).CurrentMdlOffset = HEADER as u32 };
        // SAFETY: as above.
        unsafe { (*frame).DataOffset = HEADER as u32 };
        // SAFETY: as above.
        unsafe { (*frame).DataLength = length as u32 };
        // What protocols have noted of the list's last frame must not count for this one.
        let mut info = [null_mut(); 26];
        if let Some(frame_type) = info.get_mut(NetBufferListFrameType) {
            *frame_type = core::ptr::without_provenance_mut(usize::from(u16::from_ne_bytes(ether_type.to_bytes())));
        }
        // SAFETY: the list, as above.
        unsafe { (*list).NetBufferListInfo = info };
        // SAFETY: as above.
        unsafe { (*list).NblFlags = 0 };
        // SAFETY: as above.
        unsafe { (*list).SourceHandle = self.miniport.0 };
        // SAFETY: as above.
        unsafe { (*list).Status = STATUS_SUCCESS };
        self.queued.lock().queue(taken, turn);
    }

    /// Queues the lists that wait by a fault rule.
    pub(super) fn release(&self) {
        let mut queued = self.queued.lock();
        queued.release();
        let delayed = core::mem::replace(&mut queued.delayed, Chain::empty());
        queued.lists.append(delayed);
    }

    /// Queues the oldest lists whose delay is over at `now`, at most `most`. Returns when the delay of the next list is over.
    pub(super) fn end_delays(&self, now: u64, most: usize) -> Option<u64> {
        let mut queued = self.queued.lock();
        for nth in 0..=most {
            if queued.delayed.first.is_null() {
                return None;
            }
            // SAFETY: a list of this module's, which is owned.
            let due = unsafe { entry(queued.delayed.first) }.due.get();
            if due > now || nth == most {
                return Some(due);
            }
            if let Some(list) = queued.delayed.pop() {
                queued.queue(Taken(list), Turn::Now);
            }
        }
        None
    }

    /// Gives a list back that is not used.
    pub(super) fn give_back(&self, taken: Taken) {
        // SAFETY: a single list, which the caller owns.
        self.free.lock().append(unsafe { Chain::of(taken.0) });
    }

    /// Takes the oldest queued lists, at most `most`; whether there are more.
    pub(super) fn queued(&self, most: usize) -> (Chain, bool) {
        let mut queued = self.queued.lock();
        let mut chain = Chain::empty();
        while chain.count < most
            && let Some(list) = queued.lists.pop()
        {
            // SAFETY: a single list, which is owned.
            chain.append(unsafe { Chain::of(list) });
        }
        (chain, queued.lists.count > 0)
    }

    /// Makes lists free, and those of the other segments of units; how many.
    pub(super) fn free(&self, mut chain: Chain) -> u32 {
        let mut all = Chain::empty();
        while let Some(list) = chain.pop() {
            // SAFETY: a list of this module's, which is owned.
            let others = unsafe { unit::take_apart(list) };
            // SAFETY: as above; `pop` has unlinked the list.
            all.append(unsafe { Chain::of(list) });
            all.append(others);
        }
        let count = all.count();
        self.free.lock().append(all);
        count
    }

    /// Indicates lists to NDIS, at DISPATCH_LEVEL. Returns them if they are free again already.
    pub(super) fn indicate(&self, chain: Chain) -> Option<Chain> {
        // With few free lists NDIS has to copy what the driver indicates.
        let is_low = self.free.lock().count < self.entries.len() / 8;
        let flags = NDIS_RECEIVE_FLAGS_DISPATCH_LEVEL | if is_low { NDIS_RECEIVE_FLAGS_RESOURCES } else { 0 };
        // SAFETY: the adapter is not halted while its lists count in `Traffic`; the chain is owned, and NDIS's from now on, unless the flags
        // say that NDIS copies.
        unsafe {
            ndis::NdisMIndicateReceiveNetBufferLists(self.miniport.0, chain.first, 0, chain.count(), flags);
        }
        is_low.then_some(chain)
    }
}

/// The entry of a list.
///
/// # Safety
/// A list of this module's, which the caller owns.
pub(super) unsafe fn entry<'a>(list: *mut NET_BUFFER_LIST) -> &'a Entry {
    // SAFETY: by contract.
    let [entry, _] = unsafe { (*list).MiniportReserved };
    // SAFETY: set by `Receive::new`, whose entries live as long as their lists.
    unsafe { &*entry.cast::<Entry>() }
}

impl Entry {
    /// The address of the memory.
    pub(super) fn memory(&self) -> *mut u8 {
        // SAFETY: the MDL of non-paged memory, which has its address.
        unsafe { (*self.mdl).MappedSystemVa }.cast()
    }
}

/// The chain of lists that NDIS returns.
///
/// # Safety
/// NDIS returns `lists`.
pub(super) unsafe fn returned(lists: *mut NET_BUFFER_LIST) -> Chain {
    // SAFETY: lists of this driver's, which owns them again.
    unsafe { Chain::of(lists) }
}
