//! The other side in another process, which `ndharness serve` is: `server.rs`.

use std::{
    cell::Cell,
    net::{IpAddr, SocketAddr},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use super::{
    Operation,
    far::{Far, Task},
    link::{Link, WINDOW, max_transfer, window},
    side::{Place, Side},
    tcp::Tcp,
};
use crate::{
    nd::{
        client::{Cq, ReadLimits, Remote},
        roles::Role,
    },
    pair::{ensure_same, pattern},
};

/// What the server may be told: one of these, the size of the messages, and how many milliseconds may pass without any.
pub(super) const OVER: u64 = 0;
pub(super) const ECHO: u64 = 1;
pub(super) const BOUNCE: u64 = 2;
pub(super) const TAKE: u64 = 3;
/// To listen for plain TCP: it answers with the port.
pub(super) const TCP: u64 = 4;

/// Bytes of a message by which the server says that it has taken [`batch`] more. One of no bytes ends a task, and answers that.
pub(super) const CREDIT: usize = 1;

/// Receives for what the server says of its own: credits of a whole window, and the answer.
const ANSWERS: u64 = 8;

/// How many messages of this size a credit stands for.
pub(super) fn batch(size: usize) -> u64 {
    window(size) / 4
}

/// Fails if messages are longer than the adapter takes them.
pub(super) fn fits(role: &Role<'_>, longest: usize) -> anyhow::Result<()> {
    let most = max_transfer(&role.site.adapter)?;
    ensure!(longest <= most, "the adapter takes messages of up to {most} bytes, {longest} are asked for");
    Ok(())
}

/// A connected side with `receives` posted, and where the other one's messages are.
pub(super) fn meet(role: &Role<'_>, longest: usize, receives: u64) -> anyhow::Result<(Side, Place)> {
    let depth = u32::try_from(receives.max(WINDOW))?;
    let side = Side::new(longest, depth, role.site.patience, true, |size, depth| {
        role.site.end_with_cqs(size, depth as usize)
    })?;
    (0..receives).try_for_each(|nth| side.receive(nth, longest))?;
    role.join(&side.end, &side.end.connector, &side.end.qp, ReadLimits::default())?;
    let place = side.place_of(role.swap_memory(side.place().outgoing())?);
    Ok((side, place))
}

/// The other side of a link to another process.
pub struct There<'r> {
    role: &'r Role<'r>,
    place: Place,
    /// The size of the messages of the task.
    size: Cell<usize>,
}

impl There<'_> {
    fn ask(&self, task: Task, size: usize, idle: Duration) -> anyhow::Result<()> {
        let word = match task {
            Task::Echo => ECHO,
            Task::Bounce => BOUNCE,
            Task::Take => TAKE,
        };
        self.size.set(size);
        self.role.tell(&[word, size as u64, u64::try_from(idle.as_millis())?])?;
        self.role.hear::<0>().map(drop)
    }
}

impl Far for There<'_> {
    fn place(&self) -> Place {
        self.place
    }

    fn begin(&self, task: Task, size: usize) -> anyhow::Result<()> {
        self.ask(task, size, Duration::ZERO)
    }

    fn received(&self, near: &Side) -> anyhow::Result<u64> {
        let mut credits = 0;
        Side::poll_each(&near.end.receive_cq, |message| {
            ensure!(message.bytes == CREDIT, "a message of {} bytes from who takes", message.bytes);
            credits += 1;
            near.receive(credits, near.longest())
        })?;
        Ok(credits * batch(self.size.get()))
    }

    fn received_cq<'a>(&'a self, near: &'a Side) -> &'a Cq {
        &near.end.receive_cq
    }

    fn finish(&self, near: &Side, _missing: u64) -> anyhow::Result<()> {
        near.send(0, 0)?;
        near.await_one(&near.end.initiator_cq)?;
        let mut is_over = false;
        while !is_over {
            near.await_messages(near.patience(), |message| {
                is_over |= message.bytes == 0;
                near.receive(0, near.longest())
            })?;
        }
        Ok(())
    }

    /// A read takes place after the earlier writes.
    fn placed(&self, near: &Side) -> anyhow::Result<()> {
        near.read(near.slot(0, 1), self.place.outgoing(), 1)?;
        near.await_one(&near.end.initiator_cq)
    }
}

impl<'r> Link<There<'r>> {
    /// Connects to the server, for messages of up to `longest` bytes.
    pub(in crate::nd) fn to(role: &'r Role<'r>, longest: usize) -> anyhow::Result<Self> {
        fits(role, longest)?;
        role.tell(&[longest as u64])?;
        let (near, place) = meet(role, longest, ANSWERS)?;
        Ok(Self { near, far: There { role, place, size: Cell::default() } })
    }

    /// The last thing that the server is told.
    pub(in crate::nd) fn end(self) -> anyhow::Result<()> {
        self.far.role.tell(&[OVER, 0, 0])
    }

    /// Where the server is.
    pub fn peer(&self) -> anyhow::Result<IpAddr> {
        Ok(self.far.role.destination()?.ip())
    }

    /// A connection of plain TCP to that host.
    pub fn tcp(&self) -> anyhow::Result<Tcp> {
        let role = self.far.role;
        role.tell(&[TCP, 0, 0])?;
        let [port] = role.hear()?;
        let tcp = Tcp::connect(SocketAddr::new(self.peer()?, u16::try_from(port)?), role.site.patience)?;
        role.hear::<0>()?;
        Ok(tcp)
    }

    /// Does an operation once, and compares the data, which was at the peer; also that nothing is written behind it. `damage` is the
    /// negative control: a bit of it is turned before.
    pub fn check(&self, operation: Operation, size: usize, damage: bool) -> anyhow::Result<()> {
        let (near, far) = (&self.near, &self.far);
        let data = pattern(size as u64, size);
        let own = near.slot(0, size);
        let what = || format!("{operation} of {size} bytes");
        if operation == Operation::Send {
            far.begin(Task::Echo, size)?;
            let took = self.round_trip(&data, damage).with_context(what);
            let finished = far.finish(near, 0);
            return took.and(finished);
        }
        let place = if operation == Operation::Read { far.place.outgoing() } else { far.place.slot(0, size) };
        let behind = Remote { address: place.address + size as u64, ..place };
        // The byte behind it: of the peer's memory if that is written to, else of this side's.
        near.mr.memory().write(0, &[GUARD]);
        self.complete(|| near.write(0, behind, 1))?;
        near.mr.memory().write(0, &damaged(&data, damage));
        self.complete(|| near.write(0, place, size))?;
        near.mr.memory().write(own, &vec![GUARD; size + 1]);
        self.complete(|| near.read(own, place, size))?;
        let mut found = near.mr.memory().read(own..own + size + 1);
        ensure_same(&found[..size], &data).with_context(what)?;
        self.complete(|| near.read(own + size, behind, 1))?;
        found.extend(near.mr.memory().read(own + size..own + size + 1));
        ensure!(found[size..] == [GUARD; 2], "{operation} of {size} bytes: more was written");
        Ok(())
    }

    fn complete(&self, post: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        post()?;
        self.near.await_one(&self.near.end.initiator_cq)
    }

    /// Sends messages of `size` bytes, one by one, and compares the answers. `each` is called with the number of a message and its
    /// round-trip time; `idle` is the time that `each` may take. `damage` is the negative control: a bit of each message is flipped first.
    pub fn ping(
        &self,
        size: usize,
        idle: Duration,
        damage: bool,
        mut each: impl FnMut(u64, Duration) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        self.far.ask(Task::Echo, size, idle)?;
        let result = (1..).try_for_each(|nth| {
            let took = self.round_trip(&pattern(nth, size), damage).with_context(|| format!("message {nth}"));
            match took.map(|took| each(nth, took)) {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                Ok(ControlFlow::Break(())) => ControlFlow::Break(Ok(())),
                Err(error) => ControlFlow::Break(Err(error)),
            }
        });
        let finished = self.far.finish(&self.near, 0);
        result.break_value().unwrap_or(Ok(())).and(finished)
    }

    /// Sends a message that the server sends back.
    fn round_trip(&self, data: &[u8], damage: bool) -> anyhow::Result<Duration> {
        let near = &self.near;
        near.receive(0, data.len())?;
        near.mr.memory().write(0, &damaged(data, damage));
        let mut back = None;
        let started = Instant::now();
        near.send(0, data.len())?;
        near.await_messages(near.patience(), |message| {
            back = Some(message);
            Ok(())
        })?;
        let took = started.elapsed();
        near.await_one(&near.end.initiator_cq)?;
        let back = back.context("nothing came back")?;
        ensure_same(&near.mr.memory().read(back.at..back.at + back.bytes), data)?;
        Ok(took)
    }
}

/// What memory behind a message has.
const GUARD: u8 = 0xee;

/// The data, or what the negative control makes of it.
fn damaged(data: &[u8], damage: bool) -> Vec<u8> {
    let mut data = data.to_vec();
    if let Some(last) = data.last_mut().filter(|_| damage) {
        *last ^= 1;
    }
    data
}
