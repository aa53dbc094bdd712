//! Memory: what the ledger counts, and each way to misuse memory is caught.
#![expect(unsafe_code, reason = "misuse of memory needs unsafe")]

use std::{alloc::Layout, ptr::NonNull};

use platform::{Arc, Platform, Slice, SpinLock};
use simkernel::{Breach, Purpose, SimKernel, at_irql, boot};

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

#[track_caller]
fn allocate(size: usize) -> NonNull<u8> {
    SimKernel::allocate(layout(size)).unwrap()
}

fn free(memory: NonNull<u8>, size: usize) {
    // SAFETY: memory of this test. The checks of the simulated kernel make even a wrong call harmless.
    unsafe { SimKernel::free(memory, layout(size)) };
}

#[test]
fn balanced_use_is_clean() {
    let kernel = boot();
    let shared = Arc::<_, SimKernel>::try_new(7_u32).unwrap();
    let slice = Slice::<_, SimKernel>::filled(100, 1_u8).unwrap();
    let ledger = kernel.ledger();
    assert_eq!((ledger.allocation_count, ledger.live.len()), (2, 2));
    assert!(ledger.pool_bytes() >= 104);
    assert!(!ledger.is_clean());
    drop((shared, slice));
    assert_eq!(kernel.ledger().pool_bytes(), 0);
}

#[test]
fn memory_is_zeroed_and_poisoned() {
    let _kernel = boot();
    for _ in 0..3 {
        let memory = allocate(64);
        // SAFETY: 64 live bytes.
        assert_eq!(unsafe { memory.cast::<[u8; 64]>().read() }, [0; 64]);
        // SAFETY: as above.
        unsafe { memory.cast::<[u8; 64]>().write([0x55; 64]) };
        free(memory, 64);
        // SAFETY: freed memory is kept for a while, to see what happens to it.
        assert_eq!(unsafe { memory.cast::<[u8; 64]>().read() }, [0xdf; 64]);
    }
}

#[test]
fn a_leak_is_caught() {
    let kernel = boot();
    let (leak, line) = (allocate(24), line!());
    let ledger = kernel.finish();
    let [live] = ledger.live.as_slice() else { panic!("{ledger}") };
    assert_eq!((live.number, live.layout, live.purpose), (1, layout(24), Purpose::Pool));
    let place = format!("1 of 24 bytes from {}:{line}:", file!());
    assert!(ledger.to_string().contains(&place), "{ledger}");

    let kernel = boot();
    assert!(kernel.ledger().is_clean(), "the leak of a session is not the next one's");
    free(leak, 24);
}

#[test]
#[should_panic(expected = "the kernel is not clean")]
fn a_leak_fails_the_test() {
    let _kernel = boot();
    allocate(24);
}

#[test]
fn a_double_free_is_caught() {
    let kernel = boot();
    let memory = allocate(24);
    free(memory, 24);
    free(memory, 24);
    assert!(kernel.finish().broke(|breach| *breach == Breach::DoubleFree(memory.addr().get())));
}

#[test]
fn freeing_what_was_never_allocated_is_caught() {
    let kernel = boot();
    let mut local = 0_u64;
    free(NonNull::from(&mut local).cast(), 8);
    assert!(kernel.finish().broke(|breach| matches!(breach, Breach::UnknownFree(_))));
}

#[test]
fn a_wrong_layout_is_caught() {
    let kernel = boot();
    free(allocate(24), 32);
    let expected = Breach::WrongLayout { allocated: layout(24), freed: layout(32) };
    assert!(kernel.finish().broke(|breach| *breach == expected));
}

#[test]
fn an_overrun_is_caught() {
    let kernel = boot();
    let memory = allocate(24);
    // SAFETY: past the end asked for, but there is a fence.
    let end = unsafe { memory.add(24) };
    // SAFETY: as above.
    unsafe { end.write(1) };
    free(memory, 24);
    assert!(kernel.finish().broke(|breach| *breach == Breach::Overrun(1)));
}

#[test]
fn a_write_after_free_is_caught() {
    let kernel = boot();
    let memory = allocate(24);
    free(memory, 24);
    // SAFETY: freed memory is kept for a while, to see whether this happens.
    unsafe { memory.write(1) };
    assert!(kernel.finish().broke(|breach| *breach == Breach::UseAfterFree(1)));
}

#[test]
fn a_write_after_free_is_caught_when_the_memory_is_recycled() {
    let kernel = boot();
    let memory = allocate(24);
    free(memory, 24);
    // SAFETY: as above.
    unsafe { memory.write(1) };
    free(allocate(16 << 20), 16 << 20);
    assert!(kernel.ledger().broke(|breach| *breach == Breach::UseAfterFree(1)));
    drop(kernel.finish());
}

#[test]
fn an_empty_allocation_is_caught() {
    let kernel = boot();
    assert!(SimKernel::allocate(layout(0)).is_none());
    assert!(kernel.finish().broke(|breach| *breach == Breach::EmptyAllocation));
}

#[test]
fn allocating_and_freeing_above_dispatch_are_caught() {
    let kernel = boot();
    at_irql(2, || free(allocate(8), 8));
    assert!(kernel.ledger().violations.is_empty());
    at_irql(3, || free(allocate(8), 8));
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| *breach == Breach::IrqlTooHigh { call: "allocating", limit: 2 }));
    assert!(ledger.broke(|breach| *breach == Breach::IrqlTooHigh { call: "freeing", limit: 2 }));
}

#[test]
fn freeing_a_held_lock_is_caught() {
    let kernel = boot();
    let lock = Arc::<_, SimKernel>::try_new(SpinLock::<u32, SimKernel>::new(0)).unwrap();
    std::mem::forget(lock.lock());
    drop(lock);
    let ledger = kernel.finish();
    assert!(ledger.broke(|breach| matches!(breach, Breach::FreedHeldLock(_))));
    assert!(ledger.broke(|breach| matches!(breach, Breach::LockStillHeld(_))));
}

#[test]
fn a_planted_fault_strikes_once() {
    let kernel = boot();
    let make = || Arc::<_, SimKernel>::try_new(0_u8).is_ok();
    {
        let fault = kernel.fail_allocation(2);
        assert!(make());
        assert!(!fault.happened() && fault.site().is_none());
        assert!(!make());
        assert!(fault.happened());
        assert!(make());
        let site = fault.site().map(|site| site.to_string());
        assert!(site.is_some_and(|site| site.contains("a_planted_fault_strikes_once")));
    }
    drop(kernel.fail_allocation(1));
    assert!(make(), "a fault that is gone strikes no more");
}
