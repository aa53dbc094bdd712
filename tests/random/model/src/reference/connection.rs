//! Connectors and listeners (4.8, 4.9).

use ndk_abi::status::*;

use super::{Callback, Life, Model, Phase as QpPhase, Result, mismatch};
use crate::operation::Event;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    /// Active: the peer has not answered.
    Connecting,
    /// Active: the peer has accepted.
    Accepted,
    /// Passive: not answered yet.
    Incoming,
    /// Passive: the peer has not completed.
    Accepting,
    Connected,
    PeerGone,
    Closed,
}

#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) life: Life,
    pub(crate) phase: Phase,
    pub(crate) listener: Option<usize>,
    pub(crate) qp: Option<usize>,
    peer: Option<usize>,
    /// The number of the connect or accept under way.
    request: Option<usize>,
    event: Event,
    /// Inbound, outbound.
    limits: (u32, u32),
    /// What the peer sent.
    data: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) life: Life,
    pub(crate) listening: bool,
    paused: bool,
}

/// The most private data.
const PRIVATE_DATA: usize = 508;
/// The most reads at once.
const READS: u32 = 64;

/// The effective limits of a side, ours and the peer's as inbound and outbound (4.8).
fn agree(ours: (u32, u32), peer: (u32, u32)) -> (u32, u32) {
    (ours.0.min(peer.1).min(READS), ours.1.min(peer.0).min(READS))
}

impl Model {
    pub(crate) fn create_listener(&mut self) -> usize {
        self.listeners.push(Listener { life: Life::Open, listening: false, paused: false });
        self.listeners.len() - 1
    }

    pub(crate) fn create_connector(&mut self) -> usize {
        self.connectors.push(blank());
        self.connectors.len() - 1
    }

    /// NdkListen on a free address. How it ends.
    pub(crate) fn listen(&mut self, listener: usize) -> NTSTATUS {
        let listener = &mut self.listeners[listener];
        if std::mem::replace(&mut listener.listening, true) { STATUS_INVALID_DEVICE_REQUEST } else { STATUS_SUCCESS }
    }

    pub(crate) fn pause(&mut self, listener: usize, pause: bool) {
        self.listeners[listener].paused = pause;
    }

    /// NdkConnect to a listener's address, with the request's number. `actual` is what it returned.
    pub(crate) fn connect(
        &mut self,
        (connector, qp, listener): (usize, usize, usize),
        limits: (u32, u32),
        data: &[u8],
        (request, actual): (usize, NTSTATUS),
    ) -> Result<()> {
        let on = &self.listeners[listener];
        let refused = on.paused || !on.listening || on.life != Life::Open;
        let idle = self.connectors[connector].phase == Phase::Idle && self.qps[qp].phase == QpPhase::Idle;
        let broken = [
            (data.len() > PRIVATE_DATA, STATUS_INVALID_BUFFER_SIZE),
            (refused, STATUS_CONNECTION_REFUSED),
            (!idle, STATUS_CONNECTION_ACTIVE),
            (self.has_failed_queue(qp), STATUS_INTERNAL_ERROR),
        ];
        let inline = if actual == STATUS_PENDING { STATUS_SUCCESS } else { actual };
        if actual == STATUS_SUCCESS {
            mismatch!("NdkConnect succeeded although nobody had accepted");
        }
        if !self.judge("NdkConnect", &broken, inline)? {
            return Ok(());
        }
        let peer = self.create_connector();
        self.connectors[peer] = Connector {
            phase: Phase::Incoming,
            listener: Some(listener),
            peer: Some(connector),
            limits: agree((u32::MAX, u32::MAX), limits),
            data: data.to_vec(),
            ..blank()
        };
        let own = &mut self.connectors[connector];
        (own.phase, own.qp, own.peer, own.request) = (Phase::Connecting, Some(qp), Some(peer), Some(request));
        own.limits = (limits.0.min(READS), limits.1.min(READS));
        self.qps[qp].phase = QpPhase::Connecting;
        self.due.push(Callback::ConnectEvent(listener, peer));
        Ok(())
    }

    /// NdkAccept, as for connect.
    pub(crate) fn accept(
        &mut self,
        (connector, qp): (usize, usize),
        limits: (u32, u32),
        data: &[u8],
        event: Event,
        (request, actual): (usize, NTSTATUS),
    ) -> Result<()> {
        let phase = self.connectors[connector].phase;
        let broken = [
            (data.len() > PRIVATE_DATA, STATUS_INVALID_BUFFER_SIZE),
            (phase == Phase::Closed, STATUS_CONNECTION_ABORTED),
            (![Phase::Incoming, Phase::Closed].contains(&phase), STATUS_CONNECTION_INVALID),
            (self.qps[qp].phase != QpPhase::Idle, STATUS_CONNECTION_ACTIVE),
            (self.has_failed_queue(qp), STATUS_INTERNAL_ERROR),
        ];
        let inline = if actual == STATUS_PENDING { STATUS_SUCCESS } else { actual };
        if actual == STATUS_SUCCESS {
            mismatch!("NdkAccept succeeded although the peer had not completed");
        }
        if !self.judge("NdkAccept", &broken, inline)? {
            return Ok(());
        }
        let own = &mut self.connectors[connector];
        (own.phase, own.qp, own.request, own.event) = (Phase::Accepting, Some(qp), Some(request), event);
        // The peer's offer was put into the limits when its request arrived.
        own.limits = (own.limits.0.min(limits.0), own.limits.1.min(limits.1));
        let (peer, offered) = (own.peer, own.limits);
        self.qps[qp].phase = QpPhase::Connecting;
        if let Some(peer) = peer {
            let peer = &mut self.connectors[peer];
            (peer.phase, peer.data) = (Phase::Accepted, data.to_vec());
            peer.limits = agree(peer.limits, offered);
            let request = peer.request.take();
            self.end_request(request, STATUS_SUCCESS);
        }
        Ok(())
    }

    fn end_request(&mut self, request: Option<usize>, status: NTSTATUS) {
        self.due.extend(request.map(|request| Callback::Completed(request, status)));
    }

    /// NdkCompleteConnect. How it ends.
    pub(crate) fn complete_connect(&mut self, connector: usize, event: Event) -> NTSTATUS {
        let own = &mut self.connectors[connector];
        match own.phase {
            Phase::Accepted => {}
            Phase::Closed => return STATUS_CONNECTION_ABORTED,
            _ => return STATUS_CONNECTION_INVALID,
        }
        (own.phase, own.event) = (Phase::Connected, event);
        let Some(peer) = own.peer else { return STATUS_INTERNAL_ERROR };
        self.connectors[peer].phase = Phase::Connected;
        let request = self.connectors[peer].request.take();
        self.end_request(request, STATUS_SUCCESS);
        for (side, other) in [(connector, peer), (peer, connector)] {
            let (Some(qp), other) = (self.connectors[side].qp, self.connectors[other].qp) else { continue };
            let may_read = self.connectors[side].limits.1 > 0;
            let qp = &mut self.qps[qp];
            (qp.phase, qp.peer, qp.connector, qp.may_read) = (QpPhase::Connected, other, Some(side), may_read);
        }
        // A completion queue may have died since. The passive side, which is connected first, tells the active one.
        let dead = |side: usize| self.connectors[side].qp.filter(|&qp| self.has_failed_queue(qp));
        let (active, passive) = (dead(connector), dead(peer));
        if let Some(qp) = passive {
            self.connectors[connector].event = Event::None;
            self.abort(qp);
            self.connectors[connector].phase = Phase::Closed;
            return STATUS_CONNECTION_ABORTED;
        }
        if let Some(qp) = active {
            self.abort(qp);
        }
        self.run();
        STATUS_SUCCESS
    }

    /// NdkReject.
    pub(crate) fn reject(&mut self, connector: usize, data: &[u8], actual: NTSTATUS) -> Result<()> {
        let phase = self.connectors[connector].phase;
        let broken = [
            (data.len() > PRIVATE_DATA, STATUS_INVALID_BUFFER_SIZE),
            (phase == Phase::Closed, STATUS_CONNECTION_ABORTED),
            (![Phase::Incoming, Phase::Accepted, Phase::Closed].contains(&phase), STATUS_CONNECTION_INVALID),
        ];
        if self.judge("NdkReject", &broken, actual)? {
            self.give_up(connector, data);
        }
        Ok(())
    }

    /// A side ends what is not a connection yet, and the other side learns of it.
    fn give_up(&mut self, connector: usize, data: &[u8]) {
        self.connectors[connector].phase = Phase::Closed;
        self.release_qp(connector);
        let Some(peer) = self.connectors[connector].peer.take() else { return };
        let other = &mut self.connectors[peer];
        let request = match other.phase {
            // The attempt failed; connector and queue pair are as they were.
            Phase::Connecting => {
                (other.phase, other.data) = (Phase::Idle, data.to_vec());
                STATUS_CONNECTION_REFUSED
            }
            Phase::Accepting | Phase::Accepted | Phase::Incoming => {
                other.phase = Phase::Closed;
                STATUS_CONNECTION_ABORTED
            }
            _ => return,
        };
        let ended = other.request.take();
        self.end_request(ended, request);
        self.release_qp(peer);
    }

    /// The queue pair was not connected: it is as it was.
    fn release_qp(&mut self, connector: usize) {
        if let Some(qp) = self.connectors[connector].qp.take()
            && self.qps[qp].phase == QpPhase::Connecting
        {
            self.qps[qp].phase = QpPhase::Idle;
        }
    }

    /// NdkDisconnect; nothing is under way. How it ends.
    pub(crate) fn disconnect(&mut self, connector: usize) -> NTSTATUS {
        let phase = self.connectors[connector].phase;
        if ![Phase::Connected, Phase::PeerGone].contains(&phase) {
            return STATUS_CONNECTION_INVALID;
        }
        self.end_connection(connector);
        STATUS_SUCCESS
    }

    /// This side ends the connection: its queue pair is flushed, the peer is told.
    fn end_connection(&mut self, connector: usize) {
        self.connectors[connector].phase = Phase::Closed;
        if let Some(qp) = self.connectors[connector].qp {
            self.terminate(qp);
        }
        let peer = self.connectors[connector].peer.take();
        if let Some(peer) = peer.filter(|&peer| self.connectors[peer].phase == Phase::Connected) {
            self.peer_gone(peer, 0);
            if let Some(qp) = self.connectors[peer].qp {
                self.qps[qp].phase = QpPhase::PeerGone;
            }
        }
    }

    fn peer_gone(&mut self, connector: usize, reason: u32) {
        let own = &mut self.connectors[connector];
        own.phase = Phase::PeerGone;
        match own.event {
            Event::None => {}
            Event::Plain => self.due.push(Callback::Disconnected(connector, None)),
            Event::Ex => self.due.push(Callback::Disconnected(connector, Some(reason))),
        }
    }

    /// The connection ends as if the peer of each side had disconnected: nothing is flushed.
    pub(super) fn finish(&mut self, qp: usize) {
        let connector = self.qps[qp].connector;
        let Some(own) = connector.filter(|&own| self.connectors[own].phase == Phase::Connected) else { return };
        let peer = self.connectors[own].peer.filter(|&peer| self.connectors[peer].phase == Phase::Connected);
        for side in [Some(own), peer].into_iter().flatten() {
            self.peer_gone(side, 0);
            if let Some(qp) = self.connectors[side].qp {
                self.qps[qp].phase = QpPhase::PeerGone;
            }
        }
    }

    /// A fatal error on a queue pair: both sides are told, both are flushed.
    pub(super) fn abort(&mut self, qp: usize) {
        let connector = self.qps[qp].connector;
        let Some(own) = connector.filter(|&own| self.connectors[own].phase == Phase::Connected) else { return };
        let peer = self.connectors[own].peer.filter(|&peer| self.connectors[peer].phase == Phase::Connected);
        for side in [Some(own), peer].into_iter().flatten() {
            self.peer_gone(side, 1);
            if let Some(qp) = self.connectors[side].qp {
                self.terminate(qp);
            }
        }
    }

    pub(super) fn close_connector(&mut self, connector: usize) {
        let request = self.connectors[connector].request.take();
        self.end_request(request, STATUS_CANCELLED);
        match self.connectors[connector].phase {
            Phase::Connected | Phase::PeerGone => self.end_connection(connector),
            Phase::Idle | Phase::Closed => {}
            _ => self.give_up(connector, &[]),
        }
        let own = &mut self.connectors[connector];
        (own.phase, own.qp) = (Phase::Closed, None);
    }

    /// NdkGetConnectionData: limits, size and bytes.
    pub(crate) fn connection_data(&self, connector: usize) -> ((u32, u32), &[u8]) {
        let own = &self.connectors[connector];
        (own.limits, &own.data)
    }
}

fn blank() -> Connector {
    Connector {
        life: Life::Open,
        phase: Phase::Idle,
        listener: None,
        qp: None,
        peer: None,
        request: None,
        event: Event::None,
        limits: (0, 0),
        data: Vec::new(),
    }
}
