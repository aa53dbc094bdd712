//! Sends that have to wait for a receive.

use std::{cell::RefCell, time::Duration};

use simkernel::{Pages, Session, boot, boot_seeded, scope, seeds};
use soft_rdma::{Connector, Error, Flags, Outcome, Post, QueuePair, ReadLimits, Remote, SharedReceiveQueue, Status};

use crate::common::{
    HOST, LIMITS, OTHER_HOST, Side, accepted, accepted_by, accepted_with, machine_of_program, wait_until,
};

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

/// The passive side may send before the active side, which is still connecting, takes messages.
#[test]
fn a_send_that_crosses_the_peers_connect_is_carried_out() {
    for seed in seeds(200) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(1);
        let (active, passive) = accepted(&kernel, &pages);
        active.queue_pair.post_receive(1, &[active.sge(0, 64)]).unwrap();
        let sges = [passive.sge(0, 64)];
        let post = || QueuePair::post(&passive.queue_pair, 2, &sges, Flags::empty(), Post::Send(None));
        scope(|scope| {
            scope.spawn(|| assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done)));
            scope.spawn(|| wait_until(|| post() == Ok(())));
        });
        kernel.flush_dpcs();
        assert_eq!((statuses(&active), statuses(&passive)), (vec![Ok(())], vec![Ok(())]), "seed {seed}");
    }
}

/// Seconds that a send waits here.
const SECONDS: u32 = 2;

/// Two sides of a program, connected, while the clock stands.
fn connected(kernel: &Session, pages: &Pages, send_timeout: u32) -> (Side, Side) {
    kernel.hold_clock();
    let adapter = machine_of_program(HOST, send_timeout);
    let (active, passive) = accepted_by(kernel, pages, [&adapter, &adapter], [HOST, HOST]);
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    kernel.flush_dpcs();
    (active, passive)
}

fn send(kernel: &Session, side: &Side, context: usize, length: u32) -> Result<(), Error> {
    let sges = &[side.sge(0, length)];
    let posted = QueuePair::post(&side.queue_pair, context, sges, Flags::empty(), Post::Send(None));
    kernel.flush_dpcs();
    posted
}

fn pass(kernel: &Session, time: Duration) {
    // The timer is set again each second.
    for _ in 0..time.as_millis() / 100 {
        kernel.advance(Duration::from_millis(100));
        kernel.flush_dpcs();
    }
}

const ALMOST: Duration = Duration::from_millis(1000 * SECONDS as u64 - 100);
const REST: Duration = Duration::from_millis(200);

// Shows S950.
#[test]
fn a_programs_send_that_nobody_receives_ends_in_time() {
    for length in [64, 4096] {
        let kernel = boot();
        let pages = Pages::new(1);
        let (active, passive) = connected(&kernel, &pages, SECONDS);
        send(&kernel, &active, 1, length).unwrap();
        send(&kernel, &active, 2, length).unwrap();
        active.queue_pair.post_receive(3, &[]).unwrap();
        pass(&kernel, ALMOST);
        assert_eq!(statuses(&active), [], "before its time");
        pass(&kernel, REST);
        assert_eq!(statuses(&active), [Err(Error::TimedOut), Err(Error::Canceled), Err(Error::Canceled)]);
        assert_eq!(statuses(&passive), []);
        for side in [&active, &passive] {
            assert_eq!(send(&kernel, side, 4, 0), Ok(()));
            assert_eq!(statuses(side), [Err(Error::Canceled)], "the connection has ended");
        }
    }
}

// Shows S950.
#[test]
fn the_time_begins_anew_with_each_send_that_waits() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = connected(&kernel, &pages, SECONDS);
    for context in 0..3 {
        send(&kernel, &active, context, 64).unwrap();
        pass(&kernel, ALMOST);
        passive.queue_pair.post_receive(0, &[passive.sge(0, 64)]).unwrap();
        kernel.flush_dpcs();
        assert_eq!((statuses(&active), statuses(&passive)), (vec![Ok(())], vec![Ok(())]));
    }
    send(&kernel, &active, 4, 64).unwrap();
    pass(&kernel, ALMOST);
    assert_eq!(statuses(&active), []);
    // The timer ran already.
    pass(&kernel, REST + Duration::from_secs(1));
    assert_eq!(statuses(&active), [Err(Error::TimedOut)]);
}

#[test]
fn the_timer_is_set_while_a_send_waits() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = connected(&kernel, &pages, SECONDS);
    let timers = || kernel.ledger().set_timers;
    assert_eq!(timers(), 0);
    send(&kernel, &active, 1, 64).unwrap();
    pass(&kernel, ALMOST);
    assert_eq!(timers(), 1);
    passive.queue_pair.post_receive(2, &[passive.sge(0, 64)]).unwrap();
    pass(&kernel, REST);
    assert_eq!(timers(), 0, "the receive has come");
    send(&kernel, &active, 3, 64).unwrap();
    let _may_wait = soft_rdma::close(active.connector, crate::common::ignore());
    pass(&kernel, Duration::from_secs(1));
    assert_eq!(timers(), 0, "the connection has ended");
}

// Shows S950.
#[test]
fn a_send_waits_without_limit_where_nobody_set_one() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = connected(&kernel, &pages, 0);
    send(&kernel, &active, 1, 64).unwrap();
    pass(&kernel, Duration::from_secs(100));
    passive.queue_pair.post_receive(2, &[passive.sge(0, 64)]).unwrap();
    kernel.flush_dpcs();
    assert_eq!((statuses(&active), statuses(&passive)), (vec![Ok(())], vec![Ok(())]));
}

// Shows S208.
#[test]
fn a_send_of_a_consumer_in_the_kernel_waits_without_limit() {
    let kernel = boot();
    kernel.hold_clock();
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    active.device.set_send_timeout(SECONDS);
    send(&kernel, &active, 1, 64).unwrap();
    pass(&kernel, Duration::from_secs(100));
    passive.queue_pair.post_receive(2, &[passive.sge(0, 64)]).unwrap();
    kernel.flush_dpcs();
    assert_eq!((statuses(&active), statuses(&passive)), (vec![Ok(())], vec![Ok(())]));
}

// Shows S951.
#[test]
fn a_send_waits_without_limit_for_a_shared_receive() {
    let kernel = boot();
    kernel.hold_clock();
    let pages = Pages::new(1);
    let adapter = machine_of_program(HOST, SECONDS);
    let mut shared = None;
    let (active, passive) = accepted_with(&kernel, &pages, [&adapter, &adapter], [HOST, HOST], LIMITS, |pd| {
        shared = SharedReceiveQueue::new(pd, 8, 2, 0, None).ok();
        shared.clone()
    });
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    kernel.flush_dpcs();
    send(&kernel, &active, 1, 64).unwrap();
    pass(&kernel, Duration::from_secs(100));
    shared.unwrap().post(2, &[passive.sge(0, 64)]).unwrap();
    kernel.flush_dpcs();
    assert_eq!((statuses(&active), statuses(&passive)), (vec![Ok(())], vec![Ok(())]));
}

/// The programs ask for no reads: the one that confirms a send is the devices' own.
// Shows S954.
#[test]
fn a_send_to_another_machine_that_nobody_receives_ends_in_time() {
    for seed in seeds(20) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let pages = Pages::new(1);
        let hosts = [HOST, OTHER_HOST];
        let [near, far] = hosts.map(|host| machine_of_program(host, SECONDS));
        let (active, passive) = accepted_with(&kernel, &pages, [&near, &far], hosts, ReadLimits::default(), |_| None);
        wait_until(|| Connector::complete_connect(&active.connector, None) == Ok(Outcome::Done));
        let read = Post::Read(Remote { address: 0, token: 0 });
        let posted = QueuePair::post(&active.queue_pair, 4, &[], Flags::empty(), read);
        assert_eq!(posted, Err(Error::InvalidDeviceRequest));
        passive.queue_pair.post_receive(2, &[passive.sge(0, 64)]).unwrap();
        for context in 0..3 {
            send(&kernel, &active, context, 64).unwrap();
        }
        let ended = RefCell::new(Vec::new());
        let pass = |tenths: u32| {
            for _ in 0..tenths {
                kernel.advance(Duration::from_millis(100));
                (0..50).for_each(|_| simkernel::pause());
            }
            ended.borrow_mut().extend(statuses(&active));
        };
        pass(10 * SECONDS - 1);
        assert_eq!(*ended.borrow(), [Ok(())], "before its time");
        assert_eq!(statuses(&passive), [Ok(())]);
        wait_until(|| {
            pass(1);
            ended.borrow().len() == 3
        });
        assert_eq!(*ended.borrow(), [Ok(()), Err(Error::TimedOut), Err(Error::Canceled)]);
    }
}

/// Behind them there may be receives in the ring of a program.
// Shows S951.
#[test]
fn a_send_waits_while_its_receiver_has_completions_to_take() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = connected(&kernel, &pages, SECONDS);
    passive.queue_pair.post_receive(1, &[passive.sge(0, 64)]).unwrap();
    send(&kernel, &active, 2, 64).unwrap();
    send(&kernel, &active, 3, 64).unwrap();
    pass(&kernel, Duration::from_secs(100));
    assert_eq!((statuses(&active), statuses(&passive)), (vec![Ok(())], vec![Ok(())]));
    // They are taken now.
    pass(&kernel, Duration::from_secs(1));
    assert_eq!(statuses(&active), [Err(Error::TimedOut)]);
}

// Shows S952.
#[test]
fn a_queue_pair_whose_send_waits_goes_at_once() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = connected(&kernel, &pages, SECONDS);
    send(&kernel, &active, 1, 64).unwrap();
    assert_eq!(kernel.ledger().set_timers, 1);
    let _outcome = Connector::disconnect(&active.connector, crate::common::ignore());
    kernel.flush_dpcs();
    assert_eq!(statuses(&active), [Err(Error::Canceled)]);
    assert_eq!(kernel.ledger().set_timers, 0);
    drop((active, passive));
}
