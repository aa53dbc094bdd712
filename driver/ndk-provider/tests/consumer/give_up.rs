//! NDK_CONNECTOR: set-ups that are rejected, or closed in any phase.

use ndk_abi::status::{
    STATUS_CANCELLED, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_REFUSED, STATUS_INVALID_BUFFER_SIZE, STATUS_SUCCESS,
};

use crate::connector::Scene;
use crate::kit::{HeldProcessors, Waiter, World, pattern};

/// The passive side rejects: CONNECTION_REFUSED, with data; connector and queue pair can be used again.
// Shows S704.
#[test]
fn reject_by_the_passive_side() {
    let world = World::new();
    let scene = Scene::new(&world);
    assert_eq!(scene.active.qp.receive(7, &[]), STATUS_SUCCESS);
    for round in 0..3u8 {
        let connect = scene.connect();
        let passive = scene.listener.take();
        let data = pattern(round, usize::from(round) * 100);
        assert_eq!(passive.reject(&data), STATUS_SUCCESS);
        assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
        assert_eq!(scene.connector.data().1, data);
        assert_eq!(passive.reject(&data), STATUS_CONNECTION_ABORTED);
        let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
        assert_eq!(accept.wait(), STATUS_CONNECTION_ABORTED);
        passive.close_now();
    }
    let (passive, accept) = scene.accepted();
    scene.connector.complete(None).succeed();
    accept.succeed();
    // The receive that was posted before is still there.
    assert_eq!(scene.passive.qp.send(8, &[], 0), STATUS_SUCCESS);
    assert_eq!(scene.active.receive_cq.wait_one().RequestContext.addr(), 7);
    assert_eq!(world.provider.counters().ConnectFailure, 3);
    passive.close_now();
    scene.close(true);
}

/// The active side rejects what was accepted: the accept ends CONNECTION_ABORTED, its queue pair can be used again.
// Shows S704.
#[test]
fn reject_by_the_active_side() {
    let world = World::new();
    let scene = Scene::new(&world);
    let (passive, accept) = scene.accepted();
    // The provider checks the length of the private data, but delivers it to no side: NdkAccept is pending.
    let (before, most) = (passive.data(), world.adapter.info().MaxCalleeData as usize);
    assert_eq!(scene.connector.reject(&vec![1; most + 1]), STATUS_INVALID_BUFFER_SIZE);
    assert!(!accept.is_done());
    assert_eq!(scene.connector.reject(b"no"), STATUS_SUCCESS);
    assert_eq!(accept.wait(), STATUS_CONNECTION_ABORTED);
    assert_eq!(scene.connector.complete(None).wait(), STATUS_CONNECTION_ABORTED);
    assert_eq!(passive.data(), before);
    passive.close_now();
    scene.connector.close_now();
    let scene = Scene { connector: world.adapter.create_connector().expect("a connector"), ..scene };
    let (passive, accept) = scene.accepted();
    scene.connector.complete(None).succeed();
    accept.succeed();
    passive.close_now();
    scene.close(true);
}

#[test]
fn close_of_an_idle_connector() {
    let world = World::new();
    world.adapter.create_connector().expect("a connector").close_now();
}

/// Close while the peer has not answered: the connect is cancelled, and the peer's accept or reject is aborted.
#[test]
fn close_while_connecting() {
    let world = World::new();
    for late in 0..3 {
        let scene = Scene::new(&world);
        let connect = scene.connect();
        let passive = scene.listener.take();
        let close = scene.connector.close();
        close.succeed();
        assert_eq!(connect.wait(), STATUS_CANCELLED);
        let reported = connect.completion.calls()[0].ended;
        assert!(
            !close.pended() || reported < Some(close.completion.calls()[0].begun),
            "the close is the last callback"
        );
        match late {
            0 => assert_eq!(passive.reject(&[]), STATUS_CONNECTION_ABORTED),
            1 => {
                let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
                assert_eq!(accept.wait(), STATUS_CONNECTION_ABORTED);
            }
            _ => {}
        }
        passive.close_now();
        scene.close(false);
    }
}

/// Close of the connector of an event is an implicit reject.
#[test]
fn close_of_an_incoming_connector() {
    let world = World::new();
    let scene = Scene::new(&world);
    let connect = scene.connect();
    scene.listener.take().close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    assert!(scene.connector.data().1.is_empty());
    scene.close(true);
}

#[test]
fn close_of_the_passive_side_while_accepting() {
    let world = World::new();
    let scene = Scene::new(&world);
    let (passive, accept) = scene.accepted();
    passive.close_now();
    assert_eq!(accept.wait(), STATUS_CANCELLED);
    // The attempt has ended for the active side too: there is nothing to reject.
    assert_eq!(scene.connector.reject(&[]), STATUS_CONNECTION_ABORTED);
    assert_eq!(scene.connector.complete(None).wait(), STATUS_CONNECTION_ABORTED);
    scene.close(true);
}

#[test]
fn close_of_the_active_side_while_accepted() {
    let world = World::new();
    let scene = Scene::new(&world);
    let (passive, accept) = scene.accepted();
    scene.connector.close_now();
    assert_eq!(accept.wait(), STATUS_CONNECTION_ABORTED);
    passive.close_now();
    scene.close(false);
}

/// Close before any callback of the attempt ran: the provider still calls each callback once, the close's last.
#[test]
fn close_before_anything_was_delivered() {
    let world = World::new();
    let scene = Scene::new(&world);
    let held = HeldProcessors::new();
    let connect = scene.connect();
    let close = scene.connector.close();
    assert!(close.pended());
    drop(held);
    close.succeed();
    assert_eq!(connect.wait(), STATUS_CANCELLED);
    // The connect event may be called, although the active side has closed.
    world.flush_dpcs();
    if scene.listener.events.count() == 1 {
        let passive = scene.listener.take();
        let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
        assert_eq!(accept.wait(), STATUS_CONNECTION_ABORTED);
        passive.close_now();
    }
    scene.close(false);
}

/// The accept has succeeded but that was not delivered: close reports it once, then ends.
#[test]
fn close_before_the_accept_was_delivered() {
    let world = World::new();
    let scene = Scene::new(&world);
    let (passive, accept) = scene.accepted();
    let event = Waiter::deferred("disconnect event, active");
    let held = HeldProcessors::new();
    scene.connector.complete(Some(event)).succeed();
    let close = passive.close();
    drop(held);
    close.succeed();
    assert!([STATUS_SUCCESS, STATUS_CANCELLED].contains(&accept.wait()));
    assert_eq!(accept.completion.count(), 1);
    event.wait_for(1);
    scene.close(true);
}

/// The passive side uses the connection before its accept was delivered, as a consumer may that has a receive completion.
#[test]
fn the_accept_is_delivered_even_if_the_connection_has_ended() {
    let world = World::new();
    for active_ends in [true, false] {
        let scene = Scene::new(&world);
        let (passive, accept) = scene.accepted();
        let held = HeldProcessors::new();
        scene.connector.complete(None).succeed();
        let end = if active_ends { scene.connector.disconnect() } else { passive.disconnect() };
        drop(held);
        assert_eq!(accept.wait(), STATUS_SUCCESS);
        end.succeed();
        world.flush_dpcs();
        assert_eq!(accept.completion.count(), 1);
        passive.close_now();
        scene.close(true);
    }
}
