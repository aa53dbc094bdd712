//! Connections with other machines: iWARP over a TCP stream.
//!
//! The deferred call of a [`Wire`] makes the connection (`mpa.rs`, `handshake.rs`) and ends it (`closing.rs`). In between a
//! queue pair is attached, and its engine runs the wire (`streams.rs`): it writes requests as FPDUs into the stream's send
//! buffer (`transmit.rs`; `inbound_reads.rs` for responses to the peer's reads), and places the peer's FPDUs from the receive
//! buffer (`receive.rs`; `outbound_reads.rs` for responses to its own reads). Fault rules for segments are in `faults.rs`.
//! [`Stream`] calls the sockets, with no lock held. No code here blocks.

mod closing;
mod crc;
mod faults;
mod handshake;
mod inbound_reads;
mod mpa;
mod outbound_reads;
mod receive;
mod streams;
mod terminate;
mod timeouts;
mod transmit;

use core::net::SocketAddr;

use iwarp::{
    negotiate::{Proposal, Terms},
    terminate::Cause,
};
use platform::{
    Addresses, Arc, Charge, Deferred, Dispatch, OutOfMemory, Platform, RunDeferred, RunStream, RunTimer, SpinLock,
    Stream, Timer, Weak,
};

use crate::{
    Adapter, Connector, Device, QueuePair, connect::listener::HalfOpen, connect::wire_table::WireSlot, device::Rundown,
    memory::access::RemoteAccessError,
};
use mpa::FrameBytes;
use streams::Streams;

/// One side of a connection with another machine.
pub(crate) struct Wire<P: Platform> {
    stream: Stream<P>,
    deferred: Deferred<P>,
    timer: Timer<P>,
    /// The state of both directions. `run` takes it out, and puts it back. The closing drops the state, once a Terminate that is due is written.
    streams: SpinLock<LockedStreams<P>, P>,
    is_initiator: bool,
    /// The consumer is a program, whose accept waits for the RTR message without a limit of time.
    is_of_program: bool,
    /// If the peer serves reads, sends and writes await its confirmation: the consumer is a program, and has a send timeout.
    confirms: bool,
    device: Arc<Device<P>, P>,
    _charge: Charge<P>,
    /// Dropped after the charge: the drop of `half_open` schedules its listener, which may need that quota for the next connection.
    state: SpinLock<LockedWire<P>, P>,
    /// The wire holds this, not the adapter: the close of an adapter waits for its objects, but not for a peer.
    _rundown: Arc<Rundown<P>, P>,
}

/// Where a wire keeps its [`Streams`].
struct LockedStreams<P: Platform> {
    streams: Option<Streams<P>>,
    /// `run` has the streams.
    are_out: bool,
}

struct LockedWire<P: Platform> {
    wire_state: WireState<P>,
    /// The timer of this state has expired (while the connection is established, a tick: `timeouts.rs`).
    late: bool,
    /// Another wire needs this wire's slot, or this wire has ended and got no slot.
    displaced: bool,
    /// The connection has ended by an error, of this side or of the peer.
    broken: bool,
    /// Passive: the listener and the slot, until the MPA Request has arrived.
    half_open: Option<HalfOpen<P>>,
    /// The slot in the table of refused or of ended wires, until the stream is closed.
    ending: Option<WireSlot<P>>,
}

impl<P: Platform> LockedWire<P> {
    /// Whether a wire that waits for the peer, or is closing, is to be reset.
    fn must_reset(&self) -> bool {
        self.late || self.displaced
    }
}

/// How far a connection has come.
enum WireState<P: Platform> {
    /// Active: TCP connects; then this side sends the Request.
    Connecting(Active<P>),
    /// Active: the peer's Reply is due.
    AwaitReply(Active<P>),
    /// Active: the peer has accepted; the consumer has neither completed nor rejected.
    Replied(Terms, Weak<Connector<P>, P>),
    /// Passive: true while TCP accepts. Then the peer's Request is due.
    AwaitRequest(bool),
    /// Passive: the consumer has neither accepted nor rejected.
    Requested(FrameBytes, Weak<Connector<P>, P>),
    /// Passive: the Reply is sent, and the RTR message is due.
    AwaitRtr(Terms, Weak<Connector<P>, P>),
    /// A thread is between `begin_change` and `end_change`.
    Changing,
    /// The connection is established, and the queue pair's engine runs the wire.
    RdmaMode(Weak<QueuePair<P>, P>),
    /// The connection has ended, and the stream is being closed.
    Closing,
}

/// What the active side needs until the Reply.
struct Active<P: Platform> {
    connector: Weak<Connector<P>, P>,
    proposal: Proposal,
    request: FrameBytes,
    addresses: (SocketAddr, SocketAddr),
}

impl<P: Platform> Wire<P> {
    fn new(adapter: &Arc<Adapter<P>, P>, wire_state: WireState<P>) -> Result<Arc<Self, P>, OutOfMemory> {
        let is_initiator = matches!(wire_state, WireState::Connecting(_));
        let quota = adapter.quota();
        let charge = quota.charge(Arc::<Self, P>::POOL_BYTES.saturating_add(Stream::<P>::pool_bytes()))?;
        let wire = Arc::try_new(Self {
            stream: Stream::new_for(quota)?,
            deferred: Deferred::default(),
            timer: Timer::default(),
            state: SpinLock::<_, P>::new(LockedWire {
                wire_state,
                late: false,
                displaced: false,
                broken: false,
                half_open: None,
                ending: None,
            }),
            streams: SpinLock::<_, P>::new(LockedStreams { streams: None, are_out: false }),
            is_initiator,
            is_of_program: adapter.process().is_some(),
            confirms: adapter.send_timeout() > 0,
            device: adapter.device().clone(),
            _rundown: adapter.rundown().clone(),
            _charge: charge,
        })?;
        Deferred::initialize(&wire);
        Timer::initialize(&wire);
        Ok(wire)
    }

    /// The addresses of both sides, while the stream has a socket.
    pub(crate) fn addresses(&self) -> Addresses {
        let (local, remote) = self.stream.addresses().unzip();
        Addresses { local, remote }
    }

    /// Takes the state out if `from` accepts it, and cancels that state's timer. The caller that gets the state sets the next one by
    /// [`Self::end_change`], or ends or closes the wire.
    fn begin_change(this: &Arc<Self, P>, from: impl FnOnce(&WireState<P>) -> bool) -> Option<WireState<P>> {
        let mut state = this.state.lock();
        from(&state.wire_state).then(|| Self::change(this, &mut state, WireState::Changing))
    }

    fn change(this: &Arc<Self, P>, state: &mut LockedWire<P>, next: WireState<P>) -> WireState<P> {
        // Under the lock: an expiry that waits for the lock then sees that the timer was cancelled.
        Timer::cancel(this);
        (state.late, state.displaced) = (false, false);
        core::mem::replace(&mut state.wire_state, next)
    }

    /// Another wire needs this wire's slot: resets this wire, if it waits for the MPA Request or is closing.
    pub(crate) fn make_way(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        let waits = matches!(state.wire_state, WireState::AwaitRequest(_) | WireState::Closing);
        state.displaced |= waits;
        drop(state);
        if waits {
            Deferred::schedule(this);
        }
    }

    /// Sets the next state. False: the connection has ended in between.
    fn end_change(this: &Arc<Self, P>, next: WireState<P>) -> bool {
        let mut state = this.state.lock();
        let goes_on = matches!(state.wire_state, WireState::Changing);
        let unused = if goes_on { core::mem::replace(&mut state.wire_state, next) } else { next };
        drop(state);
        drop(unused);
        // During the change no thread handled what the stream received.
        Self::on_ready(this);
        goes_on
    }
}

impl<P: Platform> RunStream<P> for Wire<P> {
    fn stream(&self) -> &Stream<P> {
        &self.stream
    }

    fn on_ready(this: &Arc<Self, P>) {
        let state = this.state.lock();
        let attached = match &state.wire_state {
            WireState::RdmaMode(queue_pair) => queue_pair.upgrade(),
            _ => None,
        };
        drop(state);
        match attached {
            Some(queue_pair) => Deferred::schedule_and_release(queue_pair),
            None => Deferred::schedule(this),
        }
    }
}

impl<P: Platform> RunDeferred<P> for Wire<P> {
    fn deferred(&self) -> &Deferred<P> {
        &self.deferred
    }

    fn run(this: &Arc<Self, P>, _: &Dispatch<'_>) {
        Self::negotiate(this);
        Self::finish_close(this);
    }
}

impl<P: Platform> RunTimer<P> for Wire<P> {
    fn timer(&self) -> &Timer<P> {
        &self.timer
    }

    fn expired(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        // False: the timer was cancelled or started again since it expired.
        let late = this.timer.has_expired();
        state.late |= late;
        drop(state);
        if late {
            Self::on_ready(this);
        }
    }
}

impl RemoteAccessError {
    /// The cause for a refused write: DDP checks the tag and the range, RDMAP the right.
    fn of_write(self) -> Cause {
        match self {
            Self::Token => Cause::TAGGED_STAG,
            Self::Stream => Cause::TAGGED_NOT_OF_STREAM,
            Self::Wrap => Cause::TAGGED_WRAP,
            Self::Bounds => Cause::TAGGED_BOUNDS,
            Self::Right => Cause::ACCESS,
        }
    }

    /// The cause for a refused source of a read, which RDMAP checks.
    fn of_read(self) -> Cause {
        match self {
            Self::Token => Cause::STAG,
            Self::Stream => Cause::NOT_OF_STREAM,
            Self::Wrap => Cause::WRAP,
            Self::Bounds => Cause::BOUNDS,
            Self::Right => Cause::ACCESS,
        }
    }
}

/// Converts a cause for a notice.
fn noticed(cause: Cause) -> platform::Cause {
    platform::Cause { layer: cause.layer, kind: cause.kind, code: cause.code }
}
