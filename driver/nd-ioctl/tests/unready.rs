//! How long a send waits for a receive that its receiver has put into a ring.

use std::{mem::offset_of, sync::atomic::Ordering, time::Duration};

use nd_rings::{Mapped, Writer};
use ndk_abi::{ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{Session, boot};
use users::{
    User, World,
    rings::{DEPTH, Ring, Ringed, connect, push},
    start,
    user::{handle, work},
};

fn pass(session: &Session, seconds: u64) {
    for _ in 0..seconds * 10 {
        session.advance(Duration::from_millis(100));
        session.flush_dpcs();
    }
}

/// Puts a request into a ring, and rings a doorbell if `Asleep` is set.
fn post(session: &Session, user: &User<'_>, qp: u64, ring: &Ring, writer: &mut Writer<Mapped>, request: &SOFTNDK_POST) {
    assert!(push(writer, request, &[]));
    if ring.word(offset_of!(SOFTNDK_RING, Asleep)).load(Ordering::SeqCst) != 0 {
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(qp)), STATUS_SUCCESS);
    }
    session.flush_dpcs();
}

/// While completions of its receives wait for room in the ring of the CQ, the driver does not read a queue pair's ring of receives: it
/// awaits these completions.
// Shows S951.
#[test]
fn a_receive_that_the_driver_has_not_read_is_waited_for() {
    const SECONDS: u32 = 2;
    let session = boot();
    let device = start();
    device.host().provider().set_send_timeout(SECONDS);
    let (peer, user) = (User::new(&device), User::new(&device));
    let (at, from) = (World::listening(&peer), World::new(&user));
    let [theirs, own] = [Ringed::new(&peer, &at).unwrap(), Ringed::new(&user, &from).unwrap()];
    connect(&user, [from.connector, own.qp], &peer, [at.connector, theirs.qp], at.listener);
    session.hold_clock();
    let ([mut sends, _], [_, mut receives]) = (own.writers(), theirs.writers());
    let mut receive = |context| {
        let request = work(NdkOperationTypeReceive, 0, context);
        post(&session, &peer, theirs.qp, &theirs.rings[3], &mut receives, &request);
    };
    let mut send = |context| {
        post(&session, &user, own.qp, &own.rings[2], &mut sends, &work(NdkOperationTypeSend, 0, context));
    };
    let mut sent = own.completions();
    let mut statuses = || {
        let mut statuses = Vec::new();
        sent.poll(DEPTH as usize, |completion| statuses.push(completion.Status));
        statuses
    };
    // One receive more than the ring of completions takes, and another one behind it.
    for context in 0..u64::from(DEPTH) + 1 {
        receive(context);
        send(context);
        assert_eq!(statuses(), [STATUS_SUCCESS]);
    }
    receive(100);
    send(100);
    pass(&session, 10 * u64::from(SECONDS));
    assert_eq!(statuses(), [], "its receive is in the ring");
    assert_eq!(theirs.completions().poll(DEPTH as usize, |_| ()), DEPTH as usize);
    assert_eq!(peer.call(IOCTL_SOFTNDK_DOORBELL, &handle(theirs.cq)), STATUS_SUCCESS);
    session.flush_dpcs();
    assert_eq!(statuses(), [STATUS_SUCCESS]);
    // There is no receive for this send.
    send(101);
    pass(&session, u64::from(SECONDS) + 1);
    assert_eq!(statuses(), [STATUS_IO_TIMEOUT]);
}
