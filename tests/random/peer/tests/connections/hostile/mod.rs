//! Peers that take as much as they can: the device bounds what they hold, serves other peers, and ends each connection.

mod connects;
mod traffic;

use std::time::Duration;

use peer::{device::Inbox, establish::Scene};
use simkernel::Session;
use soft_rdma::{Connector, Outcome};

use crate::pauses;

/// The consumer disconnects, and the peer does nothing about it: after five seconds there is no connection.
fn disconnect(kernel: &Session, scene: &Scene) {
    let sockets = kernel.ledger().open_sockets;
    let done = Inbox::default();
    if Connector::disconnect(scene.side().connector(), done.callback()) == Ok(Outcome::Pending) {
        assert_eq!(done.wait("the disconnect"), Ok(()));
    }
    pauses();
    kernel.advance(Duration::from_secs(5));
    kernel.flush_dpcs();
    assert_eq!(kernel.ledger().open_sockets, sockets - 1, "its socket");
}
