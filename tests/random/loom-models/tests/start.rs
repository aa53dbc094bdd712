//! A socket of Winsock Kernel is closed while it starts: the steps of the start use its IRP one after another, whoever takes them, and
//! the close comes when the start is over and nobody is at it any more. The code is the driver's; WSK is the model's.

#[path = "../../../../driver/softndk/src/wsk/turn.rs"]
mod turn;

use std::sync::Arc;

use loom::thread;
use loom_models::{Cell, Wakeup, explore, faults};
use planted_atomics::{Defect, sync::atomic};
use turn::{Close, Turn};

/// Steps of the start.
const STEPS: usize = 2;

struct Socket {
    turn: Turn,
    /// Written by who prepares it, and by who closes; read by the call, the completion and the cancel.
    irp: Cell,
    /// Steps that WSK was asked for, or will not be.
    asked: Wakeup,
    steps: Cell,
    ended: Wakeup,
    closed: Wakeup,
}

impl Socket {
    fn take(&self) {
        self.irp.add_one();
        if !self.turn.begin() {
            return self.end();
        }
        self.steps.add_one();
        self.asked.wake();
        // The call for the socket, which is in progress.
        self.irp.read();
        self.leave();
    }

    fn leave(&self) {
        if self.turn.leave() {
            if self.steps.read() < STEPS { self.take() } else { self.end() }
        }
    }

    fn end(&self) {
        let closes = self.turn.end();
        self.ended.wake();
        (0..STEPS).for_each(|_| self.asked.wake());
        if closes {
            self.shut();
        }
    }

    fn shut(&self) {
        self.irp.add_one();
        self.closed.wake();
    }
}

fn close_while_it_starts() {
    explore(Some(3), |_| {
        let socket = Arc::new(Socket {
            turn: Turn::new(),
            irp: Cell::default(),
            asked: Wakeup::default(),
            steps: Cell::default(),
            ended: Wakeup::default(),
            closed: Wakeup::default(),
        });
        let wsk = {
            let socket = socket.clone();
            thread::spawn(move || {
                for step in 1..=STEPS {
                    socket.asked.wait_for(step);
                    if socket.ended.count() > 0 {
                        return;
                    }
                    socket.irp.read();
                    socket.leave();
                }
            })
        };
        let closer = {
            let socket = socket.clone();
            thread::spawn(move || match socket.turn.close() {
                Close::Now => socket.shut(),
                Close::Later => {}
                Close::Cancel => {
                    socket.irp.read();
                    socket.leave();
                }
            })
        };
        socket.take();
        socket.closed.wait_for(1);
        wsk.join().expect("a thread");
        closer.join().expect("a thread");
        assert_eq!((socket.ended.count(), socket.closed.count()), (1, 1), "ended and closed once");
    });
}

#[test]
fn a_close_comes_when_the_start_is_over_and_nobody_is_at_it() {
    close_while_it_starts();
}

faults! {
    a_turn_that_sees_too_little_is_found: close_while_it_starts with Atomics(Defect::Relaxed) says "Causality violation",
    a_turn_that_is_torn_is_found: close_while_it_starts with Atomics(Defect::TornUpdate) says "Causality violation",
}
