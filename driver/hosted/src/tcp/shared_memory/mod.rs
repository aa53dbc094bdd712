//! Connections between two processes of one machine and one user: TCP makes them, then bytes go through shared memory, as with
//! SMC-D of Linux.
//!
//! The connecting side [offers](offer) a segment (`segment.rs`) when TCP has connected. Before the accepting side sends its first byte, it
//! [accepts](accept) what it finds. From then on its bytes go through the segment's ring, and the connecting side's too once that
//! sees the acceptance. If the connecting side receives a byte by TCP before, it refuses: then all goes by TCP. A peer that
//! knows nothing of this sees an ordinary connection.
//!
//! TCP stays: its end is the connection's, and a byte in it, a bell, wakes a side that sleeps. A side says in [`Wants`] before it
//! sleeps what is to wake it; while it looks at its rings, it gets no bells.

mod ring;
mod segment;

use std::{
    io::Write as _,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering, fence},
    },
};

use mio::net::TcpStream;

pub(super) use ring::{Receiver, Sender};
use segment::Segment;

/// What wakes a side that sleeps.
#[derive(Clone, Copy)]
pub(super) enum Wants {
    /// Bytes to read.
    Data = 1,
    /// Room for bytes to write.
    Room = 2,
}

/// A side of a segment.
pub(super) struct Shared {
    segment: Segment,
    /// A send waits for room in the ring.
    is_full: AtomicBool,
    /// The position in the peer's ring up to which bytes were shown.
    shown: AtomicU64,
    /// A receive has said that the peer writes no more.
    has_shown_finish: AtomicBool,
}

/// Whether this process offers and accepts memory.
static SHARES: AtomicBool = AtomicBool::new(true);

/// Whether connections that are made from now on within this machine share memory with processes of this user, if these do. True,
/// unless this was called.
pub fn share_memory(shares: bool) {
    SHARES.store(shares, Ordering::Relaxed);
}

/// Offers shared memory to the peer, when TCP has connected and before the first byte is sent.
pub(super) fn offer(local: SocketAddr, remote: SocketAddr) -> Option<Arc<Shared>> {
    if !SHARES.load(Ordering::Relaxed) || !is_here(local, remote) {
        return None;
    }
    Segment::offer(local, remote).map(Shared::new)
}

/// Accepts shared memory that the peer has offered, before the first byte is sent to it.
pub(super) fn accept(local: SocketAddr, remote: SocketAddr) -> Option<Arc<Shared>> {
    if !SHARES.load(Ordering::Relaxed) {
        return None;
    }
    Segment::accept(local, remote).map(Shared::new)
}

/// Whether the peer is on this machine: it has an address to which a socket of this machine binds.
fn is_here(local: SocketAddr, remote: SocketAddr) -> bool {
    remote.ip().is_loopback() || remote.ip() == local.ip() || UdpSocket::bind((remote.ip(), 0)).is_ok()
}

impl Shared {
    fn new(segment: Segment) -> Arc<Self> {
        let (is_full, has_shown_finish) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { segment, is_full, shown: AtomicU64::new(0), has_shown_finish })
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.segment.is_accepted()
    }

    pub(super) fn is_refused(&self) -> bool {
        self.segment.is_refused()
    }

    /// Takes the offer back. False: the peer has accepted it.
    pub(super) fn refuse(&self) -> bool {
        self.segment.refuse()
    }

    /// The number of bytes that the peer sent by TCP before all others, once it is known.
    pub(super) fn by_tcp(&self) -> Option<u64> {
        Segment::by_tcp(self.segment.theirs())
    }

    /// Whether this side sends through its ring. Before that it rings no bells, which would be taken for bytes.
    pub(super) fn may_ring(&self) -> bool {
        Segment::by_tcp(self.segment.ours()).is_some()
    }

    /// The position up to which the peer has written, which counts as shown from now on.
    pub(super) fn show(&self) -> u64 {
        let sent = self.segment.theirs().sender.0.sent.load(Ordering::Acquire);
        self.shown.store(sent, Ordering::Relaxed);
        sent
    }

    /// Whether the peer has written bytes that were not shown.
    pub(super) fn has_bytes(&self) -> bool {
        self.segment.theirs().sender.0.sent.load(Ordering::Acquire) != self.shown.load(Ordering::Relaxed)
    }

    /// Whether the peer writes no more.
    pub(super) fn is_finished(&self) -> bool {
        self.segment.theirs().sender.0.finished.load(Ordering::Acquire) != 0
    }

    /// A receive says that the peer writes no more.
    pub(super) fn show_finish(&self) {
        self.has_shown_finish.store(true, Ordering::Relaxed);
    }

    /// This side writes no more.
    pub(super) fn finish(&self) {
        self.segment.ours().sender.0.finished.store(1, Ordering::Release);
    }

    /// Whether this side's ring has room for a send that awaits it; if not, this is noted.
    pub(super) fn has_room(&self) -> bool {
        let sent = self.segment.ours().sender.0.sent.load(Ordering::Relaxed);
        let has_room = ring::has_room(sent, self.segment.theirs().received.0.load(Ordering::Acquire));
        self.is_full.store(!has_room, Ordering::Relaxed);
        has_room
    }

    /// A send awaits more room than there is.
    pub(super) fn note_full(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    /// Whether there is something to do: bytes to show, the peer's finish, or room for a send that awaits it.
    pub(super) fn is_due(&self) -> bool {
        self.has_bytes()
            || self.is_finished() && !self.has_shown_finish.load(Ordering::Relaxed)
            || self.is_full.load(Ordering::Relaxed) && self.has_room()
    }

    /// Before this side's thread sleeps: tells the peer for what it has to ring. The caller then looks at the ring again, as the peer may
    /// have written before it read this.
    pub(super) fn want(&self, wants: Wants) {
        self.segment.ours().wants.0.fetch_or(wants as u32, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Wakes the peer if it sleeps until it has what this side has just given it.
    pub(super) fn wake(&self, wants: Wants, mut stream: &TcpStream) {
        let bits = &self.segment.theirs().wants.0;
        fence(Ordering::SeqCst);
        if bits.load(Ordering::Relaxed) & wants as u32 != 0
            && self.may_ring()
            && bits.fetch_and(!(wants as u32), Ordering::SeqCst) & wants as u32 != 0
        {
            // An error: TCP is full of bells, or its end is to be received.
            let _rung = stream.write(&[0]);
        }
    }
}
