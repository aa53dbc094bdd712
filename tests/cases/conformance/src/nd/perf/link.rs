//! The loops that measure.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::{
    Counted, Operation,
    far::{Far, Task},
    side::Side,
};
use crate::nd::client::Adapter;

/// Requests on their way in a stream, at most, and bytes of them, if that is more than a few requests.
pub(super) const WINDOW: u64 = 128;
const WINDOW_BYTES: u64 = 16 << 20;
const FEW: u64 = 4;
/// Receives that are posted before they are needed, in a ping-pong.
const AHEAD: u64 = 2;
/// Turns of a loop between two looks at the clock.
const TURNS: u32 = 16;

/// How many requests of this size are on their way at once in a stream.
pub(super) fn window(size: usize) -> u64 {
    (WINDOW_BYTES / size.max(1) as u64).clamp(FEW, WINDOW)
}

/// Bytes of the longest message that an adapter takes; an error if its queues are too short for a stream.
pub(super) fn max_transfer(adapter: &Adapter) -> anyhow::Result<usize> {
    let info = adapter.info()?;
    let depths = [info.MaxCompletionQueueDepth, info.MaxInitiatorQueueDepth, info.MaxReceiveQueueDepth];
    ensure!(depths.iter().all(|depth| u64::from(*depth) > WINDOW), "the adapter's queues hold no {WINDOW} requests");
    Ok(info.MaxTransferLength as usize)
}

/// Two connected queue pairs: the one of this end, and its peer.
pub struct Link<F> {
    pub(super) near: Side,
    pub(super) far: F,
}

#[expect(private_bounds, reason = "there are two, and nobody else makes one")]
impl<F: Far> Link<F> {
    /// For about `time`: how long a message takes to the other side, half of a round trip; a read, there and back.
    pub fn latencies(&self, operation: Operation, size: usize, time: Duration) -> anyhow::Result<Vec<Duration>> {
        match operation {
            Operation::Send => self.send_latencies(size, time),
            Operation::Read => self.read_latencies(size, time),
            Operation::Write => self.write_latencies(size, time),
        }
    }

    fn send_latencies(&self, size: usize, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let Self { near, far, .. } = self;
        far.begin(Task::Echo, size)?;
        let mut posted = 0;
        let mut samples = Vec::new();
        let clock = Instant::now();
        loop {
            let ahead = if clock.elapsed() < time { AHEAD } else { 0 };
            while posted < ahead {
                near.receive(0, size)?;
                far.receive(0, size)?;
                posted += 1;
            }
            if posted == 0 {
                break;
            }
            let started = Instant::now();
            near.initiate(Operation::Send, far.place(), 0, size)?;
            far.echo(near, size)?;
            near.await_one(&near.end.receive_cq)?;
            samples.push(started.elapsed() / 2);
            self.both_initiated()?;
            posted -= 1;
        }
        far.finish(near, 0)?;
        Ok(samples)
    }

    /// The peer sees a write by the memory it is to.
    fn write_latencies(&self, size: usize, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let Self { near, far, .. } = self;
        near.clear(size);
        far.begin(Task::Bounce, size)?;
        let mut samples = Vec::new();
        let clock = Instant::now();
        for byte in (1..=u8::MAX).cycle() {
            if clock.elapsed() >= time {
                break;
            }
            let started = Instant::now();
            near.mark(size, byte);
            near.initiate(Operation::Write, far.place(), 0, size)?;
            far.bounce(near, size, byte)?;
            near.await_byte(size, byte)?;
            samples.push(started.elapsed() / 2);
            self.both_initiated()?;
        }
        far.finish(near, 0)?;
        Ok(samples)
    }

    fn read_latencies(&self, size: usize, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let mut samples = Vec::new();
        let clock = Instant::now();
        while clock.elapsed() < time {
            let started = Instant::now();
            self.near.initiate(Operation::Read, self.far.place(), 0, size)?;
            self.near.await_one(&self.near.end.initiator_cq)?;
            samples.push(started.elapsed());
        }
        Ok(samples)
    }

    fn both_initiated(&self) -> anyhow::Result<()> {
        self.near.await_one(&self.near.end.initiator_cq)?;
        self.far.initiated()
    }

    /// For about `time`: as many operations as can be, several on their way at once, on one thread. All of them have arrived at the end.
    pub fn stream(&self, operation: Operation, size: usize, time: Duration) -> anyhow::Result<Counted> {
        let Self { near, far, .. } = self;
        let window = window(size);
        let sends = operation == Operation::Send;
        if sends {
            far.begin(Task::Take, size)?;
        }
        let (mut allowed, mut posted, mut completed, mut received) = (0, 0, 0, 0);
        let clock = Instant::now();
        let (mut open, mut vain) = (true, near.vain());
        for turn in 0_u32.. {
            if turn.is_multiple_of(TURNS) {
                open = clock.elapsed() < time;
            }
            // Each send needs a receive on the other side.
            while open && allowed - if sends { received } else { completed } < window {
                if sends {
                    far.receive(allowed, size)?;
                }
                allowed += 1;
            }
            while posted < allowed && posted - completed < window {
                near.initiate(operation, far.place(), posted, size)?;
                posted += 1;
            }
            let before = completed + received;
            completed += Side::poll(&near.end.initiator_cq)?;
            if sends {
                received += far.received(near)?;
            }
            if completed + received > before {
                vain.end();
            } else {
                let next = if completed < posted { &near.end.initiator_cq } else { far.received_cq(near) };
                let counted = vain.count(Some(next));
                counted.with_context(|| format!("{posted} requests posted, {completed} completed"))?;
            }
            if !open && completed == allowed {
                break;
            }
        }
        match operation {
            Operation::Send => far.finish(near, allowed - received)?,
            Operation::Write => far.placed(near)?,
            Operation::Read => {}
        }
        Ok(Counted { operations: completed, elapsed: clock.elapsed() })
    }
}
