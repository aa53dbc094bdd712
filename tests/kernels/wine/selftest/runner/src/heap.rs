//! Memory of a process that lies in a heap, or among pages that are not all alike, is shared too. What cannot be is refused.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use windows_sys::Win32::{
    Foundation::HANDLE,
    System::Memory::{
        HeapAlloc, HeapCreate, HeapFree, MEM_COMMIT, MEM_RESERVE, PAGE_NOACCESS, PAGE_READONLY, PAGE_READWRITE,
        VirtualAlloc, VirtualProtect,
    },
};

use crate::{
    device::Device,
    memory::{ERROR_NOACCESS, START, await_counting, file_section, lock, pages, read, unlock, view, write},
};

const PAGE: usize = 4096;

/// Locks `length` bytes at `word`, which must hold `START`, and sees that they are shared.
fn is_shared(device: &Device, word: *mut u64, length: usize) -> Result<(), String> {
    let found = lock(device, word, length, 0)?;
    if found != START {
        return Err(format!("the driver found {found:#x}"));
    }
    await_counting(word, START)?;
    write(word, START * 100);
    await_counting(word, START * 100)?;
    unlock(device, 0)
}

/// A heap, which threads use while it is replaced. Not destroyed: its memory stays with the driver's section.
#[derive(Clone, Copy)]
struct Heap(HANDLE);

// SAFETY: a heap that the system serialises.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    fn allocate(&self, length: usize) -> Result<*mut u8, String> {
        // SAFETY: a heap that is never destroyed.
        let block = unsafe { HeapAlloc(self.0, 0, length) };
        if block.is_null() { Err("HeapAlloc failed".into()) } else { Ok(block.cast()) }
    }

    /// Fills blocks of many sizes, and looks at them again, so that the heap grows and shrinks.
    fn use_until(&self, is_over: &AtomicBool, seed: u8) -> Result<(), String> {
        const BLOCKS: usize = 8;
        let mut round = usize::from(seed);
        while !is_over.load(Ordering::Relaxed) {
            round += 1;
            let lengths = (0..BLOCKS).map(|block| 1 + (round * BLOCKS + block) * 7919 % 40_000);
            let blocks: Vec<_> = lengths
                .map(|length| {
                    let block = self.allocate(length)?;
                    // SAFETY: a new block of that length.
                    unsafe { block.write_bytes(seed, length) };
                    Ok::<_, String>((block, length))
                })
                .collect::<Result<_, _>>()?;
            for (block, length) in blocks {
                // SAFETY: one of the blocks above, which nobody else knows.
                let is_as_left = unsafe { std::slice::from_raw_parts(block, length) }.iter().all(|byte| *byte == seed);
                // SAFETY: as above, freed once.
                unsafe { HeapFree(self.0, 0, block.cast()) };
                if !is_as_left {
                    return Err(format!("a block of {length} bytes has changed"));
                }
            }
        }
        Ok(())
    }
}

/// Heaps of which a part is only reserved, into which threads let them grow meanwhile.
pub(crate) fn heaps(device: &Device) -> Result<(), String> {
    for round in 0..20 {
        // SAFETY: no preconditions.
        let heap = Heap(unsafe { HeapCreate(0, 0, 0) });
        let word = heap.allocate(PAGE)?.cast::<u64>();
        write(word, START);
        let is_over = &AtomicBool::new(false);
        thread::scope(|scope| {
            let users = [1, 2].map(|seed| scope.spawn(move || heap.use_until(is_over, seed)));
            let shared = is_shared(device, word, PAGE).map_err(|error| format!("heap {round}: {error}"));
            is_over.store(true, Ordering::Relaxed);
            for user in users {
                user.join().map_err(|_| "a thread panicked")??;
            }
            shared
        })?;
    }
    Ok(())
}

/// What this program itself allocates.
pub(crate) fn own_heap(device: &Device) -> Result<(), String> {
    let mut words = vec![START; 64];
    is_shared(device, words.as_mut_ptr(), 512)
}

/// Pages that are not all alike keep their content and their protection.
pub(crate) fn protected(device: &Device) -> Result<(), String> {
    let first = pages(3 * PAGE)?;
    let page = |number: usize| first.wrapping_byte_add(number * PAGE);
    let protect = |number: usize, protection| {
        let mut old = 0;
        // SAFETY: a page of this process, which is not accessed other than its protection allows.
        unsafe { VirtualProtect(page(number).cast(), PAGE, protection, &mut old) };
        old
    };
    (0..3).for_each(|number| write(page(number), START + number as u64));
    protect(1, PAGE_READONLY);
    protect(2, PAGE_NOACCESS);
    is_shared(device, first, PAGE)?;
    for number in [1, 2] {
        match lock(device, page(number), PAGE, 0) {
            Err(error) if error.ends_with(ERROR_NOACCESS) => {}
            other => return Err(format!("page {number} was locked for writing: {other:?}")),
        }
    }
    let old = [1, 2].map(|number| protect(number, PAGE_READWRITE));
    let found = [1, 2].map(|number| read(page(number)));
    if old != [PAGE_READONLY, PAGE_NOACCESS] || found != [START + 1, START + 2] {
        return Err(format!("protections {old:x?}, words {found:x?}"));
    }
    Ok(())
}

/// What is only reserved when its neighbours are locked is committed later, as ever, and shared.
pub(crate) fn reserved(device: &Device) -> Result<(), String> {
    const SIZE: usize = 1 << 20;
    // SAFETY: any address will do.
    let base = unsafe { VirtualAlloc(std::ptr::null(), SIZE, MEM_RESERVE, PAGE_READWRITE) };
    for offset in [0, SIZE / 2] {
        let word = base.wrapping_byte_add(offset);
        if lock(device, word.cast(), PAGE, 0).is_ok() {
            return Err("memory that is only reserved was locked".into());
        }
        // SAFETY: a part of what was reserved above.
        if unsafe { VirtualAlloc(word, PAGE, MEM_COMMIT, PAGE_READWRITE) }.is_null() {
            return Err("VirtualAlloc failed".into());
        }
        write(word.cast(), START);
        is_shared(device, word.cast(), PAGE)?;
    }
    Ok(())
}

/// A copy of what cannot be shared would be out of date: it is refused, and the report says so.
pub(crate) fn refused(device: &Device) -> Result<(), String> {
    static mut IN_THE_IMAGE: u64 = START;
    const ERROR_NOT_SUPPORTED: &str = "error 50";
    const PART: u32 = 0x1_0000;
    let mut on_the_stack = START;
    let (path, section) = file_section("softndk-selftest-part")?;
    for (place, word) in [
        ("on a stack", &raw mut on_the_stack),
        ("in an image", &raw mut IN_THE_IMAGE),
        ("in a part of a file", view(section, PART, PAGE)?),
    ] {
        match lock(device, word, 8, 0) {
            Err(error) if error.ends_with(ERROR_NOT_SUPPORTED) => {}
            other => return Err(format!("{place}: {other:?}")),
        }
    }
    std::fs::remove_file(path).map_err(|error| error.to_string())
}
