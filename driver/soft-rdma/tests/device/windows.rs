//! The peer invalidates a window while its owner binds it again.

use simkernel::{Pages, SimKernel, boot_seeded, scope, seeds};
use soft_rdma::{Access, BindRange, Connector, Flags, MemoryWindow, OperationKind, Outcome, Post, QueuePair};

use crate::common::{Arc, BASE, Side, accepted};

fn bind(side: &Side, window: &Arc<MemoryWindow<SimKernel>>) {
    let bind_range = BindRange { address: BASE, length: 64, access: Access::REMOTE_READ };
    QueuePair::post(&side.queue_pair, 1, &[], Flags::empty(), Post::Bind(window, &side.region, bind_range)).unwrap();
}

#[test]
fn an_invalidation_by_the_peer_does_not_end_the_next_binding() {
    let mut both = 0;
    for seed in seeds(600) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(1);
        let (peer, owner) = accepted(&kernel, &pages);
        assert_eq!(Connector::complete_connect(&peer.connector, None), Ok(Outcome::Done));
        let window = MemoryWindow::new(&owner.pd).unwrap();
        bind(&owner, &window);
        owner.queue_pair.post_receive(2, &[]).unwrap();
        kernel.flush_dpcs();
        let first = window.token();
        scope(|scope| {
            scope.spawn(|| {
                QueuePair::post(&peer.queue_pair, 3, &[], Flags::empty(), Post::Send(Some(first))).unwrap();
            });
            scope.spawn(|| bind(&owner, &window));
        });
        kernel.flush_dpcs();
        let done = owner.completions();
        // Otherwise the bind ended the first binding before the peer's invalidation, and the connection is aborted.
        if done.len() == 3 && done.iter().all(|completion| completion.status.is_ok()) {
            both += 1;
            let invalidate = Post::InvalidateWindow(&window);
            QueuePair::post(&owner.queue_pair, 4, &[], Flags::empty(), invalidate).unwrap();
            kernel.flush_dpcs();
            let ended = owner.completions();
            let was_bound = ended
                .iter()
                .any(|completion| completion.kind == OperationKind::Invalidate && completion.status.is_ok());
            assert!(was_bound, "seed {seed}: the second binding is gone: {ended:?}");
        }
    }
    assert_ne!(both, 0);
}
