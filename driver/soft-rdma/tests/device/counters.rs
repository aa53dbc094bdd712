//! The counters of a device that has made many queue pairs.

use simkernel::{Pages, boot_seeded};
use soft_rdma::{
    CompletionQueue, Connector, Counter, Flags, InitiatorSizes, Outcome, Post, ProtectionDomain, QueuePair,
    ReceiveSource,
};

use crate::common::{HOST, accepted_by, ignore, machine};

/// Queue pairs count in 64 shards by turns, however many there have been.
// Shows S1501.
#[test]
fn data_of_late_queue_pairs_is_counted() {
    let kernel = boot_seeded(1);
    let pages = Pages::new(1);
    let adapter = machine(HOST);
    let pd = ProtectionDomain::new(&adapter).unwrap();
    let cq = CompletionQueue::new(&adapter, 1, ignore()).unwrap();
    let sizes = InitiatorSizes { depth: 1, sges: 1, inline_data: 0 };
    for _ in 0..64 * 64 {
        drop(QueuePair::new(&pd, &cq, &cq, 0, sizes, ReceiveSource::Own { depth: 1, sges: 1 }).unwrap());
    }
    let (sender, receiver) = accepted_by(&kernel, &pages, [&adapter, &adapter], [HOST, HOST]);
    assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
    receiver.queue_pair.post_receive(1, &[receiver.sge(8, 8)]).unwrap();
    QueuePair::post(&sender.queue_pair, 2, &[sender.sge(0, 8)], Flags::empty(), Post::Send(None)).unwrap();
    kernel.flush_dpcs();
    let counted = adapter.device().counters().read();
    assert_eq!((counted[Counter::OutOctets], counted[Counter::OutFrames]), (8, 1));
}
