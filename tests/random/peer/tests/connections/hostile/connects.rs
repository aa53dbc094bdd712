//! Connections, many of them.

use std::{net::SocketAddr, time::Duration};

use iwarp::mpa::{FrameKind, MpaFrame, RtrKinds};
use peer::{
    device::{HOST, Listening, PORT, machine},
    establish::{Connected, DEVICE, PAGES, at, by_peer},
    frames,
    raw::{Door, Raw},
    wait,
};
use platform::PoolQuota;
use simkernel::{Purpose, Session, boot_seeded, seeds};
use soft_rdma::{Adapter, Device, limits};

use crate::pauses;

/// Bytes that a connection has which has asked for nothing: 1 KiB for what it asks, and itself.
const HALF_OPEN: usize = 3 << 10;

/// Bytes of a refused connection: 16 KiB of buffers, and the object.
const REFUSED: usize = 18 << 10;

fn request() -> MpaFrame<'static> {
    frames::plain(FrameKind::Request, frames::enhanced(RtrKinds::WRITE))
}

fn others_are_served(listening: &Listening) {
    let Connected { raw, side } = by_peer(listening, &request(), Some(&frames::write(1, 0, &[])));
    side.receive(1, 0, 64);
    raw.send_frames([&frames::send(1, b"hello")]);
    assert_eq!(side.completed(1), [(1, Ok(()))]);
}

/// Bytes of one end that a test has.
fn of_raw(kernel: &Session) -> usize {
    let door = Door::listen(at(PORT));
    kernel.flush_dpcs();
    let before = kernel.ledger().pool_bytes();
    let one = Raw::connect(at(0), at(PORT));
    kernel.flush_dpcs();
    let bytes = kernel.ledger().pool_bytes() - before;
    drop((one, door));
    kernel.flush_dpcs();
    bytes
}

/// Peers connect and send nothing, or a byte of a Request now and then: the oldest connections are reset for the newer ones, and a peer
/// with a whole Request is served while the clock stands still.
// Shows T38, T39.
#[test]
fn they_ask_for_nothing() {
    const COUNT: usize = limits::HALF_OPEN + 300;
    for slow in [false, true] {
        let kernel = boot_seeded(1);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let raw = of_raw(&kernel);
        let before = kernel.ledger().pool_bytes();
        let asked = frames::mpa_frame(&request());
        // The good client connects when HALF_OPEN - 2 peers have not connected yet: after the last of them, others are older than it.
        let patient = |raws: &Vec<Raw>| raws.len() == COUNT - limits::HALF_OPEN + 2;
        let mut raws = Vec::new();
        let mut good = None;
        while raws.len() < COUNT {
            let raw = Raw::connect(at(0), DEVICE);
            if patient(&raws) && good.is_none() {
                good = Some(raw);
                continue;
            }
            if slow {
                raw.send(&asked[..1]);
            }
            raws.push(raw);
            if raws.len() % 100 == 0 {
                // Else TCP would refuse some, as its own queue is not endless.
                kernel.flush_dpcs();
            }
        }
        if slow {
            raws.iter().for_each(|raw| raw.send(&asked[1..2]));
        }
        kernel.flush_dpcs();
        let of_device = kernel.ledger().pool_bytes() - before - (COUNT + 1) * raw;
        println!("{of_device} bytes for {COUNT} connections that have not asked");
        let most = (limits::HALF_OPEN + 1) * HALF_OPEN;
        assert!(of_device < most, "{of_device} bytes for {COUNT} connections");
        let made_way = raws.iter().filter(|raw| raw.ended().is_some()).count();
        assert!((COUNT - limits::HALF_OPEN..=COUNT - limits::HALF_OPEN + 2).contains(&made_way), "{made_way}");
        let newest = raws.iter().rev().take_while(|raw| raw.ended().is_none()).count();
        assert!(newest >= limits::HALF_OPEN - 2, "only the newest {newest} stay");
        let good = good.unwrap();
        good.send(&asked);
        let connector = listening.incoming.wait("the one that was slow to ask");
        let _may_wait = soft_rdma::close(connector, peer::device::ignore());
        others_are_served(&listening);
        kernel.advance(Duration::from_secs(5));
        (0..20).for_each(|_| pauses());
        kernel.flush_dpcs();
        assert!(raws.iter().all(|raw| raw.ended().is_some()), "5 s are over");
        others_are_served(&listening);
    }
}

/// The connections of one peer displace each other, not earlier ones of other peers, whether these are silent or were refused. One peer can
/// hold as many as all peers together.
// Shows T81.
#[test]
fn they_are_of_one_address() {
    for (wrong, most, bytes) in [(false, limits::HALF_OPEN, HALF_OPEN), (true, limits::REFUSED, REFUSED)] {
        let count = most + 300;
        let kernel = boot_seeded(1);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let raw = of_raw(&kernel);
        let before = kernel.ledger().pool_bytes();
        let frame = frames::mpa_frame(&MpaFrame { markers: wrong, ..request() });
        let come = |from| {
            let raw = Raw::connect(from, DEVICE);
            if wrong {
                raw.send(&frame);
            }
            kernel.flush_dpcs();
            raw
        };
        let others: Vec<_> = (3..10).map(|last| come(SocketAddr::from(([192, 0, 2, last], 0)))).collect();
        let raws: Vec<_> = (0..count).map(|_| come(at(0))).collect();
        let of_device = kernel.ledger().pool_bytes() - before - (count + others.len()) * raw;
        println!("{of_device} bytes for {count} connections of one address");
        assert!(of_device < (most + 1) * bytes, "{of_device} bytes");
        assert!(raws.iter().filter(|raw| raw.ended().is_some()).count() >= count - most);
        for other in &others {
            if wrong {
                assert!(other.mpa_frame(FrameKind::Reply).is_some());
                // Its own end takes bytes as long as the device's is there.
                other.send(b"1");
                kernel.flush_dpcs();
                assert_eq!(other.send_some(b"2"), 1);
            } else {
                assert_eq!(other.ended(), None);
                other.send(&frame);
                let connector = listening.incoming.wait("a request");
                let _may_wait = soft_rdma::close(connector, peer::device::ignore());
            }
        }
        others_are_served(&listening);
    }
}

/// The connections use up the pool of the listener's process: the oldest are reset for the newer ones, while the clock stands still.
// Shows T38.
#[test]
fn they_use_up_the_pool() {
    const COUNT: usize = 300;
    const POOL: u64 = 256 << 10;
    for seed in seeds(3) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let device = Device::new().unwrap();
        device.add_address(HOST).unwrap();
        let quota = PoolQuota::new(POOL).unwrap();
        let adapter = Adapter::open_for(&device, (2, 1), None, &quota).unwrap();
        let listening = Listening::new(&adapter).unwrap();
        let raws: Vec<_> = (0..COUNT)
            .map(|_| {
                let raw = Raw::connect(at(0), DEVICE);
                kernel.flush_dpcs();
                raw
            })
            .collect();
        let stay = raws.iter().rev().take_while(|raw| raw.ended().is_none()).count();
        let ended = raws.iter().filter(|raw| raw.ended().is_some()).count();
        assert!(stay > 50 && ended == COUNT - stay, "of {COUNT} the newest {stay} stay, {ended} have ended");
        drop(raws);
        others_are_served(&listening);
    }
}

/// The close of the listener ends the connections that have sent no Request.
// Shows T38.
#[test]
fn they_end_with_the_listener() {
    const COUNT: usize = 200;
    for seed in seeds(3) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let raws: Vec<_> = (0..COUNT).map(|_| Raw::connect(at(0), DEVICE)).collect();
        drop(listening);
        kernel.flush_dpcs();
        assert!(raws.iter().all(|raw| raw.ended().is_some()), "no time has passed");
    }
}

/// Peers send Requests that the device refuses, and do not close.
// Shows T84.
#[test]
fn they_are_refused() {
    const COUNT: usize = 300;
    for seed in seeds(2) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let raw = of_raw(&kernel);
        let before = kernel.ledger().pool_bytes();
        let wrong = frames::mpa_frame(&MpaFrame { markers: true, ..request() });
        let raws: Vec<_> = (0..COUNT)
            .map(|_| {
                let raw = Raw::connect(at(0), DEVICE);
                raw.send(&wrong);
                raw
            })
            .collect();
        (0..20).for_each(|_| pauses());
        kernel.flush_dpcs();
        let of_device = kernel.ledger().pool_bytes() - before - COUNT * raw;
        let most = (limits::REFUSED + 1) * REFUSED;
        assert!(of_device < most, "{of_device} bytes for {COUNT} connections");
        kernel.advance(Duration::from_secs(5));
        wait("the end of all", || raws.iter().all(|raw| raw.ended().is_some()));
        others_are_served(&listening);
    }
}

/// Peers send good Requests, the consumer refuses each, as it does when its backlog is full, and they do not close: the oldest are reset.
// Shows T84.
#[test]
fn the_consumer_refuses_them() {
    const COUNT: usize = 1000;
    let kernel = boot_seeded(1);
    kernel.hold_clock();
    let adapter = machine(HOST);
    let listening = Listening::new(&adapter).unwrap();
    let raw = of_raw(&kernel);
    let before = kernel.ledger().pool_bytes();
    let asked = frames::mpa_frame(&request());
    let raws: Vec<_> = (0..COUNT)
        .map(|_| {
            let raw = Raw::connect(at(0), DEVICE);
            raw.send(&asked);
            let connector = listening.incoming.wait("a request");
            let _may_wait = soft_rdma::close(connector, peer::device::ignore());
            raw
        })
        .collect();
    kernel.flush_dpcs();
    let of_device = kernel.ledger().pool_bytes() - before - COUNT * raw;
    println!("{of_device} bytes for {COUNT} refused connections");
    let most = (limits::REFUSED + 1) * REFUSED;
    assert!(of_device < most, "{of_device} bytes for {COUNT} connections");
    // While the clock stands still, the oldest are reset; the others have got the Reply, and have five seconds to close.
    let ended = |raw: &&Raw| raw.ended().is_some();
    let ended = raws.iter().filter(ended).count();
    assert!(ended >= COUNT - limits::REFUSED, "{ended} ended");
    let mut told = raws.iter().filter(|raw| raw.ended().is_none());
    assert!(told.all(|raw| raw.mpa_frame(FrameKind::Reply).is_some()));
    kernel.advance(Duration::from_secs(5));
    wait("the end of all", || raws.iter().all(|raw| raw.ended().is_some()));
    others_are_served(&listening);
}

/// Peers break a rule, and do not close. Without memory for a slot of the ended connections, a connection is reset: the clock stands still.
// Shows T84.
#[test]
fn they_end_without_a_slot() {
    for seed in seeds(3) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let Connected { raw, side } = by_peer(&listening, &request(), Some(&frames::write(1, 0, &[])));
        let fault = kernel.fail_allocation(1);
        raw.send_frames([&frames::send(7, b"not the next message")]);
        wait("the reset", || matches!(raw.ended(), Some(Err(_))));
        assert!(fault.happened(), "seed {seed}");
        drop((fault, side));
    }
}

/// They are connected, and each gets what is meant for it.
// Shows T38.
#[test]
fn they_are_many_at_once() {
    const COUNT: usize = 1000;
    /// Bytes that a connection may have which has nothing to do.
    const IDLE: usize = 24 << 10;
    let kernel = boot_seeded(1);
    kernel.hold_clock();
    let adapter = machine(HOST);
    let listening = Listening::new(&adapter).unwrap();
    let raw = of_raw(&kernel);
    let before = kernel.ledger().pool_bytes();
    let first = frames::write(1, 0, &[]);
    let all: Vec<_> = (0..COUNT).map(|_| by_peer(&listening, &request(), Some(&first))).collect();
    kernel.flush_dpcs();
    let ledger = kernel.ledger();
    let of_device = (ledger.pool_bytes() - before) / COUNT - raw;
    println!("{COUNT} connections: {of_device} bytes each, queue pair, completion queue and connector included");
    assert!(of_device <= IDLE);
    let pages: usize =
        ledger.live.iter().filter(|live| live.purpose == Purpose::Pages).map(|live| live.layout.size()).sum();
    assert_eq!(pages, COUNT * PAGES * 4096, "the consumers' own");
    for (number, Connected { raw, side }) in all.iter().enumerate() {
        side.receive(number, 0, 64);
        raw.send_frames([&frames::send(1, format!("to {number}").as_bytes())]);
    }
    for (number, Connected { side, .. }) in all.iter().enumerate() {
        assert_eq!(side.completed(1), [(number, Ok(()))]);
        let text = format!("to {number}\0");
        assert_eq!(side.pages.read(0, text.len()), text.as_bytes());
    }
}
