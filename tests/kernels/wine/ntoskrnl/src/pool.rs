//! Pool with accounting per tag, guard bytes and poison, so that leaks, wrong tags, double frees and overruns show.

use std::{
    alloc::{Layout, alloc, alloc_zeroed, dealloc},
    collections::BTreeMap,
    path::Path,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    dpc,
    irql::{self, APC_LEVEL, DISPATCH_LEVEL},
    mdl,
    report::{lock, violation},
    timer,
};

const PAGE_SIZE: usize = 0x1000;
const GUARD: [u8; 16] = [0xFD; 16];
/// Content of memory that was not asked to be zeroed, and of freed memory.
const UNINITIALIZED: u8 = 0xCD;
const FREED: u8 = 0xDD;
/// While there is this file when a driver is loaded, what is freed keeps its content and is not used again: a driver that is not ours may
/// look at it once more, which on Windows goes well until the memory has another user.
const KEEP_FREED: &str = r"C:\softndk\keep-freed.txt";

/// `POOL_FLAGS` of `ExAllocatePool2` (wdm.h).
mod flag {
    pub(super) const UNINITIALIZED: u64 = 0x2;
    pub(super) const CACHE_ALIGNED: u64 = 0x8;
    pub(super) const NON_PAGED: u64 = 0x40;
    pub(super) const NON_PAGED_EXECUTE: u64 = 0x80;
    pub(super) const PAGED: u64 = 0x100;
    pub(super) const KINDS: u64 = NON_PAGED | NON_PAGED_EXECUTE | PAGED;
    /// With USE_QUOTA 1, SESSION 4 and RAISE_ON_FAILURE 0x20; unknown bits below 2^32 make the call fail.
    pub(super) const REQUIRED_KNOWN: u64 = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | KINDS;
}

struct Block {
    size: usize,
    tag: u32,
    paged: bool,
    /// What was allocated, and how far into it the block starts.
    layout: Layout,
    offset: usize,
}

static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());
static MADE: AtomicU64 = AtomicU64::new(0);

/// Pool in use.
pub(crate) struct Usage {
    pub(crate) bytes: usize,
    pub(crate) allocations: usize,
    /// Allocations so far, those that were freed too.
    pub(crate) made: u64,
    /// Per tag: its four characters, bytes, allocations.
    pub(crate) tags: Vec<(String, usize, usize)>,
}

fn tag_name(tag: u32) -> String {
    tag.to_le_bytes().iter().map(|b| if b.is_ascii_graphic() { char::from(*b) } else { '.' }).collect()
}

pub(crate) fn usage() -> Usage {
    let blocks = lock(&BLOCKS);
    let mut tags = BTreeMap::<u32, (usize, usize)>::new();
    for block in blocks.values() {
        let entry = tags.entry(block.tag).or_default();
        entry.0 += block.size;
        entry.1 += 1;
    }
    Usage {
        bytes: blocks.values().map(|b| b.size).sum(),
        made: MADE.load(Ordering::Relaxed),
        allocations: blocks.len(),
        tags: tags.into_iter().map(|(tag, (bytes, count))| (tag_name(tag), bytes, count)).collect(),
    }
}

/// Whether `address` lies in a live block of paged pool.
pub(crate) fn is_paged(address: usize) -> bool {
    let blocks = lock(&BLOCKS);
    blocks.range(..=address).next_back().is_some_and(|(start, block)| block.paged && address - start < block.size)
}

/// Where a block of `size` bytes goes: at PAGE_SIZE and above page aligned, below it aligned to 16 bytes (or a cache line) and
/// not across a page boundary (wdm/nf-wdm-exallocatepool2, remarks). Smaller blocks are never aligned better than promised, so
/// that code which relies on more fails here too.
fn place(size: usize, cache_aligned: bool) -> Option<(Layout, usize)> {
    let (offset, align) = if size >= PAGE_SIZE {
        (0, PAGE_SIZE)
    } else {
        let offset = if cache_aligned { 64 } else { 16 };
        (offset, (offset + size).next_power_of_two().min(PAGE_SIZE))
    };
    let total = offset.checked_add(size)?.checked_add(GUARD.len())?;
    Some((Layout::from_size_align(total, align).ok()?, offset))
}

fn allocate(size: usize, tag: u32, paged: bool, zero: bool, cache_aligned: bool) -> *mut u8 {
    if paged {
        irql::at_most(APC_LEVEL, "paged pool allocation");
    } else {
        irql::at_most(DISPATCH_LEVEL, "pool allocation");
    }
    let Some((layout, offset)) = place(size.max(1), cache_aligned) else { return std::ptr::null_mut() };
    // SAFETY: the size is never zero: it includes the guard.
    let start = unsafe { if zero { alloc_zeroed(layout) } else { alloc(layout) } };
    if start.is_null() {
        return start;
    }
    let block = start.wrapping_add(offset);
    if !zero {
        // SAFETY: `size` bytes from `block` on lie in the new allocation.
        unsafe { block.write_bytes(UNINITIALIZED, size) };
    }
    // SAFETY: the guard's bytes follow the block in the new allocation.
    unsafe { block.add(size).cast::<[u8; 16]>().write_unaligned(GUARD) };
    lock(&BLOCKS).insert(block as usize, Block { size, tag, paged, layout, offset });
    MADE.fetch_add(1, Ordering::Relaxed);
    block
}

fn free(block: *mut u8, tag: u32) {
    irql::at_most(DISPATCH_LEVEL, "ExFreePoolWithTag");
    let Some(found) = lock(&BLOCKS).remove(&(block as usize)) else {
        if mdl::free_descriptor(block as usize) {
            return;
        }
        violation(&format!("free of {block:p}, which is not pool in use (double free?), tag {}", tag_name(tag)));
        return;
    };
    if found.paged {
        irql::at_most(APC_LEVEL, "free of paged pool");
    }
    if tag != 0 && tag != found.tag {
        violation(&format!("pool allocated with tag {} freed with tag {}", tag_name(found.tag), tag_name(tag)));
    }
    dpc::check_freed(block as usize, found.size);
    timer::check_freed(block as usize, found.size);
    // SAFETY: the guard follows the block, which was live until now.
    if unsafe { block.add(found.size).cast::<[u8; 16]>().read_unaligned() } != GUARD {
        violation(&format!(
            "write beyond the end of a pool block of {} bytes, tag {}",
            found.size,
            tag_name(found.tag)
        ));
    }
    static KEEPS_FREED: OnceLock<bool> = OnceLock::new();
    if *KEEPS_FREED.get_or_init(|| Path::new(KEEP_FREED).exists()) {
        return;
    }
    // SAFETY: the block was live until now and no one else may use it any more.
    unsafe { block.write_bytes(FREED, found.size) };
    // SAFETY: this is what `allocate` got for this layout.
    unsafe { dealloc(block.sub(found.offset), found.layout) };
}

/// wdm/nf-wdm-exallocatepool2: at most DISPATCH_LEVEL, for paged pool APC_LEVEL. NULL for tag 0, for unknown required flags and
/// unless exactly one pool is named; zeroed unless POOL_FLAG_UNINITIALIZED.
#[unsafe(no_mangle)]
extern "system" fn ExAllocatePool2(flags: u64, size: usize, tag: u32) -> *mut u8 {
    let known = flags & u64::from(u32::MAX) & !flag::REQUIRED_KNOWN == 0;
    if tag == 0 || !known || (flags & flag::KINDS).count_ones() != 1 || size == 0 {
        return std::ptr::null_mut();
    }
    let zero = flags & flag::UNINITIALIZED == 0;
    allocate(size, tag, flags & flag::PAGED != 0, zero, flags & flag::CACHE_ALIGNED != 0)
}

/// wdm/nf-wdm-exallocatepool3: as `ExAllocatePool2`; priority and node parameters have no meaning here.
#[unsafe(no_mangle)]
extern "system" fn ExAllocatePool3(flags: u64, size: usize, tag: u32, _parameters: *const u8, _count: u32) -> *mut u8 {
    ExAllocatePool2(flags, size, tag)
}

/// wdm/nf-wdm-exallocatepoolwithtag: at most DISPATCH_LEVEL, for paged pool APC_LEVEL; not zeroed. Bit 0 of `POOL_TYPE` says
/// paged, bit 2 cache aligned.
#[unsafe(no_mangle)]
extern "system" fn ExAllocatePoolWithTag(pool: i32, size: usize, tag: u32) -> *mut u8 {
    allocate(size, tag, pool & 1 != 0, false, pool & 4 != 0)
}

/// wdm/nf-wdm-exallocatepool: as `ExAllocatePoolWithTag` with the tag "None".
#[unsafe(no_mangle)]
extern "system" fn ExAllocatePool(pool: i32, size: usize) -> *mut u8 {
    ExAllocatePoolWithTag(pool, size, u32::from_le_bytes(*b"None"))
}

/// wdm/nf-wdm-exallocatepoolwithtagpriority: as `ExAllocatePoolWithTag`.
#[unsafe(no_mangle)]
extern "system" fn ExAllocatePoolWithTagPriority(pool: i32, size: usize, tag: u32, _priority: i32) -> *mut u8 {
    ExAllocatePoolWithTag(pool, size, tag)
}

/// wdm/nf-wdm-exfreepoolwithtag: at most DISPATCH_LEVEL, for paged pool APC_LEVEL. Tag 0 fits any block.
#[unsafe(no_mangle)]
extern "system" fn ExFreePoolWithTag(block: *mut u8, tag: u32) {
    free(block, tag);
}

/// wdm/nf-wdm-exfreepool: as `ExFreePoolWithTag` with tag 0.
#[unsafe(no_mangle)]
extern "system" fn ExFreePool(block: *mut u8) {
    free(block, 0);
}

/// ntddk/nf-ntddk-exfreepool2: as `ExFreePoolWithTag`.
#[unsafe(no_mangle)]
extern "system" fn ExFreePool2(block: *mut u8, tag: u32, _parameters: *const u8, _count: u32) {
    free(block, tag);
}
