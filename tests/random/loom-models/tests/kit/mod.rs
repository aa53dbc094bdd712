//! Objects of the device, over the kernel of the models.
#![allow(dead_code, reason = "no model has a use for all of it")]

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc as StdArc, Mutex},
};

use loom_models::{Kernel, Loom, callback};
use soft_rdma::{
    Accept, Adapter, Callback, CompletionQueue, Connect, Connector, Device, Flags, InitiatorSizes, Listener, Outcome,
    Post, ProtectionDomain, QueuePair, ReadLimits, ReceiveSource, Source, Status, close,
};

const LIMITS: ReadLimits = ReadLimits { inbound: 0, outbound: 0 };
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

pub(crate) type Arc<T> = platform::Arc<T, Loom>;
pub(crate) type Cq = Arc<CompletionQueue<Loom>>;
pub(crate) type Qp = Arc<QueuePair<Loom>>;

pub(crate) struct World {
    pub(crate) device: Arc<Device<Loom>>,
    pub(crate) adapter: Arc<Adapter<Loom>>,
    pub(crate) pd: Arc<ProtectionDomain<Loom>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let device = Device::new().expect("a device");
        let adapter = Adapter::open(&device, (2, 1)).expect("an adapter");
        let pd = ProtectionDomain::new(&adapter).expect("a domain");
        Self { device, adapter, pd }
    }

    pub(crate) fn cq(&self, notify: Callback<Status>) -> Cq {
        CompletionQueue::new(&self.adapter, 8, notify).expect("a queue")
    }

    pub(crate) fn qp(&self, cq: &Cq, receives: ReceiveSource<'_, Loom>) -> Qp {
        let sizes = InitiatorSizes { depth: 2, sges: 1, inline_data: 0 };
        QueuePair::new(&self.pd, cq, cq, 0, sizes, receives).expect("a queue pair")
    }

    /// A queue pair with so many receives, each of which a flush turns into a completion.
    pub(crate) fn qp_with_receives(&self, cq: &Cq, receives: usize) -> Qp {
        let qp = self.qp(cq, ReceiveSource::Own { depth: 4, sges: 1 });
        for context in 0..receives {
            qp.post_receive(context, &[]).expect("a receive");
        }
        qp
    }
}

/// A connection over which `sender` sends to `receiver`.
pub(crate) struct Connection {
    pub(crate) sender: Qp,
    pub(crate) receiver: Qp,
    connectors: [Arc<Connector<Loom>>; 2],
}

impl World {
    /// Connects a new queue pair on `cq` to `receiver`, before the model is live.
    pub(crate) fn connect(&self, kernel: &Kernel, cq: &Cq, receiver: Qp) -> Connection {
        self.device.add_address(HOST).expect("an address");
        let sender = self.qp(cq, ReceiveSource::Own { depth: 1, sges: 1 });
        let incoming = StdArc::new(Mutex::new(None));
        let event = callback(&incoming, |incoming: &Mutex<Option<Arc<Connector<Loom>>>>, connector| {
            *incoming.lock().expect("no panic") = Some(connector);
        });
        let listener = Listener::new(&self.adapter, event).expect("a listener");
        let at = SocketAddr::new(HOST, 700);
        assert_eq!(Listener::listen(&listener, at, ignore()), Ok(Outcome::Pending));
        kernel.run_queued();
        let active = Connector::new(&self.adapter).expect("a connector");
        let connect = Connect {
            queue_pair: &sender,
            source: Source::Address(SocketAddr::new(HOST, 0)),
            remote: at,
            limits: LIMITS,
            private_data: &[],
        };
        assert_eq!(Connector::connect(&active, connect, ignore()), Ok(Outcome::Pending));
        kernel.run_queued();
        let passive = incoming.lock().expect("no panic").take().expect("a request");
        let accept = Accept { queue_pair: &receiver, limits: LIMITS, private_data: &[], disconnect_event: None };
        assert_eq!(Connector::accept(&passive, accept, ignore()), Ok(Outcome::Pending));
        kernel.run_queued();
        assert_eq!(Connector::complete_connect(&active, None), Ok(Outcome::Done));
        kernel.run_queued();
        let _pending = close(listener, ignore());
        kernel.run_queued();
        Connection { sender, receiver, connectors: [active, passive] }
    }
}

impl Connection {
    /// Closes it, after the model has calmed down.
    pub(crate) fn close(self, kernel: &Kernel) {
        for connector in self.connectors {
            let _outcome = close(connector, ignore());
        }
        kernel.run_queued();
        drop((self.sender, self.receiver));
        kernel.run_queued();
    }
}

/// Sends nothing, which takes a receive.
pub(crate) fn send(sender: &Qp) {
    QueuePair::post(sender, 0, &[], Flags::SILENT_SUCCESS, Post::Send(None)).expect("to send");
}

/// A callback that does nothing.
pub(crate) fn ignore<A: 'static>() -> Callback<A> {
    callback(&StdArc::new(()), |(), _| {})
}
