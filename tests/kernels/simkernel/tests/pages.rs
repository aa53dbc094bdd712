//! Consumer memory and MDLs.
#![expect(unsafe_code, reason = "reads MDLs as a driver does")]

use std::{ptr::NonNull, sync::atomic::Ordering};

use ndk_abi::wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA, MDL_PAGES_LOCKED, PAGE_SIZE};
use platform::Platform;
use simkernel::{Breach, Mdl, Pages, Purpose, SimKernel, at_dispatch, at_irql, boot};

const INDEX: u64 = 0x7ff6_0000_0000;

/// What a driver reads.
fn header(mdl: *mut MDL) -> MDL {
    // SAFETY: a live MDL in each test.
    unsafe { mdl.read() }
}

fn map(mdl: *mut MDL) -> Option<NonNull<u8>> {
    // SAFETY: a live MDL in each test, or one that the simulated kernel knows to be none.
    unsafe { SimKernel::mdl_system_address(mdl.cast()) }
}

#[test]
fn an_mdl_describes_its_pages() {
    let kernel = boot();
    let pages = Pages::new(3);
    assert_eq!(pages.size(), 3 * PAGE_SIZE);
    assert_eq!(pages.address(0).addr().get() % PAGE_SIZE, 0);
    assert_eq!(pages.read(0, pages.size()), vec![0; pages.size()]);
    let mdl = pages.mdl(100, PAGE_SIZE, INDEX);
    let before = header(mdl.as_ptr());
    assert!(before.Next.is_null());
    assert_eq!(usize::from(before.Size), size_of::<MDL>() + 2 * 8);
    assert_eq!(before.MdlFlags & (MDL_PAGES_LOCKED | MDL_MAPPED_TO_SYSTEM_VA), MDL_PAGES_LOCKED);
    assert_eq!((before.StartVa.addr() as u64, before.ByteOffset, before.ByteCount), (INDEX, 100, 4096));
    assert_eq!(mdl.virtual_address(), INDEX + 100);
    // SAFETY: frame numbers follow the header.
    let frames = unsafe { mdl.as_ptr().add(1) }.cast::<[u64; 2]>();
    // SAFETY: two of them.
    let frames = unsafe { frames.read() };
    let first = (pages.address(0).addr().get() / PAGE_SIZE) as u64;
    assert_eq!(frames, [first, first + 1]);

    let mapped = at_dispatch(|_| map(mdl.as_ptr())).unwrap();
    assert_eq!(mapped, pages.address(100));
    let after = header(mdl.as_ptr());
    assert_ne!(after.MdlFlags & MDL_MAPPED_TO_SYSTEM_VA, 0);
    assert_eq!(after.MappedSystemVa, mapped.as_ptr().cast());

    // SAFETY: mapped, 4096 bytes.
    unsafe { mapped.write(9) };
    assert_eq!(pages.byte(100).load(Ordering::Acquire), 9);
    pages.write(100, b"driver");
    // SAFETY: as above.
    assert_eq!(unsafe { mapped.cast::<[u8; 6]>().read() }, *b"driver");
    assert_eq!(pages.read(100, 6), b"driver");
    assert_eq!(kernel.ledger().live_mdls, 1);
}

#[test]
fn a_chain_may_have_an_empty_link() {
    let kernel = boot();
    let (left, right) = (Pages::new(1), Pages::new(1));
    let next = INDEX + PAGE_SIZE as u64;
    let chain = left.mdl(0, PAGE_SIZE, INDEX).chain(right.mdl(0, 0, next).chain(right.mdl(0, 10, next)));
    drop((left, right));
    let first = header(chain.as_ptr());
    let second = header(first.Next);
    let third = header(second.Next);
    assert!(third.Next.is_null());
    assert_eq!([first.ByteCount, second.ByteCount, third.ByteCount], [4096, 0, 10]);
    assert_eq!(third.StartVa.addr() as u64, next);
    assert!(map(second.Next).is_some());
    assert_eq!(kernel.ledger().live_mdls, 3, "a chain owns its pages");
}

#[test]
fn mapping_an_empty_mdl_is_caught() {
    let kernel = boot();
    let mdl = Pages::new(1).mdl(0, 0, INDEX);
    assert!(map(mdl.as_ptr()).is_none());
    let expected = Breach::EmptyMdlMapped(mdl.as_ptr().addr());
    drop(mdl);
    assert!(kernel.finish().broke(|breach| *breach == expected));
}

#[test]
fn any_memory_can_be_locked() {
    let _kernel = boot();
    let mut memory = vec![7_u8; 10_000];
    let start = NonNull::from(memory.as_mut_slice()).cast::<u8>();
    // SAFETY: lives longer than the MDL, and is not used until then.
    let mdl = unsafe { Mdl::lock(start, 10_000) };
    assert_eq!(mdl.virtual_address(), start.addr().get() as u64);
    let mapped = map(mdl.as_ptr()).unwrap();
    // SAFETY: 10000 bytes are mapped.
    let last = unsafe { mapped.add(9_999) };
    // SAFETY: the last one.
    unsafe { last.write(8) };
    drop(mdl);
    assert_eq!(memory.last(), Some(&8));
}

#[test]
fn a_mapping_can_fail() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (first, second) = (pages.mdl(0, 1, INDEX), pages.mdl(0, 1, INDEX));
    let fault = kernel.fail_mapping(2);
    assert!(map(first.as_ptr()).is_some());
    assert!(map(first.as_ptr()).is_some(), "mapped already, so this is no mapping");
    assert!(map(second.as_ptr()).is_none());
    assert!(fault.happened());
    assert_eq!(header(second.as_ptr()).MdlFlags & MDL_MAPPED_TO_SYSTEM_VA, 0);
    assert!(map(second.as_ptr()).is_some());
}

#[test]
fn a_leaked_mdl_is_caught() {
    let kernel = boot();
    std::mem::forget(Pages::new(1).mdl(0, 1, INDEX));
    let ledger = kernel.finish();
    assert_eq!(ledger.live_mdls, 1);
    assert_eq!(ledger.live.first().map(|live| live.purpose), Some(Purpose::Pages));
    assert!(boot().ledger().is_clean());
}

#[test]
fn using_an_unlocked_mdl_is_caught() {
    let kernel = boot();
    let mdl = Pages::new(1).mdl(0, 1, INDEX);
    let dangling = mdl.as_ptr();
    drop(mdl);
    assert!(map(dangling).is_none());
    assert!(kernel.finish().broke(|breach| *breach == Breach::UnknownMdl(dangling.addr())));
}

#[test]
fn mapping_above_dispatch_is_caught() {
    let kernel = boot();
    let mdl = Pages::new(1).mdl(0, 1, INDEX);
    at_irql(3, || map(mdl.as_ptr()));
    drop(mdl);
    assert!(kernel.finish().broke(|breach| *breach == Breach::IrqlTooHigh { call: "mapping an MDL", limit: 2 }));
}

#[test]
fn writing_a_page_after_its_time_is_caught() {
    let kernel = boot();
    let mdl = Pages::new(1).mdl(0, 1, INDEX);
    let mapped = map(mdl.as_ptr()).unwrap();
    drop(mdl);
    // SAFETY: freed memory is kept for a while, to see whether this happens.
    unsafe { mapped.write(1) };
    assert!(kernel.finish().broke(|breach| matches!(breach, Breach::UseAfterFree(_))));
}
