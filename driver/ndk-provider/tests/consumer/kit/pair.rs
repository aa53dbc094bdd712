//! Two sides of a connection.

use std::net::{IpAddr, SocketAddr};

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS, NDK_RESULT_EX},
    status::{NTSTATUS, STATUS_SUCCESS},
};

use super::{Adapter, Connector, Cq, Listener, Pd, Qp, QpSizes, Waiter};

/// The adapter's first address with any port.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, 0, 1]), port)
}

/// How a pair is made.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) cq_depth: u32,
    pub(crate) sizes: QpSizes,
    /// Inbound and outbound read limits.
    pub(crate) limits: (u32, u32),
}

impl Default for Options {
    fn default() -> Self {
        Self { cq_depth: 256, sizes: QpSizes::default(), limits: (16, 16) }
    }
}

/// One side of a connection: its own domain, two queues, a queue pair, a connector.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub(crate) pd: Pd,
    pub(crate) receive_cq: Cq,
    pub(crate) initiator_cq: Cq,
    pub(crate) qp: Qp,
    pub(crate) connector: Connector,
    /// Disconnect events, with the reason.
    pub(crate) disconnected: &'static Waiter,
}

/// A side without a connector.
#[derive(Clone, Copy)]
pub(crate) struct Unconnected {
    pub(crate) pd: Pd,
    pub(crate) receive_cq: Cq,
    pub(crate) initiator_cq: Cq,
    pub(crate) qp: Qp,
}

impl Unconnected {
    pub(crate) fn new(adapter: &Adapter, tag: usize, options: Options) -> Self {
        let pd = adapter.create_pd().expect("a PD");
        let receive_cq = adapter.create_cq(options.cq_depth).expect("a CQ");
        let initiator_cq = adapter.create_cq(options.cq_depth).expect("a CQ");
        let qp = pd.create_qp(&receive_cq, &initiator_cq, tag, options.sizes).expect("a QP");
        Self { pd, receive_cq, initiator_cq, qp }
    }

    pub(crate) fn with(self, connector: Connector, disconnected: &'static Waiter) -> Side {
        let Self { pd, receive_cq, initiator_cq, qp } = self;
        Side { pd, receive_cq, initiator_cq, qp, connector, disconnected }
    }

    #[track_caller]
    pub(crate) fn close(self) {
        self.qp.close_now();
        self.receive_cq.close_now();
        self.initiator_cq.close_now();
        self.pd.close_now();
    }
}

impl Side {
    /// Closes everything, the connector first.
    #[track_caller]
    pub(crate) fn close(self) {
        self.connector.close_now();
        self.without_connector().close();
    }

    /// Waits for one initiator completion, with this status.
    #[track_caller]
    pub(crate) fn expect(&self, context: usize, status: NTSTATUS) -> NDK_RESULT_EX {
        let result = self.initiator_cq.wait_one();
        assert_eq!((result.Status, result.RequestContext.addr()), (status, context));
        result
    }

    /// Waits for one receive, with this status.
    #[track_caller]
    pub(crate) fn expect_receive(&self, context: usize, status: NTSTATUS) -> NDK_RESULT_EX {
        let result = self.receive_cq.wait_one();
        assert_eq!((result.Status, result.RequestContext.addr()), (status, context));
        result
    }

    pub(crate) fn without_connector(self) -> Unconnected {
        let Self { pd, receive_cq, initiator_cq, qp, .. } = self;
        Unconnected { pd, receive_cq, initiator_cq, qp }
    }

    #[track_caller]
    pub(crate) fn disconnect(&self) {
        self.connector.disconnect().succeed();
    }
}

/// A connection, with both of its sides.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) active: Side,
    pub(crate) passive: Side,
    pub(crate) listener: Listener,
}

impl Pair {
    /// The tags of the queue pairs.
    pub(crate) const ACTIVE: usize = 0xAC71;
    pub(crate) const PASSIVE: usize = 0x9A55;

    #[track_caller]
    pub(crate) fn new(adapter: &Adapter) -> Self {
        Self::with(adapter, Options::default())
    }

    #[track_caller]
    pub(crate) fn with(adapter: &Adapter, options: Options) -> Self {
        let active = Unconnected::new(adapter, Self::ACTIVE, options);
        let passive = Unconnected::new(adapter, Self::PASSIVE, options);
        Self::of(adapter, active, passive, options.limits)
    }

    /// Connects two sides.
    #[track_caller]
    pub(crate) fn of(adapter: &Adapter, active: Unconnected, passive: Unconnected, limits: (u32, u32)) -> Self {
        let listener = adapter.create_listener().expect("a listener");
        assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
        let (ours, theirs) = connect(adapter, &listener, &active.qp, &passive.qp, limits);
        Self { active: active.with(ours.0, ours.1), passive: passive.with(theirs.0, theirs.1), listener }
    }

    #[track_caller]
    pub(crate) fn close(self) {
        self.active.close();
        self.passive.close();
        self.listener.close_now();
    }

    /// Sends an empty message from the active to the passive side, which completes there only.
    #[track_caller]
    pub(crate) fn message(&self, context: usize, solicited: bool) {
        let solicit = if solicited { NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT } else { 0 };
        assert_eq!(self.passive.qp.receive(context, &[]), STATUS_SUCCESS);
        assert_eq!(self.active.qp.send(context, &[], NDK_OP_FLAG_SILENT_SUCCESS | solicit), STATUS_SUCCESS);
    }

    /// Checks that both sides have seen the connection end, not by their own doing.
    #[track_caller]
    pub(crate) fn assert_aborted(&self) {
        for side in [&self.active, &self.passive] {
            side.disconnected.wait_for(1);
        }
    }

    /// The connection seen from its other side.
    pub(crate) fn swapped(self) -> Self {
        Self { active: self.passive, passive: self.active, listener: self.listener }
    }
}

type End = (Connector, &'static Waiter);

/// Connects two queue pairs through a listener; the connector and disconnect events of each.
#[track_caller]
pub(crate) fn connect(
    adapter: &Adapter,
    listener: &Listener,
    active: &Qp,
    passive: &Qp,
    limits: (u32, u32),
) -> (End, End) {
    let ours = (adapter.create_connector().expect("a connector"), Waiter::deferred("disconnect event, active"));
    let remote = listener.local_address().expect("a listening address");
    let connect = ours.0.connect(active, loopback(0), remote, limits, &[]);
    let theirs = (listener.take(), Waiter::deferred("disconnect event, passive"));
    let accept = theirs.0.accept_ex(passive, limits, &[], Some(theirs.1));
    connect.succeed();
    ours.0.complete_ex(Some(ours.1)).succeed();
    accept.succeed();
    (ours, theirs)
}
