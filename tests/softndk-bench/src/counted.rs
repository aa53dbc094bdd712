//! What is counted under callgrind: `--toggle-collect='*counted::deferred_send*'` and so on collect inside of these functions
//! only, and each round calls them a known number of times.

use ndk_abi::ndkpi::NDK_OP_FLAG_DEFER;

use crate::{
    link::Link,
    ndk::{Adapter, Cq, NO_RESULTS, POLL, Qp, Results},
};

/// Posts one receive.
#[inline(never)]
pub fn receive(qp: &Qp, context: usize, sge: &ndk_abi::ndkpi::NDK_SGE) {
    qp.receive(context, sge);
}

/// Posts one send that is deferred.
#[inline(never)]
pub fn deferred_send(qp: &Qp, context: usize, sge: &ndk_abi::ndkpi::NDK_SGE) {
    qp.send(context, sge, NDK_OP_FLAG_DEFER);
}

/// Posts one send, with which the batch is carried out.
#[inline(never)]
pub fn last_send(qp: &Qp, context: usize, sge: &ndk_abi::ndkpi::NDK_SGE) {
    qp.send(context, sge, 0);
}

/// Polls a full batch of results.
#[inline(never)]
pub fn poll(cq: &Cq, results: &mut Results) -> usize {
    cq.poll(results).len()
}

/// Passes `batches` batches.
pub fn run(batches: usize) {
    let adapter = Adapter::default();
    let listener = adapter.listener();
    let link = Link::new(&adapter, &listener, POLL);
    let mut results = NO_RESULTS;
    for _ in 0..batches {
        for slot in 0..POLL {
            receive(&link.receiver.qp, slot, &link.receiver.buffer.message(slot));
        }
        for slot in 0..POLL - 1 {
            deferred_send(&link.sender.qp, slot, &link.sender.buffer.message(slot));
        }
        last_send(&link.sender.qp, POLL - 1, &link.sender.buffer.message(POLL - 1));
        assert_eq!(poll(&link.receiver.receive_cq, &mut results), POLL);
        assert_eq!(poll(&link.sender.initiator_cq, &mut results), POLL);
    }
}
