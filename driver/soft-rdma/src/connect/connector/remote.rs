//! What a wire reports to its connector.

use core::net::SocketAddr;

use platform::{Arc, Deferred, Platform};

use super::{Connector, ConnectorState, PrivateData, ReadLimits, peer_connector::PeerConnector};
use crate::{Counter, Error, Listener, QueuePair, connect::ports::Connection, qp::PeerQp, wire::Wire};

impl<P: Platform> Connector<P> {
    /// TCP has connected, from `local`. If TCP picked the port, replaces the connection's entry in the table of ports by an entry with that port.
    pub(crate) fn bound(this: &Arc<Self, P>, local: SocketAddr) -> Result<(), Error> {
        let state = this.state.lock();
        // Compares with the entry's address: port 0, if the consumer left the port to TCP. `LockedConnector::local` then has a port that the device
        // set aside, and TCP may have picked just that port.
        let (known, remote) = (state.connection.as_ref().map(Connection::local), state.remote);
        drop(state);
        let is = |known: SocketAddr| (known.ip(), known.port()) == (local.ip(), local.port());
        let Some(remote) = remote.filter(|_| !known.is_some_and(is)) else { return Ok(()) };
        let connection = Connection::active(this.adapter(), (local, remote), true)?;
        let mut state = this.state.lock();
        let mut replaced = (Some(connection), None);
        if state.connector_state == ConnectorState::Connecting {
            state.local = Some(local);
            // TCP keeps other sockets off this port: the endpoint is not needed.
            replaced = (core::mem::replace(&mut state.connection, replaced.0), state.endpoint.take());
        }
        drop(state);
        drop(replaced);
        Ok(())
    }

    /// The connect of the active side has failed.
    pub(crate) fn connect_failed(this: &Arc<Self, P>, error: Error) {
        let mut state = this.state.lock();
        if state.connector_state != ConnectorState::Connecting {
            return;
        }
        state.end(ConnectorState::Idle);
        let unused = state.queue_pair.take();
        let local = (state.endpoint.take(), state.shared.take());
        let peer = state.peer.take();
        state.notice_failure(error);
        state.finish(Err(error));
        drop(state);
        drop((local, peer));
        if let Some(queue_pair) = unused {
            QueuePair::unreserve(&queue_pair);
        }
        this.adapter().device().counters().count(Counter::ConnectFailures);
        Deferred::schedule(this);
    }

    /// Makes a connector for a connection request from another machine. The connector's deferred call hands it to the listener's consumer.
    pub(crate) fn incoming(
        listener: &Arc<Listener<P>, P>,
        wire: &Arc<Wire<P>, P>,
        (local, remote): (SocketAddr, SocketAddr),
        offered: ReadLimits,
        private_data: PrivateData,
    ) -> Result<Arc<Self, P>, Error> {
        let admission = Listener::admit(listener).ok_or(Error::ConnectionRefused)?;
        let connection = Connection::passive(listener.adapter(), (local, remote), true)?;
        let connector = Self::make(listener.adapter(), Some(listener.clone()))?;
        let mut state = connector.state.lock();
        state.connector_state = ConnectorState::Incoming;
        state.active = false;
        state.peer = Some(PeerConnector::Remote(wire.clone()));
        state.local = Some(local);
        state.remote = Some(remote);
        state.endpoint = Some(admission.endpoint);
        state.backlog_slot = Some(admission.backlog_slot);
        state.connection = Some(connection);
        state.limits = ReadLimits { inbound: u32::MAX, outbound: u32::MAX }.agree(offered);
        state.private_data = private_data;
        state.handle = Some(connector.clone());
        drop(state);
        Ok(connector)
    }

    /// Connects the passive side: `attach` attaches its queue pair to the wire, `offered` is what the peer agreed to. False: the connector is not
    /// `Accepting`, the wire has ended, or there is no memory.
    pub(crate) fn established(
        this: &Arc<Self, P>,
        offered: ReadLimits,
        attach: impl FnOnce(&Arc<QueuePair<P>, P>) -> Option<PeerQp<P>>,
    ) -> bool {
        let state = this.state.lock();
        let accepting = state.connector_state == ConnectorState::Accepting;
        let queue_pair = state.queue_pair.clone();
        drop(state);
        let Some(queue_pair) = queue_pair.filter(|_| accepting) else { return false };
        let Some(peer) = attach(&queue_pair) else { return false };
        let mut state = this.state.lock();
        if state.connector_state != ConnectorState::Accepting {
            return false;
        }
        state.limits = state.limits.agree(offered);
        let limits = state.limits;
        state.establish();
        state.finish(Ok(()));
        drop(state);
        QueuePair::connect(&queue_pair, peer, Arc::downgrade(this), limits);
        Deferred::schedule(this);
        true
    }
}
