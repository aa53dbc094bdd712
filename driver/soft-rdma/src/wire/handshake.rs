//! From a TCP connection to an RDMA connection: the Request, the Reply, and the ready-to-receive (RTR) message (RFC 5044 section 7.1, RFC 6581).
//! Until the consumer answers, the wire only watches for bytes that the peer may not send yet and for the end of the stream.

use core::net::SocketAddr;

use iwarp::{
    fpdu,
    mpa::{self, FrameKind, MpaFrame, Revision},
    negotiate::{Proposal, RtrKind, Terms, reject},
    segment::Segment,
    terminate::Cause,
};
use platform::{Arc, Deferred, OutOfMemory, Platform, Read, RunStream, SocketError, Stream, Taken, Timer, Weak};

use super::{
    Active, Wire, WireState, crc,
    mpa::{FrameBytes, ReceivedFrame},
    streams::Streams,
    transmit::TerminateOut,
};
use crate::{
    Connector, Device, Error, Listener, QueuePair, ReadLimits, connect::connector::PrivateData,
    connect::listener::HalfOpen, limits, qp::PeerQp,
};

/// Microseconds from TCP's accept to the Request, as in Linux siw.
const REQUEST_MICROSECONDS: u32 = 5_000_000;
/// Microseconds from the Reply to the RTR message, if a kernel consumer accepted. A program waits without
/// limit, as IND2Connector::Accept does: the message may come only when the peer's consumer completes.
const RTR_MICROSECONDS: u32 = 10_000_000;

impl<P: Platform> Wire<P> {
    /// Prepares a connect. [`Self::start`] begins it; the wire then reports the result to `connector`.
    pub(crate) fn connect(
        connector: &Arc<Connector<P>, P>,
        addresses: (SocketAddr, SocketAddr),
        limits: ReadLimits,
        private_data: &PrivateData,
    ) -> Result<Arc<Self, P>, Error> {
        let adapter = connector.adapter();
        let proposal = proposal(adapter.device(), limits, adapter.send_timeout() > 0);
        let request = FrameBytes::new(&proposal.request(private_data.as_slice())).ok_or(Error::InvalidBufferSize)?;
        let active = Active { connector: Arc::downgrade(connector), proposal, request, addresses };
        Ok(Self::new(connector.adapter(), WireState::Connecting(active))?)
    }

    /// Starts the TCP connect.
    pub(crate) fn start(this: &Arc<Self, P>) {
        let addresses = match &this.state.lock().wire_state {
            WireState::Connecting(active) => active.addresses,
            _ => return,
        };
        if Stream::connect(this, addresses.0, addresses.1).is_err()
            && let Some(WireState::Connecting(active)) =
                Self::begin_change(this, |state| matches!(state, WireState::Connecting(_)))
        {
            Self::notify(&active.connector, |connector| {
                Connector::connect_failed(connector, Error::InsufficientResources);
            });
        }
    }

    /// Starts the accept of a listener's next connection.
    pub(crate) fn await_connection(listener: &Arc<Listener<P>, P>, half_open: HalfOpen<P>) -> Result<(), OutOfMemory> {
        let wire = Self::new(listener.adapter(), WireState::AwaitRequest(true))?;
        wire.state.lock().half_open = Some(half_open);
        Stream::accept(&wire, listener)
    }

    /// Handles, by the wire's state, what the stream has received. The deferred call runs this.
    pub(super) fn negotiate(this: &Arc<Self, P>) {
        let handler = match &this.state.lock().wire_state {
            WireState::Connecting(_) => Self::connected,
            WireState::AwaitReply(_) => Self::look_for_reply,
            WireState::AwaitRequest(..) => Self::look_for_request,
            WireState::AwaitRtr(..) => Self::look_for_rtr,
            WireState::Replied(..) | WireState::Requested(..) => Self::look_for_end,
            WireState::Changing | WireState::RdmaMode(_) | WireState::Closing => return,
        };
        handler(this);
    }

    fn connected(this: &Arc<Self, P>) {
        let Some(result) = this.stream.started() else { return };
        let Some(WireState::Connecting(active)) =
            Self::begin_change(this, |state| matches!(state, WireState::Connecting(_)))
        else {
            return;
        };
        let local = this.stream.addresses().map(|(local, _)| local).ok_or(SocketError::Reset);
        let connected = match (result.and(local), active.connector.upgrade()) {
            (Ok(local), Some(connector)) => Connector::bound(&connector, local),
            // The connector and the consumer's request are gone.
            (Ok(_), None) => Err(Error::Canceled),
            // The address is the device's own and no listener has it. Without a network no other process can listen there.
            (Err(SocketError::NoNetwork), _) if this.device.has_address(active.addresses.1.ip()) => {
                Err(Error::ConnectionRefused)
            }
            (Err(error), _) => Err(error.into()),
        };
        if let Err(error) = connected {
            Self::notify(&active.connector, |connector| Connector::connect_failed(connector, error));
            return Self::close(this);
        }
        // No timer: the peer's consumer accepts when it likes (ndspi.md section 5, Connect).
        Self::send_mpa_frame(this, active.request.as_slice());
        Self::end_change(this, WireState::AwaitReply(active));
    }

    fn look_for_reply(this: &Arc<Self, P>) {
        let Some(came) = Self::mpa_frame(this, FrameKind::Reply) else { return };
        let Some(WireState::AwaitReply(active)) =
            Self::begin_change(this, |state| matches!(state, WireState::AwaitReply(_)))
        else {
            return;
        };
        let failed = |error| {
            Self::notify(&active.connector, |connector| Connector::connect_failed(connector, error));
            Self::close(this);
        };
        let ReceivedFrame::Frame(frame) = came else { return failed(Error::ConnectionAborted) };
        let (Some(request), Some(reply)) = (active.request.parsed(FrameKind::Request), frame.parsed(FrameKind::Reply))
        else {
            return failed(Error::InternalError);
        };
        let private_data = PrivateData::of_peer(reply.private_data);
        if reply.reject {
            Self::notify(&active.connector, |connector| Connector::peer_rejects(connector, private_data));
            return Self::close(this);
        }
        let terms = match active.proposal.initiator_terms(&request, &reply) {
            Ok(terms) => terms,
            Err(cause) => {
                Self::notify(&active.connector, |connector| {
                    Connector::connect_failed(connector, Error::ConnectionAborted);
                });
                return Self::decline(this, request.crc || reply.crc, cause);
            }
        };
        // Sets the state first: the consumer may complete the connect as soon as `peer_accepts` reports to it.
        Self::end_change(this, WireState::Replied(terms, active.connector.clone()));
        let connector = active.connector.upgrade();
        if !connector.is_some_and(|connector| Connector::peer_accepts(&connector, of_peer(&terms), private_data)) {
            Self::close(this);
        }
    }

    fn look_for_request(this: &Arc<Self, P>) {
        let Some(started) = this.stream.started() else { return };
        // Taken once: `Listener::accepted` is called once, after which the listener starts the next accept.
        let accepting = match &mut this.state.lock().wire_state {
            WireState::AwaitRequest(accepting) => core::mem::take(accepting),
            _ => return,
        };
        let listener = this.state.lock().half_open.as_ref().and_then(HalfOpen::listener);
        let mut is_open = started.is_ok();
        if accepting {
            Timer::start(this, REQUEST_MICROSECONDS);
            let slot = listener.as_ref().and_then(|listener| Listener::accepted(listener, this, started));
            is_open = slot.is_some();
            if let Some(half_open) = &mut this.state.lock().half_open {
                half_open.enter(slot);
            }
        }
        let Some(came) =
            (if is_open { Self::mpa_frame(this, FrameKind::Request) } else { Some(ReceivedFrame::Invalid) })
        else {
            return;
        };
        if Self::begin_change(this, |state| matches!(state, WireState::AwaitRequest(_))).is_none() {
            return;
        }
        let (ReceivedFrame::Frame(frame), Some((local, remote)), Some(listener)) =
            (came, this.stream.addresses(), listener)
        else {
            return Self::close(this);
        };
        // A listener on the unspecified address accepts on all interfaces of the machine; the device has the addresses of only some interfaces.
        if !listener.adapter().device().has_address(local.ip()) {
            return Self::close(this);
        }
        let Some(request) = frame.parsed(FrameKind::Request) else { return Self::close(this) };
        let offered = match request.revision {
            Revision::Two(Some(enhanced)) => {
                ReadLimits { inbound: reads(enhanced.inbound_reads), outbound: reads(enhanced.outbound_reads) }
            }
            _ => ReadLimits { inbound: limits::READ_LIMIT, outbound: limits::READ_LIMIT },
        };
        let private_data = PrivateData::of_peer(request.private_data);
        let asked = this.state.lock().half_open.take();
        drop(asked);
        let incoming = if request.markers {
            Err(Error::ConnectionRefused)
        } else {
            Connector::incoming(&listener, this, (local, remote), offered, private_data)
        };
        match incoming {
            Ok(connector) => {
                Self::end_change(this, WireState::Requested(frame, Arc::downgrade(&connector)));
                Deferred::schedule(&connector);
            }
            Err(_) => Self::refuse(this, &reject(&request, &[])),
        }
    }

    /// The initiator's first FPDU establishes the connection, if it is the agreed RTR message. It stays in the buffer, for `receive.rs`.
    fn look_for_rtr(this: &Arc<Self, P>) {
        let (crc, rtr) = match &this.state.lock().wire_state {
            WireState::AwaitRtr(terms, _) => (terms.crc.then(crc::fastest), terms.rtr),
            _ => return,
        };
        let mut is_there = false;
        let mut wrong = false;
        let read = Stream::read(this, |bytes| {
            let wanted = match fpdu::parse(bytes, crc) {
                Ok(fpdu::ParsedFpdu::Incomplete(size)) => size.unwrap_or(0),
                Ok(fpdu::ParsedFpdu::Whole { ulpdu, .. }) => {
                    is_there = rtr.is_some_and(|rtr| is_rtr(rtr, ulpdu));
                    wrong = !is_there;
                    0
                }
                Err(_) => {
                    wrong = true;
                    0
                }
            };
            Taken { used: 0, wanted }
        });
        wrong |= matches!(read, Read::Ended(_)) || this.state.lock().late;
        if !is_there && !wrong {
            return;
        }
        let awaited = Self::begin_change(this, |state| matches!(state, WireState::AwaitRtr(..)));
        let Some(WireState::AwaitRtr(terms, connector)) = awaited else { return };
        if is_there {
            Self::establish(this, &terms, &connector, true);
        } else {
            Self::fail_attempt(this, &connector);
        }
    }

    /// Before the consumer has answered: a peer that sends, or whose stream ends, ends the attempt.
    fn look_for_end(this: &Arc<Self, P>) {
        let mut speaks = false;
        let read = Stream::read(this, |_| {
            speaks = true;
            Taken { used: 0, wanted: 0 }
        });
        let over = speaks || matches!(read, Read::Ended(_));
        let is_at_rest = |state: &WireState<P>| matches!(state, WireState::Replied(..) | WireState::Requested(..));
        let at_rest = if over { Self::begin_change(this, is_at_rest) } else { None };
        if let Some(WireState::Replied(_, connector) | WireState::Requested(_, connector)) = at_rest {
            Self::fail_attempt(this, &connector);
        } else if !is_at_rest(&this.state.lock().wire_state) {
            // The consumer answered during this read. A thread that read in the next state may have got no bytes, as one thread reads at a time:
            // the stream is read again.
            Self::on_ready(this);
        }
    }

    /// The consumer of the passive side accepts. False: the peer is gone, or there is no memory.
    pub(crate) fn accept(this: &Arc<Self, P>, wanted: ReadLimits, private_data: &PrivateData) -> bool {
        let requested = Self::begin_change(this, |state| matches!(state, WireState::Requested(..)));
        let Some(WireState::Requested(frame, connector)) = requested else { return false };
        let replied = frame.parsed(FrameKind::Request).and_then(|request| {
            let terms = proposal(&this.device, wanted, this.confirms).responder_terms(&request)?;
            Some((terms, FrameBytes::new(&terms.accept(&request, private_data.as_slice()))?))
        });
        let Some((terms, reply)) = replied else {
            Self::close(this);
            return false;
        };
        if !Self::send_mpa_frame(this, reply.as_slice()) {
            Self::close(this);
            return false;
        }
        if terms.rtr.is_some() {
            if !this.is_of_program {
                Timer::start(this, RTR_MICROSECONDS);
            }
            Self::end_change(this, WireState::AwaitRtr(terms, connector));
        } else {
            Self::establish(this, &terms, &connector, false);
        }
        true
    }

    /// The consumer of either side rejects, or closes before the connection is established. While the peer's Request waits
    /// for an answer, a Reply refuses it; else the stream is reset.
    pub(crate) fn reject(this: &Arc<Self, P>, private_data: &PrivateData) {
        let requested = Self::begin_change(this, |state| matches!(state, WireState::Requested(..)));
        if let Some(WireState::Requested(frame, _)) = requested
            && let Some(request) = frame.parsed(FrameKind::Request)
        {
            Self::refuse(this, &reject(&request, private_data.as_slice()));
        } else {
            Self::close(this);
        }
    }

    /// The consumer of the active side completes. `None`: the peer is gone, or there is no memory.
    pub(crate) fn complete(this: &Arc<Self, P>, queue_pair: &Arc<QueuePair<P>, P>) -> Option<PeerQp<P>> {
        let replied = Self::begin_change(this, |state| matches!(state, WireState::Replied(..)));
        let Some(WireState::Replied(terms, _)) = replied else { return None };
        let peer = Self::attach(this, &terms, queue_pair, true);
        if peer.is_none() {
            Self::close(this);
        }
        peer
    }

    /// Establishes the passive side. `may_send`: the initiator's first message has arrived.
    fn establish(this: &Arc<Self, P>, terms: &Terms, connector: &Weak<Connector<P>, P>, may_send: bool) {
        let connected = connector.upgrade().is_some_and(|connector| {
            Connector::established(&connector, of_peer(terms), |queue_pair| {
                Self::attach(this, terms, queue_pair, may_send)
            })
        });
        if !connected {
            Self::fail_attempt(this, connector);
        }
    }

    /// Ends an attempt: reports a reject to the connector, and resets the stream.
    fn fail_attempt(this: &Arc<Self, P>, connector: &Weak<Connector<P>, P>) {
        Self::notify(connector, |connector| Connector::peer_rejects(connector, PrivateData::EMPTY));
        Self::close(this);
    }

    fn refuse(this: &Arc<Self, P>, reply: &MpaFrame<'_>) {
        if let Some(frame) = FrameBytes::new(reply) {
            Self::send_mpa_frame(this, frame.as_slice());
        }
        Self::end_in(this, this.device.refused());
    }

    /// This side cannot meet the Reply's terms: ends the stream with a Terminate that gives `cause` (RFC 6581 section 9).
    fn decline(this: &Arc<Self, P>, crc: bool, cause: Cause) {
        let terms = Terms { crc, inbound_reads: 0, outbound_reads: 0, rtr: None };
        if let Ok(mut streams) = Streams::new(&terms, true, true) {
            streams.tx.terminate = Some(TerminateOut::new(cause, &[]));
            this.streams.lock().streams = Some(streams);
        }
        Self::end(this, true);
    }

    fn notify(connector: &Weak<Connector<P>, P>, what: impl FnOnce(&Arc<Connector<P>, P>)) {
        if let Some(connector) = connector.upgrade() {
            what(&connector);
        }
    }
}

fn proposal<P: Platform>(device: &Device<P>, limits: ReadLimits, confirms: bool) -> Proposal {
    let reads = |limit: u32| u16::try_from(limit).unwrap_or(mpa::MAX_READS);
    Proposal {
        crc: device.wants_crc(),
        inbound_reads: reads(limits.inbound),
        outbound_reads: reads(limits.outbound),
        reads_itself: confirms,
    }
}

/// Whether `ulpdu` is the agreed RTR message, without data (RFC 6581 section 9.2).
fn is_rtr(rtr: RtrKind, ulpdu: &[u8]) -> bool {
    match (rtr, Segment::parse(ulpdu)) {
        (RtrKind::Write, Ok((Segment::Write(to), []))) => to.last,
        (RtrKind::Read, Ok((Segment::ReadRequest(_, request), []))) => request.size == 0,
        (RtrKind::Send, Ok((Segment::Send(untagged, _), []))) => untagged.last,
        _ => false,
    }
}

/// The agreed limits, as the peer sees them.
fn of_peer(terms: &Terms) -> ReadLimits {
    ReadLimits { inbound: terms.outbound_reads.into(), outbound: terms.inbound_reads.into() }
}

/// A peer's IRD or ORD, as a limit: this device's limit if the peer does not negotiate.
fn reads(said: u16) -> u32 {
    if said == mpa::READS_NOT_NEGOTIATED { limits::READ_LIMIT } else { said.into() }
}

impl From<SocketError> for Error {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Refused | SocketError::Reset => Self::ConnectionRefused,
            SocketError::NoNetwork | SocketError::Unreachable => Self::NetworkUnreachable,
            SocketError::AddressInUse => Self::SharingViolation,
            SocketError::TimedOut => Self::TimedOut,
            SocketError::Canceled => Self::Canceled,
            SocketError::Failed => Self::InsufficientResources,
        }
    }
}
