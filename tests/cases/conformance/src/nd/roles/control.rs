//! The connection by which the two ends speak about cases.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use ndk_abi::status::{STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_SUCCESS};

use super::{
    message::{Hello, MAX_MESSAGE, Message},
    role::Site,
};
use crate::nd::{
    cases::both::disconnect::told,
    client::{
        Completion, Listener, Mr, QpSize, ReadLimits, Request,
        both::{self, CompletionQueue as _, Connector as _, QueuePair as _},
    },
    pair::{End, is},
};

/// Messages that one end may send before the other looks.
const RECEIVES: usize = 16;

/// How long to wait for the last messages of a peer that has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Its kind of completion queue notification: the next completion.
pub(in crate::nd) const ANY: u32 = 1;

/// One end of it. The connection is dropped before the memory it uses.
pub(in crate::nd) struct Control {
    lost: RefCell<Option<Request>>,
    end: End,
    heard: Mr,
    told: Mr,
    /// The peer's verdict on the running case, if it arrived before this end asked for it.
    verdict: RefCell<Option<Option<String>>>,
    contexts: Cell<usize>,
    /// Receives that ended with the connection.
    cancelled: Cell<usize>,
    patience: Duration,
}

impl Control {
    fn new(site: &Site<'_>) -> anyhow::Result<Self> {
        let end = site.end(QpSize { receives: RECEIVES as u32, ..QpSize::default() })?;
        let (heard, told) = (end.buffer(RECEIVES * MAX_MESSAGE)?, end.buffer(MAX_MESSAGE)?);
        for slot in 0..RECEIVES {
            end.qp.receive(slot, &[heard.sge(slot * MAX_MESSAGE..(slot + 1) * MAX_MESSAGE)])?;
        }
        let (lost, verdict) = (RefCell::default(), RefCell::default());
        let (contexts, cancelled) = (Cell::default(), Cell::default());
        Ok(Self { lost, end, heard, told, verdict, contexts, cancelled, patience: site.patience })
    }

    /// The connecting end.
    pub(super) fn connect(site: &Site<'_>, to: SocketAddr) -> anyhow::Result<Self> {
        let control = Self::new(site)?;
        let (connector, qp) = (&control.end.connector, &control.end.qp);
        connector.bind(control.end.address)?;
        let request = connector.connect(qp, to, ReadLimits::default(), &Hello::control().to_bytes())?;
        request.finish().with_context(|| format!("connecting to {to}: is `ndharness serve` there?"))?;
        connector.complete_connect()?;
        control.connected()
    }

    /// The serving end: waits for a peer, until `give_up` says no more.
    pub(super) fn accept(site: &Site<'_>, listener: &Listener, give_up: &dyn Fn() -> bool) -> anyhow::Result<Self> {
        let control = Self::new(site)?;
        let (connector, qp) = (&control.end.connector, &control.end.qp);
        let mut request = listener.connection_request(connector)?;
        while !request.is_over_within(Duration::from_millis(100)) {
            ensure!(!give_up(), "nobody connects");
        }
        request.finish()?;
        let hello = connector.private_data()?;
        let (hello, _) = Hello::split(&hello).context("who connects is no ndharness of this version")?;
        ensure!(hello == Hello::control(), "a connection for case {:?}, where none is being played", hello.case);
        connector.accept(qp, ReadLimits::default(), &[])?.finish()?;
        control.connected()
    }

    fn connected(self) -> anyhow::Result<Self> {
        self.lost.replace(Some(self.end.connector.notify_disconnect()?));
        Ok(self)
    }

    pub(super) fn tell(&self, message: &Message) -> anyhow::Result<()> {
        let bytes = message.to_bytes();
        self.told.memory().write(0, &bytes);
        let context = self.contexts.replace(self.contexts.get() + 1);
        let sent = self.end.qp.send(context, &[self.told.sge(0..bytes.len())], 0);
        sent.context("telling the peer")?;
        let sent = self.end.initiated()?;
        is(sent.status, STATUS_SUCCESS, "a message to the peer")
    }

    /// The next message, if there is one by then.
    fn next_within(&self, limit: Duration) -> anyhow::Result<Option<Message>> {
        let deadline = Instant::now() + limit;
        let cq = &self.end.receive_cq;
        loop {
            let mut found = cq.poll(1)?.pop();
            if found.is_none() && !limit.is_zero() {
                let mut arrival = cq.notify(ANY)?;
                if !arrival.is_over_within(deadline.saturating_duration_since(Instant::now())) {
                    // Wine returns before the driver has a request, and a ring can be read without the driver. This request follows the Notify.
                    self.end.adapter.addresses()?;
                }
                found = cq.poll(1)?.pop();
                // The message ends the Notify, taken or not.
                ensure!(
                    found.is_none() || arrival.is_over_within(self.patience),
                    "a message has come, and Notify waits"
                );
            }
            match found {
                Some(found) => return self.message(found).map(Some),
                None if Instant::now() >= deadline => return Ok(None),
                None => {}
            }
        }
    }

    fn message(&self, found: Completion) -> anyhow::Result<Message> {
        if found.status != STATUS_SUCCESS {
            is(found.status, STATUS_CANCELLED, "a receive of a connection that has ended")?;
            self.cancelled.set(self.cancelled.get() + 1);
            bail!("the peer is gone: a receive of its messages ended with {}", found.status);
        }
        let start = found.context * MAX_MESSAGE;
        let message = Message::from_bytes(&self.heard.memory().read(start..start + found.bytes as usize))?;
        let again = self.end.qp.receive(found.context, &[self.heard.sge(start..start + MAX_MESSAGE)]);
        match again.map_err(|error| error.status()) {
            // These were the peer's last words.
            Err(Some(STATUS_CONNECTION_INVALID)) => self.cancelled.set(self.cancelled.get() + 1),
            Err(status) => bail!("a receive was refused: {status:?}"),
            Ok(()) => {}
        }
        Ok(message)
    }

    /// The next message; waits for it. A peer that has ended may have sent one before.
    pub(super) fn hear(&self) -> anyhow::Result<Message> {
        let limit = if self.is_lost() { LAST_WORDS } else { self.patience };
        self.next_within(limit)?.with_context(|| format!("the peer has not said a word for {limit:?}"))
    }

    /// What the peer says of the case that is being played, if it has said it by then.
    pub(in crate::nd) fn words_within(&self, limit: Duration) -> anyhow::Result<Option<Vec<u64>>> {
        match self.next_within(limit)? {
            None => Ok(None),
            Some(Message::Words(words)) => Ok(Some(words)),
            Some(Message::Verdict(verdict)) => {
                let why = verdict.clone().unwrap_or_else(|| "too early".to_owned());
                self.verdict.replace(Some(verdict));
                bail!("the peer has ended the case: {why}")
            }
            Some(other) => bail!("the peer says {other:?} in the middle of a case"),
        }
    }

    /// How the case ended at the peer, which may still be at it for `limit` more than usual.
    pub(super) fn verdict(&self, limit: Duration) -> anyhow::Result<Option<String>> {
        if let Some(verdict) = self.verdict.take() {
            return Ok(verdict);
        }
        let deadline = Instant::now() + 4 * self.patience + limit;
        loop {
            match self.next_within(deadline.saturating_duration_since(Instant::now()))? {
                Some(Message::Verdict(verdict)) => return Ok(verdict),
                // Of a case that is over here.
                Some(Message::Words(_)) => {}
                Some(other) => bail!("the peer says {other:?} instead of how the case ended"),
                None => bail!("the peer does not say how the case ended"),
            }
        }
    }

    /// Whether the connection is over.
    pub(in crate::nd) fn is_lost(&self) -> bool {
        self.is_lost_within(Duration::ZERO)
    }

    /// Waits for that so long at most.
    pub(super) fn is_lost_within(&self, limit: Duration) -> bool {
        self.lost.borrow_mut().as_mut().is_none_or(|lost| lost.is_over_within(limit))
    }

    /// Waits for the end of the connection that the peer has ended, or died on: what its requests end with.
    pub(super) fn ends(&self) -> anyhow::Result<String> {
        let notification = self.lost.take().context("the end of the connection was noticed before")?;
        let notified = told(notification).context("the connection of messages")?;
        self.end.qp.send(0, &[], 0).context("a send when the peer is gone")?;
        is(self.end.initiated()?.status, STATUS_CANCELLED, "a send when the peer is gone")?;
        disconnected(&self.end.connector)?;
        for _ in self.cancelled.get()..RECEIVES {
            is(self.end.received()?.status, STATUS_CANCELLED, "a receive when the peer is gone")?;
        }
        Ok(format!(
            "its messages: NotifyDisconnect {notified}, a send then {STATUS_CANCELLED}, Disconnect \
             {STATUS_SUCCESS}, {RECEIVES} receives {STATUS_CANCELLED}"
        ))
    }

    /// Ends the connection; the peer ends it too.
    pub(super) fn close(self) -> anyhow::Result<()> {
        disconnected(&self.end.connector)
    }
}

/// Disconnect, which succeeds at both ends, in any order.
pub(super) fn disconnected(connector: &impl both::Connector) -> anyhow::Result<()> {
    connector.disconnect()?.finish().context("Disconnect")
}
