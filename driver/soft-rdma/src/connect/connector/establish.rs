//! Establishing a connection, on both sides. `end.rs` has the rejects.

use core::net::SocketAddr;

use fault_rules::Point;
use iwarp::mpa::FrameKind;
use platform::{
    Addresses, Arc, Deferred, Notice, Platform, Weak,
    planted::{self, Bug},
};

use super::{
    Connector, ConnectorState, DisconnectReason, LockedConnector, PrivateData, ReadLimits,
    peer_connector::PeerConnector,
};
use crate::{
    Callback, Counter, Error, Listener, Outcome, QueuePair, SharedEndpoint, Status,
    connect::ports::{Connection, Endpoint, Purpose},
    qp::PeerQp,
    wire::Wire,
};

/// The local address of a connect.
pub enum Source<'a, P: Platform> {
    /// An address of the adapter; port 0 picks a port.
    Address(SocketAddr),
    /// The address of a shared endpoint.
    Shared(&'a Arc<SharedEndpoint<P>, P>),
}

/// The arguments of a connect.
pub struct Connect<'a, P: Platform> {
    /// The queue pair to connect.
    pub queue_pair: &'a Arc<QueuePair<P>, P>,
    /// The local address.
    pub source: Source<'a, P>,
    /// The address of the listener.
    pub remote: SocketAddr,
    /// The limits that the consumer asks for; larger ones count as [`crate::limits::READ_LIMIT`].
    pub limits: ReadLimits,
    /// Private data for the listener's consumer; at most [`crate::limits::PRIVATE_DATA`] bytes.
    pub private_data: &'a [u8],
}

/// The arguments of an accept.
pub struct Accept<'a, P: Platform> {
    /// The queue pair to connect.
    pub queue_pair: &'a Arc<QueuePair<P>, P>,
    /// The limits that the consumer asks for; larger ones count as the peer's offer.
    pub limits: ReadLimits,
    /// Private data for the connecting consumer; at most [`crate::limits::PRIVATE_DATA`] bytes.
    pub private_data: &'a [u8],
    /// Called once when the connection ends, unless this side disconnects or closes first.
    pub disconnect_event: Option<Callback<DisconnectReason>>,
}

impl<P: Platform> Connector<P> {
    /// Asks the listener at `remote` for a connection. `done` is called when the peer has accepted or rejected, or the
    /// attempt has failed. After an error connector and queue pair are unchanged. IRQL <= DISPATCH.
    pub fn connect(this: &Arc<Self, P>, request: Connect<'_, P>, done: Callback<Status>) -> Result<Outcome, Error> {
        let result = Self::start_connect(this, &request, done);
        if let Err(error) = result {
            let local = match request.source {
                Source::Address(local) => local,
                Source::Shared(shared) => shared.local_address(),
            };
            let addresses = Addresses { local: Some(local), remote: Some(request.remote) };
            P::notice(&Notice::ConnectFailed { addresses, active: true, status: error as u32 });
            if planted::is(Bug::LeakedReference) {
                core::mem::forget(request.queue_pair.clone());
            }
            this.adapter().device().counters().count(Counter::ConnectFailures);
        }
        result.map(|()| Outcome::Pending)
    }

    fn start_connect(this: &Arc<Self, P>, request: &Connect<'_, P>, done: Callback<Status>) -> Result<(), Error> {
        let private_data = PrivateData::copy_of(request.private_data)?;
        let device = this.adapter().device();
        let remote = request.remote;
        let (local, endpoint, shared) = match request.source {
            Source::Address(local) => {
                if local.is_ipv4() != remote.is_ipv4() {
                    return Err(Error::InvalidAddress);
                }
                let endpoint = Arc::try_new(Endpoint::bind(this.adapter(), local, Purpose::Connector)?)?;
                (endpoint.local(), Some(endpoint), None)
            }
            Source::Shared(shared) => (shared.local_address(), None, Some(shared.clone())),
        };
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(Error::NetworkUnreachable);
        }
        let listener = if device.has_address(remote.ip()) { device.ports().listener(remote) } else { None };
        let side = match request.source {
            // TCP picks the port. The port in `local` is the device's choice, which TCP may have given to another connection.
            Source::Address(asked) if listener.is_none() && asked.port() == 0 => asked,
            _ => local,
        };
        let connection = Connection::active(this.adapter(), (side, remote), listener.is_none())?;
        let mut receive_timeout = 0;
        if device.faults().has_rule_for(Point::Connect) {
            // Only a connect that could begin passes the point; if a rule fails it, it has begun, as on the network.
            this.claim(request.queue_pair, 0)?;
            let addresses = Addresses { local: Some(local), remote: Some(remote) };
            receive_timeout = match this.adapter().pass_point(Point::Connect, addresses, None) {
                Ok(timeout) => timeout.unwrap_or(0),
                Err(error) => {
                    let mut state = this.state.lock();
                    state.begin_connect(None, (local, remote), connection, request, done);
                    (state.endpoint, state.shared) = (endpoint, shared);
                    drop(state);
                    Self::connect_failed(this, error);
                    return Ok(());
                }
            };
            this.unclaim(request.queue_pair);
        }
        let Some(listener) = listener else {
            // The listener is on another machine, or in another process that has a device of its own.
            this.claim(request.queue_pair, receive_timeout)?;
            let port = match request.source {
                Source::Address(local) => local.port(),
                // TCP connects only one socket from a port, and picks another port for this connection.
                Source::Shared(_) => 0,
            };
            let from = SocketAddr::new(local.ip(), port);
            let wire = Wire::connect(this, (from, remote), request.limits.capped(), &private_data);
            let wire = wire.inspect_err(|_| this.unclaim(request.queue_pair))?;
            let mut state = this.state.lock();
            state.begin_connect(Some(PeerConnector::Remote(wire.clone())), (local, remote), connection, request, done);
            (state.endpoint, state.shared) = (endpoint, shared);
            drop(state);
            // Last: `start` may report a failure to the connector before it returns.
            Wire::start(&wire);
            return Ok(());
        };
        let admission = Listener::admit(&listener).ok_or(Error::ConnectionRefused)?;
        let peer_connection = Connection::passive(listener.adapter(), (remote, local), false)?;
        let peer = Self::make(listener.adapter(), Some(listener.clone()))?;
        this.claim(request.queue_pair, receive_timeout)?;

        let mut incoming = peer.state.lock();
        incoming.connector_state = ConnectorState::Incoming;
        incoming.active = false;
        incoming.peer = Some(PeerConnector::Local(Arc::downgrade(this)));
        incoming.local = Some(remote);
        incoming.remote = Some(local);
        incoming.endpoint = Some(admission.endpoint);
        incoming.backlog_slot = Some(admission.backlog_slot);
        incoming.connection = Some(peer_connection);
        incoming.limits = ReadLimits { inbound: u32::MAX, outbound: u32::MAX }.agree(request.limits);
        incoming.private_data = private_data;
        incoming.handle = Some(peer.clone());
        drop(incoming);

        let mut state = this.state.lock();
        let to_peer = PeerConnector::Local(Arc::downgrade(&peer));
        state.begin_connect(Some(to_peer), (local, remote), connection, request, done);
        (state.endpoint, state.shared) = (endpoint, shared);
        drop(state);
        if let Some(tap) = device.capture().tap(|| Addresses { local: Some(local), remote: Some(remote) }) {
            let limits = request.limits.capped();
            tap.request_or_reply(tap.sent, FrameKind::Request, false, limits, private_data.as_slice());
        }
        Deferred::schedule(&peer);
        Ok(())
    }

    /// Begins a connect: claims connector and queue pair, if both are idle and the connector has no report pending. A fault rule has set
    /// `receive_timeout`, unless that is 0.
    fn claim(&self, queue_pair: &Arc<QueuePair<P>, P>, receive_timeout: u32) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.connector_state != ConnectorState::Idle || state.finished.iter().any(Option::is_some) {
            return Err(Error::ConnectionActive);
        }
        queue_pair.reserve()?;
        queue_pair.set_receive_timeout(receive_timeout);
        state.connector_state = ConnectorState::Connecting;
        Ok(())
    }

    /// Undoes [`Self::claim`]: the connect could not be started.
    fn unclaim(&self, queue_pair: &Arc<QueuePair<P>, P>) {
        self.state.lock().connector_state = ConnectorState::Idle;
        QueuePair::unreserve(queue_pair);
    }

    /// Completes a connect that the peer has accepted. IRQL <= DISPATCH.
    pub fn complete_connect(
        this: &Arc<Self, P>,
        disconnect_event: Option<Callback<DisconnectReason>>,
    ) -> Result<Outcome, Error> {
        let mut state = this.state.lock();
        match state.connector_state {
            ConnectorState::Accepted => {}
            ConnectorState::Closed => return Err(Error::ConnectionAborted),
            _ => return Err(Error::ConnectionInvalid),
        }
        state.connector_state = ConnectorState::Completing;
        state.disconnect_event = disconnect_event;
        let (peer, queue_pair) = (state.peer.clone(), state.queue_pair.clone());
        drop(state);
        let queue_pair = queue_pair.ok_or(Error::InternalError)?;
        let accepted = peer.as_ref().and_then(|peer| peer.completes(&queue_pair));

        let mut state = this.state.lock();
        match accepted {
            Some(peer_queue_pair) if state.connector_state == ConnectorState::Completing => {
                let limits = state.limits;
                state.establish();
                drop(state);
                QueuePair::connect(&queue_pair, peer_queue_pair, Arc::downgrade(this), limits);
                Ok(Outcome::Done)
            }
            accepted => {
                state.notice_failure(Error::ConnectionAborted);
                state.end(ConnectorState::Closed);
                let taken = state.queue_pair.take();
                drop(state);
                this.adapter().device().counters().count(Counter::ConnectFailures);
                if let Some(queue_pair) = taken {
                    match accepted {
                        // The peer is connected already, and may have sent.
                        Some(_) => _ = QueuePair::enter_error(&queue_pair),
                        None => QueuePair::unreserve(&queue_pair),
                    }
                }
                if let (Some(_), Some(peer)) = (accepted, &peer) {
                    peer.disconnects(1);
                }
                Err(Error::ConnectionAborted)
            }
        }
    }

    /// Message to the passive side: the active side completes, with the queue pair `peer`. Connects this side's queue pair, and returns it.
    pub(super) fn peer_completes(this: &Arc<Self, P>, peer: &Arc<QueuePair<P>, P>) -> Option<Weak<QueuePair<P>, P>> {
        let mut state = this.state.lock();
        if state.connector_state != ConnectorState::Accepting {
            return None;
        }
        let queue_pair = state.queue_pair.clone()?;
        state.establish();
        state.finish(Ok(()));
        let limits = state.limits;
        drop(state);
        QueuePair::connect(&queue_pair, PeerQp::Local(Arc::downgrade(peer)), Arc::downgrade(this), limits);
        Deferred::schedule(this);
        Some(Arc::downgrade(&queue_pair))
    }

    /// Accepts a connection request; `done` is called when the connection is established, or the attempt has failed. IRQL <= DISPATCH.
    pub fn accept(this: &Arc<Self, P>, request: Accept<'_, P>, done: Callback<Status>) -> Result<Outcome, Error> {
        let private_data = PrivateData::copy_of(request.private_data)?;
        let mut receive_timeout = 0;
        if this.adapter().device().faults().has_rule_for(Point::Accept) {
            let state = this.state.lock();
            state.may_accept()?;
            let addresses = state.addresses();
            drop(state);
            let passed = this.adapter().pass_point(Point::Accept, addresses, None);
            receive_timeout = passed.inspect_err(|error| Self::fail_request(this, *error))?.unwrap_or(0);
        }
        let mut state = this.state.lock();
        state.may_accept()?;
        request.queue_pair.reserve()?;
        request.queue_pair.set_receive_timeout(receive_timeout);
        state.connector_state = ConnectorState::Accepting;
        state.backlog_slot = None;
        // Until now `limits` was the peer's offer.
        state.limits = ReadLimits {
            inbound: request.limits.inbound.min(state.limits.inbound),
            outbound: request.limits.outbound.min(state.limits.outbound),
        };
        state.queue_pair = Some(request.queue_pair.clone());
        state.disconnect_event = request.disconnect_event;
        state.request = Some(done);
        let (peer, limits) = (state.peer.clone(), state.limits);
        drop(state);
        if peer.is_some_and(|peer| peer.accepts(limits, &private_data)) {
            return Ok(Outcome::Pending);
        }
        // The peer has ended its attempt, or a wire has no memory. If the peer's reject has arrived already, the deferred call completes the
        // request; else the accept fails here.
        let mut state = this.state.lock();
        if state.request.take().is_none() {
            return Ok(Outcome::Pending);
        }
        state.notice_failure(Error::ConnectionAborted);
        state.end(ConnectorState::Closed);
        let queue_pair = state.queue_pair.take();
        drop(state);
        drop(queue_pair);
        QueuePair::unreserve(request.queue_pair);
        Err(Error::ConnectionAborted)
    }

    /// Message to the active side: the peer accepts. False: this side is no longer connecting.
    pub(crate) fn peer_accepts(this: &Arc<Self, P>, peer: ReadLimits, private_data: PrivateData) -> bool {
        let mut state = this.state.lock();
        if state.connector_state != ConnectorState::Connecting {
            return false;
        }
        state.connector_state = ConnectorState::Accepted;
        state.limits = state.limits.agree(peer);
        state.private_data = private_data;
        state.finish(Ok(()));
        drop(state);
        Deferred::schedule(this);
        true
    }
}

impl<P: Platform> LockedConnector<P> {
    fn may_accept(&self) -> Result<(), Error> {
        match self.connector_state {
            ConnectorState::Incoming => Ok(()),
            ConnectorState::Closed => Err(Error::ConnectionAborted),
            _ => Err(Error::ConnectionInvalid),
        }
    }

    fn begin_connect(
        &mut self,
        peer: Option<PeerConnector<P>>,
        (local, remote): (SocketAddr, SocketAddr),
        connection: Connection<P>,
        request: &Connect<'_, P>,
        done: Callback<Status>,
    ) {
        self.active = true;
        self.peer = peer;
        self.local = Some(local);
        self.remote = Some(remote);
        self.connection = Some(connection);
        self.limits = request.limits.capped();
        self.request = Some(done);
        // An attempt that failed has taken its queue pair out of the state, so the assignment drops nothing under the lock.
        self.queue_pair = Some(request.queue_pair.clone());
    }
}
