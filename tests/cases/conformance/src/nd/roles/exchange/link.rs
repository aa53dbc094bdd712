//! One of the connections, and where its rounds are.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ, ND_OP_FLAG_ALLOW_WRITE},
    status::STATUS_SUCCESS,
};

use crate::{
    nd::{
        client::{
            Completion, Connector, Mr, Mw, Qp, Remote, Request,
            both::{Connector as _, QueuePair as _},
        },
        pair::{BIND, End, INVALIDATE, READ, SEND, WRITE, expect},
    },
    pair::{ensure_same, pattern},
};

/// Bytes of memory that the peer writes to, at most.
pub(super) const AREA: usize = 256 * 1024;
/// Bytes of a message, at most.
pub(super) const SLOT: usize = 8192;
/// Bytes of the header before the data of a message: eight words.
const HEADER: usize = 64;

/// What a message is.
const REQUEST: u64 = 1;
const ANSWER: u64 = 2;

/// The header of a message.
struct Header {
    kind: u64,
    round: u64,
    /// Bytes of data behind the header.
    data: usize,
    /// Of a request: how much was written. Of an answer: the new window.
    written: usize,
    window: Remote,
}

impl Header {
    fn to_bytes(&self) -> Vec<u8> {
        let words = [
            self.kind,
            self.round,
            self.data as u64,
            self.written as u64,
            self.window.address,
            self.window.token.into(),
            0,
            0,
        ];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn split(message: &[u8]) -> anyhow::Result<(Self, &[u8])> {
        let (header, data) = message.split_at_checked(HEADER).context("a message without a header")?;
        let word =
            |at: usize| header[8 * at..8 * at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let window = Remote { address: word(4), token: u32::try_from(word(5))? };
        let found = Self { kind: word(0), round: word(1), data: word(2) as usize, written: word(3) as usize, window };
        ensure!(found.data == data.len(), "a message says that it has {} bytes; it has {}", found.data, data.len());
        Ok((found, data))
    }
}

/// Where the rounds of this end are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// None is under way.
    Rest,
    /// The request was sent; the answer has not arrived.
    Asked,
    /// The answer has arrived; this end reads its write back.
    Reading,
}

/// A connection. Its fields are dropped in this order: connector, queue pair, window, regions.
pub(super) struct Link {
    pub(super) lost: Option<Request>,
    pub(super) connector: Connector,
    pub(super) qp: Qp,
    window: Mw,
    /// What the peer writes to, through the window, and reads.
    area: Mr,
    /// What this end writes from.
    source: Mr,
    /// Where reads go.
    sink: Mr,
    /// Messages: the request, the answer.
    messages: Mr,
    /// The peer's: its window for the next write, and its area for reads.
    to_window: Remote,
    to_area: Remote,
    /// Makes the data of this end and link different from other ends' and links'.
    seed: u64,
    peer_seed: u64,
    round: u64,
    peer_round: u64,
    phase: Phase,
    /// Requests that have not completed.
    pub(super) outstanding: usize,
    /// Changes what the peer has written, once it was compared.
    pub(super) spoils: bool,
}

/// Bytes for a round: of every size, up to `max`, and now and then none.
fn size(seed: u64, round: u64, max: usize) -> usize {
    let mixed = (seed ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 17;
    let shift = mixed % 20;
    (mixed >> 8) as usize % ((max >> (shift % 12)) + 1)
}

/// What a request has for a context: its kind, and its bytes.
const fn context(kind: i32, bytes: usize) -> usize {
    kind as usize | bytes << 8
}

impl Link {
    /// Of a queue pair that is connected; `meet` tells the peer of memory, and is told.
    pub(super) fn new(
        end: &End,
        connector: Connector,
        qp: Qp,
        seeds: (u64, u64),
        meet: impl Fn(Remote) -> anyhow::Result<Remote>,
    ) -> anyhow::Result<Self> {
        let area = Mr::new(&end.adapter, AREA)?;
        area.register(ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ)?;
        let (source, sink, messages) = (end.buffer(AREA)?, end.buffer(AREA)?, end.buffer(2 * SLOT)?);
        let window = Mw::new(&end.adapter)?;
        let bound = qp.bind(context(BIND, 0), &area, &window, 0, AREA, ND_OP_FLAG_ALLOW_WRITE)?;
        // The peer may use it when that is done.
        expect(end.received()?, BIND, context(BIND, 0), STATUS_SUCCESS)?;
        let (to_window, to_area) = (meet(bound)?, meet(area.remote(0))?);
        let lost = Some(connector.notify_disconnect()?);
        let (seed, peer_seed) = seeds;
        let (round, peer_round, phase, outstanding) = (0, 0, Phase::Rest, 0);
        Ok(Self {
            lost,
            connector,
            qp,
            window,
            area,
            source,
            sink,
            messages,
            to_window,
            to_area,
            seed,
            peer_seed,
            round,
            peer_round,
            phase,
            outstanding,
            spoils: false,
        })
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.phase == Phase::Rest && self.outstanding == 0
    }

    pub(super) fn state(&self) -> String {
        format!("{:?} in round {}, {} outstanding", self.phase, self.round, self.outstanding)
    }

    /// Begins the next round, if none is under way.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        if self.phase != Phase::Rest {
            return Ok(());
        }
        self.round += 1;
        let written = size(self.seed, self.round, AREA);
        self.source.memory().write(0, &pattern(self.seed ^ self.round, written));
        self.posted(self.qp.write(context(WRITE, written), &[self.source.sge(0..written)], self.to_window, 0))?;
        self.send(REQUEST, self.round, written, Remote { address: 0, token: 0 })?;
        self.phase = Phase::Asked;
        Ok(())
    }

    /// A message with data that the other end can tell.
    fn send(&mut self, kind: u64, round: u64, written: usize, window: Remote) -> anyhow::Result<()> {
        let data = size(self.seed ^ kind, round, SLOT - HEADER);
        let start = if kind == REQUEST { 0 } else { SLOT };
        let message =
            [Header { kind, round, data, written, window }.to_bytes(), pattern(self.seed ^ round ^ kind << 32, data)]
                .concat();
        self.messages.memory().write(start, &message);
        let all = self.messages.sge(start..start + message.len());
        self.posted(self.qp.send(context(SEND, message.len()), &[all], 0))
    }

    fn posted(&mut self, result: crate::error::Result<()>) -> anyhow::Result<()> {
        result?;
        self.outstanding += 1;
        Ok(())
    }

    /// Handles a message that has arrived.
    pub(super) fn received(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let (header, data) = Header::split(message)?;
        let (kind, round) = (header.kind, header.round);
        let sent = pattern(self.peer_seed ^ round ^ kind << 32, data.len());
        ensure_same(data, &sent).with_context(|| format!("the data of a message of round {round}"))?;
        match kind {
            REQUEST => self.asked(&header),
            ANSWER => self.answered(&header),
            _ => anyhow::bail!("a message of kind {kind}"),
        }
    }

    /// The peer has written, and asks for a new window.
    fn asked(&mut self, header: &Header) -> anyhow::Result<()> {
        self.peer_round += 1;
        ensure!(header.round == self.peer_round, "round {} of the peer, after {}", header.round, self.peer_round - 1);
        let written = pattern(self.peer_seed ^ header.round, header.written);
        ensure_same(&self.area.memory().read(0..header.written), &written)
            .with_context(|| format!("what the peer has written in round {}", header.round))?;
        if self.spoils && header.written > 0 {
            self.area.memory().write(0, &[!written[0]]);
        }
        self.posted(self.qp.invalidate(context(INVALIDATE, 0), &self.window, 0))?;
        let bound = self.qp.bind(context(BIND, 0), &self.area, &self.window, 0, AREA, ND_OP_FLAG_ALLOW_WRITE)?;
        self.outstanding += 1;
        self.send(ANSWER, header.round, 0, bound)
    }

    fn answered(&mut self, header: &Header) -> anyhow::Result<()> {
        ensure!(self.phase == Phase::Asked, "an answer when nothing was asked: {}", self.state());
        ensure!(header.round == self.round, "an answer to round {} in round {}", header.round, self.round);
        self.to_window = header.window;
        let written = size(self.seed, self.round, AREA);
        self.posted(self.qp.read(context(READ, written), &[self.sink.sge(0..written)], self.to_area, 0))?;
        self.phase = Phase::Reading;
        Ok(())
    }

    /// One of the link's own requests has succeeded: its bytes.
    pub(super) fn completed(&mut self, found: Completion) -> anyhow::Result<usize> {
        self.outstanding = self.outstanding.checked_sub(1).context("more completions than requests")?;
        let bytes = found.context >> 8;
        ensure!(found.context == context(found.kind, bytes), "context {:#x}, kind {}", found.context, found.kind);
        if found.kind == READ {
            ensure!(self.phase == Phase::Reading, "a read completed: {}", self.state());
            ensure_same(&self.sink.memory().read(0..bytes), &pattern(self.seed ^ self.round, bytes))
                .with_context(|| format!("what was read back in round {}", self.round))?;
            self.phase = Phase::Rest;
        }
        Ok(bytes)
    }
}
