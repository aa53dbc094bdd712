//! Closing a socket, in each state.
#![expect(unsafe_code, reason = "a routine with a context")]

use std::{
    ffi::c_void,
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::Mutex,
};

use platform::{Completion, LARGEST_TRANSFER, SocketError};

use crate::{
    raw::{Op, Outcome, Raw, accepted, any, bytes, connected, listener},
    transfer::assert_reset,
};

#[test]
fn requests_under_way_end_before_the_close() {
    for (mut raw, mut peer) in [connected(any()), accepted(any())] {
        let (receive, send, close, mut room) = (Op::new(), Op::new(), Op::new(), [0; 100]);
        let chunk = bytes(LARGEST_TRANSFER);
        raw.receive(&receive, &mut room);
        loop {
            raw.send(&send, &chunk);
            if !send.is_over() {
                break;
            }
            send.wait().unwrap();
        }
        raw.start_close(&close);
        assert_eq!(close.wait(), Ok(0));
        assert!(receive.is_over() && send.is_over());
        assert_eq!((receive.wait(), send.wait()), (Err(SocketError::Canceled), Err(SocketError::Canceled)));
        assert_reset(&mut peer);
    }
}

#[test]
fn a_close_is_a_reset_unless_both_have_finished() {
    for (raw, mut peer) in [connected(any()), accepted(any())] {
        raw.close();
        assert_reset(&mut peer);
    }
    for (raw, mut peer) in [connected(any()), accepted(any())] {
        raw.send_all(b"bytes");
        assert_eq!(raw.finish(), Ok(0));
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"bytes");
        raw.close();
        // The peer has read the end. A send fails once the peer is reset.
        let error = std::iter::repeat_with(|| peer.write(b"more")).find_map(Result::err).unwrap();
        assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
    }
    for (raw, mut peer) in [connected(any()), accepted(any())] {
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(raw.receive_all(1), []);
        raw.close();
        assert_reset(&mut peer);
    }
}

/// What the peer has not read by then is not lost.
#[test]
fn a_close_after_both_have_finished_loses_nothing() {
    for (raw, mut peer) in [connected(any()), accepted(any())] {
        let all = bytes(20 << 20);
        peer.shutdown(Shutdown::Write).unwrap();
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            peer.read_to_end(&mut read).unwrap();
            read
        });
        all.chunks(LARGEST_TRANSFER).for_each(|chunk| raw.send_all(chunk));
        assert_eq!(raw.finish(), Ok(0));
        assert_eq!(raw.receive_all(1), []);
        raw.close();
        assert!(reader.join().unwrap() == all);
    }
}

#[test]
fn an_accept_ends_with_its_listener() {
    let (mut listener, at) = listener(any());
    let (raw, accept, close) = (Raw::new(), Op::new(), Op::new());
    raw.accept(&accept, &listener);
    listener.start_close(&close);
    assert_eq!(close.wait(), Ok(0));
    assert!(accept.is_over());
    assert_eq!(accept.wait(), Err(SocketError::Canceled));
    assert!(TcpStream::connect(at).is_err());
    raw.close();
}

#[test]
fn an_accept_ends_with_its_socket_and_the_next_one_gets_the_connection() {
    let (listener, at) = listener(any());
    for _ in 0..3 {
        let (mut raw, accept, close) = (Raw::new(), Op::new(), Op::new());
        raw.accept(&accept, &listener);
        raw.start_close(&close);
        assert_eq!(close.wait(), Ok(0));
        assert!(accept.is_over());
        assert_eq!(accept.wait(), Err(SocketError::Canceled));
    }
    let mut peer = TcpStream::connect(at).unwrap();
    let (raw, accept) = (Raw::new(), Op::new());
    raw.accept(&accept, &listener);
    assert_eq!(accept.wait(), Ok(0));
    peer.write_all(b"here").unwrap();
    assert_eq!(raw.receive_all(4), b"here");
}

/// A routine that blocks until the test releases the gate.
unsafe fn wait_at(gate: *mut c_void, _: Outcome) {
    // SAFETY: that of the test, which waits for the close.
    let gate = unsafe { &*gate.cast::<(Mutex<()>, Op)>() };
    drop(gate.0.lock().unwrap());
    // SAFETY: called once.
    unsafe { gate.1.done().complete(Ok(0)) };
}

/// The reactor is blocked in another socket's routine while the listener closes.
#[test]
fn a_listener_whose_close_has_begun_listens_no_more() {
    let ((mut first, _peer), (mut listener, at)) = (connected(any()), listener(any()));
    let (accepting, accept) = (Raw::new(), Op::new());
    accepting.accept(&accept, &listener);
    let (gate, close) = ((Mutex::new(()), Op::new()), Op::new());
    let held = gate.0.lock().unwrap();
    first.start_close_with(Completion::new(wait_at, std::ptr::from_ref(&gate).cast_mut().cast()));
    listener.start_close(&close);
    let refused = TcpStream::connect(at).map_err(|error| error.kind());
    let again = TcpListener::bind(at).map_err(|error| error.kind());
    assert!(!close.is_over());
    drop(held);
    assert_eq!((gate.1.wait(), close.wait()), (Ok(0), Ok(0)));
    assert_eq!(accept.wait(), Err(SocketError::Canceled));
    assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
    assert_eq!(again.err(), None);
}

/// The reset connections wait in the host's backlog; the test has accepted none of them.
#[test]
fn connections_of_a_listener_that_closes_are_reset() {
    let (listener, at) = listener(any());
    let mut peers = [(); 5].map(|()| TcpStream::connect(at).unwrap());
    listener.close();
    peers.iter_mut().for_each(assert_reset);
}

/// The connect is pending: a listener whose backlog is full does not answer.
#[test]
#[cfg(target_os = "linux")]
fn a_connect_under_way_is_canceled() {
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&any().into()).unwrap();
    full.listen(0).unwrap();
    let at = full.local_addr().unwrap().as_socket().unwrap();
    let mut raws = Vec::new();
    // The backlog takes a few connections; the next connect waits.
    let (mut waiting, op) = loop {
        let (raw, op) = (Raw::new(), Op::new());
        raw.connect(&op, any(), at);
        if !op.is_over() {
            break (raw, op);
        }
        assert_eq!(op.wait(), Ok(0));
        raws.push(raw);
    };
    let close = Op::new();
    waiting.start_close(&close);
    assert_eq!(close.wait(), Ok(0));
    assert!(op.is_over());
    assert_eq!(op.wait(), Err(SocketError::Canceled));
}

#[test]
fn what_failed_to_start_is_closed_too() {
    let (raw, op) = (Raw::new(), Op::new());
    raw.listen(&op, "192.0.2.77:1".parse().unwrap());
    assert_eq!(op.wait(), Err(SocketError::Unreachable));
    raw.close();
}

/// The first socket is closed: closes the next.
unsafe fn close_next(context: *mut c_void, outcome: Outcome) {
    assert_eq!(outcome, Ok(0));
    // SAFETY: that of the test, which waits for the other close.
    let (next, close) = unsafe { &*context.cast::<(Mutex<Raw>, Op)>() };
    next.lock().unwrap().start_close(close);
}

#[test]
fn the_routine_of_a_close_may_close() {
    let ((mut first, _peer), (second, _other)) = (connected(any()), connected(any()));
    let next = (Mutex::new(second), Op::new());
    first.start_close_with(Completion::new(close_next, std::ptr::from_ref(&next).cast_mut().cast()));
    assert_eq!(next.1.wait(), Ok(0));
}
