//! MDLs of any memory.
#![expect(unsafe_code, reason = "raw memory")]

use std::ptr::NonNull;

use hosted::{Hosted, Mdl};
use platform::Platform;

/// The parts of a chain: address, virtual address, length.
fn parts(mdl: &Mdl) -> Vec<(usize, usize, usize)> {
    let mut parts = Vec::new();
    let mut next = mdl.as_ptr();
    while !next.is_null() {
        // SAFETY: a chain of live MDLs.
        let part = unsafe { next.read() };
        // SAFETY: the same.
        let address = unsafe { Hosted::mdl_system_address(next.cast()) }.unwrap().addr().get();
        parts.push((address, part.StartVa.addr() + part.ByteOffset as usize, part.ByteCount as usize));
        next = part.Next;
    }
    parts
}

#[test]
fn an_mdl_describes_any_memory() {
    let mut bytes = vec![0_u8; 10_000];
    let first = NonNull::from(&mut bytes[100]);
    let address = first.addr().get();
    for length in [0, 1, 4096, 9900] {
        // SAFETY: that much memory, which outlives the MDL.
        let mdl = unsafe { Mdl::lock(first, length) };
        assert_eq!(parts(&mdl), [(address, address, length)]);
    }
}

#[test]
fn memory_beyond_what_one_mdl_describes_has_a_chain() {
    const MOST: usize = 1 << 31;
    let layout = std::alloc::Layout::from_size_align(2 * MOST + 5000, 4096).unwrap();
    // SAFETY: the size is not 0.
    let memory = NonNull::new(unsafe { std::alloc::alloc(layout) }).expect("address space");
    // SAFETY: inside of it.
    let start = unsafe { memory.add(4000) };
    let address = start.addr().get();
    for length in [MOST - 4000, MOST, 2 * MOST, 2 * MOST + 1000] {
        // SAFETY: inside of it.
        let mdl = unsafe { Mdl::lock(start, length) };
        let mut end = address;
        for (index, (part, virtual_address, count)) in parts(&mdl).into_iter().enumerate() {
            assert_eq!((part, virtual_address), (end, end));
            assert!(count <= MOST && (index == 0 || part % 4096 == 0));
            end += count;
        }
        assert_eq!(end, address + length);
    }
    // SAFETY: allocated with this layout.
    unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
}
