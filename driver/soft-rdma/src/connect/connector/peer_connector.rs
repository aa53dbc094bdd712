//! The other side of a connection, to which a connector sends its messages: a connector of this device, or a wire to another machine. A capture gets
//! the messages within the device as the MPA Reply that a wire would carry.

use iwarp::mpa::FrameKind;
use platform::{Arc, Platform, Weak};

use super::{Connector, DisconnectReason, PrivateData, ReadLimits};
use crate::{QueuePair, qp::PeerQp, wire::Wire};

/// The other side of a connection.
pub(super) enum PeerConnector<P: Platform> {
    Local(Weak<Connector<P>, P>),
    Remote(Arc<Wire<P>, P>),
}

impl<P: Platform> Clone for PeerConnector<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Local(connector) => Self::Local(connector.clone()),
            Self::Remote(wire) => Self::Remote(wire.clone()),
        }
    }
}

impl<P: Platform> PeerConnector<P> {
    /// Message to the active side: this side accepts. False: the active side has ended its attempt, or a wire has no memory.
    pub(super) fn accepts(&self, limits: ReadLimits, private_data: &PrivateData) -> bool {
        match self {
            Self::Local(peer) => peer.upgrade().is_some_and(|peer| {
                Self::capture_reply(&peer, false, limits, private_data);
                Connector::peer_accepts(&peer, limits, *private_data)
            }),
            Self::Remote(wire) => Wire::accept(wire, limits, private_data),
        }
    }

    /// Message to the passive side: this side completes, with `queue_pair`. `None`: the passive side has ended its attempt, or a wire has no
    /// memory.
    pub(super) fn completes(&self, queue_pair: &Arc<QueuePair<P>, P>) -> Option<PeerQp<P>> {
        match self {
            Self::Local(peer) => {
                peer.upgrade().and_then(|peer| Connector::peer_completes(&peer, queue_pair)).map(PeerQp::Local)
            }
            Self::Remote(wire) => Wire::complete(wire, queue_pair),
        }
    }

    /// Message: this side rejects, or closes before the connection is established.
    pub(super) fn rejects(&self, private_data: &PrivateData) {
        match self {
            Self::Local(peer) => {
                if let Some(peer) = peer.upgrade() {
                    Self::capture_reply(&peer, true, ReadLimits::default(), private_data);
                    Connector::peer_rejects(&peer, *private_data);
                }
            }
            Self::Remote(wire) => Wire::reject(wire, private_data),
        }
    }

    /// Message: this side disconnects (reason 0), or aborts the connection (1).
    pub(super) fn disconnects(&self, reason: DisconnectReason) {
        match self {
            Self::Local(peer) => {
                if let Some(peer) = peer.upgrade() {
                    Connector::peer_disconnects(&peer, reason);
                }
            }
            Self::Remote(wire) => Wire::end(wire, reason != 0),
        }
    }

    /// Captures the Reply to `peer`, if that is an active side.
    fn capture_reply(peer: &Connector<P>, reject: bool, limits: ReadLimits, private_data: &PrivateData) {
        let tap = peer.adapter().device().capture().tap(|| peer.addresses_and_role().0);
        if let Some(tap) = tap.filter(|_| peer.listener.is_none()) {
            tap.request_or_reply(tap.received, FrameKind::Reply, reject, limits, private_data.as_slice());
        }
    }
}
