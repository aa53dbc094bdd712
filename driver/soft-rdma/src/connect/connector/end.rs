//! How a connection, or an attempt to connect, ends.

use platform::{Arc, Deferred, Notice, Platform};

use super::{Connector, ConnectorState, DisconnectReason, PrivateData, peer_connector::PeerConnector};
use crate::{Callback, Close, Counter, Error, OnClose, Outcome, QueuePair, Status};

impl<P: Platform> Connector<P> {
    /// Rejects a connection request (passive side) or the peer's acceptance (active side). IRQL <= DISPATCH.
    pub fn reject(this: &Arc<Self, P>, private_data: &[u8]) -> Result<(), Error> {
        let private_data = PrivateData::copy_of(private_data)?;
        let mut state = this.state.lock();
        match state.connector_state {
            ConnectorState::Incoming | ConnectorState::Accepted => {}
            ConnectorState::Closed => return Err(Error::ConnectionAborted),
            _ => return Err(Error::ConnectionInvalid),
        }
        P::notice(&Notice::Rejected { addresses: state.addresses() });
        state.end(ConnectorState::Closed);
        let (peer, queue_pair) = (state.peer.take(), state.queue_pair.take());
        drop(state);
        if let Some(queue_pair) = queue_pair {
            QueuePair::unreserve(&queue_pair);
        }
        if let Some(peer) = peer {
            peer.rejects(&private_data);
        }
        Ok(())
    }

    /// Ends a connection request that a fault rule has failed: the peer is told as by a reject without private data.
    pub(super) fn fail_request(this: &Arc<Self, P>, error: Error) {
        let mut state = this.state.lock();
        if state.connector_state != ConnectorState::Incoming {
            return;
        }
        state.notice_failure(error);
        state.end(ConnectorState::Closed);
        let peer = state.peer.take();
        drop(state);
        if let Some(peer) = peer {
            peer.rejects(&PrivateData::EMPTY);
        }
    }

    /// Message: the peer rejects, or closes before the connection is established.
    pub(crate) fn peer_rejects(this: &Arc<Self, P>, private_data: PrivateData) {
        let mut state = this.state.lock();
        let mut unused = None;
        match state.connector_state {
            ConnectorState::Connecting => {
                // The attempt failed: connector and queue pair are as before it (IND2Connector::Connect).
                state.private_data = private_data;
                state.end(ConnectorState::Idle);
                unused = state.queue_pair.take();
                state.notice_failure(Error::ConnectionRefused);
                state.finish(Err(Error::ConnectionRefused));
            }
            ConnectorState::Accepting => {
                state.end(ConnectorState::Closed);
                unused = state.queue_pair.take();
                state.notice_failure(Error::ConnectionAborted);
                state.finish(Err(Error::ConnectionAborted));
            }
            ConnectorState::Accepted => {
                state.notice_failure(Error::ConnectionAborted);
                state.end(ConnectorState::Closed);
                unused = state.queue_pair.take();
            }
            ConnectorState::Incoming => {
                state.notice_failure(Error::ConnectionAborted);
                state.end(ConnectorState::Closed);
            }
            ConnectorState::Completing => state.end(ConnectorState::Closed),
            _ => {}
        }
        let idle = state.connector_state == ConnectorState::Idle;
        let over = idle || state.connector_state == ConnectorState::Closed;
        let peer = if over { state.peer.take() } else { None };
        let local = if idle { (state.endpoint.take(), state.shared.take()) } else { (None, None) };
        drop(state);
        drop((local, peer));
        if let Some(queue_pair) = unused {
            QueuePair::unreserve(&queue_pair);
            if this.listener.is_none() {
                this.adapter().device().counters().count(Counter::ConnectFailures);
            }
        }
        Deferred::schedule(this);
    }

    /// Disconnects, and flushes the queue pair. The disconnect completes when no request or access of the queue pair is under way; it does not wait
    /// for an answer of the peer. Also allowed after the peer has disconnected. IRQL <= DISPATCH.
    pub fn disconnect(this: &Arc<Self, P>, done: Callback<Status>) -> Result<Outcome, Error> {
        let mut state = this.state.lock();
        if !matches!(state.connector_state, ConnectorState::Connected | ConnectorState::PeerGone) {
            return Err(Error::ConnectionInvalid);
        }
        state.end(ConnectorState::Disconnecting);
        state.request = Some(done);
        // A disconnect event that the deferred call has not taken yet is not delivered (networkdirect-disconnect-scheme).
        state.disconnect_due = None;
        let (peer, queue_pair) = (state.peer.take(), state.queue_pair.clone());
        drop(state);
        let quiesced = Self::end_connection(peer, queue_pair);
        if !quiesced {
            return Ok(Outcome::Pending);
        }
        let mut state = this.state.lock();
        state.connector_state = ConnectorState::Closed;
        // If another thread has called `queue_pair_quiesced` in between, the deferred call completes the request.
        Ok(if state.request.take().is_some() { Outcome::Done } else { Outcome::Pending })
    }

    /// Flushes this side's queue pair, then sends the peer the disconnect. True: no request or access of the queue pair is under way.
    fn end_connection(peer: Option<PeerConnector<P>>, queue_pair: Option<Arc<QueuePair<P>, P>>) -> bool {
        let quiesced = queue_pair.is_none_or(|queue_pair| QueuePair::enter_error(&queue_pair));
        if let Some(peer) = peer {
            peer.disconnects(0);
        }
        quiesced
    }

    /// Message: the peer has disconnected (reason 0) or the connection is aborted (1).
    pub(crate) fn peer_disconnects(this: &Arc<Self, P>, reason: DisconnectReason) {
        let mut state = this.state.lock();
        match state.connector_state {
            ConnectorState::Connected => {}
            // This active side has sent the peer its completion, and is not connected yet: `complete_connect` then finds the connector closed.
            ConnectorState::Completing => {
                state.end(ConnectorState::Closed);
                return;
            }
            _ => return,
        }
        state.disconnect_due = Some(reason);
        state.end(ConnectorState::PeerGone);
        let queue_pair = state.queue_pair.clone();
        drop(state);
        if let Some(queue_pair) = queue_pair {
            if reason == 0 {
                QueuePair::peer_gone(&queue_pair);
            } else {
                QueuePair::enter_error(&queue_pair);
            }
        }
        Deferred::schedule(this);
    }

    /// This side's queue pair has met a fatal error: ends the connection for both sides.
    pub(crate) fn abort(this: &Arc<Self, P>) {
        if Self::end_both(this, 1) {
            this.adapter().device().counters().count(Counter::ConnectionErrors);
        }
    }

    /// The peer, on another machine, has sent FIN. This side sends no more either, and sends its FIN at once: a peer
    /// that closes waits for that FIN, not for the consumer here.
    pub(crate) fn peer_finishes(this: &Arc<Self, P>) {
        Self::end_both(this, 0);
    }

    /// Ends an established connection for both sides. False: the connector is not connected.
    fn end_both(this: &Arc<Self, P>, reason: DisconnectReason) -> bool {
        let state = this.state.lock();
        let peer = if state.connector_state == ConnectorState::Connected { state.peer.clone() } else { None };
        drop(state);
        if let Some(peer) = &peer {
            Self::peer_disconnects(this, reason);
            peer.disconnects(reason);
        }
        peer.is_some()
    }

    /// No request or access of the queue pair is under way: completes a disconnect that waits for that.
    pub(crate) fn queue_pair_quiesced(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        if state.connector_state == ConnectorState::Disconnecting {
            state.connector_state = ConnectorState::Closed;
            state.finish(Ok(()));
            drop(state);
            Deferred::schedule(this);
        }
    }

    /// Closes the connector of a connection request that the consumer does not get: the peer gets a reject.
    pub fn discard(this: &Arc<Self, P>) {
        Self::begin_close(this);
    }
}

impl<P: Platform> Close<P> for Connector<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }

    fn begin_close(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        let connector_state = state.connector_state;
        match connector_state {
            ConnectorState::Incoming => P::notice(&Notice::Rejected { addresses: state.addresses() }),
            ConnectorState::Connecting | ConnectorState::Accepted | ConnectorState::Accepting => {
                state.notice_failure(Error::Canceled)
            }
            _ => {}
        }
        state.end(ConnectorState::Closed);
        state.finish(Err(Error::Canceled));
        // A disconnect event that the deferred call has not taken yet is not delivered, even if the peer disconnected before the close.
        state.disconnect_due = None;
        state.disconnect_event = None;
        let peer = state.peer.take();
        // The queue pair is an antecedent: the connector keeps it until the close callback has run.
        let queue_pair = state.queue_pair.clone();
        let endpoint = state.endpoint.take();
        drop(state);
        match connector_state {
            ConnectorState::Connected | ConnectorState::PeerGone | ConnectorState::Disconnecting => {
                Self::end_connection(peer, queue_pair);
            }
            ConnectorState::Idle | ConnectorState::Closed => {}
            ConnectorState::Connecting
            | ConnectorState::Accepted
            | ConnectorState::Completing
            | ConnectorState::Incoming
            | ConnectorState::Accepting => {
                if let Some(queue_pair) = queue_pair {
                    QueuePair::unreserve(&queue_pair);
                }
                if let Some(peer) = peer {
                    peer.rejects(&PrivateData::EMPTY);
                }
            }
        }
        drop(endpoint);
        Deferred::schedule(this);
    }
}
