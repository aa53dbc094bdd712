//! One side of a connection: its posts, and the completions and data due for them.

use std::{
    collections::{BTreeMap, VecDeque},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use fastrand::Rng;
use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT,
        NDK_OPERATION_TYPE, NdkOperationTypeReceive,
    },
    softndk_ioctl::SOFTNDK_RESULT,
    status::STATUS_SUCCESS,
};

use super::{Record, Trouble, are_removed, is_refused, is_removed};
use crate::{
    client::{Arm, Cq, Listener, Mr, Mw, Request, Srq},
    error::{self, Error},
    pair::{End, ensure_same, pattern},
};

/// Requests of a kind that are under way at most. Their contexts follow each other, so that no two of them share a slot.
pub(super) const MOST: usize = 24;
const SLOTS: usize = 32;
/// Bytes.
const SLOT: usize = 2048;
const INLINE: usize = 256;
/// Areas of a side's memory, of [`SLOTS`] slots each.
const SOURCE: usize = 0;
const INBOX: usize = 1;
/// Where the peer writes.
const SHARED: usize = 2;
const SINK: usize = 3;
const AREAS: usize = 4;
/// How often to look whether the connection has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Control requests that wait for something at a time.
const NOTIFIES: usize = 4;

/// What has to be there when an initiator request completes.
enum Due {
    Nothing,
    /// These bytes, in this slot of the sink.
    Read(usize, Vec<u8>),
}

/// One side.
pub(super) struct Side {
    notifies: Vec<Request>,
    /// Ends with the connection.
    gone: Request,
    pub(super) end: End,
    /// The listener that made its connection; it is dropped after the connection.
    _listener: Option<Listener>,
    srq: Option<Srq>,
    window: Mw,
    memory: Mr,
    /// With what they are.
    initiators: BTreeMap<u64, (&'static str, Due)>,
    receives: VecDeque<u64>,
    /// Messages of the peer, in their order.
    arriving: VecDeque<Vec<u8>>,
    /// A post that failed may have reached its queue: an initiator request, a receive.
    unsure: [Option<u64>; 2],
    initiated: u64,
    received: u64,
}

fn place(area: usize, context: u64) -> usize {
    (area * SLOTS + context as usize % SLOTS) * SLOT
}

impl Side {
    pub(super) fn new(end: End, listener: Option<Listener>, srq: Option<Srq>) -> anyhow::Result<Self> {
        let memory = end.site.buffer(AREAS * SLOTS * SLOT)?;
        let window = Mw::new(&end.site.pd)?;
        Ok(Self {
            notifies: Vec::new(),
            gone: end.connector.notify_disconnect(),
            end,
            _listener: listener,
            srq,
            window,
            memory,
            initiators: BTreeMap::new(),
            receives: VecDeque::new(),
            arriving: VecDeque::new(),
            unsure: [None; 2],
            initiated: 0,
            received: 0,
        })
    }

    /// Does something to this side, and to `peer` what that needs.
    pub(super) fn act(&mut self, peer: &mut Self, random: &mut Rng, record: &Record) -> anyhow::Result<()> {
        record.add().operations += 1;
        let has_room = self.initiators.len() + 2 <= MOST;
        match random.u8(..20) {
            0..8 if has_room && peer.receives.len() < MOST => self.send(peer, random, record).context("a send"),
            8..13 if has_room => self.write(peer, random, record).context("a write"),
            13 if has_room => self.bind(random, record).context("a bind"),
            14..16 => self.resize(random, record).context("a resize"),
            16 => self.register(random).context("a registration"),
            17 => {
                self.arm(random);
                Ok(())
            }
            _ => self.take(false, record).map(drop),
        }
    }

    fn send(&mut self, peer: &mut Self, random: &mut Rng, record: &Record) -> anyhow::Result<()> {
        peer.receive(record)?;
        let data = pattern(random.u64(..), random.usize(..=SLOT));
        peer.arriving.push_back(data.clone());
        let flags = if random.bool() { NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT } else { 0 };
        let at = place(SOURCE, self.initiated);
        if data.len() <= INLINE && random.bool() {
            return self.post("an inline send", record, Due::Nothing, |side, context| {
                side.end.qp.send_inline(context, &data, flags)
            });
        }
        self.memory.memory().write(at, &data);
        let sge = self.memory.sge(at..at + data.len());
        self.post("a send", record, Due::Nothing, |side, context| side.end.qp.send(context, &[sge], flags))
    }

    fn receive(&mut self, record: &Record) -> anyhow::Result<()> {
        let context = self.received;
        self.received += 1;
        let at = place(INBOX, context);
        let sges = [self.memory.sge(at..at + SLOT)];
        let posted = match &self.srq {
            Some(srq) => srq.receive(context, &sges),
            None => self.end.qp.receive(context, &sges),
        };
        match posted {
            Ok(()) => {
                self.receives.push_back(context);
                record.add().posted += 1;
            }
            Err(_) => self.unsure[1] = Some(context),
        }
        posted.context("the receive")
    }

    /// Writes to the peer, and reads it back.
    fn write(&mut self, peer: &Self, random: &mut Rng, record: &Record) -> anyhow::Result<()> {
        let data = pattern(random.u64(..), random.usize(..=SLOT));
        let (source, shared) = (place(SOURCE, self.initiated), place(SHARED, self.initiated));
        self.memory.memory().write(source, &data);
        let (from, to) = (self.memory.sge(source..source + data.len()), peer.memory.remote(shared));
        self.post("a write", record, Due::Nothing, |side, context| side.end.qp.write(context, &[from], to, 0))?;
        let sink = place(SINK, self.initiated);
        let into = self.memory.sge(sink..sink + data.len());
        self.post("a read", record, Due::Read(sink, data), |side, context| side.end.qp.read(context, &[into], to, 0))
    }

    /// Binds the window to what the peer writes to, and invalidates it.
    fn bind(&mut self, random: &mut Rng, record: &Record) -> anyhow::Result<()> {
        let start = random.usize(..SLOTS * SLOT);
        let range = place(SHARED, 0) + start..place(SHARED, 0) + SLOTS * SLOT;
        let flags = NDK_OP_FLAG_ALLOW_REMOTE_READ | NDK_OP_FLAG_ALLOW_REMOTE_WRITE;
        self.post("a bind", record, Due::Nothing, |side, context| {
            side.end.qp.bind(context, &side.window, &side.memory, range, flags).map(drop)
        })?;
        self.post("an invalidate", record, Due::Nothing, |side, context| {
            side.end.qp.invalidate_window(context, &side.window, 0)
        })
    }

    fn post(
        &mut self,
        what: &'static str,
        record: &Record,
        due: Due,
        post: impl FnOnce(&Self, u64) -> error::Result<()>,
    ) -> anyhow::Result<()> {
        let context = self.initiated;
        self.initiated += 1;
        if let Err(error) = post(self, context) {
            self.unsure[0] = Some(context);
            return Err(error.into());
        }
        self.initiators.insert(context, (what, due));
        record.add().posted += 1;
        Ok(())
    }

    fn resize(&mut self, random: &mut Rng, record: &Record) -> anyhow::Result<()> {
        let depth = random.u32(2 * MOST as u32..300);
        match &self.srq {
            Some(srq) if random.bool() => srq.modify(depth, random.u32(..8))?,
            _ if random.bool() => self.end.site.initiator_cq.resize(depth)?,
            _ => self.end.site.receive_cq.resize(depth)?,
        }
        record.add().resizes += 1;
        Ok(())
    }

    fn register(&self, random: &mut Rng) -> anyhow::Result<()> {
        let region = self.end.site.buffer(random.usize(1..64 << 10))?;
        region.deregister()?;
        Ok(region.free()?)
    }

    /// Sends a notification request, which may wait without end.
    fn arm(&mut self, random: &mut Rng) {
        self.notifies.retain_mut(|notify| !notify.is_over());
        if self.notifies.len() == NOTIFIES {
            return;
        }
        let site = &self.end.site;
        let notify = match random.u8(..6) {
            0 if self.srq.is_some() => self.srq.as_ref().map_or_else(|| site.receive_cq.notify(Arm::Any), Srq::notify),
            1 | 2 => site.initiator_cq.notify(Arm::Errors),
            _ => site.receive_cq.notify(Arm::Solicited),
        };
        self.notifies.push(notify);
    }

    /// Takes what has completed: how much. Once the connection `is_over`, requests may fail.
    pub(super) fn take(&mut self, is_over: bool, record: &Record) -> anyhow::Result<usize> {
        let initiated = self.end.site.initiator_cq.poll(MOST)?;
        let received = self.end.site.receive_cq.poll(MOST)?;
        let mut result = Ok(());
        for found in initiated.iter().chain(&received) {
            let taken = self.completed(found, is_over, record);
            result = result.and(taken);
        }
        result.map(|()| initiated.len() + received.len())
    }

    fn completed(&mut self, found: &SOFTNDK_RESULT, is_over: bool, record: &Record) -> anyhow::Result<()> {
        let (context, status) = (found.RequestContext, found.Status);
        let is_receive = NDK_OPERATION_TYPE(found.Type.cast_signed()) == NdkOperationTypeReceive;
        if self.unsure[usize::from(is_receive)] == Some(context) {
            self.unsure[usize::from(is_receive)] = None;
            return Ok(());
        }
        let due = if is_receive {
            ensure!(self.receives.front() == Some(&context), "receive {context} completes: out of turn, or twice");
            self.receives.pop_front();
            record.add().completed += 1;
            if status == STATUS_SUCCESS {
                let sent = self.arriving.pop_front().context("more messages than were sent")?;
                ensure!(found.BytesTransferred as usize == sent.len(), "{} bytes", found.BytesTransferred);
                Due::Read(place(INBOX, context), sent)
            } else {
                Due::Nothing
            }
        } else {
            let due = self.initiators.remove(&context);
            let (_, due) = due.with_context(|| format!("request {context} completes, and was not under way"))?;
            record.add().completed += 1;
            due
        };
        match due {
            _ if status != STATUS_SUCCESS && is_over => Ok(()),
            _ if status != STATUS_SUCCESS => Err(Error::Refused { request: "a work request", status }.into()),
            Due::Read(at, sent) => {
                let found = self.memory.memory().read(at..at + sent.len());
                ensure_same(&found, &sent).context("data that was moved")
            }
            Due::Nothing => Ok(()),
        }
    }

    /// Whether all that has to happen by itself has.
    pub(super) fn is_at_rest(&self) -> bool {
        self.initiators.is_empty() && self.arriving.is_empty()
    }

    /// Takes the next due completion, waiting for it by an armed notification.
    pub(super) fn await_next(&mut self, record: &Record) -> anyhow::Result<()> {
        if self.take(false, record)? > 0 || self.is_at_rest() {
            return Ok(());
        }
        let cq = if self.initiators.is_empty() { &self.end.site.receive_cq } else { &self.end.site.initiator_cq };
        let mut notify = cq.notify(Arm::Any);
        record.add().operations += 1;
        // An earlier request may have reported a completion that precedes this arm (the race rule of NDKPI: poll, arm, poll).
        if !self.notifies.is_empty() {
            // Wine returns before the driver has a request, and a ring can be read without the driver. This request follows the arm.
            self.end.site.adapter.info()?;
            if self.take(false, record)? > 0 {
                self.notifies.push(notify);
                return Ok(());
            }
        }
        let after = self.end.site.client.patience();
        let deadline = Instant::now() + after;
        while !notify.is_over_within(LOOK) {
            if self.gone.is_over() {
                // What is posted after the connection has ended waits for its owner to flush it.
                let refused = Error::Refused { request: "a connection that has ended", status: self.gone.status()? };
                return if self.take(false, record)? > 0 { Ok(()) } else { Err(refused.into()) };
            }
            if Instant::now() > deadline {
                let state = self.state();
                let late = match self.take(false, record)? {
                    0 => "",
                    _ => " (it is there, but the request for the notification did not end)",
                };
                // STATUS_CANCELLED: the driver still had it.
                notify.cancel();
                let end = notify.status().map_or_else(|error| error.to_string(), |status| status.to_string());
                let awaited = format!("a notification: {state}{late}; cancelled, it ends so: {end}");
                return Err(Error::Stalled { awaited, after }.into());
            }
        }
        match notify.status()? {
            STATUS_SUCCESS => self.take(false, record).map(drop),
            status => Err(Error::Refused { request: "Notify of a completion queue", status }.into()),
        }
    }

    /// For a finding.
    fn state(&self) -> String {
        let Self { receives, unsure, .. } = self;
        let requests: Vec<_> =
            self.initiators.iter().map(|(context, (what, _))| format!("{context}: {what}")).collect();
        let (messages, arms) = (self.arriving.len(), self.notifies.len());
        let path = self.end.site.client.path();
        format!(
            "{requests:?}, receives {receives:?}, {messages} messages to come, unsure {unsure:?}, {arms} arms, {path:?}"
        )
    }

    /// Requests that are to be reported.
    fn under_way(&self) -> u64 {
        (self.initiators.len() + self.receives.len()) as u64
    }

    /// The file is closed, as by a process that dies.
    pub(super) fn kill(self, record: &Record) {
        let mut figures = record.add();
        figures.kills += 1;
        figures.forgone += self.under_way();
        drop(figures);
        self.end.site.client.abandon();
    }

    /// The connection is over: each request has to be reported, and each control request to end. Among faults what is refused is
    /// tried again.
    pub(super) fn drain(mut self, trouble: Trouble, record: &Record) -> anyhow::Result<()> {
        let again = trouble == Trouble::Faults;
        let deadline = Instant::now() + self.end.site.client.patience();
        let retry = |request: &dyn Fn() -> error::Result<()>| loop {
            match request() {
                Err(Error::Refused { .. }) if again && !is_removed(&self.end.site) && Instant::now() < deadline => {}
                other => return other,
            }
        };
        record.add().operations += 2;
        let connector = &self.end.connector;
        let disconnected = retry(&|| connector.disconnect().finish().map(drop));
        let disconnected = disconnected.context("disconnecting");
        if let Err(error) = &disconnected {
            // Waits until the adapter reports its removal, if it is removed.
            let _is_looked_at_below = are_removed([&self.end.site; 2], error, trouble);
        }
        let flushed = retry(&|| self.end.qp.flush());
        let cqs: [&Cq; 2] = [&self.end.site.initiator_cq, &self.end.site.receive_cq];
        let cancelled = cqs.map(|cq| retry(&|| cq.cancel_io()));
        let cancelled_too =
            [retry(&|| connector.cancel_io()), self.srq.as_ref().map_or(Ok(()), |srq| retry(&|| srq.cancel_io()))];
        let mut result = Ok(());
        loop {
            match self.take(true, record) {
                Ok(_) => {}
                Err(error) if again && is_refused(&error) => {}
                Err(error) => result = result.and(Err(error)),
            }
            // A shared queue keeps the receives that no message has taken.
            let is_all = self.initiators.is_empty() && (self.receives.is_empty() || self.srq.is_some());
            if is_all || is_removed(&self.end.site) || Instant::now() > deadline {
                break;
            }
            thread::yield_now();
        }
        // The side does not see the completions of these requests.
        if is_removed(&self.end.site) {
            record.add().forgone += self.under_way();
            self.end_notifies(record);
            return result;
        }
        if self.srq.is_some() {
            record.add().forgone += self.receives.len() as u64;
            self.receives.clear();
        }
        let lost = self.under_way();
        if lost > 0 {
            let mut figures = record.add();
            figures.lost += lost;
            figures.find(format!("not reported: {}", self.state()));
        }
        self.end_notifies(record);
        result?;
        disconnected?;
        flushed.context("flushing")?;
        cancelled.into_iter().chain(cancelled_too).collect::<error::Result<()>>().context("cancelling")?;
        Ok(())
    }

    /// All that waits has to end.
    fn end_notifies(&mut self, record: &Record) {
        for notify in self.notifies.iter_mut().chain([&mut self.gone]) {
            if let Err(error) = notify.status() {
                let mut figures = record.add();
                figures.lost += 1;
                figures.find(error.to_string());
            }
        }
    }
}
