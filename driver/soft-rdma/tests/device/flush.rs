//! Flushes that meet a message on its way: what is placed of it must not become part of another.

use std::sync::atomic::Ordering;

use simkernel::{Pages, SimKernel, boot_seeded, pause, scope, seeds};
use soft_rdma::{Completion, Connector, Error, Flags, OperationKind, Outcome, Post, QueuePair, Sge};

use crate::common::{Side, accepted};

/// Bytes of a message, in two entries: two steps of the engine.
const MESSAGE: usize = 128;
/// Where the receiver's buffers begin; the sender's are below.
const RECEIVES: usize = 4096;

fn entries(side: &Side, offset: usize, length: usize) -> [Sge; 2] {
    let half = length / 2;
    [side.sge(offset, half as u32), side.sge(offset + half, half as u32)]
}

/// Where a receive begins. It has room for more than one message.
fn place(number: usize) -> usize {
    RECEIVES + number * 2 * MESSAGE
}

fn receive(side: &Side, number: usize) -> Result<(), Error> {
    side.queue_pair.post_receive(number, &entries(side, place(number), 2 * MESSAGE))
}

/// The message of bytes that are all `number + 1`.
fn send(side: &Side, number: usize) -> Result<(), Error> {
    let entries = entries(side, number * MESSAGE, MESSAGE);
    QueuePair::post(&side.queue_pair, number, &entries, Flags::empty(), Post::<SimKernel>::Send(None))
}

/// `flusher` flushes when a part of the message is placed; another thread calls `next` after the flusher's first completion.
fn play(seed: u64, next: impl Fn(&Side, &Side) + Sync, flusher: impl Fn(&Side, &Side) -> Side) {
    let kernel = boot_seeded(seed);
    let pages = Pages::new(2);
    for number in 0..2 {
        pages.write(number * MESSAGE, &[number as u8 + 1; MESSAGE]);
    }
    let (sender, receiver) = accepted(&kernel, &pages);
    assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
    receive(&receiver, 0).unwrap();
    send(&sender, 0).unwrap();
    let flusher = flusher(&sender, &receiver);
    let mut received = Vec::new();
    scope(|scope| {
        scope.spawn(|| {
            while pages.byte(RECEIVES).load(Ordering::Acquire) == 0 {
                pause();
            }
            QueuePair::flush(&flusher.queue_pair);
        });
        let next = scope.spawn(|| {
            let mut completions = Vec::new();
            while completions.is_empty() {
                pause();
                completions = flusher.completions();
            }
            next(&sender, &receiver);
            completions
        });
        received = next.join().unwrap();
    });
    kernel.flush_dpcs();
    received.retain(|completion| completion.kind == OperationKind::Receive);
    received.extend(receiver.completions());
    for completion in received.iter().filter(|completion| completion.status.is_ok()) {
        let data = pages.read(place(completion.request_context), MESSAGE);
        let whole = (1..=2).any(|byte| data == [byte; MESSAGE]);
        assert!(whole, "seed {seed}: a message of two: {data:?}");
    }
}

#[test]
fn a_message_does_not_go_on_in_the_place_of_a_flushed_one() {
    for seed in seeds(600) {
        // It may be refused: the connection ends.
        play(seed, |sender, _| _ = send(sender, 1), |sender, _| sender.clone());
    }
}

#[test]
fn a_message_does_not_go_on_in_the_receive_after_a_flushed_one() {
    for seed in seeds(600) {
        // It may be refused: the connection ends.
        play(seed, |_, receiver| _ = receive(receiver, 1), |_, receiver| receiver.clone());
    }
}

/// The flush cancels waiting sends; it does not cancel a receive that is posted after the first of them has completed.
#[test]
fn a_flush_leaves_the_receives_that_come_later() {
    for seed in seeds(600) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(2);
        pages.write(0, &[1; MESSAGE]);
        let (sender, receiver) = accepted(&kernel, &pages);
        assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
        (0..4).for_each(|number| send(&receiver, number).unwrap());
        send(&sender, 0).unwrap();
        kernel.flush_dpcs();
        let mut seen = Vec::new();
        scope(|scope| {
            scope.spawn(|| QueuePair::flush(&receiver.queue_pair));
            while seen.is_empty() {
                pause();
                seen = receiver.completions();
            }
            assert_eq!(receive(&receiver, 0), Ok(()), "seed {seed}");
        });
        kernel.flush_dpcs();
        seen.extend(receiver.completions());
        let ended = |kind| seen.iter().filter(move |seen| seen.kind == kind).map(|seen| seen.status);
        assert!(ended(OperationKind::Send).eq([Err(Error::Canceled); 4]), "seed {seed}: {seen:?}");
        assert!(ended(OperationKind::Receive).eq([Ok(())]), "seed {seed}: {seen:?}");
        assert_eq!(pages.read(place(0), MESSAGE), [1; MESSAGE], "seed {seed}");
    }
}

/// As before, with a receive that the flush is to cancel, and that a message takes: the flush cancels no later one in its place.
#[test]
fn a_flush_that_a_message_crosses_leaves_the_receives_that_come_later() {
    for seed in seeds(600) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(2);
        let (sender, receiver) = accepted(&kernel, &pages);
        assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
        (0..4).for_each(|number| send(&receiver, number).unwrap());
        kernel.flush_dpcs();
        receive(&receiver, 5).unwrap();
        let mut seen = Vec::new();
        scope(|scope| {
            scope.spawn(|| QueuePair::flush(&receiver.queue_pair));
            scope.spawn(|| {
                let post = Post::<SimKernel>::Send(None);
                QueuePair::post(&sender.queue_pair, 0, &[], Flags::empty(), post).unwrap();
            });
            while !seen.iter().any(|completion: &Completion| completion.status.is_err()) {
                pause();
                seen.extend(receiver.completions());
            }
            receive(&receiver, 6).unwrap();
        });
        kernel.flush_dpcs();
        seen.extend(receiver.completions());
        let later = seen.iter().find(|completion| completion.request_context == 6);
        assert!(later.is_none_or(|completion| completion.status.is_ok()), "seed {seed}: {seen:?}");
    }
}

/// The consumer posts more when it sees the first completion of a flush, and so schedules the engine: the engine leaves what was posted before to
/// the flush.
#[test]
fn a_flush_cancels_all_that_was_posted_before() {
    for seed in seeds(200) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(2);
        let (sender, receiver) = accepted(&kernel, &pages);
        assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
        (0..6).for_each(|number| receive(&receiver, number).unwrap());
        let post = |number, sges: &[Sge], flags| {
            QueuePair::post(&sender.queue_pair, number, sges, flags, Post::<SimKernel>::Send(None)).unwrap();
        };
        for number in 0..5 {
            post(number, &[sender.sge(0, MESSAGE as u32)], Flags::DEFER);
        }
        let mut seen = Vec::new();
        scope(|scope| {
            scope.spawn(|| QueuePair::flush(&sender.queue_pair));
            while seen.is_empty() {
                pause();
                seen = sender.completions();
            }
            post(5, &[], Flags::empty());
        });
        kernel.flush_dpcs();
        seen.extend(sender.completions());
        let seen: Vec<_> = seen.iter().map(|completion| completion.status).collect();
        let canceled = Err(Error::Canceled);
        assert_eq!(seen, [canceled, canceled, canceled, canceled, canceled, Ok(())], "seed {seed}");
        assert_eq!(receiver.completions().len(), 1, "seed {seed}");
    }
}

/// A flush cancels a send while the engine finds no receive for it. The receiver's own flush then waits for no access.
#[test]
fn a_send_that_is_flushed_without_a_receive_holds_no_flush_up() {
    for seed in seeds(200) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(2);
        let (sender, receiver) = accepted(&kernel, &pages);
        assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
        scope(|scope| {
            scope.spawn(|| {
                let sges = [sender.sge(0, 8)];
                QueuePair::post(&sender.queue_pair, 0, &sges, Flags::empty(), Post::<SimKernel>::Send(None)).unwrap();
            });
            scope.spawn(|| QueuePair::flush(&sender.queue_pair));
        });
        // The send may have come after the flush.
        QueuePair::flush(&sender.queue_pair);
        kernel.flush_dpcs();
        receive(&receiver, 0).unwrap();
        QueuePair::flush(&receiver.queue_pair);
        kernel.flush_dpcs();
        let ended: Vec<_> = receiver.completions().iter().map(|completion| completion.status).collect();
        assert_eq!(ended, [Err(Error::Canceled)], "seed {seed}");
    }
}
