//! A listener whose socket cannot be made at once, or dies: it listens again.

use std::{cell::OnceCell, net::SocketAddr, time::Duration};

use iwarp::mpa::{FrameKind, MpaFrame, RtrKinds};
use peer::{
    Arc,
    device::{HOST, Inbox, LIMITS, Listening, Side, ignore, machine},
    establish::{Connected, DEVICE, PAGES, at, by_peer},
    frames,
    raw::Raw,
    wait,
};
use platform::SocketError;
use simkernel::{Session, SimKernel, boot_seeded, seeds};
use soft_rdma::{Adapter, Connect, Connector, Error, Outcome, SharedEndpoint, Source, Status};

fn request() -> MpaFrame<'static> {
    frames::plain(FrameKind::Request, frames::enhanced(RtrKinds::WRITE))
}

/// A peer connects, and a message arrives.
fn serves(listening: &Listening) -> Connected {
    let connected = by_peer(listening, &request(), Some(&frames::write(1, 0, &[])));
    let Connected { raw, side } = &connected;
    side.receive(1, 0, 64);
    raw.send_frames([&frames::send(1, b"hello")]);
    assert_eq!(side.completed(1), [(1, Ok(()))]);
    connected
}

fn is_refused() -> bool {
    let Ok(raw) = Raw::connecting(at(0), DEVICE) else { return false };
    wait("an answer", || raw.started().is_some());
    raw.started() == Some(Err(SocketError::Refused))
}

/// The clock advances by one second, `count` times.
fn seconds(kernel: &Session, count: u32) {
    for _ in 0..count {
        kernel.flush_dpcs();
        kernel.advance(Duration::from_secs(1));
    }
    kernel.flush_dpcs();
}

#[test]
fn it_listens_when_tcp_has_come() {
    for seed in seeds(10) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        kernel.set_tcp(false);
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).expect("for the device itself");
        seconds(&kernel, 3);
        kernel.set_tcp(true);
        assert!(is_refused(), "not before it has tried again");
        seconds(&kernel, 1);
        drop(serves(&listening));
    }
}

// Shows S810.
#[test]
fn it_listens_again_when_its_socket_has_died() {
    for seed in seeds(10) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let before = serves(&listening);
        kernel.break_listeners(SocketError::NoNetwork);
        kernel.flush_dpcs();
        assert!(is_refused(), "nobody listens");
        seconds(&kernel, 1);
        drop(serves(&listening));
        // The connections from before live on.
        before.side.receive(2, 0, 64);
        before.raw.send_frames([&frames::send(2, b"still")]);
        assert_eq!(before.side.completed(1), [(2, Ok(()))]);
    }
}

/// The listening socket's accepts fail as for connections that were reset: after a number of failures in a row, another socket listens,
/// while the clock stands still.
// Shows T39.
#[test]
fn it_listens_again_when_its_socket_only_says_reset() {
    for seed in seeds(2) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        for _ in 0..2 {
            kernel.break_listeners(SocketError::Reset);
            kernel.flush_dpcs();
            drop(serves(&listening));
        }
    }
}

/// Peers connect and reset their connections at once, many in a row: the next is served while the clock stands still.
// Shows T39.
#[test]
fn it_is_not_silenced_by_resets() {
    for seed in seeds(10) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        for _ in 0..3 {
            let raws: Vec<_> = (0..50).map(|_| Raw::connecting(at(0), DEVICE).expect("memory")).collect();
            raws.iter().for_each(Raw::reset);
            drop(serves(&listening));
        }
    }
}

/// The listener closes in each of its states.
#[test]
fn it_closes_while_it_listens_again() {
    for seed in seeds(100) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        kernel.break_listeners(SocketError::NoNetwork);
        if seed % 2 == 0 {
            kernel.set_tcp(false);
        }
        for _ in 0..seed % 7 {
            kernel.advance(Duration::from_millis(500));
            (0..seed % 11).for_each(|_| simkernel::pause());
        }
        drop(listening);
        seconds(&kernel, 3);
        kernel.set_tcp(true);
        assert!(is_refused(), "nobody listens");
    }
}

/// How a connect of the device to itself ends.
fn connects(side: &Side) -> Status {
    let done = Inbox::default();
    match connect(side, &done)? {
        Outcome::Pending => done.wait("the end of the connect"),
        Outcome::Done => Ok(()),
    }
}

/// Begins a connect of the device to itself.
fn connect(side: &Side, done: &Inbox<Status>) -> Result<Outcome, Error> {
    let request = Connect {
        queue_pair: side.queue_pair(),
        source: Source::Address(SocketAddr::new(HOST, 0)),
        remote: DEVICE,
        limits: LIMITS,
        private_data: &[],
    };
    Connector::connect(side.connector(), request, done.callback())
}

/// TCP listens still.
#[test]
fn who_connects_when_it_has_just_gone_is_refused() {
    for seed in seeds(20) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let side = Side::new(Connector::new(&adapter).unwrap(), PAGES).unwrap();
        let listening = Listening::new(&adapter).unwrap();
        kernel.hold_listeners(true);
        drop(listening);
        for _ in 0..3 {
            assert_eq!(connects(&side), Err(Error::ConnectionRefused));
        }
        kernel.hold_listeners(false);
        drop(serves(&listens_again(&adapter)));
    }
}

/// A closed listener waits for TCP, which goes: a connect within the device finds the next listener at the address.
#[test]
fn a_connect_finds_the_listener_that_listens() {
    for seed in seeds(5) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let side = Side::new(Connector::new(&adapter).unwrap(), PAGES).unwrap();
        let listening = Listening::new(&adapter).unwrap();
        kernel.hold_listeners(true);
        drop(listening);
        kernel.set_tcp(false);
        let listening = Listening::new(&adapter).expect("for the device itself");
        let done = Inbox::default();
        assert_eq!(connect(&side, &done), Ok(Outcome::Pending));
        let connector = listening.incoming.wait("the request");
        let _may_wait = soft_rdma::close(connector, ignore());
        assert_eq!(done.wait("the end of the connect"), Err(Error::ConnectionRefused));
        kernel.hold_listeners(false);
    }
}

/// As soon as TCP has the port again.
fn listens_again(adapter: &Arc<Adapter<SimKernel>>) -> Listening {
    let found = OnceCell::new();
    wait("the port", || Listening::new(adapter).is_ok_and(|listening| found.set(listening).is_ok()));
    found.into_inner().unwrap()
}

/// There is no memory to await the next connection: the oldest that has asked for nothing is reset, and no time passes.
// Shows T38.
#[test]
fn who_asks_for_nothing_makes_room_for_the_next() {
    let mut made_room = 0;
    for seed in seeds(5) {
        for nth in 1..20 {
            let kernel = boot_seeded(seed);
            kernel.hold_clock();
            let adapter = machine(HOST);
            let listening = Listening::new(&adapter).unwrap();
            let silent = Raw::connect(at(0), DEVICE);
            kernel.flush_dpcs();
            let fault = kernel.fail_allocation(nth);
            // What fails may be of this peer, or of its slot, or for the next.
            let passer = Raw::connecting(at(0), DEVICE);
            kernel.flush_dpcs();
            drop(fault);
            drop(serves(&listening));
            made_room += u32::from(silent.ended().is_some());
            drop(passer);
        }
    }
    assert!(made_room > 0, "no silent peer was reset");
}

/// An allocation fails: the listen reports it, or the listener serves.
#[test]
fn it_does_not_listen_without_memory() {
    let mut failures = 0;
    for seed in seeds(10) {
        for nth in 1..20 {
            let kernel = boot_seeded(seed);
            kernel.hold_clock();
            let adapter = machine(HOST);
            // One place is left of the first that the device has for addresses: that for the listener's own.
            let _taken =
                [(); 3].map(|()| SharedEndpoint::new(&adapter, SocketAddr::new(HOST, 0)).expect("an endpoint"));
            let fault = kernel.fail_allocation(nth);
            let listening = Listening::new(&adapter);
            drop(fault);
            match listening {
                Ok(listening) => {
                    // It may have been the memory for the first connection, which is tried again.
                    seconds(&kernel, 2);
                    drop(serves(&listening));
                }
                Err(error) => {
                    assert_eq!(error, Error::InsufficientResources);
                    failures += 1;
                    drop(serves(&listens_again(&adapter)));
                }
            }
        }
    }
    assert!(failures > 0);
}
