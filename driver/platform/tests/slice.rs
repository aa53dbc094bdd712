//! `Slice`: a fixed-length array that owns its elements.

use std::sync::atomic::{AtomicUsize, Ordering};

use platform::OutOfMemory;
use simkernel::{SimKernel, boot};

type Slice<T> = platform::Slice<T, SimKernel>;

struct Dropped<'a>(&'a AtomicUsize);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn elements_are_made_in_order() {
    let kernel = boot();
    let mut slice = Slice::from_fn(5, |index| index * 10).unwrap();
    assert_eq!(*slice, [0, 10, 20, 30, 40]);
    slice.reverse();
    assert_eq!(*slice, [40, 30, 20, 10, 0]);
    assert_eq!(kernel.ledger().pool_bytes(), 5 * size_of::<usize>());
    assert_eq!(*Slice::filled(3, b'x').unwrap(), *b"xxx");
}

#[test]
fn each_element_is_dropped_once() {
    let _kernel = boot();
    let drops = AtomicUsize::new(0);
    drop(Slice::from_fn(7, |_| Dropped(&drops)).unwrap());
    assert_eq!(drops.into_inner(), 7);
}

#[test]
fn empty_slices_own_no_memory() {
    let kernel = boot();
    assert!(Slice::<u64>::empty().is_empty());
    assert!(Slice::from_fn(0, |index| index).unwrap().is_empty());
    assert_eq!(kernel.ledger().allocation_count, 0);
}

#[test]
fn elements_without_size_are_made_too() {
    let kernel = boot();
    struct Token;
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    impl Drop for Token {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut made = 0;
    let tokens = Slice::from_fn(4, |_| {
        made += 1;
        Token
    })
    .unwrap();
    assert_eq!((tokens.len(), made), (4, 4), "no token is made but by `make`");
    drop(tokens);
    assert_eq!(DROPS.load(Ordering::Relaxed), 4);
    assert_eq!(kernel.ledger().allocation_count, 0);
}

#[test]
fn alignment_is_kept() {
    let _kernel = boot();
    #[repr(align(128))]
    #[derive(Clone, Copy)]
    struct Line(#[expect(dead_code, reason = "gives it a size")] [u8; 128]);
    let lines = Slice::filled(3, Line([0; 128])).unwrap();
    assert_eq!(lines.as_ptr().addr() % 128, 0);
}

#[test]
fn no_memory_is_an_error() {
    let kernel = boot();
    let _fault = kernel.fail_allocation(1);
    let mut made = 0;
    let refused = Slice::from_fn(5, |index| {
        made += 1;
        index
    });
    assert_eq!((refused.err(), made), (Some(OutOfMemory), 0));
    assert_eq!(Slice::<u64>::filled(usize::MAX, 0).err(), Some(OutOfMemory), "more than the address space");
}
