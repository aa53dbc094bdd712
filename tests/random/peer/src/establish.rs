//! Connections, made by either side.

use std::net::SocketAddr;

use iwarp::mpa::{FrameKind, MpaFrame, RtrKinds};
use simkernel::SimKernel;
use soft_rdma::{Accept, Adapter, Connect, Connector, Error, Outcome, Source, Status};

use crate::{
    Arc,
    device::{HOST, Inbox, LIMITS, Listening, PEER, PORT, Side, machine},
    frames,
    raw::{Door, Raw},
};

/// Pages of a side.
pub const PAGES: usize = 16;

/// Where the device listens.
pub const DEVICE: SocketAddr = SocketAddr::new(HOST, PORT);
/// Where a peer is, or listens.
#[must_use]
pub const fn at(port: u16) -> SocketAddr {
    SocketAddr::new(PEER, port)
}

/// A connection.
pub struct Connected {
    /// The one end.
    pub raw: Raw,
    /// The other.
    pub side: Side,
}

/// Makes the consumer's side of a connection: [`Side::new`] or [`Side::sharing`].
pub type MakeSide = fn(Arc<Connector<SimKernel>>, usize) -> Result<Side, Error>;

/// Begins to connect to a peer that listens at [`PORT`].
///
/// # Errors
/// What the connect says.
pub fn connect(side: &Side, private_data: &[u8], done: &Inbox<Status>) -> Result<Outcome, Error> {
    let request = Connect {
        queue_pair: side.queue_pair(),
        source: Source::Address(SocketAddr::new(HOST, 0)),
        remote: at(PORT),
        limits: LIMITS,
        private_data,
    };
    Connector::connect(side.connector(), request, done.callback())
}

/// Accepts.
///
/// # Errors
/// What the accept says.
pub fn accept(side: &Side, private_data: &[u8], done: &Inbox<Status>) -> Result<Outcome, Error> {
    let accept = Accept {
        queue_pair: side.queue_pair(),
        limits: LIMITS,
        private_data,
        disconnect_event: Some(side.disconnects.callback()),
    };
    Connector::accept(side.connector(), accept, done.callback())
}

/// A connection that the peer has begun, with `request`; it sends the `first` FPDU. None of them: as soon as the Reply is there, it is
/// connected.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn by_peer(listening: &Listening, request: &MpaFrame<'_>, first: Option<&Vec<u8>>) -> Connected {
    by_peer_with(Side::new, listening, request, first)
}

fn by_peer_with(make: MakeSide, listening: &Listening, request: &MpaFrame<'_>, first: Option<&Vec<u8>>) -> Connected {
    let raw = Raw::connect(at(0), DEVICE);
    raw.send(&frames::mpa_frame(request));
    let side = make(listening.incoming.wait("the request"), PAGES).expect("a side");
    let done = Inbox::default();
    let accepted = accept(&side, &[], &done);
    assert_eq!(accepted, Ok(Outcome::Pending));
    let reply = raw.mpa_frame(FrameKind::Reply).expect("a reply");
    raw.crc.set(reply[16] & 0x40 != 0);
    raw.send_frames(first);
    assert_eq!(done.wait("the end of the accept"), Ok(()));
    Connected { raw, side }
}

/// A connection that the device has begun, and the peer has answered with `reply`.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn by_device(adapter: &Arc<Adapter<SimKernel>>, door: &Door, reply: &MpaFrame<'_>) -> Connected {
    by_device_with(Side::new, adapter, door, reply)
}

fn by_device_with(make: MakeSide, adapter: &Arc<Adapter<SimKernel>>, door: &Door, reply: &MpaFrame<'_>) -> Connected {
    let side = make(Connector::new(adapter).expect("a connector"), PAGES).expect("a side");
    let done = Inbox::default();
    assert_eq!(connect(&side, &[], &done), Ok(Outcome::Pending));
    let raw = door.accept();
    let request = raw.mpa_frame(FrameKind::Request).expect("a request");
    raw.crc.set(reply.crc || request[16] & 0x40 != 0);
    raw.send(&frames::mpa_frame(reply));
    assert_eq!(done.wait("the end of the connect"), Ok(()));
    let event = side.disconnects.callback();
    assert_eq!(Connector::complete_connect(side.connector(), Some(event)), Ok(Outcome::Done));
    Connected { raw, side }
}

/// The side that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The peer.
    Peer,
    /// The device.
    Device,
}

impl By {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Peer, Self::Device];
}

/// What a test has, with a connection by either side: revision 2, a write without data first, with CRCs or not.
pub struct Scene {
    /// The connection.
    pub connected: Connected,
    _listening: Option<Listening>,
    _door: Option<Door>,
    /// The device.
    pub adapter: Arc<Adapter<SimKernel>>,
}

impl Scene {
    /// Connects.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn new(by: By, crc: bool) -> Self {
        Self::with(Side::new, by, crc)
    }

    /// As [`Scene::new`], with a side that `make` makes.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn with(make: MakeSide, by: By, crc: bool) -> Self {
        Self::on(machine(HOST), make, by, crc)
    }

    /// As [`Scene::with`], on the device of `adapter`.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn on(adapter: Arc<Adapter<SimKernel>>, make: MakeSide, by: By, crc: bool) -> Self {
        let revision = frames::enhanced(RtrKinds::WRITE);
        match by {
            By::Peer => {
                let listening = Listening::new(&adapter).expect("a listener");
                let request = MpaFrame { crc, ..frames::plain(FrameKind::Request, revision) };
                let connected = by_peer_with(make, &listening, &request, Some(&frames::write(1, 0, &[])));
                Self { connected, _listening: Some(listening), _door: None, adapter }
            }
            By::Device => {
                let door = Door::listen(at(PORT));
                let reply = MpaFrame { crc, ..frames::plain(FrameKind::Reply, revision) };
                let connected = by_device_with(make, &adapter, &door, &reply);
                let first = connected.raw.ulpdu().expect("what the initiator has to send first");
                assert_eq!(first, frames::write(1, 0, &[]));
                // Otherwise the device repeats its first message when a timer has expired.
                connected.raw.send_frames([&frames::write(1, 0, &[])]);
                Self { connected, _listening: None, _door: Some(door), adapter }
            }
        }
    }

    /// The peer.
    #[must_use]
    pub fn raw(&self) -> &Raw {
        &self.connected.raw
    }

    /// The device's side.
    #[must_use]
    pub fn side(&self) -> &Side {
        &self.connected.side
    }
}
