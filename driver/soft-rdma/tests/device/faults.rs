//! Fault rules: which requests they fail, within the device and over a wire, and what they leave alone.

#![expect(unsafe_code, reason = "callbacks are promised to be valid, as a kernel consumer does")]

use std::{
    ffi::c_void,
    net::SocketAddr,
    sync::{Mutex, atomic::Ordering},
    time::Duration,
};

use platform::Notice;
use simkernel::{Pages, Session, boot};
use soft_rdma::{
    Accept, Arm, Callback, CompletionQueue, Connect, Connector, Counter, Error, Flags, Listener, MemoryRegion, Outcome,
    Post, QueuePair, Remote, RulesError, Source, Status, limits,
};

use crate::common::{
    BASE, HOST, LIMITS, NOTIFIED, OTHER_HOST, Side, awaited, connected, ignore, machine, machine_of_program, receive,
    runs_of, send, side, statuses, wait_until,
};

/// Plays `what` within the device and over a wire, with small and with larger messages.
fn play(what: impl Fn(&Session, &Side, &Side, u32)) {
    for (apart, length) in [(false, 64), (false, 4096), (true, 64), (true, 4096)] {
        println!("apart: {apart}, {length} bytes");
        let kernel = boot();
        let pages = Pages::new(4);
        let (active, passive) = connected(&kernel, &pages, apart);
        what(&kernel, &active, &passive, length);
        for side in [active, passive] {
            let _may_wait = soft_rdma::close(side.connector, ignore());
            let _may_wait = soft_rdma::close(side.queue_pair, ignore());
        }
        kernel.flush_dpcs();
    }
}

/// Closes the connectors of both sides.
fn close(kernel: &Session, sides: [Side; 2]) {
    for side in sides {
        let _may_wait = soft_rdma::close(side.connector, ignore());
    }
    kernel.flush_dpcs();
}

/// Some seconds pass, one by one, as the timer of a queue pair is set again for each.
fn pass(kernel: &Session, seconds: u32) {
    kernel.flush_dpcs();
    for _ in 0..seconds {
        kernel.advance(Duration::from_millis(1100));
        kernel.flush_dpcs();
    }
}

/// What each rule has counted: passed, fired.
fn counts(side: &Side) -> Vec<(u64, u64)> {
    let rules = (0..).map_while(|index| side.device.fault_rule(index));
    rules.map(|rule| (rule.counts().passed, rule.counts().fired)).collect()
}

// Shows S1701.
#[test]
fn a_send_fails_as_the_rule_says_and_those_before_it_arrive() {
    play(|kernel, active, passive, length| {
        kernel.keep_notices();
        active.device.set_fault_rules("on send after 2 do fail STATUS_IO_TIMEOUT").unwrap();
        receive(passive, 4);
        (0..4).for_each(|_| send(active, length));
        assert_eq!(statuses(active, 4), [Ok(()), Ok(()), Err(Error::TimedOut), Err(Error::Canceled)]);
        assert_eq!(statuses(passive, 2)[..2], [Ok(()), Ok(())]);
        assert_eq!(counts(active), [(3, 1)]);
        assert_eq!(active.device.counters().read()[Counter::Faults], 1);
        let (local, remote) = (active.connector.local_address(), active.connector.peer_address());
        let notices = kernel.take_notices();
        let found = notices.iter().find_map(|notice| match *notice {
            Notice::Fault { rule, addresses, queue_pair, status } => Some((rule, addresses, queue_pair, status)),
            _ => None,
        });
        let (rule, addresses, queue_pair, status) = found.expect("a notice");
        assert_eq!((rule, addresses.local, addresses.remote, status), (1, local, remote, Error::TimedOut as u32));
        assert!(queue_pair.is_some());
    });
}

/// A read of no bytes, which is under way over a wire when the engine comes to the send behind it.
fn read_and_send(side: &Side, flags: Flags) {
    let remote = Remote { address: 0, token: 0 };
    QueuePair::post(&side.queue_pair, 0, &[], Flags::DEFER, Post::Read(remote)).unwrap();
    QueuePair::post(&side.queue_pair, 0, &[side.sge(0, 64)], flags, Post::Send(None)).unwrap();
}

// Shows S1701.
#[test]
fn a_send_behind_a_read_fails_as_the_rule_says() {
    play(|_, active, passive, _| {
        active.device.set_fault_rules("on send do fail STATUS_IO_TIMEOUT").unwrap();
        receive(passive, 1);
        read_and_send(active, Flags::empty());
        let ended = statuses(active, 2);
        assert!(ended[0] == Ok(()) || ended[0] == Err(Error::Canceled), "{ended:?}");
        assert_eq!(ended[1], Err(Error::TimedOut));
    });
}

/// What the fence has a request wait for ends before a rule ends the connection.
// Shows S1702.
#[test]
fn a_fenced_send_passes_its_point_behind_the_reads() {
    play(|_, active, passive, _| {
        active.device.set_fault_rules("on send do reset").unwrap();
        receive(passive, 1);
        read_and_send(active, Flags::READ_FENCE);
        assert_eq!(statuses(active, 2), [Ok(()), Err(Error::Canceled)]);
    });
}

// Shows S1702.
#[test]
fn a_rule_ends_the_connection_on_both_sides() {
    for (action, reason) in [("disconnect", 0), ("reset", 1)] {
        play(|kernel, active, passive, length| {
            active.device.set_fault_rules(&format!("on send after 1 times 1 do {action}")).unwrap();
            receive(passive, 2);
            send(active, length);
            assert_eq!(statuses(active, 1), [Ok(())]);
            send(active, length);
            // Both sides' receives and requests are cancelled: by the break, or by the flush of their consumers.
            for side in [active, passive] {
                if reason == 0 {
                    wait_until(|| {
                        kernel.flush_dpcs();
                        Connector::disconnect(&side.connector, ignore()).is_ok()
                    });
                }
            }
            assert_eq!(statuses(active, 1), [Err(Error::Canceled)]);
            assert_eq!(statuses(passive, 2), [Ok(()), Err(Error::Canceled)]);
            assert_eq!(counts(active), [(2, 1)]);
        });
    }
}

// Shows S1701.
#[test]
fn a_filter_leaves_other_requests_alone() {
    play(|_, active, passive, length| {
        let other = active.device.address(0) != passive.device.address(0);
        let rules = "on send where role=passive do reset; on send where port=1 do reset; on send where bytes=65 do reset; \
                     on write do reset; on send where process=7 do reset";
        active.device.set_fault_rules(rules).unwrap();
        if other {
            passive.device.set_fault_rules(rules).unwrap();
        }
        receive(passive, 2);
        receive(active, 1);
        send(active, length);
        send(active, length);
        assert_eq!(statuses(active, 2), [Ok(()), Ok(())]);
        assert_eq!(counts(active), [(0, 0); 5]);
        send(passive, length);
        assert_eq!(statuses(passive, 3)[2..], [Err(Error::Canceled)]);
        assert_eq!(counts(passive)[0], (1, 1));
    });
}

// Shows S1708.
#[test]
fn a_delayed_send_and_those_behind_it_wait() {
    play(|kernel, active, passive, length| {
        active.device.set_fault_rules("on send after 1 times 1 do delay 1500ms").unwrap();
        receive(passive, 3);
        (0..3).for_each(|_| send(active, length));
        assert_eq!(statuses(passive, 1), [Ok(())]);
        kernel.flush_dpcs();
        kernel.advance(Duration::from_millis(1000));
        kernel.flush_dpcs();
        kernel.advance(Duration::from_millis(400));
        kernel.flush_dpcs();
        assert!(statuses(passive, 0).is_empty(), "before its time");
        pass(kernel, 1);
        assert_eq!(statuses(passive, 2), [Ok(()), Ok(())]);
        assert_eq!(statuses(active, 3), [Ok(()); 3]);
        assert_eq!(counts(active), [(3, 1)]);
    });
}

// Shows S1708.
#[test]
fn a_send_that_waits_by_a_rule_is_flushed_with_those_behind_it() {
    for action in ["stall", "delay 3600s"] {
        play(|kernel, active, passive, length| {
            active.device.set_fault_rules(&format!("on send times 1 do {action}")).unwrap();
            receive(passive, 1);
            (0..2).for_each(|_| send(active, length));
            pass(kernel, 60);
            assert!(statuses(active, 0).is_empty() && statuses(passive, 0).is_empty());
            QueuePair::flush(&active.queue_pair);
            assert_eq!(statuses(active, 2), [Err(Error::Canceled); 2]);
            // Nothing was sent: the connection goes on, and the timer is free after a second at most.
            active.device.set_fault_rules("on send do delay 10ms").unwrap();
            send(active, length);
            pass(kernel, 2);
            assert_eq!((statuses(active, 1), statuses(passive, 1)), (vec![Ok(())], vec![Ok(())]));
        });
    }
}

// Shows S1704.
#[test]
fn a_send_that_waits_by_a_rule_goes_on_with_the_next_post_when_the_rule_is_removed() {
    for action in ["stall", "delay 3600s"] {
        play(|kernel, active, passive, length| {
            active.device.set_fault_rules(&format!("on send times 1 do {action}")).unwrap();
            receive(passive, 2);
            send(active, length);
            pass(kernel, 2);
            assert!(statuses(active, 0).is_empty());
            active.device.set_fault_rules("").unwrap();
            send(active, length);
            assert_eq!(statuses(active, 2), [Ok(()); 2]);
            assert_eq!(statuses(passive, 2), [Ok(()); 2]);
        });
    }
}

/// Kernel consumers' messages wait without limit within the device, and 5 s over a wire.
// Shows S1710.
#[test]
fn a_rule_sets_how_long_the_messages_of_a_connection_wait_for_a_receive() {
    for (apart, rule) in [(false, "on connect where port=5445 do"), (true, "on accept where port=5445 do")] {
        println!("{rule}");
        let kernel = boot();
        let pages = Pages::new(4);
        kernel.hold_clock();
        let near = machine(HOST);
        let far = if apart { machine(OTHER_HOST) } else { near.clone() };
        let hosts = [HOST, if apart { OTHER_HOST } else { HOST }];
        let decides = if apart { &far } else { &near };
        decides.device().set_fault_rules(&format!("{rule} send-timeout 2s")).unwrap();
        let (active, passive) = crate::common::accepted_by(&kernel, &pages, [&near, &far], hosts);
        wait_until(|| Connector::complete_connect(&active.connector, None) != Err(Error::ConnectionInvalid));
        kernel.flush_dpcs();
        let waited = || decides.device().counters().read()[Counter::ReceiverNotReady];
        let broken = || near.device().counters().read()[Counter::ConnectionErrors];
        send(&active, 64);
        wait_until(|| waited() == 1);
        pass(&kernel, 1);
        assert_eq!((waited(), broken()), (1, 0), "it waits");
        for _ in 0..2 {
            pass(&kernel, 1);
        }
        wait_until(|| broken() > 0);
        let status = statuses(&active, 1)[0];
        assert!(apart || status == Err(Error::TimedOut), "{status:?}");
        close(&kernel, [active, passive]);
    }
}

/// The timer of a send that waited for its receive still runs when the delay begins.
// Shows S1708.
#[test]
fn a_delay_is_not_shortened_by_an_earlier_wait() {
    let kernel = boot();
    let pages = Pages::new(4);
    kernel.hold_clock();
    let adapter = machine_of_program(HOST, 4);
    let (active, passive) = crate::common::accepted_by(&kernel, &pages, [&adapter, &adapter], [HOST, HOST]);
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    adapter.device().set_fault_rules("on send after 1 do delay 2s").unwrap();
    send(&active, 64);
    kernel.flush_dpcs();
    receive(&passive, 2);
    send(&active, 64);
    assert_eq!(statuses(&active, 1), [Ok(())]);
    pass(&kernel, 1);
    kernel.advance(Duration::from_millis(800));
    kernel.flush_dpcs();
    assert!(statuses(&active, 0).is_empty(), "the second of the first send ended the delay of the other");
    pass(&kernel, 2);
    assert_eq!(statuses(&active, 1), [Ok(())]);
    close(&kernel, [active, passive]);
}

/// A send that waits for a receive is carried out in several steps.
// Shows S1703.
#[test]
fn a_request_passes_its_point_once() {
    play(|kernel, active, passive, length| {
        active.device.set_fault_rules("on send after 1 do fail STATUS_DATA_ERROR").unwrap();
        send(active, length);
        kernel.flush_dpcs();
        receive(passive, 1);
        assert_eq!(statuses(passive, 1), [Ok(())]);
        assert_eq!(statuses(active, 1), [Ok(())]);
        assert_eq!(counts(active), [(1, 0)]);
        send(active, length);
        assert_eq!(statuses(active, 1), [Err(Error::DataError)]);
        assert_eq!(counts(active), [(2, 1)]);
    });
}

// Shows S1704.
#[test]
fn rules_that_are_removed_fire_no_more() {
    play(|_, active, passive, length| {
        active.device.set_fault_rules("on send do reset").unwrap();
        assert!(matches!(active.device.set_fault_rules("on send"), Err(RulesError::Wrong(_))));
        let many = "on send do reset\n".repeat(limits::FAULT_RULES + 1);
        assert_eq!(active.device.set_fault_rules(&many), Err(RulesError::TooMany));
        assert_eq!(counts(active), [(0, 0)], "the old rules stay");
        let text = active.device.fault_rule(0).expect("a rule");
        assert!(text.text().starts_with(b"on send do reset\0"));
        active.device.set_fault_rules("").unwrap();
        assert!(active.device.fault_rule(0).is_none());
        receive(passive, 1);
        send(active, length);
        assert_eq!(statuses(active, 1), [Ok(())]);
    });
}

// Shows S1701.
#[test]
fn a_connect_fails_when_it_has_begun_and_can_be_tried_again() {
    let kernel = boot();
    let pages = Pages::new(1);
    let near = machine_of_program(HOST, 0);
    let active = side(&near, Connector::new(&near).unwrap(), &pages);
    near.device().set_fault_rules("on connect where port=5445 times 1 do fail STATUS_CONNECTION_REFUSED").unwrap();
    let (done, status) = awaited();
    let remote = SocketAddr::new(OTHER_HOST, 5445);
    let request = |queue_pair| Connect {
        queue_pair,
        source: Source::Address(SocketAddr::new(HOST, 0)),
        remote,
        limits: LIMITS,
        private_data: &[],
    };
    assert_eq!(Connector::connect(&active.connector, request(&active.queue_pair), done), Ok(Outcome::Pending));
    assert_eq!(status(), Err(Error::ConnectionRefused));
    assert_eq!(near.device().counters().read()[Counter::ConnectFailures], 1);
    assert_eq!(counts(&active), [(1, 1)]);
    let far = machine(OTHER_HOST);
    let (retried, passive) = crate::common::accept(&kernel, &pages, active, &far, [HOST, OTHER_HOST], LIMITS, |_| None);
    wait_until(|| Connector::complete_connect(&retried.connector, None) != Err(Error::ConnectionInvalid));
    for side in [retried, passive] {
        let _may_wait = soft_rdma::close(side.connector, ignore());
    }
    kernel.flush_dpcs();
}

/// A connect that the callback of another begins.
struct Again {
    side: Side,
    outcome: Mutex<Option<Result<Outcome, Error>>>,
}

fn connect_again(_function: *const (), again: *mut c_void, status: Status) {
    assert_eq!(status, Err(Error::TimedOut));
    // SAFETY: made from such a reference, which lives for ever.
    let again = unsafe { &*again.cast_const().cast::<Again>() };
    let connected = connect_from_a_port(&again.side, ignore());
    *again.outcome.lock().unwrap() = Some(connected);
}

fn connect_from_a_port(side: &Side, done: Callback<Status>) -> Result<Outcome, Error> {
    let request = Connect {
        queue_pair: &side.queue_pair,
        source: Source::Address(SocketAddr::new(HOST, 7000)),
        remote: SocketAddr::new(OTHER_HOST, 5445),
        limits: LIMITS,
        private_data: &[],
    };
    Connector::connect(&side.connector, request, done)
}

// Shows S1701.
#[test]
fn a_connect_that_a_rule_fails_has_given_its_port_back_before_the_consumer_is_told() {
    let kernel = boot();
    let pages = Pages::new(1);
    let adapter = machine(HOST);
    let side = side(&adapter, Connector::new(&adapter).unwrap(), &pages);
    adapter.device().set_fault_rules("on connect times 1 do fail STATUS_IO_TIMEOUT").unwrap();
    let again = std::sync::Arc::new(Again { side: side.clone(), outcome: Mutex::default() });
    let context = std::sync::Arc::as_ptr(&again).cast_mut().cast();
    // SAFETY: `connect_again` takes the pointer back, from any thread; what it points to outlives the wait below.
    let done = unsafe { Callback::new(connect_again, std::ptr::null(), context) };
    assert_eq!(connect_from_a_port(&side, done), Ok(Outcome::Pending));
    wait_until(|| again.outcome.lock().unwrap().is_some());
    assert_eq!(*again.outcome.lock().unwrap(), Some(Ok(Outcome::Pending)));
    kernel.flush_dpcs();
    drop(again);
    let _may_wait = soft_rdma::close(side.connector, ignore());
    kernel.flush_dpcs();
}

// Shows S1701.
#[test]
fn a_listen_and_a_registration_fail_once() {
    let kernel = boot();
    let pages = Pages::new(1);
    let adapter = machine(HOST);
    let device = adapter.device();
    device
        .set_fault_rules(
            "on listen where port=5446 times 1 do fail STATUS_SHARING_VIOLATION
             on register where bytes>=4097 do fail STATUS_INSUFFICIENT_RESOURCES
             on register where bytes<=4096 after 2 times 1 do fail STATUS_INSUFFICIENT_RESOURCES",
        )
        .unwrap();
    let listener = crate::common::listener(&adapter);
    let listen = || Listener::listen(&listener, SocketAddr::new(HOST, 5446), ignore());
    assert_eq!(listen(), Err(Error::SharingViolation));
    assert_eq!(listen(), Ok(Outcome::Pending));
    kernel.flush_dpcs();

    // The first two registrations: each side registers its region.
    let [one, _other] = [(); 2].map(|()| side(&adapter, Connector::new(&adapter).unwrap(), &pages));
    let region = MemoryRegion::new(&one.pd, false).unwrap();
    let register = || MemoryRegion::register(&region, BASE, 4096, soft_rdma::Access::LOCAL_WRITE, runs_of(&pages));
    assert_eq!(register(), Err(Error::InsufficientResources));
    assert_eq!(register(), Ok(()));
    assert_eq!(counts(&one), [(2, 1), (0, 0), (4, 1)]);
    let _may_wait = soft_rdma::close(listener, ignore());
    kernel.flush_dpcs();
}

// Shows S1701.
#[test]
fn an_accept_that_a_rule_fails_ends_the_connection_request() {
    let kernel = boot();
    let pages = Pages::new(1);
    let one = machine(HOST);
    let apart = [machine_of_program(HOST, 0), machine_of_program(OTHER_HOST, 0)];
    for ([near, far], remote) in [([&one, &one], HOST), (apart.each_ref(), OTHER_HOST)] {
        far.device().set_fault_rules("on accept where port=5445 times 1 do fail STATUS_IO_TIMEOUT").unwrap();
        let remote = SocketAddr::new(remote, 5445);
        let (event, connector) = awaited();
        let listener = Listener::new(far, event).unwrap();
        assert_eq!(Listener::listen(&listener, remote, ignore()), Ok(Outcome::Pending));
        kernel.flush_dpcs();
        let active = side(near, Connector::new(near).unwrap(), &pages);
        let (done, connected) = awaited();
        let source = Source::Address(SocketAddr::new(HOST, 0));
        let request = Connect { queue_pair: &active.queue_pair, source, remote, limits: LIMITS, private_data: &[] };
        assert_eq!(Connector::connect(&active.connector, request, done), Ok(Outcome::Pending));
        kernel.flush_dpcs();

        let passive = side(far, connector(), &pages);
        let accept = || {
            let request =
                Accept { queue_pair: &passive.queue_pair, limits: LIMITS, private_data: &[], disconnect_event: None };
            Connector::accept(&passive.connector, request, ignore())
        };
        assert_eq!(accept(), Err(Error::TimedOut));
        kernel.flush_dpcs();
        assert_eq!(connected(), Err(Error::ConnectionRefused));
        assert_eq!(accept(), Err(Error::ConnectionAborted));
        assert_eq!(counts(&passive), [(1, 1)]);
        for connector in [active.connector, passive.connector] {
            let _may_wait = soft_rdma::close(connector, ignore());
        }
        let _may_wait = soft_rdma::close(listener, ignore());
        kernel.flush_dpcs();
    }
}

// Shows S1713.
#[test]
fn a_rule_overruns_a_completion_queue() {
    for apart in [false, true] {
        let kernel = boot();
        let pages = Pages::new(4);
        let (active, passive) = connected(&kernel, &pages, apart);
        receive(&passive, 3);
        send(&active, 64);
        assert_eq!((statuses(&active, 1), statuses(&passive, 1)), (vec![Ok(())], vec![Ok(())]));
        CompletionQueue::arm(&active.cq, Arm::Errors);
        let notified = NOTIFIED.load(Ordering::SeqCst);
        // Within the device the receive completes before the send.
        let before = if apart { 0 } else { 1 };
        active.device.set_fault_rules(&format!("on complete after {before} times 1 do overrun")).unwrap();
        send(&active, 64);
        wait_until(|| NOTIFIED.load(Ordering::SeqCst) > notified);
        assert!(active.completions().is_empty());
        assert_eq!(active.device.counters().read()[Counter::CqErrors], 1);
        let refused = QueuePair::post(&active.queue_pair, 0, &[], Flags::empty(), Post::Send(None));
        assert_eq!(refused, Err(Error::ConnectionInvalid));
        assert_eq!(statuses(&passive, 2), [Ok(()), Err(Error::Canceled)]);
        assert_eq!(counts(&active)[0].1, 1);
        close(&kernel, [active, passive]);
    }
}

// Shows S1714.
#[test]
fn a_rule_delays_one_notification() {
    play(|kernel, active, passive, length| {
        receive(passive, 3);
        passive.device.set_fault_rules("on notify times 1 do delay 1500ms").unwrap();
        let notified = || NOTIFIED.load(Ordering::SeqCst);
        let before = notified();
        CompletionQueue::arm(&passive.cq, Arm::Any);
        send(active, length);
        assert_eq!(statuses(active, 1), [Ok(())]);
        wait_until(|| counts(passive) == [(1, 1)]);
        // Another completion does not end the delay, nor does the consumer that polls both.
        send(active, length);
        assert_eq!(statuses(passive, 2), [Ok(()), Ok(())]);
        kernel.flush_dpcs();
        kernel.advance(Duration::from_millis(1400));
        kernel.flush_dpcs();
        assert_eq!(notified(), before, "before its time");
        kernel.advance(Duration::from_millis(200));
        kernel.flush_dpcs();
        // The completions were polled: the next one notifies, at once.
        assert_eq!(notified(), before);
        send(active, length);
        wait_until(|| notified() == before + 1);
        assert_eq!(counts(passive), [(1, 1)]);
    });
}

// Shows S1714.
#[test]
fn a_notification_that_a_rule_delays_comes_when_the_time_is_over_or_the_queue_fails() {
    play(|kernel, active, passive, length| {
        receive(passive, 2);
        let notified = || NOTIFIED.load(Ordering::SeqCst);
        let before = notified();
        passive.device.set_fault_rules("on notify do delay 1500ms").unwrap();
        CompletionQueue::arm(&passive.cq, Arm::Any);
        send(active, length);
        wait_until(|| counts(passive) == [(1, 1)]);
        passive.device.set_fault_rules("").unwrap();
        // A moderation with a shorter interval does not end it.
        assert_eq!(CompletionQueue::moderate(&passive.cq, 0, 1), Ok(()));
        kernel.flush_dpcs();
        assert_eq!(notified(), before);
        kernel.advance(Duration::from_millis(1400));
        kernel.flush_dpcs();
        assert_eq!(notified(), before, "before its time");
        kernel.advance(Duration::from_millis(200));
        kernel.flush_dpcs();
        assert_eq!(notified(), before + 1);

        // Within the device the sends complete on the device too.
        let is_apart = active.device.address(0) != passive.device.address(0);
        let after = if is_apart { 1 } else { 2 };
        let rules = format!("on notify do delay 3600s; on complete after {after} times 1 do overrun");
        passive.device.set_fault_rules(&rules).unwrap();
        CompletionQueue::arm(&passive.cq, Arm::Any);
        receive(passive, 1);
        send(active, length);
        wait_until(|| counts(passive)[0] == (1, 1));
        kernel.flush_dpcs();
        assert_eq!(notified(), before + 1);
        send(active, length);
        wait_until(|| notified() == before + 2);
    });
}

/// Two sides over a wire with CRCs, or without.
fn connected_with_crc(kernel: &Session, pages: &Pages, crc: bool) -> (Side, Side) {
    kernel.hold_clock();
    let [near, far] = [HOST, OTHER_HOST].map(machine);
    near.device().want_crc(crc);
    let (active, passive) = crate::common::accepted_by(kernel, pages, [&near, &far], [HOST, OTHER_HOST]);
    wait_until(|| Connector::complete_connect(&active.connector, None) != Err(Error::ConnectionInvalid));
    kernel.flush_dpcs();
    (active, passive)
}

/// The causes of the Terminates that were received.
fn terminates(notices: &[Notice]) -> Vec<(u8, u8, u8)> {
    let causes = notices.iter().filter_map(|notice| match notice {
        Notice::TerminateReceived { cause, .. } => Some((cause.layer, cause.kind, cause.code)),
        _ => None,
    });
    causes.collect()
}

// Shows S1711.
#[test]
fn a_segment_that_a_rule_corrupts_has_the_crc_of_another() {
    for crc in [true, false] {
        let kernel = boot();
        let pages = Pages::new(4);
        let (active, passive) = connected_with_crc(&kernel, &pages, crc);
        kernel.keep_notices();
        active.device.set_fault_rules("on segment-out where bytes>=1 after 1 times 1 do corrupt").unwrap();
        receive(&passive, 2);
        send(&active, 64);
        send(&active, 64);
        let second = if crc { Err(Error::Canceled) } else { Ok(()) };
        assert_eq!(statuses(&passive, 2), [Ok(()), second]);
        if crc {
            let broken = || active.device.counters().read()[Counter::ConnectionErrors] > 0;
            wait_until(broken);
            assert_eq!(terminates(&kernel.take_notices()), [(2, 0, 0x02)]);
            assert_eq!(counts(&active), [(2, 1)]);
        } else {
            assert_eq!(counts(&active), [(0, 0)], "no CRC would find it");
        }
        close(&kernel, [active, passive]);
    }
}

/// As if the peer had no such memory any more.
// Shows S1712.
#[test]
fn a_rule_answers_a_segment_with_a_terminate() {
    for (code, cause) in [("0x0100", (0, 1, 0x00)), ("0x1100", (1, 1, 0x00))] {
        let kernel = boot();
        let pages = Pages::new(4);
        kernel.hold_clock();
        // Of programs: a write awaits the peer.
        let [near, far] = [HOST, OTHER_HOST].map(|host| machine_of_program(host, 4));
        let (active, passive) = crate::common::accepted_by(&kernel, &pages, [&near, &far], [HOST, OTHER_HOST]);
        wait_until(|| Connector::complete_connect(&active.connector, None) != Err(Error::ConnectionInvalid));
        kernel.flush_dpcs();
        kernel.keep_notices();
        receive(&passive, 2);
        send(&active, 64);
        assert_eq!((statuses(&active, 1), statuses(&passive, 1)), (vec![Ok(())], vec![Ok(())]));
        // The first segment is the request; a write of 64 bytes has one.
        passive.device.set_fault_rules(&format!("on segment-in where role=passive do terminate {code}")).unwrap();
        let remote = Remote { address: BASE, token: passive.region.token() };
        let post = if cause.0 == 0 { Post::Read(remote) } else { Post::Write(remote) };
        QueuePair::post(&active.queue_pair, 0, &[active.sge(0, 64)], Flags::empty(), post).unwrap();
        assert_eq!(statuses(&active, 1), [Err(Error::AccessViolation)], "{code}");
        assert_eq!(statuses(&passive, 1), [Err(Error::Canceled)]);
        assert_eq!(terminates(&kernel.take_notices()), [cause]);
        assert_eq!(counts(&passive), [(1, 1)]);
        close(&kernel, [active, passive]);
    }
}

/// A message that waits for its receive is looked at several times.
// Shows S1703.
#[test]
fn a_segment_passes_its_point_once() {
    let kernel = boot();
    let pages = Pages::new(4);
    let (active, passive) = connected_with_crc(&kernel, &pages, false);
    passive.device.set_fault_rules("on segment-in where bytes>=1 after 1 do terminate 0x0100").unwrap();
    send(&active, 64);
    pass(&kernel, 2);
    receive(&passive, 1);
    assert_eq!(statuses(&passive, 1), [Ok(())]);
    assert_eq!(counts(&passive), [(1, 0)]);
    close(&kernel, [active, passive]);
}

/// One side sends, and rules delay its segment, or have the other side take it later.
// Shows S1708.
#[test]
fn a_delayed_segment_and_those_behind_it_wait() {
    for (direction, is_sender) in [("out", true), ("in", false)] {
        let kernel = boot();
        let pages = Pages::new(4);
        let (active, passive) = connected_with_crc(&kernel, &pages, true);
        let ruled = if is_sender { &active } else { &passive };
        let rule = format!("on segment-{direction} where bytes>=1 after 1 times 1 do delay 1500ms");
        ruled.device.set_fault_rules(&rule).unwrap();
        receive(&passive, 3);
        (0..3).for_each(|_| send(&active, 64));
        assert_eq!(statuses(&passive, 1), [Ok(())]);
        wait_until(|| counts(ruled) == [(2, 1)]);
        // The other direction goes on.
        receive(&active, 1);
        send(&passive, 64);
        assert_eq!(statuses(&passive, 1), [Ok(())]);
        let before = if is_sender { 2 } else { 4 };
        assert_eq!(statuses(&active, before), vec![Ok(()); before]);
        kernel.flush_dpcs();
        kernel.advance(Duration::from_millis(1400));
        kernel.flush_dpcs();
        assert!(statuses(&passive, 0).is_empty(), "before its time");
        kernel.advance(Duration::from_millis(200));
        assert_eq!(statuses(&passive, 2), [Ok(()); 2]);
        assert_eq!(statuses(&active, 4 - before), vec![Ok(()); 4 - before]);
        assert_eq!(counts(ruled), [(3, 1)]);
        close(&kernel, [active, passive]);
    }
}

/// The segments go on when the rules are removed, and end with the connection.
// Shows S1704, S1708.
#[test]
fn delays_of_segments_end_with_their_rules_and_with_the_connection() {
    for is_removed in [true, false] {
        let kernel = boot();
        let pages = Pages::new(4);
        let (active, passive) = connected_with_crc(&kernel, &pages, true);
        passive.device.set_fault_rules("on segment-in where bytes>=1 do delay 3600s").unwrap();
        receive(&passive, 2);
        send(&active, 64);
        wait_until(|| counts(&passive) == [(1, 1)]);
        active.device.set_fault_rules("on segment-out where bytes>=1 do delay 3600s").unwrap();
        send(&active, 64);
        pass(&kernel, 10);
        assert_eq!(statuses(&active, 1), [Ok(())]);
        assert!(statuses(&passive, 0).is_empty());
        if is_removed {
            active.device.set_fault_rules("").unwrap();
            pass(&kernel, 1);
            assert_eq!(statuses(&active, 1), [Ok(())]);
            // More has come to the passive side, which does nothing now.
            passive.device.set_fault_rules("").unwrap();
            pass(&kernel, 1);
            assert_eq!(statuses(&passive, 2), [Ok(()); 2]);
            for side in [&active, &passive] {
                side.device.set_fault_rules("on segment-out after 9 do delay 1s").unwrap();
            }
            receive(&passive, 1);
            send(&active, 64);
            assert_eq!(statuses(&passive, 1), [Ok(())]);
            assert_eq!(counts(&active), [(1, 0)]);
        } else {
            let _may_wait = Connector::disconnect(&passive.connector, ignore()).unwrap();
            assert_eq!(statuses(&passive, 2), [Err(Error::Canceled); 2]);
            let _may_wait = Connector::disconnect(&active.connector, ignore()).unwrap();
            assert_eq!(statuses(&active, 1), [Err(Error::Canceled)]);
        }
        close(&kernel, [active, passive]);
    }
}

/// The peer's read is answered first when the delay of the send is over.
// Shows S1703.
#[test]
fn a_delayed_segment_passes_its_point_once_beside_others() {
    let kernel = boot();
    let pages = Pages::new(4);
    let (active, passive) = connected_with_crc(&kernel, &pages, true);
    active.device.set_fault_rules("on segment-out where bytes>=1 do delay 900ms").unwrap();
    receive(&passive, 1);
    send(&active, 64);
    wait_until(|| counts(&active) == [(1, 1)]);
    let read = Post::Read(Remote { address: BASE, token: active.region.token() });
    QueuePair::post(&passive.queue_pair, 0, &[], Flags::empty(), read).unwrap();
    pass(&kernel, 0);
    pass(&kernel, 1);
    assert_eq!((statuses(&active, 1), statuses(&passive, 2)), (vec![Ok(())], vec![Ok(()); 2]));
    assert_eq!(counts(&active), [(1, 1)]);
    close(&kernel, [active, passive]);
}

/// The responder sends nothing, and the initiator's RTR messages are delayed: there are two.
// Shows S1703.
#[test]
fn a_delayed_rtr_message_is_sent_twice_at_most() {
    let kernel = boot();
    let pages = Pages::new(4);
    kernel.hold_clock();
    let [near, far] = [HOST, OTHER_HOST].map(machine);
    near.device().set_fault_rules("on segment-out do delay 20ms").unwrap();
    let (active, passive) = crate::common::accepted_by(&kernel, &pages, [&near, &far], [HOST, OTHER_HOST]);
    wait_until(|| Connector::complete_connect(&active.connector, None) != Err(Error::ConnectionInvalid));
    for _ in 0..20 {
        kernel.flush_dpcs();
        kernel.advance(Duration::from_millis(30));
    }
    assert_eq!(counts(&active), [(2, 2)]);
    close(&kernel, [active, passive]);
}
