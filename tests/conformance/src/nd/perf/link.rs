//! The loops that measure.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use super::{
    Counted, Operation,
    side::{POLLS, SLOTS, Side},
};
use crate::{
    nd::{
        pair::connect,
        run::{Nd, choose_path},
    },
    pair::{ensure_same, pattern},
};

/// Requests on their way in a stream, at most, and bytes of them, if that is more than a few requests.
const WINDOW: u64 = 128;
const WINDOW_BYTES: u64 = 16 << 20;
const FEW: u64 = 4;
/// Receives that are posted before they are needed, in a ping-pong.
const AHEAD: u64 = 2;
/// Turns of a loop between two looks at the clock, and bytes that are copied at least.
const TURNS: u32 = 16;
const COPY_BYTES: u64 = 16 << 10;

/// Two connected queue pairs of this program, on one path of the DLL.
pub struct Link {
    a: Side,
    b: Side,
    max_transfer: usize,
    patience: Duration,
    /// The DLL, after its objects.
    _nd: Nd,
}

impl Link {
    /// Connects two queue pairs on a path of the DLL in `library`, `rings` or `plain`, for messages of up to `longest` bytes, or as
    /// long as the adapter takes.
    pub fn new(library: &Path, path: &str, longest: usize, patience: Duration) -> anyhow::Result<Self> {
        choose_path(path);
        let nd = Nd::load(library, patience)?;
        let info = nd.adapter()?.0.info()?;
        let max_transfer = info.MaxTransferLength as usize;
        let depths = [info.MaxCompletionQueueDepth, info.MaxInitiatorQueueDepth, info.MaxReceiveQueueDepth];
        let depth = depths.into_iter().fold(WINDOW as u32, u32::min);
        ensure!(u64::from(depth) >= WINDOW, "the adapter's queues hold no {WINDOW} requests");
        let side = || Side::new(&nd, longest.min(max_transfer), depth);
        let (a, b) = (side()?, side()?);
        connect(&a.end, &b.end)?;
        Ok(Self { a, b, max_transfer, patience, _nd: nd })
    }

    /// Bytes of the longest message that the adapter takes.
    #[must_use]
    pub fn max_transfer(&self) -> usize {
        self.max_transfer
    }

    /// Does an operation once, and compares the data; also that nothing is written behind it.
    pub fn check(&self, operation: Operation, size: usize) -> anyhow::Result<()> {
        let (from, to) = if operation == Operation::Read { (&self.b, &self.a) } else { (&self.a, &self.b) };
        let data = pattern(size as u64, size);
        from.mr.memory().write(0, &data);
        let target = to.slot(0, size);
        to.mr.memory().write(target, &vec![0xee; size + 1]);
        if operation == Operation::Send {
            self.b.receive(0, size)?;
        }
        self.a.initiate(operation, &self.b, 0, size)?;
        self.a.await_one(&self.a.end.initiator_cq)?;
        if operation == Operation::Send {
            self.b.await_one(&self.b.end.receive_cq)?;
        }
        let found = to.mr.memory().read(target..target + size + 1);
        ensure_same(&found[..size], &data).with_context(|| format!("{operation} of {size} bytes"))?;
        ensure!(found[size] == 0xee, "{operation} of {size} bytes: more was written");
        Ok(())
    }

    /// For about `time`: how long a message takes to the other side, half of a round trip; a read, there and back.
    pub fn latencies(&self, operation: Operation, size: usize, time: Duration) -> anyhow::Result<Vec<Duration>> {
        match operation {
            Operation::Send => self.send_latencies(size, time),
            Operation::Read => self.read_latencies(size, time),
            Operation::Write => self.write_latencies(size, time),
        }
    }

    fn send_latencies(&self, size: usize, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let post = || self.a.receive(0, size).and_then(|()| self.b.receive(0, size));
        let mut posted = 0;
        let mut samples = Vec::new();
        let clock = Instant::now();
        loop {
            let ahead = if clock.elapsed() < time { AHEAD } else { 0 };
            while posted < ahead {
                post()?;
                posted += 1;
            }
            if posted == 0 {
                return Ok(samples);
            }
            let started = Instant::now();
            for (from, to) in [(&self.a, &self.b), (&self.b, &self.a)] {
                from.initiate(Operation::Send, to, 0, size)?;
                to.await_one(&to.end.receive_cq)?;
            }
            samples.push(started.elapsed() / 2);
            self.both_initiated()?;
            posted -= 1;
        }
    }

    /// The peer sees a write by the memory it is to.
    fn write_latencies(&self, size: usize, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let mut samples = Vec::new();
        let clock = Instant::now();
        for byte in (1..=u8::MAX).cycle() {
            if clock.elapsed() >= time {
                break;
            }
            let started = Instant::now();
            for (from, to) in [(&self.a, &self.b), (&self.b, &self.a)] {
                from.mark(size, byte);
                from.initiate(Operation::Write, to, 0, size)?;
                to.await_byte(size, byte)?;
            }
            samples.push(started.elapsed() / 2);
            self.both_initiated()?;
        }
        Ok(samples)
    }

    fn read_latencies(&self, size: usize, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let mut samples = Vec::new();
        let clock = Instant::now();
        while clock.elapsed() < time {
            let started = Instant::now();
            self.a.initiate(Operation::Read, &self.b, 0, size)?;
            self.a.await_one(&self.a.end.initiator_cq)?;
            samples.push(started.elapsed());
        }
        Ok(samples)
    }

    fn both_initiated(&self) -> anyhow::Result<()> {
        [&self.a, &self.b].into_iter().try_for_each(|side| side.await_one(&side.end.initiator_cq))
    }

    /// For about `time`: as many operations as can be, several on their way at once, on one thread.
    pub fn stream(&self, operation: Operation, size: usize, time: Duration) -> anyhow::Result<Counted> {
        let window = (WINDOW_BYTES / size as u64).clamp(FEW, WINDOW);
        let sends = operation == Operation::Send;
        let (mut allowed, mut posted, mut completed, mut received) = (0, 0, 0, 0);
        let clock = Instant::now();
        let (mut open, mut in_vain) = (true, 0);
        for turn in 0_u32.. {
            if turn.is_multiple_of(TURNS) {
                open = clock.elapsed() < time;
                ensure!(clock.elapsed() < time + self.patience, "{posted} requests posted, {completed} completed");
            }
            // Who sends has a receive for it on the other side.
            while open && allowed - if sends { received } else { completed } < window {
                if sends {
                    self.b.receive(allowed, size)?;
                }
                allowed += 1;
            }
            while posted < allowed && posted - completed < window {
                self.a.initiate(operation, &self.b, posted, size)?;
                posted += 1;
            }
            let before = completed + received;
            completed += Side::poll(&self.a.end.initiator_cq)?;
            if sends {
                received += Side::poll(&self.b.end.receive_cq)?;
            }
            in_vain = if completed + received == before { in_vain + 1 } else { 0 };
            if in_vain == POLLS {
                thread::yield_now();
                in_vain = 0;
            }
            if !open && completed == allowed && (!sends || received == allowed) {
                break;
            }
        }
        Ok(Counted { operations: completed, elapsed: clock.elapsed() })
    }

    /// The same, copied by this thread from the same places to the same places.
    #[must_use]
    pub fn copies(&self, size: usize, time: Duration) -> Counted {
        let at_once = SLOTS as u64 * (COPY_BYTES / size as u64).max(1);
        let clock = Instant::now();
        let mut operations = 0;
        while clock.elapsed() < time {
            (0..at_once).for_each(|nth| self.a.copy(&self.b, nth, size));
            operations += at_once;
        }
        Counted { operations, elapsed: clock.elapsed() }
    }
}
