//! 64-byte messages from send to receive, beside a ring that passes the same messages.
//!
//! The topology is the same on both sides: a producer on processor 0, a consumer on processor 1, a window of as many
//! messages as the ring has slots. The producer writes each message; the consumer reads its first word.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use rtrb::{PushError, RingBuffer};

use crate::{
    figures::{Figure, Target},
    link::{BATCH, Link},
    memory::Message,
    ndk::{Adapter, NO_RESULTS},
    sample::{Patience, Round, compare, pin, timed},
};

/// Messages on their way at most, and slots of the ring.
const WINDOW: usize = 1024;
const ROUND: usize = 64 * 1024;

type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs `first` and `second` at the same time, on a processor each, and gives the time until both are done.
fn both(first: impl FnOnce() + Send, second: impl FnOnce() + Send) -> Duration {
    let barrier = Barrier::new(2);
    let on = |processor: usize, work: Work<'_>| {
        pin(processor);
        barrier.wait();
        let start = Instant::now();
        work();
        (start, Instant::now())
    };
    let (on, first, second): (_, Work<'_>, Work<'_>) = (&on, Box::new(first), Box::new(second));
    thread::scope(|scope| {
        let first = scope.spawn(move || on(0, first));
        let second = scope.spawn(move || on(1, second));
        match (first.join(), second.join()) {
            (Ok(first), Ok(second)) => first.1.max(second.1) - first.0.min(second.0),
            _ => panic!("a side failed"),
        }
    })
}

/// Sender and receiver on a thread each.
fn stream(link: &Link, count: usize) -> Duration {
    link.post_receives(0, WINDOW);
    let send = || {
        let mut results = NO_RESULTS;
        let mut patience = Patience::default();
        let mut completed = 0;
        let mut posted = 0;
        while completed < count {
            if posted < count && posted - completed <= WINDOW - BATCH {
                link.post_sends(posted, BATCH);
                posted += BATCH;
            }
            let results = link.sender.initiator_cq.poll(&mut results);
            completed += results.len();
            patience.found(!results.is_empty());
        }
    };
    let receive = || {
        let mut results = NO_RESULTS;
        let mut patience = Patience::default();
        let mut received = 0;
        let mut sum = 0u64;
        while received < count {
            let results = link.receiver.receive_cq.poll(&mut results);
            patience.found(!results.is_empty());
            for result in results {
                let slot = result.RequestContext.addr();
                sum = sum.wrapping_add(link.receiver.buffer.memory.read(slot)[0]);
                // The last ones stay unposted, so that the queue is empty at the end.
                if received + WINDOW < count {
                    link.receiver.qp.receive(slot, &link.receiver.buffer.message(slot));
                }
                received += 1;
            }
        }
        assert_eq!(sum, (0..count as u64).sum::<u64>());
    };
    both(send, receive)
}

/// The same through a ring.
fn ring_stream(count: usize) -> Duration {
    let (mut producer, mut consumer) = RingBuffer::<Slot>::new(WINDOW);
    let send = || {
        let mut patience = Patience::default();
        for index in 0..count as u64 {
            let mut message = Slot([index; 8]);
            while let Err(PushError::Full(again)) = producer.push(message) {
                message = again;
                patience.found(false);
            }
            patience.found(true);
        }
    };
    let receive = || {
        let mut patience = Patience::default();
        let mut received = 0;
        let mut sum = 0u64;
        while received < count {
            match consumer.pop() {
                Ok(message) => {
                    patience.found(true);
                    sum = sum.wrapping_add(message.0[0]);
                    received += 1;
                }
                Err(_) => patience.found(false),
            }
        }
        assert_eq!(sum, (0..count as u64).sum::<u64>());
    };
    both(send, receive)
}

/// A message in a ring: on one cache line, as those in the buffers are.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot(Message);

/// A ring used by one thread.
#[derive(Debug)]
pub struct Ring(rtrb::Producer<Slot>, rtrb::Consumer<Slot>);

impl Default for Ring {
    fn default() -> Self {
        Self::with_capacity(WINDOW)
    }
}

impl Ring {
    /// A ring of so many slots.
    #[must_use]
    pub fn with_capacity(slots: usize) -> Self {
        let (producer, consumer) = RingBuffer::new(slots);
        Self(producer, consumer)
    }

    /// Passes `count` messages in batches; the sum of their first words.
    pub fn pass(&mut self, count: usize, batch: usize) -> u64 {
        let mut sum = 0u64;
        for first in (0..count).step_by(batch) {
            for index in first..first + batch {
                let pushed = self.0.push(Slot([index as u64; 8]));
                debug_assert!(pushed.is_ok());
            }
            while let Ok(message) = self.1.pop() {
                sum = sum.wrapping_add(message.0[0]);
            }
        }
        sum
    }
}

/// Messages per second against the ring's, on two threads and on one.
pub fn rate(bar: &ProgressBar) -> Vec<Figure> {
    let adapter = Adapter::default();
    let listener = adapter.listener();
    let link = Link::new(&adapter, &listener, WINDOW);
    let mut ring = Ring::default();
    let two: &mut [(usize, Round<'_>)] =
        &mut [(ROUND, Box::new(|count| stream(&link, count))), (ROUND, Box::new(ring_stream))];
    let two = compare(bar, 100, two);
    let one: &mut [(usize, Round<'_>)] =
        &mut [(ROUND, timed(|count| link.pass(count, BATCH))), (ROUND, timed(|count| ring.pass(count, BATCH)))];
    let one = compare(bar, 50, one);
    let figure = |name: &str, ours, theirs, target| Figure {
        name: name.to_owned(),
        unit: "ns",
        value: ours,
        reference: "single-producer ring (rtrb)".to_owned(),
        reference_value: theirs,
        compared: "of its rate",
        ratio: theirs / ours,
        target,
    };
    // Medians where two threads meet: how fast a ring is depends on who is ahead of whom, by a factor of five from round to
    // round, and its fastest rounds are those in which both sides never met.
    vec![
        figure("64 B send to receive, a thread each", two[0].median, two[1].median, Some(Target::AtLeast(0.25))),
        figure("64 B send to receive, one thread", one[0].typical, one[1].typical, None),
    ]
}

/// How much more two threads pass than one, on queue pairs of their own.
pub fn threads(bar: &ProgressBar) -> Vec<Figure> {
    let adapter = Adapter::default();
    let listener = adapter.listener();
    let links = [Link::new(&adapter, &listener, WINDOW), Link::new(&adapter, &listener, WINDOW)];
    let on_one = |link: &Link, count| {
        std::hint::black_box(link.pass(count, BATCH));
    };
    let ring = |count| {
        std::hint::black_box(Ring::default().pass(count, BATCH));
    };
    let contenders: &mut [(usize, Round<'_>)] = &mut [
        (2 * ROUND, Box::new(|count| both(|| on_one(&links[0], count / 2), || on_one(&links[1], count / 2)))),
        (ROUND, Box::new(|count| both(|| on_one(&links[0], count), || ()))),
        (2 * ROUND, Box::new(|count| both(|| ring(count / 2), || ring(count / 2)))),
        (ROUND, Box::new(|count| both(|| ring(count), || ()))),
    ];
    let costs = compare(bar, 100, contenders);
    let figure = |name: &str, reference: &str, two: f64, one: f64, target| Figure {
        name: name.to_owned(),
        unit: "ns",
        value: two,
        reference: reference.to_owned(),
        reference_value: one,
        compared: "times its rate",
        ratio: one / two,
        target,
    };
    vec![
        figure(
            "two threads on separate queue pairs",
            "one thread",
            costs[0].typical,
            costs[1].typical,
            Some(Target::AtLeast(1.8)),
        ),
        figure("two threads on separate rings", "one thread", costs[2].typical, costs[3].typical, None),
    ]
}
