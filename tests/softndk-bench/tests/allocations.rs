//! Posting, polling and arming allocate nothing.
#![expect(unsafe_code, reason = "a global allocator that counts")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use ndk_abi::ndkpi::NDK_OP_FLAG_DEFER;
use softndk_bench::{
    link::{BATCH, Link},
    ndk::Adapter,
};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system's, counting. The simulated kernel's pool is on it too.
struct Counting;

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` allocates. One test in this program, so that nothing else does meanwhile.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    work();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

// Shows S108.
#[test]
fn post_poll_and_arm_allocate_nothing() {
    let adapter = Adapter::default();
    let listener = adapter.listener();
    let link = Link::new(&adapter, &listener, BATCH);
    let (from, to) = (&link.sender, &link.receiver);
    let message = from.buffer.message(0);
    // What the listener has the host do begins on another thread.
    while allocations(|| std::thread::sleep(Duration::from_millis(20))) > 0 {}

    let control = allocations(|| drop(adapter.cq(16)));
    assert!(control > 0, "the counter counts");

    let sends = allocations(|| {
        std::hint::black_box(link.pass(64 * BATCH, BATCH));
    });
    assert_eq!(sends, 0, "sends and receives, posted and polled, in batches");

    let alone = allocations(|| {
        for _ in 0..64 {
            to.receive_cq.arm();
            from.initiator_cq.arm();
            to.qp.receive(0, &to.buffer.message(0));
            from.qp.send(0, &message, 0);
            to.receive_cq.take(1, |_| ());
            from.initiator_cq.take(1, |_| ());
        }
    });
    assert_eq!(alone, 0, "one at a time, armed and notified");

    let late = allocations(|| {
        from.qp.send(0, &message, NDK_OP_FLAG_DEFER);
        from.qp.send(0, &message, 0);
        to.qp.receive(0, &to.buffer.message(0));
        to.qp.receive(0, &to.buffer.message(0));
        to.receive_cq.take(2, |_| ());
        from.initiator_cq.take(2, |_| ());
    });
    assert_eq!(late, 0, "sends that wait for receives");

    let writes = allocations(|| {
        from.qp.write(0, &message, to.buffer.address(0), to.buffer.token, 0);
        from.initiator_cq.take(1, |_| ());
    });
    assert_eq!(writes, 0, "a write");
}
