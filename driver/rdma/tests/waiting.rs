//! Sends that have to wait for a receive.

mod common;

use simkernel::{Pages, boot};
use soft_rdma::{Connector, Error, Flags, Outcome, Post, QueuePair, Status};

use common::{Side, accepted};

fn statuses(side: &Side) -> Vec<Status> {
    side.completions().iter().map(|completion| completion.status).collect()
}

#[test]
fn a_waiting_send_does_not_run() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    kernel.flush_dpcs();
    let before = kernel.ledger().dpc_runs;
    QueuePair::post(&active.queue_pair, 1, &[active.sge(0, 64)], Flags::empty(), Post::Send(None)).unwrap();
    kernel.flush_dpcs();
    let runs = kernel.ledger().dpc_runs - before;
    assert_eq!(runs, 1, "deferred calls for a send that can only wait");
    passive.queue_pair.post_receive(2, &[passive.sge(0, 64)]).unwrap();
    kernel.flush_dpcs();
    assert_eq!((statuses(&active), statuses(&passive)), (vec![Ok(())], vec![Ok(())]));
}

#[test]
fn a_receive_posted_before_connecting_takes_the_first_send() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    let post = || QueuePair::post(&passive.queue_pair, 1, &[passive.sge(0, 64)], Flags::empty(), Post::Send(None));
    assert_eq!(post(), Err(Error::ConnectionInvalid), "not before the peer has completed");
    active.queue_pair.post_receive(2, &[active.sge(0, 64)]).unwrap();
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    assert_eq!(post(), Ok(()));
    kernel.flush_dpcs();
    assert_eq!((statuses(&active), statuses(&passive)), (vec![Ok(())], vec![Ok(())]));
}
