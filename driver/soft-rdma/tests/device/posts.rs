//! A post calls no callback: the posting thread may hold a consumer's lock, which the consumer's callbacks take.
#![expect(unsafe_code, reason = "callbacks are promised to be valid, as a kernel consumer does")]

use std::{
    cell::Cell,
    ffi::c_void,
    sync::atomic::{AtomicU64, Ordering},
};

use simkernel::{Pages, boot_seeded, scope, seeds};
use soft_rdma::{
    Access, Callback, Close, Connector, Error, Flags, MemoryRegion, Outcome, Post, QueuePair, Remote, Status, close,
};

use crate::common::{Arc, BASE, Side, accepted, ignore, runs_of};

thread_local! {
    static POSTS: Cell<bool> = const { Cell::new(false) };
}

static CLOSED: AtomicU64 = AtomicU64::new(0);
static CLOSED_IN_A_POST: AtomicU64 = AtomicU64::new(0);

fn closed(_function: *const (), _context: *mut c_void, (): ()) {
    CLOSED.fetch_add(1, Ordering::SeqCst);
    CLOSED_IN_A_POST.fetch_add(POSTS.get().into(), Ordering::SeqCst);
}

fn close_object<T: Close<simkernel::SimKernel>>(object: Arc<T>) {
    // SAFETY: `closed` touches none of its arguments.
    let closed = unsafe { Callback::new(closed, std::ptr::null(), std::ptr::null_mut()) };
    let _pending_or_done = close(object, closed);
}

#[test]
fn a_post_does_not_report_the_close_of_the_peer() {
    for seed in seeds(600) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(1);
        let (sender, receiver) = accepted(&kernel, &pages);
        assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
        // The send waits for a receive; the post of that receive schedules it.
        QueuePair::post(&sender.queue_pair, 1, &[], Flags::empty(), Post::Send(None)).unwrap();
        kernel.flush_dpcs();
        let Side { connector, queue_pair, .. } = sender;
        assert!(Connector::disconnect(&connector, ignore()).is_ok());
        kernel.flush_dpcs();
        scope(|scope| {
            scope.spawn(|| {
                close_object(connector);
                close_object(queue_pair);
            });
            scope.spawn(|| {
                POSTS.set(true);
                receiver.queue_pair.post_receive(2, &[]).unwrap();
                POSTS.set(false);
            });
        });
        kernel.flush_dpcs();
        assert_eq!(CLOSED_IN_A_POST.load(Ordering::SeqCst), 0, "seed {seed}");
    }
    assert_ne!(CLOSED.load(Ordering::SeqCst), 0, "no close crossed a post");
}

/// The peer refuses a write. A disconnect crosses that: while its thread has not yet got to the queue pair, the abort finds nothing to do.
#[test]
fn nothing_is_carried_out_after_a_request_that_failed() {
    let mut refused = 0;
    for seed in seeds(600) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(2);
        let (sender, receiver) = accepted(&kernel, &pages);
        assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
        let post = |number, remote| {
            let sge = [sender.sge(0, 64)];
            QueuePair::post(&sender.queue_pair, number, &sge, Flags::empty(), Post::Write(remote)).unwrap();
        };
        let open = MemoryRegion::new(&receiver.pd, false).unwrap();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        MemoryRegion::register(&open, BASE, pages.size() as u64, access, runs_of(&pages)).unwrap();
        pages.write(0, &[7; 64]);
        scope(|scope| {
            scope.spawn(|| {
                post(1, Remote { address: BASE, token: receiver.region.token() });
                post(2, Remote { address: BASE + 4096, token: open.token() });
            });
            scope.spawn(|| {
                assert!(Connector::disconnect(&sender.connector, ignore()).is_ok());
            });
        });
        kernel.flush_dpcs();
        let statuses: Vec<Status> = sender.completions().iter().map(|completion| completion.status).collect();
        assert!(
            matches!(statuses[..], [Err(Error::AccessViolation | Error::Canceled), Err(Error::Canceled)]),
            "seed {seed}: {statuses:?}"
        );
        refused += u32::from(statuses[0] == Err(Error::AccessViolation));
        assert_eq!(pages.read(4096, 64), [0; 64], "seed {seed}");
        close_object(sender.connector);
        close_object(receiver.connector);
        kernel.flush_dpcs();
    }
    assert_ne!(refused, 0);
}
