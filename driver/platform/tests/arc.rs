//! `Arc` and `Weak`: exactly one reference is the last, and memory and object go when they should.

use std::{
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use platform::{OutOfMemory, PASSIVE_LEVEL, Platform};
use simkernel::{SimKernel, boot};

type Arc<T> = platform::Arc<T, SimKernel>;
type Weak<T> = platform::Weak<T, SimKernel>;

/// Counts its drops.
struct Dropped<'a>(&'a AtomicUsize);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_last_reference_drops_the_object() {
    let kernel = boot();
    let drops = AtomicUsize::new(0);
    let first = Arc::try_new(Dropped(&drops)).unwrap();
    let second = first.clone();
    assert!(Arc::ptr_eq(&first, &second));
    drop(first);
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    drop(second);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert!(kernel.ledger().is_clean());
}

#[test]
fn into_inner_gives_the_object_to_the_last() {
    let kernel = boot();
    let drops = AtomicUsize::new(0);
    let first = Arc::try_new(Dropped(&drops)).unwrap();
    let second = first.clone();
    assert!(Arc::into_inner(first).is_none());
    let object = Arc::into_inner(second);
    assert!(object.is_some());
    assert_eq!(drops.load(Ordering::Relaxed), 0, "not dropped yet");
    drop(object);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert!(kernel.ledger().is_clean());
}

#[test]
fn the_last_reference_is_not_released() {
    let kernel = boot();
    let drops = AtomicUsize::new(0);
    let first = Arc::try_new(Dropped(&drops)).unwrap();
    assert!(Arc::release(first.clone()).is_ok());
    let Err(last) = Arc::release(first) else { panic!("the last reference is gone") };
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    drop(last);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert!(kernel.ledger().is_clean());
}

#[test]
fn a_weak_reference_keeps_memory_only() {
    let kernel = boot();
    let drops = AtomicUsize::new(0);
    let strong = Arc::try_new(Dropped(&drops)).unwrap();
    let weak = Arc::downgrade(&strong);
    let another = weak.clone();
    assert!(weak.refers_to(&strong));
    assert!(weak.upgrade().is_some_and(|upgraded| Arc::ptr_eq(&upgraded, &strong)));
    drop(strong);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert!(weak.upgrade().is_none());
    assert_eq!(kernel.ledger().live.len(), 1);
    drop(weak);
    assert_eq!(kernel.ledger().live.len(), 1);
    drop(another);
    assert!(kernel.ledger().is_clean());
}

#[test]
fn a_cyclic_object_cannot_be_had_before_it_exists() {
    let kernel = boot();
    struct Node(Weak<Node>);
    let node = Arc::try_new_cyclic(|this: &Weak<Node>| {
        assert!(this.upgrade().is_none());
        Node(this.clone())
    })
    .unwrap();
    assert!(node.0.upgrade().is_some_and(|this| Arc::ptr_eq(&this, &node)));
    drop(node);
    assert!(kernel.ledger().is_clean());
}

#[test]
fn no_memory_is_an_error() {
    let kernel = boot();
    let drops = AtomicUsize::new(0);
    let fault = kernel.fail_allocation(1);
    assert_eq!(Arc::try_new(Dropped(&drops)).err(), Some(OutOfMemory));
    assert!(fault.happened());
    assert_eq!(drops.load(Ordering::Relaxed), 1, "what could not be moved in is dropped");
}

#[test]
fn a_raw_pointer_is_a_reference() {
    let _kernel = boot();
    #[repr(align(64))]
    struct Aligned(u8);
    let object = Arc::try_new(Aligned(5)).unwrap();
    let raw = Arc::into_raw(object.clone());
    assert_eq!(raw, Arc::as_ptr(&object));
    assert_eq!(raw.addr() % 64, 0);
    assert!(Arc::into_inner(object).is_none());
    #[expect(unsafe_code, reason = "what is tested is unsafe")]
    // SAFETY: from into_raw above, taken back once.
    let back = unsafe { Arc::from_raw(raw) };
    assert_eq!(Arc::into_inner(back).map(|object| object.0), Some(5));
}

#[test]
fn only_a_sole_reference_is_mutable() {
    let _kernel = boot();
    let mut first = Arc::try_new(1).unwrap();
    Arc::get_mut(&mut first).map(|value| *value += 1).unwrap();
    assert_eq!(*first, 2);
    let second = first.clone();
    assert!(Arc::get_mut(&mut first).is_none());
    drop(second);
    let weak = Arc::downgrade(&first);
    assert!(Arc::get_mut(&mut first).is_none());
    drop(weak);
    assert!(Arc::get_mut(&mut first).is_some());
}

#[test]
fn references_are_as_shareable_as_what_they_refer_to() {
    static_assertions::assert_impl_all!(Arc<u8>: Send, Sync);
    static_assertions::assert_impl_all!(Weak<u8>: Send, Sync);
    static_assertions::assert_not_impl_any!(Arc<std::cell::Cell<u8>>: Send, Sync);
    static_assertions::assert_not_impl_any!(Weak<std::cell::Cell<u8>>: Send, Sync);
    static_assertions::assert_not_impl_any!(Arc<std::sync::MutexGuard<'static, u8>>: Send, Sync);
}

/// Closing, as the provider does it: several threads give up their references at once.
// Shows S1201.
#[test]
fn exactly_one_close_is_the_last() {
    let kernel = boot();
    const THREADS: usize = 4;
    for _ in 0..2_000 {
        let drops = AtomicUsize::new(0);
        let start = Barrier::new(THREADS);
        let object = Arc::try_new(Dropped(&drops)).unwrap();
        let references: Vec<_> = (1..THREADS).map(|_| object.clone()).collect();
        let last = AtomicUsize::new(0);
        thread::scope(|scope| {
            for reference in references.into_iter().chain([object]) {
                scope.spawn(|| {
                    start.wait();
                    last.fetch_add(Arc::into_inner(reference).is_some().into(), Ordering::Relaxed);
                });
            }
        });
        assert_eq!((last.into_inner(), drops.into_inner()), (1, 1));
    }
    assert!(kernel.ledger().is_clean());
}

/// Upgrades race with the close: a successful upgrade gets a live object, and exactly one thread drops the last reference.
#[test]
fn upgrading_races_with_closing() {
    let kernel = boot();
    for _ in 0..2_000 {
        let drops = AtomicUsize::new(0);
        let start = Barrier::new(3);
        let object = Arc::try_new(Dropped(&drops)).unwrap();
        let weak = Arc::downgrade(&object);
        let last = AtomicUsize::new(0);
        let close = |reference| last.fetch_add(Arc::into_inner(reference).is_some().into(), Ordering::Relaxed);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    while let Some(object) = weak.upgrade() {
                        assert_eq!(object.0.load(Ordering::Relaxed), 0);
                        close(object);
                    }
                });
            }
            start.wait();
            close(object);
        });
        drop(weak);
        assert_eq!((last.into_inner(), drops.into_inner()), (1, 1));
    }
    assert!(kernel.ledger().is_clean());
}

/// `get_mut` locks out `downgrade`, and never succeeds while another reference is used.
#[test]
fn get_mut_races_with_downgrading() {
    let _kernel = boot();
    let shared = Arc::try_new(AtomicUsize::new(0)).unwrap();
    let stop = AtomicBool::new(false);
    let own = Mutex::new(shared.clone());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let weak = Arc::downgrade(&shared);
                assert!(weak.upgrade().is_some());
            }
        });
        for _ in 0..50_000 {
            assert!(Arc::get_mut(&mut own.lock().unwrap()).is_none());
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(own);
    assert!(Arc::into_inner(shared).is_some());
    assert_eq!(SimKernel::irql(), PASSIVE_LEVEL);
}
