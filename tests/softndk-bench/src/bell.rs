//! Waiting for a completion without looking for it, as softnd.dll does.
#![expect(unsafe_code, reason = "a callback of a C interface")]

use std::{
    ffi::c_void,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
};

use ndk_abi::status::NTSTATUS;

use crate::ndk::{Adapter, Cq, NO_RESULTS};

/// Wakes the thread that it is made on.
#[derive(Debug)]
pub struct Bell {
    thread: Thread,
    rung: AtomicBool,
}

impl Bell {
    /// A bell for completion queues.
    #[must_use]
    pub fn new() -> &'static Self {
        Box::leak(Box::new(Self { thread: thread::current(), rung: AtomicBool::new(false) }))
    }

    /// A completion queue that rings it.
    #[must_use]
    pub fn cq(&'static self, adapter: &Adapter, depth: usize) -> Arc<Cq> {
        Arc::new(adapter.cq_with(depth as u32, ring, self))
    }

    fn key(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Waits until there is something in one of its queues.
    pub fn wait(&self, cq: &Cq) {
        cq.arm();
        while !self.rung.swap(false, Ordering::Acquire) {
            hosted::serve_until(self.key(), || self.rung.load(Ordering::Acquire), thread::park);
        }
    }

    /// Waits until `count` results have come.
    pub fn take(&self, cq: &Cq, count: usize) {
        let mut results = NO_RESULTS;
        let mut taken = cq.poll(&mut results).len();
        while taken < count {
            self.wait(cq);
            taken += cq.poll(&mut results).len();
        }
    }
}

unsafe extern "system" fn ring(context: *mut c_void, _status: NTSTATUS) {
    // SAFETY: the context of the queues is a Bell that is never freed.
    let bell: &Bell = unsafe { &*context.cast::<Bell>() };
    bell.rung.store(true, Ordering::Release);
    bell.thread.unpark();
    hosted::wake_leader(bell.key());
}
