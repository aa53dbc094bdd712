//! One end of SMB Direct by itself, whose peer is another implementation. The end sends messages of the caller, receives the peer's
//! messages, and lends memory to the peer or uses the peer's memory.
//!
//! One thread at PASSIVE_LEVEL has a [`Link`]: the thread takes messages and completions, then waits. Other threads wake it by a [`Wake`].

mod port;

use core::net::{IpAddr, SocketAddr};

use ndk_abi::ndkpi::{NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE};
use ndk_abi::status::{
    NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_DISCONNECTED, STATUS_CONNECTION_INVALID, STATUS_INVALID_PARAMETER,
    STATUS_SUCCESS,
};
use ndk_consumer::{Adapter, Offer};
use platform::{Passive, Slice};
use zerocopy::IntoBytes;

use crate::client::INBOUND_READS;
use crate::connection::{Connection, Message, Purpose};
use crate::region::Region;
use crate::report::{Failure, Step};
use crate::settings::Settings;
use crate::wire::BufferDescriptor;
use crate::{Connector, Kernel, Pd, PlatformOf, Ref, no_memory, shared};
use kernel_consumer::ConnectorEvents;
use kernel_consumer::{Bell, SILENCE};
use kernel_consumer::{Buffer, Registered};

pub use port::Port;

/// Wakes the thread that has a link or a port.
pub struct Wake<K: Kernel>(Ref<Bell<PlatformOf<K>>, K>);

impl<K: Kernel> Wake<K> {
    /// Makes a new wake. STATUS_INSUFFICIENT_RESOURCES: no memory.
    pub fn new() -> Result<Self, NTSTATUS> {
        Bell::new().map(Self)
    }

    /// Ends a wait, or the next one. IRQL <= DISPATCH.
    pub fn ring(&self) {
        self.0.ring();
    }

    /// Ends all waits from now on, with [`Step::Stopped`]. IRQL <= DISPATCH.
    pub fn stop(&self) {
        self.0.stop();
    }

    pub(crate) fn bell(&self) -> Ref<Bell<PlatformOf<K>>, K> {
        self.0.clone()
    }

    pub(crate) fn stopped(&self) -> bool {
        self.0.stopped()
    }

    /// Waits for a ring. The step fails with STATUS_IO_TIMEOUT if there is no ring within `limit` microseconds.
    fn wait(&self, step: Step, limit: Option<u32>, passive: &Passive<'_>) -> Result<(), Failure> {
        if self.stopped() {
            return Err(Failure { step: Step::Stopped, status: STATUS_CANCELLED });
        }
        Bell::wait(&self.0, limit, passive).map_err(step.failed())
    }
}

impl<K: Kernel> Clone for Wake<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The parameters of a link.
#[derive(Clone, Copy)]
pub struct Options {
    /// The number of places: buffers for RDMA.
    pub places: u32,
    /// Bytes of each place.
    pub length: u32,
    /// KeepaliveInterval, in microseconds.
    pub keepalive: u32,
}

impl Options {
    fn settings(&self) -> Settings {
        Settings { keepalive_interval: self.keepalive, ..Settings::DEFAULT }
    }
}

/// The access of the peer to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The peer reads.
    Read,
    /// The peer writes.
    Write,
}

/// A completed operation on a place, whose number follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// [`Link::take_back`] has completed.
    TakenBack(u32),
    /// [`Link::read`] has completed.
    Read(u32),
    /// [`Link::write`] has completed.
    Written(u32),
}

/// The places of a link, by its side.
enum Places<K: Kernel> {
    /// The client's places, which the client lends.
    Lent(Slice<Option<Region<K>>, PlatformOf<K>>),
    /// The server's places, one behind the other in one region.
    Own(Registered<K>, Options),
}

/// A connection. Dropping the link ends the connection at once.
pub struct Link<K: Kernel> {
    connector: Connector<K>,
    connection: Ref<Connection<K>, K>,
    places: Places<K>,
    wake: Wake<K>,
    _pd: Ref<Pd<K>, K>,
}

impl<K: Kernel> Link<K> {
    /// Connects a client from an address of the adapter. [`Self::negotiate`] is next.
    pub fn connect(
        adapter: &Ref<Adapter<PlatformOf<K>>, K>,
        wake: &Wake<K>,
        (local, server): (IpAddr, SocketAddr),
        options: Options,
        passive: &Passive<'_>,
    ) -> Result<Self, Failure> {
        let make = || {
            let pd = shared::<_, K>(Adapter::create_pd(adapter, passive)?)?;
            let mut regions = Slice::from_fn(options.places as usize, |_| None).map_err(no_memory)?;
            for place in regions.iter_mut() {
                *place = Some(Region::new(adapter, &pd, options.length as usize, 0, passive)?);
            }
            let connection = Connection::new(adapter, &pd, &wake.0, options.settings(), true, passive)?;
            let connector =
                Connector::<K>::create_connector(adapter, ConnectorEvents::new(adapter, &wake.0)?, passive)?;
            Ok(Self { connector, connection, places: Places::Lent(regions), wake: wake.clone(), _pd: pd })
        };
        let link = make().map_err(Step::Prepare.failed())?;
        let offer = Offer { inbound_reads: INBOUND_READS, outbound_reads: 0, private_data: &[] };
        let (connector, qp, from) = (&link.connector, link.connection.qp(), SocketAddr::new(local, 0));
        link.operation(Step::Connect, passive, || connector.connect(qp, &from, &server, &offer))?;
        link.operation(Step::Connect, passive, || connector.complete_connect())?;
        Ok(link)
    }

    /// Negotiates, within the time that MS-SMBD gives each side. After a failure the link is only good for [`Self::close`].
    pub fn negotiate(&self, passive: &Passive<'_>) -> Result<(), Failure> {
        self.begin_negotiation();
        loop {
            match self.negotiated() {
                Some(result) => return result,
                None => self.wake.wait(Step::Negotiate, None, passive)?,
            }
        }
    }

    /// Begins to negotiate, once.
    pub(crate) fn begin_negotiation(&self) {
        self.connection.connected();
    }

    /// The result of the negotiation; `None`: the negotiation is in progress.
    pub(crate) fn negotiated(&self) -> Option<Result<(), Failure>> {
        // Read first: a negotiation that succeeded before the end of the connection is then seen.
        let over = self.over(Step::Negotiate);
        if self.connection.is_established() { Some(Ok(())) } else { over.map(Err) }
    }

    /// Calls the connector and waits for the end of the operation: at most 30 s after the last ring.
    fn operation(&self, step: Step, passive: &Passive<'_>, call: impl FnOnce() -> NTSTATUS) -> Result<(), Failure> {
        let events = self.connector.context();
        events.begin(call);
        loop {
            match events.outcome() {
                Some(STATUS_SUCCESS) => return Ok(()),
                Some(status) => return Err(Failure { step, status }),
                None => self.wake.wait(step, Some(SILENCE), passive)?,
            }
        }
    }

    /// The failure that ended the connection, once everything that came before the end can be taken.
    fn over(&self, step: Step) -> Option<Failure> {
        let lost = self.connector.context().lost();
        let drained = self.connection.is_drained();
        let disconnected = Failure { step, status: STATUS_CONNECTION_DISCONNECTED };
        match self.connection.failure() {
            // A receive was flushed, or a send refused, and this end did not cause it.
            Some(Failure { status: STATUS_CANCELLED | STATUS_CONNECTION_INVALID, .. }) => Some(disconnected),
            Some(failure) => Some(failure),
            // The last messages may come after the disconnect event. A flush completes the receives, those with a message first.
            None if lost && !drained => {
                self.connection.qp().flush();
                None
            }
            None => lost.then_some(disconnected),
        }
    }

    /// Waits until [`Self::receive`] or [`Self::done`] may have something, or for a ring. An error means that the connection has ended and no
    /// message is left to take, or that [`Wake::stop`] was called.
    pub fn wait(&self, passive: &Passive<'_>) -> Result<(), Failure> {
        let over = self.ended();
        match over {
            _ if self.connection.message_length().is_some() => Ok(()),
            Some(failure) => Err(failure),
            None => self.wake.wait(Step::Transport, None, passive),
        }
    }

    /// The failure that ended the connection. Messages and completions from before the end can still be taken.
    pub(crate) fn ended(&self) -> Option<Failure> {
        self.over(Step::Transport)
    }

    /// Bytes of the message that [`Self::receive`] takes.
    pub(crate) fn message_length(&self) -> Option<usize> {
        self.connection.message_length()
    }

    /// Takes the oldest received message.
    pub fn receive(&self) -> Option<Message<K>> {
        self.connection.take_message()
    }

    /// Sends a message, and invalidates a token of the peer with it. STATUS_QUOTA_EXCEEDED: too many messages or bytes wait, for now;
    /// STATUS_BUFFER_OVERFLOW: the message is empty, or longer than the peer accepts; STATUS_CONNECTION_INVALID: the link is
    /// not negotiated, or has ended.
    pub fn send(&self, message: &[u8], invalidate: Option<u32>) -> Result<(), NTSTATUS> {
        self.connection.check_send(message.len())?;
        let mut bytes = Slice::filled(message.len(), 0).map_err(no_memory)?;
        bytes.copy_from_slice(message);
        Connection::send(&self.connection, bytes, invalidate)
    }

    /// Bytes of one RDMA transfer that the server allows.
    #[must_use]
    pub fn transfer_size(&self) -> u32 {
        self.connection.read_write_size()
    }

    /// The number of this end's keepalives that the peer has answered since the last call.
    pub fn keepalives(&self) -> u64 {
        self.connection.take_figures().keepalives
    }

    /// Lends the first `length` bytes of a place to the server: messages that are sent from now on may name them. Returns their buffer
    /// descriptor and its token. Client only. The place is not lent already.
    pub fn lend(&mut self, place: u32, length: usize, access: Access) -> Result<([u8; 16], u32), NTSTATUS> {
        let Places::Lent(regions) = &mut self.places else { return Err(STATUS_INVALID_PARAMETER) };
        let region = regions.get_mut(place as usize).and_then(Option::as_mut).ok_or(STATUS_INVALID_PARAMETER)?;
        if length == 0 || length > region.buffer().length() {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let rights = match access {
            Access::Read => NDK_OP_FLAG_ALLOW_REMOTE_READ,
            Access::Write => NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
        };
        region.move_base();
        self.connection.register(region, length, rights)?;
        let length = u32::try_from(length).map_err(|_| STATUS_INVALID_PARAMETER)?;
        let descriptor =
            BufferDescriptor { offset: region.base().into(), token: region.token().into(), length: length.into() };
        let mut bytes = [0; 16];
        descriptor.write_to(&mut bytes).map_err(|_size| STATUS_INVALID_PARAMETER)?;
        Ok((bytes, region.token()))
    }

    /// Ends the server's access to a place; [`Done::TakenBack`] comes when the server has lost its access. Not needed if the server has
    /// invalidated the token.
    pub fn take_back(&self, place: u32) -> Result<(), NTSTATUS> {
        self.connection.invalidate(self.region(place)?, place)
    }

    fn region(&self, place: u32) -> Result<&Region<K>, NTSTATUS> {
        match &self.places {
            Places::Lent(regions) => {
                regions.get(place as usize).and_then(Option::as_ref).ok_or(STATUS_INVALID_PARAMETER)
            }
            Places::Own(..) => Err(STATUS_INVALID_PARAMETER),
        }
    }

    /// Reads the client's memory into a place; [`Done::Read`] comes. Server only.
    pub fn read(&self, place: u32, length: u32, (address, token): (u64, u32)) -> Result<(), NTSTATUS> {
        let (memory, offset) = self.own(place, length)?;
        self.connection.read(memory.sge(offset, length), address, token, place)
    }

    /// Writes a place to the client's memory: the data is placed before a message that is sent from now on arrives. The place may be used
    /// again when [`Done::Written`] has come. Server only.
    pub fn write(&self, place: u32, length: u32, (address, token): (u64, u32)) -> Result<(), NTSTATUS> {
        let (memory, offset) = self.own(place, length)?;
        self.connection.write(memory.sge(offset, length), address, token, Some(place))
    }

    /// The server's memory, and the offset of a place in it.
    fn own(&self, place: u32, length: u32) -> Result<(&Registered<K>, usize), NTSTATUS> {
        match &self.places {
            Places::Own(memory, Options { places, length: limit, .. }) if place < *places && length <= *limit => {
                Ok((memory, (place as usize).saturating_mul(*limit as usize)))
            }
            _ => Err(STATUS_INVALID_PARAMETER),
        }
    }

    /// Copies bytes into a place, from `offset` on.
    pub fn fill(&self, place: u32, offset: u32, bytes: &[u8]) -> Result<(), NTSTATUS> {
        let (buffer, start) = self.part(place, offset, bytes.len())?;
        buffer.write(start, bytes)
    }

    /// Copies bytes of a place, from `offset` on.
    pub fn copy(&self, place: u32, offset: u32, bytes: &mut [u8]) -> Result<(), NTSTATUS> {
        let (buffer, start) = self.part(place, offset, bytes.len())?;
        buffer.read(start, bytes)
    }

    /// The buffer and the offset of a part of a place. The buffer of a client's place checks the bounds itself.
    fn part(&self, place: u32, offset: u32, length: usize) -> Result<(&Buffer<K>, usize), NTSTATUS> {
        match &self.places {
            Places::Lent(_) => Ok((self.region(place)?.buffer(), offset as usize)),
            Places::Own(..) => {
                let end = u32::try_from(length).ok().and_then(|length| offset.checked_add(length));
                let (memory, start) = self.own(place, end.ok_or(STATUS_INVALID_PARAMETER)?)?;
                Ok((memory.buffer(), start.saturating_add(offset as usize)))
            }
        }
    }

    /// Takes the oldest completed operation.
    pub fn done(&self) -> Option<Done> {
        loop {
            let completed = self.connection.take_completed()?;
            match completed.purpose {
                Purpose::Invalidate => return Some(Done::TakenBack(completed.id)),
                Purpose::Read => return Some(Done::Read(completed.id)),
                Purpose::Write => return Some(Done::Written(completed.id)),
                Purpose::Send | Purpose::Register => {}
            }
        }
    }

    /// Ends the connection: waits until the initiator queue is empty, disconnects, waits until all posted requests have completed.
    pub fn close(self, passive: &Passive<'_>) -> Result<(), Failure> {
        let step = Step::Disconnect;
        let wait = |ready: &dyn Fn() -> bool| {
            while !ready() {
                Bell::wait(&self.wake.0, Some(SILENCE), passive).map_err(step.failed())?;
            }
            Ok::<_, Failure>(())
        };
        let events = self.connector.context();
        wait(&|| self.connection.quiesce() || events.lost())?;
        events.begin(|| self.connector.disconnect());
        wait(&|| events.outcome().is_some())?;
        // A disconnect after the end of the connection does not flush.
        self.connection.qp().flush();
        wait(&|| self.connection.is_drained())?;
        let own = match &self.places {
            Places::Own(memory, _) => memory.deregister(passive),
            Places::Lent(_) => Ok(()),
        };
        self.connection.release(passive).and(own).map_err(step.failed())
    }
}
