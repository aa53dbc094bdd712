//! Sending, receiving, finishing.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    thread,
};

use platform::{LARGEST_TRANSFER, SENDS, SocketError};
use socket2::SockRef;

use crate::raw::{Op, Raw, accepted, any, bytes, connected};

/// Ends a connection by a reset.
pub(crate) fn reset(peer: TcpStream) {
    SockRef::from(&peer).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(peer);
}

#[test]
fn a_receive_gets_what_there_is_at_once_or_later() {
    for (raw, mut peer) in [connected(any()), accepted(any())] {
        let (op, mut room) = (Op::new(), [0; 100]);
        raw.receive(&op, &mut room);
        assert!(!op.is_over());
        peer.write_all(b"later").unwrap();
        assert_eq!(op.wait(), Ok(5));
        assert_eq!(&room[..5], b"later");
        // Each receive asks for fewer bytes than have arrived: some receives complete at once.
        peer.write_all(&bytes(1000)).unwrap();
        let mut received = Vec::new();
        let mut at_once = 0;
        while received.len() < 1000 {
            raw.receive(&op, &mut room[..10]);
            at_once += usize::from(op.is_over());
            let count = op.wait().unwrap();
            received.extend_from_slice(&room[..count]);
        }
        assert_eq!(received, bytes(1000));
        assert!(at_once > 0);
    }
}

/// The end may be received with the last bytes, when the host reports both at once.
#[test]
fn bytes_then_the_end() {
    for gap in [false, true] {
        for (raw, mut peer) in [connected(any()), accepted(any())] {
            let (op, mut room) = (Op::new(), [0; 100]);
            raw.receive(&op, &mut room);
            peer.write_all(b"bytes").unwrap();
            if gap {
                while !op.is_over() {
                    thread::yield_now();
                }
            }
            peer.shutdown(Shutdown::Write).unwrap();
            assert_eq!(op.wait(), Ok(5));
            for _ in 0..3 {
                raw.receive(&op, &mut room);
                assert_eq!(op.wait(), Ok(0));
            }
            raw.send_all(b"more");
            assert_eq!(raw.finish(), Ok(0));
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            assert_eq!(all, b"more");
        }
    }
}

#[test]
fn who_has_finished_receives_on() {
    for (raw, mut peer) in [connected(any()), accepted(any())] {
        let (op, mut room) = (Op::new(), [0; 100]);
        raw.receive(&op, &mut room);
        raw.send_all(b"all");
        assert_eq!(raw.finish(), Ok(0));
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"all");
        peer.write_all(b"on").unwrap();
        assert_eq!(op.wait(), Ok(2));
        drop(peer);
        assert_eq!(raw.receive_all(1), []);
    }
}

/// A peer that does not read blocks the sender; the bytes arrive in order.
#[test]
fn large_sends_wait_for_the_peer() {
    for (raw, mut peer) in [connected(any()), accepted(any())] {
        let (op, chunk) = (Op::new(), bytes(LARGEST_TRANSFER));
        let mut sent = 0;
        loop {
            raw.send(&op, &chunk);
            if !op.is_over() {
                break;
            }
            assert_eq!(op.wait(), Ok(chunk.len()));
            sent += chunk.len();
        }
        // The host's buffers are full.
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            all
        });
        assert_eq!(op.wait(), Ok(chunk.len()));
        for _ in 0..100 {
            raw.send_all(&chunk);
        }
        assert_eq!(raw.finish(), Ok(0));
        let all = reader.join().unwrap();
        assert_eq!(all.len(), sent + 101 * chunk.len());
        assert!(all.chunks(chunk.len()).all(|part| part == chunk));
    }
}

/// As many sends as may wait at a time, behind a peer that does not read.
fn waiting_sends(raw: &Raw, parts: &[Vec<u8>; SENDS]) -> ([Op; SENDS], usize) {
    let (ops, full): ([Op; SENDS], _) = (std::array::from_fn(|_| Op::new()), &parts[0]);
    let mut sent = 0;
    loop {
        raw.send(&ops[0], full);
        if !ops[0].is_over() {
            break;
        }
        assert_eq!(ops[0].wait(), Ok(full.len()));
        sent += full.len();
    }
    for (op, part) in ops.iter().zip(parts).skip(1) {
        raw.send(op, part);
        assert!(!op.is_over(), "it comes after one that waits");
    }
    (ops, sent)
}

#[test]
fn sends_that_wait_go_one_after_the_other() {
    for (raw, mut peer) in [connected(any()), accepted(any())] {
        let parts = [LARGEST_TRANSFER, 3, 100_000].map(bytes);
        let (ops, before) = waiting_sends(&raw, &parts);
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            all
        });
        for (op, part) in ops.iter().zip(&parts) {
            assert_eq!(op.wait(), Ok(part.len()));
        }
        assert_eq!(raw.finish(), Ok(0));
        let all = reader.join().unwrap();
        assert!(all[before..] == parts.concat());
    }
}

#[test]
fn sends_that_wait_end_with_the_connection() {
    let parts = [LARGEST_TRANSFER, 3, 100_000].map(bytes);
    let (raw, peer) = connected(any());
    let (ops, _) = waiting_sends(&raw, &parts);
    reset(peer);
    assert!(ops.iter().all(|op| op.wait() == Err(SocketError::Reset)));
    let (raw, _peer) = connected(any());
    let (ops, _) = waiting_sends(&raw, &parts);
    raw.close();
    assert!(ops.iter().all(|op| op.wait() == Err(SocketError::Canceled)));
}

#[test]
fn both_directions_at_once() {
    let (raw, mut peer) = connected(any());
    let all = bytes(8 << 20);
    let mut from = peer.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| all.chunks(LARGEST_TRANSFER).for_each(|chunk| raw.send_all(chunk)));
        scope.spawn(|| {
            let mut received = vec![0; all.len()];
            from.read_exact(&mut received).unwrap();
            assert!(received == all);
        });
        scope.spawn(|| peer.write_all(&all).unwrap());
        assert!(raw.receive_all(all.len()) == all);
    });
}

#[test]
fn a_reset_fails_what_waits_and_what_comes() {
    for (raw, peer) in [connected(any()), accepted(any())] {
        let (receive, send, mut room) = (Op::new(), Op::new(), [0; 100]);
        let chunk = bytes(LARGEST_TRANSFER);
        raw.receive(&receive, &mut room);
        loop {
            raw.send(&send, &chunk);
            if !send.is_over() {
                break;
            }
            assert_eq!(send.wait(), Ok(chunk.len()));
        }
        reset(peer);
        assert_eq!((receive.wait(), send.wait()), (Err(SocketError::Reset), Err(SocketError::Reset)));
        for _ in 0..3 {
            raw.receive(&receive, &mut room);
            raw.send(&send, b"more");
            assert_eq!((receive.wait(), send.wait()), (Err(SocketError::Reset), Err(SocketError::Reset)));
        }
        raw.close();
    }
}

/// The host reports a reset once: its next answer is the end of the stream, as if the peer had finished.
#[test]
fn a_reset_is_no_end_when_a_send_was_told_first() {
    let (raw, peer) = connected(any());
    let (op, mut room) = (Op::new(), [0; 100]);
    reset(peer);
    loop {
        raw.send(&op, b"more");
        match op.wait() {
            Ok(_) => thread::yield_now(),
            Err(error) => break assert_eq!(error, SocketError::Reset),
        }
    }
    raw.receive(&op, &mut room);
    assert_eq!(op.wait(), Err(SocketError::Reset));
}

/// The host sends small messages at once, without waiting for more (no Nagle delay).
#[test]
fn small_messages_go_at_once() {
    let (raw, mut peer) = accepted(any());
    peer.set_nodelay(true).unwrap();
    let echo = thread::spawn(move || {
        let mut room = [0; 64];
        while peer.read_exact(&mut room).is_ok() {
            peer.write_all(&room).unwrap();
        }
    });
    for _ in 0..2000 {
        raw.send_all(&[7; 32]);
        raw.send_all(&[8; 32]);
        assert_eq!(raw.receive_all(64), [[7; 32], [8; 32]].concat());
    }
    raw.close();
    echo.join().unwrap();
}

#[test]
fn two_of_ours_exchange_all_sizes() {
    let (raw, peer) = two();
    for size in [1, 2, 63, 64, 65, 1460, 4096, 65_535, 65_536, LARGEST_TRANSFER] {
        for (from, to) in [(&raw, &peer), (&peer, &raw)] {
            let all = bytes(size);
            let op = Op::new();
            from.send(&op, &all);
            assert_eq!(to.receive_all(size), all);
            assert_eq!(op.wait(), Ok(size));
        }
    }
}

/// A connection between two sockets of ours.
pub(crate) fn two() -> (Raw, Raw) {
    let (listener, at) = crate::raw::listener(any());
    let (ours, theirs) = (Raw::new(), Raw::new());
    let (connect, accept) = (Op::new(), Op::new());
    theirs.accept(&accept, &listener);
    ours.connect(&connect, any(), at);
    assert_eq!((connect.wait(), accept.wait()), (Ok(0), Ok(0)));
    (ours, theirs)
}

/// The peer is told of a reset. Under Wine it is told of the end before: its closesocket shuts down what it closes.
pub(crate) fn assert_reset(peer: &mut TcpStream) {
    let is_wine = std::env::var_os("WINELOADER").is_some();
    let error = loop {
        let ended = match peer.read(&mut [0; 1000]) {
            Ok(0) if is_wine => peer.write(b"more").err(),
            Ok(0) => panic!("the peer has finished"),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = ended {
            break error;
        }
    };
    let is_reset = |kind| matches!(kind, ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted);
    // Wine has WSAESHUTDOWN for EPIPE.
    assert!(is_reset(error.kind()) || is_wine && error.raw_os_error() == Some(10058), "{error}");
}
