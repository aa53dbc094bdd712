//! Each wrong use is noted.
#![expect(unsafe_code, reason = "raw sockets")]

use std::{
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering},
};

use platform::{Completion, SENDS, SocketError, Sockets, SpinLock};
use simkernel::{Breach, Network, Session, SimKernel, at_irql, boot, pause};

use crate::raw::{Op, Outcome, Pool, Raw, SIZE, address, close, connected};

/// A session in which `misuse` gets a connection; gives the breaches.
fn misuse(misuse: impl FnOnce(&Session, [Raw; 3])) -> Vec<Breach> {
    let kernel = boot();
    misuse(&kernel, connected());
    let ledger = kernel.finish();
    assert_eq!((ledger.open_sockets, ledger.live.len()), (0, 0), "{ledger}");
    ledger.violations.into_iter().map(|violation| violation.breach).collect()
}

#[test]
fn a_socket_in_the_wrong_state_is_noted() {
    let breaches = misuse(|_, sockets| {
        let (op, bytes, new) = (Op::new(), Pool::new([0; SIZE]), Raw::new());
        new.send(&op, &bytes, 1);
        assert_eq!(op.wait(), Err(SocketError::Failed), "refused");
        sockets[1].listen(&op, address(81));
        op.wait().expect_err("connected already");
        new.accept(&op, &sockets[1]);
        op.wait().expect_err("it does not listen");
        sockets[1].finish(&op);
        op.wait().expect("once");
        sockets[1].send(&op, &bytes, 1);
        op.wait().expect_err("finished");
        sockets[1].close();
        sockets[1].receive(&op, &bytes);
        op.wait().expect_err("closed");
        sockets[0].close();
        sockets[2].close();
    });
    let calls = ["sending", "listening", "accepting", "sending", "receiving"];
    assert_eq!(breaches, calls.map(|call| Breach::SocketState { call }));
}

#[test]
fn requests_that_overlap_are_noted() {
    let breaches = misuse(|kernel, sockets| {
        kernel.limit_in_flight(1);
        let (ops, bytes) = (std::array::from_fn::<_, { SENDS + 2 }, _>(|_| Op::new()), Pool::new([0; SIZE]));
        let ([sends @ .., receive, accept], extra, other) = (&ops, Op::new(), Raw::new());
        sends.iter().for_each(|send| sockets[1].send(send, &bytes, 2));
        sockets[1].send(&extra, &bytes, 1);
        assert_eq!(extra.wait(), Err(SocketError::Failed));
        sockets[1].finish(&extra);
        extra.wait().expect_err("what is sent comes before");
        sockets[1].receive(receive, &bytes);
        sockets[1].receive(&extra, &bytes);
        extra.wait().expect_err("one at a time");
        other.accept(accept, &sockets[0]);
        let another = Raw::new();
        another.accept(&extra, &sockets[0]);
        extra.wait().expect_err("one at a time");
        sockets.iter().for_each(Raw::close);
        assert!(ops.iter().all(|op| op.wait() == Err(SocketError::Canceled)));
        other.close();
    });
    let calls = ["sending", "finishing", "receiving", "accepting"];
    assert_eq!(breaches, calls.map(|call| Breach::RequestsOverlap { call }));
}

#[test]
fn a_request_used_while_under_way_is_noted() {
    let breaches = misuse(|_, sockets| {
        let (op, bytes) = (Op::new(), Pool::new([0; SIZE]));
        sockets[1].receive(&op, &bytes);
        sockets[1].send(&op, &bytes, 1);
        assert_eq!(op.wait(), Err(SocketError::Failed));
        close(sockets);
        assert_eq!(op.wait(), Err(SocketError::Canceled));
    });
    assert!(matches!(*breaches, [Breach::RequestUnderWay(_)]), "{breaches:?}");
}

/// A routine that sends once more, and one that closes, on the stack of a send, or elsewhere.
#[test]
fn calls_in_a_routine_are_noted() {
    struct Again {
        sockets: [Raw; 3],
        op: Op,
        bytes: Pool<[u8; SIZE]>,
        closes: bool,
        returned: AtomicBool,
    }
    unsafe fn again(context: *mut c_void, _: Outcome) {
        // SAFETY: lives until the outcome is there.
        let again = unsafe { &*context.cast::<Again>() };
        if again.closes {
            // SAFETY: what the simulated kernel catches.
            unsafe { Network::close(again.sockets[1].0.at(), again.op.request.at(), again.op.done()) };
        } else {
            again.sockets[1].send(&again.op, &again.bytes, 1);
        }
        again.returned.store(true, Ordering::Release);
    }
    let (mut in_routine, mut during_call, mut during_send) = (0, 0, 0);
    for closes in [false, true] {
        for _ in 0..40 {
            let breaches = misuse(|_, sockets| {
                let (op, bytes, returned) = (Op::new(), Pool::new([0; SIZE]), AtomicBool::new(false));
                let again_too = Again { sockets, op, bytes, closes, returned };
                let context = std::ptr::from_ref(&again_too).cast_mut().cast();
                let (op, socket) = (Op::new(), &again_too.sockets[1]);
                let (request, bytes) = (op.request.at(), again_too.bytes.at().cast());
                // SAFETY: as documented.
                unsafe { Network::send(socket.0.at(), request, Completion::new(again, context), bytes, 1) };
                let closed = again_too.op.wait().is_ok() && closes;
                // A request may be over before its call is.
                while !again_too.returned.load(Ordering::Acquire) {
                    pause();
                }
                let open = again_too.sockets.iter().enumerate().filter(|(number, _)| !(closed && *number == 1));
                open.for_each(|(_, socket)| socket.close());
            });
            in_routine += breaches.iter().filter(|breach| matches!(breach, Breach::SocketCallInRoutine { .. })).count();
            during_call += breaches.iter().filter(|breach| matches!(breach, Breach::ClosedDuringCall)).count();
            during_send += breaches.iter().filter(|breach| matches!(breach, Breach::RequestsOverlap { .. })).count();
        }
    }
    assert!(in_routine == 80 && during_call > 0 && during_send > 0, "{in_routine}, {during_call}, {during_send}");
}

#[test]
fn calls_under_a_lock_or_too_high_are_noted() {
    let breaches = misuse(|_, sockets| {
        let (op, bytes) = (Op::new(), Pool::new([0; SIZE]));
        let lock = SpinLock::<_, SimKernel>::new(());
        let held = lock.lock();
        sockets[1].send(&op, &bytes, 1);
        drop(held);
        op.wait().expect("done nevertheless");
        close(sockets);
    });
    assert!(matches!(breaches[0], Breach::SocketCallUnderLock { call: "sending", .. }), "{breaches:?}");
    let breaches = misuse(|_, sockets| {
        let (op, bytes) = (Op::new(), Pool::new([0; SIZE]));
        at_irql(5, || sockets[1].send(&op, &bytes, 1));
        op.wait().expect("done nevertheless");
        close(sockets);
    });
    let too_high = |breach: &Breach| matches!(breach, Breach::IrqlTooHigh { call: "sending", .. });
    assert!(breaches.iter().any(too_high), "{breaches:?}");
}

#[test]
fn bytes_that_cannot_be_are_noted() {
    let breaches = misuse(|kernel, sockets| {
        kernel.limit_in_flight(1 << 20);
        let (op, bytes) = (Op::new(), Pool::new([0; SIZE]));
        let own = [0; 8];
        let send = |bytes: *const u8, length| {
            // SAFETY: valid bytes, but for what the simulated kernel catches.
            unsafe { Network::send(sockets[1].0.at(), op.request.at(), op.done(), bytes, length) };
            op.wait().expect("done nevertheless");
        };
        send(own.as_ptr(), 8);
        send(bytes.at().cast(), SIZE);
        let large = Pool::new([0_u8; platform::LARGEST_TRANSFER + 1]);
        send(large.at().cast(), platform::LARGEST_TRANSFER + 1);
        close(sockets);
    });
    let lengths: Vec<_> = breaches.iter().map(|breach| matches!(breach, Breach::BadTransfer { .. })).collect();
    assert_eq!(lengths, [true, true], "{breaches:?}");
}

#[test]
fn memory_freed_while_in_use_is_noted() {
    let in_use = |breaches: &[Breach]| breaches.iter().any(|breach| matches!(breach, Breach::FreedRequest(_)));
    let request = misuse(|_, sockets| {
        let (op, bytes) = (Op::new(), Pool::new([0; SIZE]));
        sockets[1].receive(&op, &bytes);
        drop(op);
        sockets[0].close();
        sockets[2].close();
        drop(bytes);
    });
    assert!(in_use(&request), "{request:?}");
    let bytes = misuse(|_, sockets| {
        let (op, bytes) = (Op::new(), Pool::new([0; SIZE]));
        sockets[1].receive(&op, &bytes);
        drop(bytes);
        sockets[0].close();
        sockets[2].close();
    });
    assert!(in_use(&bytes), "{bytes:?}");
    let socket = misuse(|_, [listener, a, b]| {
        drop(a);
        listener.close();
        b.close();
    });
    assert!(matches!(*socket, [Breach::FreedOpenSocket(_)]), "{socket:?}");
}
