//! Many sockets, many threads.

use std::{
    io::Write as _,
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use platform::{LARGEST_TRANSFER, SocketError};

use crate::raw::{Op, Raw, any, bytes, listener};

const CONNECTIONS: usize = 1000;

/// Threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[cfg(not(target_os = "linux"))]
fn threads() -> usize {
    0
}

// Shows S1107.
#[test]
fn a_thousand_connections_of_one_listener() {
    let (listener, at) = listener(any());
    let before = threads();
    let accepting = thread::spawn(move || {
        let accepted = (0..CONNECTIONS).map(|_| {
            let (raw, op) = (Raw::new(), Op::new());
            raw.accept(&op, &listener);
            assert_eq!(op.wait(), Ok(0));
            raw
        });
        accepted.collect::<Vec<_>>()
    });
    let ops: Vec<_> = std::iter::repeat_with(|| (Raw::new(), Op::new())).take(CONNECTIONS).collect();
    ops.iter().for_each(|(raw, op)| raw.connect(op, any(), at));
    assert!(ops.iter().all(|(_, op)| op.wait() == Ok(0)));
    let theirs = accepting.join().unwrap();
    // Other tests have a few.
    assert!(threads() < before + 100, "a thread for each connection");

    let receives: Vec<_> = theirs.iter().map(|_| (Op::new(), [0_u8; 8])).collect();
    let mut receives = receives;
    for (raw, (op, room)) in theirs.iter().zip(&mut receives) {
        raw.receive(op, room);
    }
    // All of them wait; each gets the bytes of its own peer.
    for (raw, op) in &ops {
        raw.send(op, &u64::from(raw.addresses().0.port()).to_le_bytes());
        assert_eq!(op.wait(), Ok(8));
    }
    for (raw, (op, room)) in theirs.iter().zip(&receives) {
        assert_eq!(op.wait(), Ok(8));
        assert_eq!(u64::from_le_bytes(*room), raw.addresses().1.port().into());
    }
}

/// A generator (xorshift), so that a seed names a run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// What a run has seen.
#[derive(Default)]
struct Seen {
    bytes: AtomicUsize,
    at_once: AtomicUsize,
    later: AtomicUsize,
    canceled: AtomicUsize,
}

impl Seen {
    fn note(&self, op: &Op) {
        if op.is_over() { &self.at_once } else { &self.later }.fetch_add(1, Ordering::Relaxed);
    }
}

/// Receives in pieces of random sizes, compares, and closes at some point with a receive under way.
fn receiver(mut raw: Raw, mut random: Random, seen: &Seen) {
    let (op, close, mut room) = (Op::new(), Op::new(), vec![0; LARGEST_TRANSFER]);
    let all = bytes(LARGEST_TRANSFER + 251);
    let mut received = 0;
    for _ in 0..random.below(40) {
        let size = if random.below(2) == 0 { 1 + random.below(100) } else { room.len() };
        raw.receive(&op, &mut room[..size]);
        seen.note(&op);
        match op.wait() {
            Ok(0) | Err(SocketError::Reset) => return,
            Ok(count) => {
                assert!(room[..count] == all[received % 251..][..count]);
                received += count;
            }
            Err(error) => panic!("a receive ends with {error:?}"),
        }
    }
    seen.bytes.fetch_add(received, Ordering::Relaxed);
    raw.receive(&op, &mut room);
    raw.start_close(&close);
    assert_eq!(close.wait(), Ok(0));
    assert!(op.is_over());
    seen.canceled.fetch_add(usize::from(op.wait() == Err(SocketError::Canceled)), Ordering::Relaxed);
}

/// Sends in pieces of random sizes until the peer has enough, or closes itself, maybe with a send under way.
fn sender(mut raw: Raw, mut random: Random, seen: &Seen) {
    let (op, close) = (Op::new(), Op::new());
    let all = bytes(LARGEST_TRANSFER + 251);
    let mut sent = 0;
    let pieces = random.below(60);
    for _ in 0..pieces {
        let size = if random.below(2) == 0 { 1 + random.below(5000) } else { LARGEST_TRANSFER };
        raw.send(&op, &all[sent % 251..][..size]);
        seen.note(&op);
        if random.below(50) == 0 {
            break;
        }
        match op.wait() {
            Ok(count) => sent += count,
            Err(SocketError::Reset) => return,
            Err(error) => panic!("a send ends with {error:?}"),
        }
    }
    let waits = op.is_over();
    raw.start_close(&close);
    assert_eq!(close.wait(), Ok(0));
    assert!(op.is_over() || !waits);
    if op.is_over() {
        seen.canceled.fetch_add(usize::from(op.wait() == Err(SocketError::Canceled)), Ordering::Relaxed);
    }
}

/// In any interleaving of the threads, the reactor and the host, each request ends once, and the bytes are right.
#[test]
fn random_sizes_and_ends() {
    const ROUNDS: usize = 60;
    const AT_ONCE: usize = 8;
    let seen = Seen::default();
    for round in 0..ROUNDS {
        let (listener, at) = listener(any());
        thread::scope(|scope| {
            for number in 0..AT_ONCE {
                let seed = ((round * AT_ONCE + number + 1) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let (mut ours, theirs) = (Random(seed), Random(!seed));
                let (raw, other) = (Raw::new(), Raw::new());
                let (connect, accept) = (Op::new(), Op::new());
                let early = ours.below(2) == 0;
                if early {
                    other.accept(&accept, &listener);
                }
                raw.connect(&connect, any(), at);
                if !early {
                    other.accept(&accept, &listener);
                }
                assert_eq!((connect.wait(), accept.wait()), (Ok(0), Ok(0)));
                let seen = &seen;
                scope.spawn(move || sender(raw, ours, seen));
                scope.spawn(move || receiver(other, theirs, seen));
            }
        });
    }
    let figures =
        [&seen.bytes, &seen.at_once, &seen.later, &seen.canceled].map(|figure| figure.load(Ordering::Relaxed));
    println!("{} bytes; requests: {} at once, {} later, {} canceled", figures[0], figures[1], figures[2], figures[3]);
    assert!(figures.iter().all(|figure| *figure > 0));
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Closes race with what the peers do: connect, send, reset.
// Shows S1107, T57.
#[test]
fn closes_at_any_moment() {
    const ROUNDS: usize = 1500;
    let stop = AtomicBool::new(false);
    let [(listener, at), (quiet, silent)] = [(); 2].map(|()| listener(any()));
    let (mut connected, mut canceled, mut received) = (0, 0, 0);
    thread::scope(|scope| {
        for number in 0..2 {
            let stop = &stop;
            scope.spawn(move || {
                let mut random = Random(7 + number);
                while !stop.load(Ordering::Relaxed) {
                    let Ok(mut peer) = TcpStream::connect(at) else { continue };
                    for _ in 0..random.below(3) {
                        let _sent = peer.write(&[1; 100]);
                    }
                    if random.below(2) == 0 {
                        crate::transfer::reset(peer);
                    }
                }
            });
        }
        // Also when an assertion fails.
        let _stop = StopOnDrop(&stop);
        let mut random = Random(3);
        for _ in 0..ROUNDS {
            let (mut raw, accept, receive, close, mut room) = (Raw::new(), Op::new(), Op::new(), Op::new(), [0; 64]);
            // A peer that neither sends nor ends.
            let peer = (random.below(4) == 0).then(|| TcpStream::connect(silent).unwrap());
            raw.accept(&accept, if peer.is_some() { &quiet } else { &listener });
            if peer.is_some() || random.below(4) != 0 {
                assert_eq!(accept.wait(), Ok(0));
                connected += 1;
                raw.receive(&receive, &mut room);
                (0..random.below(300)).for_each(|_| std::hint::spin_loop());
                raw.start_close(&close);
                assert_eq!(close.wait(), Ok(0));
                assert!(receive.is_over());
                match receive.wait() {
                    Err(SocketError::Canceled) => canceled += 1,
                    outcome if peer.is_some() => panic!("{outcome:?} of a silent peer"),
                    Ok(_) => received += 1,
                    Err(error) => assert_eq!(error, SocketError::Reset),
                }
            } else {
                raw.start_close(&close);
                assert_eq!(close.wait(), Ok(0));
                assert!(accept.is_over());
                let outcome = accept.wait();
                assert!(matches!(outcome, Ok(0) | Err(SocketError::Canceled)), "{outcome:?}");
            }
        }
    });
    println!("{connected} accepted, {canceled} receives canceled, {received} not");
    assert!(connected > 0 && canceled > 0 && received > 0);
}
