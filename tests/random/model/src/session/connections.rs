//! Connection operations of a session.

use std::net::SocketAddr;

use ndk_abi::status::{STATUS_BUFFER_TOO_SMALL, STATUS_SUCCESS};

use super::{COMPLETED, CONNECT_EVENT, CQS, DISCONNECTED, LISTENERS, QPS, Session, context, nth};
use crate::{
    consumer::OnDisconnect,
    operation::{Event, Operation, Slot},
    reference::{ConnectorPhase, Life, Object, Phase, Result, mismatch},
};

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

/// Private data of a length that is mostly allowed.
fn data(length: u16) -> Vec<u8> {
    let length = if length >= 0x8000 { usize::from(length) } else { usize::from(length) % 512 };
    (0..length).map(|at| (at * 7 + length) as u8).collect()
}

fn on_disconnect(event: Event, connector: usize) -> OnDisconnect {
    let context = context(DISCONNECTED, connector);
    match event {
        Event::None => OnDisconnect::Plain(None),
        Event::Plain => OnDisconnect::Plain(Some(context)),
        Event::Ex => OnDisconnect::Ex(context),
    }
}

fn wide(limits: (u8, u8)) -> (u32, u32) {
    // 0 now and then; mostly more than the adapter allows, to be capped, or less.
    (limits.0.into(), limits.1.into())
}

impl Session {
    pub(super) fn create_listener(&mut self, slot: usize) {
        let index = self.model.create_listener();
        self.handles.listeners.push(self.adapter.create_listener(context(CONNECT_EVENT, index)));
        self.addresses.push(None);
        self.slots.listeners[slot] = index;
    }

    fn create_connector(&mut self) -> usize {
        self.handles.connectors.push(self.adapter.create_connector());
        self.model.create_connector()
    }

    fn listener(&self, number: u8) -> Option<usize> {
        let listener = self.slots.listeners[usize::from(number) % LISTENERS];
        (self.model.listeners[listener].life == Life::Open).then_some(listener)
    }

    /// An open connector, in one of `phases` if there is one and the number is not large.
    fn connector(&self, number: u8, phases: &[ConnectorPhase]) -> Option<usize> {
        let open = |fitting: bool| {
            let connectors = self.model.connectors.iter().enumerate();
            let open = connectors.filter(|(_, connector)| connector.life == Life::Open);
            open.filter(move |(_, connector)| !fitting || phases.contains(&connector.phase)).map(|(index, _)| index)
        };
        let fitting = if number < 224 { nth(number, open(true)) } else { None };
        fitting.or_else(|| nth(number, open(false)))
    }

    /// An open queue pair, an idle one if there is one and the number is not large.
    fn idle_qp(&self, number: u8) -> Option<usize> {
        let idle = |&qp: &usize| {
            let qp = &self.model.qps[qp];
            qp.life == Life::Open && qp.phase == Phase::Idle
        };
        let idle = if number < 224 { nth(number, self.slots.qps.iter().copied().filter(idle)) } else { None };
        idle.or_else(|| self.qp(number, |_| true))
    }

    pub(super) fn listen(&mut self, listener: u8) -> Result<()> {
        let Some(listener) = self.listener(listener) else { return Ok(()) };
        self.request(
            |session, context| session.handles.listeners[listener].listen(address(0), context),
            |session| session.model.listen(listener),
        )?;
        let local = self.handles.listeners[listener].local_address();
        let known = self.addresses[listener];
        if local.is_none() || (known.is_some() && known != local) {
            mismatch!("it listens on {local:?}, after {known:?}");
        }
        self.addresses[listener] = local;
        Ok(())
    }

    pub(super) fn pause(&mut self, listener: u8, pause: bool) -> Result<()> {
        let Some(listener) = self.listener(listener) else { return Ok(()) };
        self.step(
            |session| session.handles.listeners[listener].pause(pause),
            |session, ()| {
                session.model.pause(listener, pause);
                Ok(())
            },
        )
    }

    pub(super) fn connect(
        &mut self,
        connector: u8,
        qp: u8,
        listener: u8,
        limits: (u8, u8),
        private_data: u16,
    ) -> Result<()> {
        let Some(qp) = self.idle_qp(qp) else { return Ok(()) };
        let listener = self.slots.listeners[usize::from(listener) % LISTENERS];
        let Some(remote) = self.addresses[listener] else { return Ok(()) };
        let connector = match connector {
            0..128 => self.create_connector(),
            _ => match self.connector(connector - 128, &[ConnectorPhase::Idle]) {
                Some(connector) => connector,
                None => return Ok(()),
            },
        };
        self.connect_with((connector, qp, listener), remote, limits, private_data)
    }

    fn connect_with(
        &mut self,
        (connector, qp, listener): (usize, usize, usize),
        remote: SocketAddr,
        limits: (u8, u8),
        private_data: u16,
    ) -> Result<()> {
        let (data, limits) = (data(private_data), wide(limits));
        let number = self.number();
        self.step(
            |session| {
                let (handle, qp) = (session.handles.connectors[connector], session.handles.qps[qp]);
                handle.connect(qp, (address(0), remote), limits, &data, context(COMPLETED, number))
            },
            |session, returned| session.model.connect((connector, qp, listener), limits, &data, (number, returned)),
        )
    }

    pub(super) fn accept(
        &mut self,
        connector: u8,
        qp: u8,
        limits: (u8, u8),
        private_data: u16,
        event: Event,
    ) -> Result<()> {
        let Some(connector) = self.connector(connector, &[ConnectorPhase::Incoming]) else { return Ok(()) };
        let Some(qp) = self.idle_qp(qp) else { return Ok(()) };
        self.accept_with((connector, qp), limits, private_data, event)
    }

    fn accept_with(
        &mut self,
        (connector, qp): (usize, usize),
        limits: (u8, u8),
        private_data: u16,
        event: Event,
    ) -> Result<()> {
        let (data, limits) = (data(private_data), wide(limits));
        let number = self.number();
        self.step(
            |session| {
                let (handle, qp) = (session.handles.connectors[connector], session.handles.qps[qp]);
                handle.accept(qp, limits, &data, on_disconnect(event, connector), context(COMPLETED, number))
            },
            |session, returned| session.model.accept((connector, qp), limits, &data, event, (number, returned)),
        )
    }

    pub(super) fn reject(&mut self, connector: u8, private_data: u16) -> Result<()> {
        let phases = [ConnectorPhase::Incoming, ConnectorPhase::Accepted];
        let Some(connector) = self.connector(connector, &phases) else { return Ok(()) };
        let data = data(private_data);
        self.step(
            |session| session.handles.connectors[connector].reject(&data),
            |session, actual| session.model.reject(connector, &data, actual),
        )
    }

    pub(super) fn complete(&mut self, connector: u8, event: Event) -> Result<()> {
        let Some(connector) = self.connector(connector, &[ConnectorPhase::Accepted]) else { return Ok(()) };
        self.complete_with(connector, event)
    }

    fn complete_with(&mut self, connector: usize, event: Event) -> Result<()> {
        self.request(
            |session, context| session.handles.connectors[connector].complete(on_disconnect(event, connector), context),
            |session| session.model.complete_connect(connector, event),
        )
    }

    pub(super) fn connection_data(&mut self, connector: u8, room: u16) -> Result<()> {
        let Some(connector) = self.connector(connector, &[]) else { return Ok(()) };
        let room = usize::from(room) % 600;
        self.step(
            |session| session.handles.connectors[connector].data(room),
            |session, (status, limits, length, buffer)| {
                let (expected_limits, data) = session.model.connection_data(connector);
                let mut expected = vec![0xEE; room];
                let copied = data.len().min(room);
                expected[..copied].copy_from_slice(&data[..copied]);
                let fits = room >= data.len() || room == 0;
                let answer = if fits { STATUS_SUCCESS } else { STATUS_BUFFER_TOO_SMALL };
                if (status, limits, length as usize) != (answer, expected_limits, data.len()) || buffer != expected {
                    let size = data.len();
                    mismatch!("{status}, {limits:?}, {length} bytes, not {answer}, {expected_limits:?}, {size}");
                }
                Ok(())
            },
        )
    }

    pub(super) fn disconnect(&mut self, connector: u8) -> Result<()> {
        let phases = [ConnectorPhase::Connected, ConnectorPhase::PeerGone];
        let Some(connector) = self.connector(connector, &phases) else { return Ok(()) };
        self.request(
            |session, context| session.handles.connectors[connector].disconnect(context),
            |session| session.model.disconnect(connector),
        )
    }

    pub(super) fn close_any_connector(&mut self, connector: u8) -> Result<()> {
        match self.connector(connector, &[ConnectorPhase::Closed]) {
            Some(connector) => self.close(Object::Connector(connector)),
            None => Ok(()),
        }
    }

    pub(super) fn establish(&mut self, active: u8, passive: u8, event: Event) -> Result<()> {
        let (active, passive) = (usize::from(active) % QPS, usize::from(passive) % QPS);
        let listener = 0;
        if active == passive {
            return Ok(());
        }
        self.listening(listener)?;
        let (Some(active), Some(passive)) = (self.idle_again(active)?, self.idle_again(passive)?) else {
            return Ok(());
        };
        let listener = self.slots.listeners[usize::from(listener)];
        let Some(remote) = self.addresses[listener] else { return Ok(()) };
        let connector = self.create_connector();
        self.connect_with((connector, active, listener), remote, (16, 16), 20)?;
        let incoming = self.model.connectors.len() - 1;
        self.accept_with((incoming, passive), (16, 16), 30, event)?;
        self.complete_with(connector, event)
    }

    /// Closes completion queues that are dead, and makes new ones.
    fn renew_dead_cqs(&mut self) -> Result<()> {
        for slot in 0..CQS {
            let cq = self.slots.cqs[slot];
            if self.model.cqs[cq].is_dead() {
                self.close(Object::Cq(cq))?;
                self.create_cq(slot);
            }
        }
        Ok(())
    }

    /// Sees to it that a listener listens.
    fn listening(&mut self, listener: u8) -> Result<()> {
        self.perform(&Operation::Create(Slot::Listener(listener)))?;
        self.perform(&Operation::Pause { listener, pause: false })?;
        if self.addresses[self.slots.listeners[usize::from(listener)]].is_none() {
            self.perform(&Operation::Listen { listener })?;
        }
        Ok(())
    }

    /// An idle queue pair in the slot: the one that is there, or a new one instead. None: it cannot be made now.
    fn idle_again(&mut self, slot: usize) -> Result<Option<usize>> {
        let qp = self.slots.qps[slot];
        let idle = |session: &Self, qp: usize| {
            let qp = &session.model.qps[qp];
            (qp.life, qp.phase) == (Life::Open, Phase::Idle)
        };
        if !idle(self, qp) {
            let connectors = self.model.connectors.iter().enumerate();
            let of_it = connectors.filter(|(_, connector)| connector.qp == Some(qp));
            let connectors: Vec<_> = of_it.map(|(index, _)| index).collect();
            for connector in connectors {
                self.close(Object::Connector(connector))?;
            }
            self.close(Object::Qp(qp))?;
            self.renew_dead_cqs()?;
            self.create_qp(slot);
        }
        let qp = self.slots.qps[slot];
        Ok(idle(self, qp).then_some(qp))
    }
}
