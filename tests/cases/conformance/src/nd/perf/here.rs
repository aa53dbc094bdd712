//! The other side in this process, on this thread.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use super::{
    Counted, Operation,
    far::{Far, Task},
    link::{Link, WINDOW, max_transfer},
    side::{Place, SLOTS, Side},
};
use crate::{
    nd::{
        client::Cq,
        ends::connect,
        pair::End,
        run::{Nd, choose_path},
    },
    pair::{ensure_same, pattern},
};

/// Bytes that are copied between two looks at the clock, at least.
const COPY_BYTES: u64 = 16 << 10;

/// The other side of a link within this process.
pub struct Here {
    side: Side,
    place: Place,
    max_transfer: usize,
    /// The DLL, after its objects.
    _nd: Nd,
}

impl Far for Here {
    fn place(&self) -> Place {
        self.place
    }

    fn begin(&self, task: Task, size: usize) -> anyhow::Result<()> {
        if task == Task::Bounce {
            self.side.clear(size);
        }
        Ok(())
    }

    fn receive(&self, nth: u64, size: usize) -> anyhow::Result<()> {
        self.side.receive(nth, size)
    }

    fn echo(&self, near: &Side, size: usize) -> anyhow::Result<()> {
        self.side.await_one(&self.side.end.receive_cq)?;
        self.side.initiate(Operation::Send, near.place(), 0, size)
    }

    fn bounce(&self, near: &Side, size: usize, byte: u8) -> anyhow::Result<()> {
        self.side.await_byte(size, byte)?;
        self.side.mark(size, byte);
        self.side.initiate(Operation::Write, near.place(), 0, size)
    }

    fn initiated(&self) -> anyhow::Result<()> {
        self.side.await_one(&self.side.end.initiator_cq)
    }

    fn received(&self, _near: &Side) -> anyhow::Result<u64> {
        Side::poll(&self.side.end.receive_cq)
    }

    fn received_cq<'a>(&'a self, _near: &'a Side) -> &'a Cq {
        &self.side.end.receive_cq
    }

    fn finish(&self, near: &Side, missing: u64) -> anyhow::Result<()> {
        let (mut received, mut vain) = (0, near.vain());
        while received < missing {
            match self.received(near)? {
                0 => vain.count(Some(self.received_cq(near)))?,
                more => {
                    received += more;
                    vain.end();
                }
            }
        }
        Ok(())
    }

    fn placed(&self, _near: &Side) -> anyhow::Result<()> {
        // Within one device a write is complete when it is there.
        Ok(())
    }
}

impl Link<Here> {
    /// Connects two queue pairs on a path of the DLL in `library`, `rings` or `plain`, for messages of up to `longest` bytes, or as
    /// long as the adapter takes.
    pub fn new(library: &Path, path: &str, longest: usize, patience: Duration) -> anyhow::Result<Self> {
        choose_path(path);
        let nd = Nd::load(library, patience)?;
        let max_transfer = max_transfer(&nd.adapter()?.0)?;
        let side = || {
            let make = |size, depth| End::with_cqs(&nd, size, depth as usize);
            Side::new(longest.min(max_transfer), WINDOW as u32, patience, false, make)
        };
        let (near, side) = (side()?, side()?);
        connect(&near.end, &side.end)?;
        let place = side.place();
        Ok(Self { near, far: Here { side, place, max_transfer, _nd: nd } })
    }

    /// Bytes of the longest message that the adapter takes.
    #[must_use]
    pub fn max_transfer(&self) -> usize {
        self.far.max_transfer
    }

    /// Bytes that both sides have moved so far: what the device has to have counted.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.near.moved() + self.far.side.moved()
    }

    /// Does an operation once, and compares the data; also that nothing is written behind it.
    pub fn check(&self, operation: Operation, size: usize) -> anyhow::Result<()> {
        let (near, side) = (&self.near, &self.far.side);
        let (from, to) = if operation == Operation::Read { (side, near) } else { (near, side) };
        let data = pattern(size as u64, size);
        from.mr.memory().write(0, &data);
        let target = to.slot(0, size);
        to.mr.memory().write(target, &vec![0xee; size + 1]);
        if operation == Operation::Send {
            side.receive(0, size)?;
        }
        near.initiate(operation, self.far.place, 0, size)?;
        near.await_one(&near.end.initiator_cq)?;
        if operation == Operation::Send {
            side.await_one(&side.end.receive_cq)?;
        }
        let found = to.mr.memory().read(target..target + size + 1);
        ensure_same(&found[..size], &data).with_context(|| format!("{operation} of {size} bytes"))?;
        ensure!(found[size] == 0xee, "{operation} of {size} bytes: more was written");
        Ok(())
    }

    /// As many copies as can be, by this thread, from the places that a stream of writes is from to those that it is to.
    #[must_use]
    pub fn copies(&self, size: usize, time: Duration) -> Counted {
        let at_once = SLOTS as u64 * (COPY_BYTES / size as u64).max(1);
        let clock = Instant::now();
        let mut operations = 0;
        while clock.elapsed() < time {
            (0..at_once).for_each(|nth| self.near.copy(&self.far.side, nth, size));
            operations += at_once;
        }
        Counted { operations, elapsed: clock.elapsed() }
    }
}
