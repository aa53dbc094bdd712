//! Memory descriptor lists, in the layout of wdm.h.
#![expect(unsafe_code, reason = "C structures that the driver reads")]

use std::{
    alloc::{self, Layout},
    collections::BTreeMap,
    ptr::NonNull,
    sync::Mutex,
};

use ndk_abi::wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA, MDL_PAGES_LOCKED, MDL_WRITE_OPERATION, PAGE_SIZE};

use crate::{fault, ledger, lock_table, pages::Pages, violation::Breach};

static MDLS: Mutex<BTreeMap<usize, Pinned>> = Mutex::new(BTreeMap::new());

/// The memory that an MDL describes, and that mapping it will give.
struct Pinned(NonNull<u8>);

// SAFETY: only the address is used here.
unsafe impl Send for Pinned {}

/// A chain of live MDLs of locked pages, not mapped yet. Dropping it unlocks and frees them.
#[derive(Debug)]
pub struct Mdl {
    first: NonNull<MDL>,
    links: Vec<Link>,
}

/// One MDL of a chain.
#[derive(Debug)]
struct Link {
    mdl: NonNull<MDL>,
    layout: Layout,
    _pages: Option<Pages>,
}

// SAFETY: the MDL is read and written through its address, by the driver's rules; dropping takes the owner.
unsafe impl Send for Mdl {}
// SAFETY: shared access gives the address only.
unsafe impl Sync for Mdl {}

impl Mdl {
    /// Locks any memory, by its own address.
    ///
    /// # Safety
    /// The `length` bytes at `memory` live as long as the MDL, and may be read and written by the driver.
    ///
    /// # Panics
    /// If `length` is more than an MDL can describe.
    #[must_use]
    pub unsafe fn lock(memory: NonNull<u8>, length: usize) -> Self {
        Self::new(memory, length, memory.addr().get() as u64, None)
    }

    pub(crate) fn new(memory: NonNull<u8>, length: usize, index: u64, pages: Option<Pages>) -> Self {
        let page_offset = memory.addr().get() % PAGE_SIZE;
        assert_eq!(page_offset as u64, index % PAGE_SIZE as u64, "an address and its index differ within a page");
        let Ok(byte_count) = u32::try_from(length) else { panic!("{length} bytes in an MDL") };
        let frames = if length == 0 { 0 } else { (page_offset + length).div_ceil(PAGE_SIZE) };
        let size = size_of::<MDL>() + frames * size_of::<u64>();
        let Ok(layout) = Layout::from_size_align(size, align_of::<MDL>()) else { panic!("{frames} pages in an MDL") };
        // SAFETY: the size is not 0.
        let storage = unsafe { alloc::alloc_zeroed(layout) };
        let Some(mdl) = NonNull::new(storage.cast::<MDL>()) else { alloc::handle_alloc_error(layout) };
        let header = MDL {
            Next: std::ptr::null_mut(),
            // As IoAllocateMdl: long lists are longer than this can say.
            Size: size as u16,
            MdlFlags: MDL_PAGES_LOCKED | MDL_WRITE_OPERATION,
            Process: std::ptr::null_mut(),
            MappedSystemVa: std::ptr::null_mut(),
            StartVa: std::ptr::without_provenance_mut((index - page_offset as u64) as usize),
            ByteCount: byte_count,
            ByteOffset: page_offset as u32,
        };
        // SAFETY: storage for a header, nobody else's.
        unsafe { mdl.write(header) };
        // SAFETY: the frame numbers follow the header, `frames` of them.
        let first = unsafe { mdl.add(1) }.cast::<u64>();
        for frame in 0..frames {
            // SAFETY: one of them.
            let place = unsafe { first.add(frame) };
            // SAFETY: inside the storage and aligned, as the header's size is a multiple of 8.
            unsafe { place.write((memory.addr().get() / PAGE_SIZE + frame) as u64) };
        }
        lock_table(&MDLS).insert(mdl.addr().get(), Pinned(memory));
        Self { first: mdl, links: vec![Link { mdl, layout, _pages: pages }] }
    }

    /// Appends `next` to the end of the chain, which the driver must not have seen yet.
    #[must_use]
    pub fn chain(mut self, next: Self) -> Self {
        if let Some(last) = self.links.last() {
            // SAFETY: the header is live.
            let link = unsafe { &raw mut (*last.mdl.as_ptr()).Next };
            // SAFETY: a field of a live header, that nobody else has yet.
            unsafe { link.write(next.first.as_ptr()) };
        }
        let mut next = next;
        self.links.append(&mut next.links);
        self
    }

    /// The first MDL of the chain, for the driver.
    #[must_use]
    pub fn as_ptr(&self) -> *mut MDL {
        self.first.as_ptr()
    }

    /// The virtual address of the first MDL: an index, not an address to use (`MmGetMdlVirtualAddress`, wdm.h).
    #[must_use]
    pub fn virtual_address(&self) -> u64 {
        // SAFETY: a live header.
        let start = unsafe { (*self.first.as_ptr()).StartVa };
        // SAFETY: as above.
        let offset = unsafe { (*self.first.as_ptr()).ByteOffset };
        start.addr() as u64 + u64::from(offset)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        lock_table(&MDLS).remove(&self.mdl.addr().get());
        // SAFETY: allocated with this layout; unlocking an MDL that the driver still uses is the test's bug.
        unsafe { alloc::dealloc(self.mdl.as_ptr().cast(), self.layout) };
    }
}

/// `MmGetSystemAddressForMdlSafe`: the mapping, made now if it was not.
pub(crate) fn map(mdl: NonNull<MDL>) -> Option<NonNull<u8>> {
    let mdls = lock_table(&MDLS);
    let Some(Pinned(memory)) = mdls.get(&mdl.addr().get()) else {
        ledger::breach(Breach::UnknownMdl(mdl.addr().get()));
        return None;
    };
    let header = mdl.as_ptr();
    // SAFETY: live, as it is in the table, which is locked; this field never changes.
    if unsafe { (*header).ByteCount } == 0 {
        ledger::breach(Breach::EmptyMdlMapped(mdl.addr().get()));
        return None;
    }
    // SAFETY: live; changed with the table locked only.
    if unsafe { (*header).MdlFlags } & MDL_MAPPED_TO_SYSTEM_VA == 0 {
        if fault::strikes(fault::Point::Mapping) {
            return None;
        }
        // SAFETY: live; the table is locked.
        unsafe { (*header).MappedSystemVa = memory.as_ptr().cast() };
        // SAFETY: live; the table is locked.
        unsafe { (*header).MdlFlags |= MDL_MAPPED_TO_SYSTEM_VA };
    }
    Some(*memory)
}

/// The number of live MDLs.
pub(crate) fn count() -> usize {
    lock_table(&MDLS).len()
}

/// A new session begins: what a failed one left behind is forgotten.
pub(crate) fn reset() {
    lock_table(&MDLS).clear();
}
