//! Memory: numbered, zeroed, fenced, poisoned when freed, and kept for a while to see whether it is written once more.
#![expect(unsafe_code, reason = "an allocator")]

use std::{
    alloc::Layout,
    collections::{BTreeMap, VecDeque},
    panic::Location,
    ptr::NonNull,
    slice,
    sync::Mutex,
};

use crate::{
    irql,
    ledger::{self, Allocation, Purpose},
    lock_table, network, order, processors, timers,
    violation::{Breach, Place},
    waiters,
};

/// What freed memory is filled with.
const POISON: u8 = 0xdf;
/// What the bytes behind an allocation are filled with.
const FENCE: u8 = 0xfe;
/// Bytes behind an allocation.
const FENCE_SIZE: usize = 32;
/// Bytes of freed memory that are kept.
const KEPT: usize = 16 << 20;

static POOL: Mutex<Pool> =
    Mutex::new(Pool { session: 0, last: 0, live: BTreeMap::new(), freed: VecDeque::new(), freed_bytes: 0 });

struct Pool {
    /// The number of the current session. What a failed one left behind is not the next one's leak.
    session: u64,
    /// The number of the last allocation.
    last: u64,
    live: BTreeMap<usize, Block>,
    freed: VecDeque<Block>,
    freed_bytes: usize,
}

struct Block {
    memory: NonNull<u8>,
    session: u64,
    /// `layout` is the one asked for.
    allocation: Allocation,
}

// SAFETY: a block owns its memory; only this module, with POOL locked, uses it through the block.
unsafe impl Send for Block {}

impl Block {
    fn fenced(layout: Layout) -> Option<Layout> {
        Layout::from_size_align(layout.size().checked_add(FENCE_SIZE)?, layout.align()).ok()
    }

    /// The fence of a live block.
    fn fence(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is longer than the layout asked for, by FENCE_SIZE.
        let fence = unsafe { self.memory.add(self.allocation.layout.size()) };
        // SAFETY: FENCE_SIZE initialised bytes, that belong to nobody else.
        unsafe { slice::from_raw_parts_mut(fence.as_ptr(), FENCE_SIZE) }
    }

    /// The bytes of a freed block.
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: all bytes were initialised when allocated; the block was given back, so nobody else uses them.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.allocation.layout.size()) }
    }

    /// Looks at a freed block for the last time.
    fn release(mut self) {
        if self.bytes().iter().any(|byte| *byte != POISON) {
            ledger::breach(Breach::UseAfterFree(self.allocation.number));
        }
        if let Some(layout) = Self::fenced(self.allocation.layout) {
            // SAFETY: allocated with this layout, and not used again.
            unsafe { std::alloc::dealloc(self.memory.as_ptr(), layout) };
        }
    }
}

/// Zeroed memory, or `None` if there is none. The caller's place goes to the ledger.
///
/// # Panics
/// Without a session: the memory could be nobody's leak.
#[track_caller]
pub(crate) fn allocate(layout: Layout, purpose: Purpose) -> Option<NonNull<u8>> {
    let fenced = Block::fenced(layout)?;
    // SAFETY: the size is not 0, because of the fence.
    let memory = unsafe { std::alloc::alloc_zeroed(fenced) };
    let memory = NonNull::new(memory)?;
    let backtrace = ledger::backtrace();
    let place = Location::caller();
    let mut pool = lock_table(&POOL);
    assert!(ledger::in_session(), "allocation outside of a session: call simkernel::boot() first");
    pool.last += 1;
    let allocation = Allocation { number: pool.last, layout, purpose, place, backtrace };
    let mut block = Block { memory, session: pool.session, allocation };
    block.fence().fill(FENCE);
    pool.live.insert(memory.addr().get(), block);
    Some(memory)
}

/// Frees what `allocate` gave, or notes what is wrong with it.
pub(crate) fn free(memory: NonNull<u8>, layout: Layout) {
    let address = memory.addr().get();
    let range = address..address.saturating_add(layout.size());
    if let Some(dpc) = processors::unqueue_in(&range) {
        ledger::breach(Breach::FreedQueuedDpc(dpc));
    }
    if let Some(timer) = timers::unset_in(&range) {
        ledger::breach(Breach::FreedSetTimer(timer));
    }
    network::freed(&range).into_iter().for_each(ledger::breach);
    if let Some(object) = waiters::waited_for_in(&range) {
        ledger::breach(Breach::FreedWhileWaiting(object));
    }
    if let Some(lock) = irql::held_in(&range) {
        ledger::breach(Breach::FreedHeldLock(lock));
    }
    order::forget(&range);
    let mut pool = lock_table(&POOL);
    let Some(mut block) = pool.live.remove(&address) else {
        let twice = pool.freed.iter().any(|block| block.memory == memory);
        ledger::breach(if twice { Breach::DoubleFree(address) } else { Breach::UnknownFree(address) });
        return;
    };
    if block.allocation.layout != layout {
        ledger::breach(Breach::WrongLayout { allocated: block.allocation.layout, freed: layout });
    }
    if block.fence().iter().any(|byte| *byte != FENCE) {
        ledger::breach(Breach::Overrun(block.allocation.number));
    }
    block.bytes().fill(POISON);
    pool.freed_bytes += block.allocation.layout.size();
    pool.freed.push_back(block);
    while pool.freed_bytes > KEPT
        && let Some(oldest) = pool.freed.pop_front()
    {
        pool.freed_bytes -= oldest.allocation.layout.size();
        oldest.release();
    }
}

/// Where in the live allocations an address is.
pub(crate) fn place(address: usize) -> Option<Place> {
    let pool = lock_table(&POOL);
    let (start, block) = pool.live.range(..=address).next_back()?;
    let offset = address - start;
    (offset < block.allocation.layout.size()).then_some(Place { allocation: block.allocation.number, offset })
}

/// Looks through all freed memory, and gives it back.
pub(crate) fn release_freed() {
    let mut pool = lock_table(&POOL);
    pool.freed_bytes = 0;
    pool.freed.drain(..).for_each(Block::release);
}

/// A new session begins.
pub(crate) fn reset() {
    let mut pool = lock_table(&POOL);
    pool.session += 1;
    pool.last = 0;
}

/// The number of allocations made in this session, and those that live.
pub(crate) fn list() -> (u64, Vec<Allocation>) {
    let pool = lock_table(&POOL);
    let live = pool.live.values().filter(|block| block.session == pool.session);
    let mut live: Vec<_> = live.map(|block| block.allocation.clone()).collect();
    live.sort_by_key(|allocation| allocation.number);
    (pool.last, live)
}
