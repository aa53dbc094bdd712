//! The other side of a connection, to which messages go: a connector of this device, or another machine.

use platform::{Arc, Platform, Weak};

use super::{Connector, DisconnectReason, PrivateData, ReadLimits};
use crate::{QueuePair, qp::Peer, wire::Wire};

/// The other side.
pub(super) enum Other<P: Platform> {
    Here(Weak<Connector<P>, P>),
    Remote(Arc<Wire<P>, P>),
}

impl<P: Platform> Clone for Other<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Here(connector) => Self::Here(connector.clone()),
            Self::Remote(wire) => Self::Remote(wire.clone()),
        }
    }
}

impl<P: Platform> Other<P> {
    /// The passive side accepts. False: the active one has given up.
    pub(super) fn accepts(&self, limits: ReadLimits, private_data: &PrivateData) -> bool {
        match self {
            Self::Here(peer) => {
                peer.upgrade().is_some_and(|peer| Connector::peer_accepts(&peer, limits, *private_data))
            }
            Self::Remote(wire) => Wire::accept(wire, limits, private_data),
        }
    }

    /// The active side completes, with this queue pair. `None`: the passive one has given up.
    pub(super) fn completes(&self, queue_pair: &Arc<QueuePair<P>, P>) -> Option<Peer<P>> {
        match self {
            Self::Here(peer) => {
                peer.upgrade().and_then(|peer| Connector::peer_completes(&peer, queue_pair)).map(Peer::Here)
            }
            Self::Remote(wire) => Wire::complete(wire, queue_pair),
        }
    }

    /// This side rejects, or closes before there was a connection.
    pub(super) fn rejects(&self, private_data: &PrivateData) {
        match self {
            Self::Here(peer) => {
                if let Some(peer) = peer.upgrade() {
                    Connector::peer_rejects(&peer, *private_data);
                }
            }
            Self::Remote(wire) => Wire::reject(wire, private_data),
        }
    }

    /// This side disconnects (reason 0), or has met an error (1).
    pub(super) fn disconnects(&self, reason: DisconnectReason) {
        match self {
            Self::Here(peer) => {
                if let Some(peer) = peer.upgrade() {
                    Connector::peer_disconnects(&peer, reason);
                }
            }
            Self::Remote(wire) => Wire::end(wire, reason != 0),
        }
    }
}
