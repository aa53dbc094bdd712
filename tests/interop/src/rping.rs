//! What rping of rdma-core does, in both roles. Each round: the client says where its source is, the server reads it and says so;
//! the client says where its sink is, the server writes there what it has read and says so; the client compares.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use ndk_abi::{
    ndkpi::{
        NDK_MR_FLAG_ALLOW_LOCAL_READ, NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_MR_FLAG_ALLOW_REMOTE_READ,
        NDK_MR_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT,
    },
    status::STATUS_SUCCESS,
};
use ndk_consumer::{Data, Work};

use crate::{
    connection::{Connection, Listener, Unconnected},
    device::{Adapter, Device, Pd, Ref, Region},
    status::{Named, shared},
};

/// Bytes of each message: an address, a token, a length.
const MESSAGE: usize = 16;

/// What is done.
#[derive(Args, Clone, Copy)]
pub(crate) struct Plan {
    /// Bytes that are read and written in each round
    #[arg(long, default_value_t = 64)]
    pub(crate) size: usize,
    /// Rounds; a server serves as many as come, and counts them
    #[arg(long, default_value_t = 100)]
    pub(crate) count: u32,
    /// Ask for CRCs
    #[arg(long)]
    pub(crate) crc: bool,
    /// Change a byte in the last round, which whoever compares must notice
    #[arg(long)]
    pub(crate) corrupt: bool,
    /// Server: send with invalidate, of the client's token that was just used, and solicit an event
    #[arg(long)]
    pub(crate) invalidate: bool,
    /// Client: break a rule in the first round, so that this device has to terminate the connection
    #[arg(long)]
    pub(crate) fault: Option<Fault>,
}

/// What a client does wrong, for the peer to run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// The token of the source is none
    SourceToken,
    /// The source begins one byte later than it does
    SourceBounds,
    /// The source may not be read
    SourceAccess,
    /// The token of the sink is none
    SinkToken,
    /// The sink begins one byte later than it does
    SinkBounds,
    /// The sink may not be written
    SinkAccess,
    /// There is no receive for the peer's message
    NoReceive,
    /// The receive is shorter than the peer's message
    ShortReceive,
}

/// Where a buffer is, as the messages say it.
#[derive(Clone, Copy)]
struct Place {
    address: u64,
    token: u32,
    size: u32,
}

impl Place {
    fn of(region: &Region, size: usize) -> Self {
        let (address, token) = region.remote();
        Self { address, token, size: size as u32 }
    }

    fn to_bytes(self) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        bytes[..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.token.to_be_bytes());
        bytes[12..].copy_from_slice(&self.size.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (address, rest) = bytes.split_first_chunk()?;
        let (token, size) = rest.split_first_chunk()?;
        Some(Self {
            address: u64::from_be_bytes(*address),
            token: u32::from_be_bytes(*token),
            size: u32::from_be_bytes(size.try_into().ok()?),
        })
    }
}

/// What both roles have.
struct End {
    adapter: Ref<Adapter>,
    pd: Ref<Pd>,
    incoming: Region,
    outgoing: Region,
}

impl End {
    fn new(device: &Device) -> Result<Self> {
        let adapter = device.open()?;
        let pd = shared(Adapter::create_pd(&adapter, &hosted::passive()).named("NdkCreatePd")?)?;
        let incoming = Region::new(&pd, MESSAGE, NDK_MR_FLAG_ALLOW_LOCAL_WRITE)?;
        let outgoing = Region::new(&pd, MESSAGE, NDK_MR_FLAG_ALLOW_LOCAL_READ)?;
        Ok(Self { adapter, pd, incoming, outgoing })
    }

    fn send(&self, connection: &Connection, message: [u8; MESSAGE]) -> Result<()> {
        self.outgoing.fill(&message);
        let sges = [self.outgoing.sge()];
        connection.perform("NdkSend", &Work::Send(Data::Regions(&sges)), 0)
    }

    /// The next message; what comes after it has a receive too.
    fn receive(&self, connection: &Connection) -> Result<Place> {
        let completion = connection.received()?;
        completion.status.named("NdkReceive")?;
        ensure!(completion.bytes as usize == MESSAGE, "a message of {} bytes", completion.bytes);
        let place = Place::parse(&self.incoming.to_vec()).context("no place in a message")?;
        connection.receive(self.incoming.sge())?;
        Ok(place)
    }
}

/// What is in the source in a round: a string of C, as a server of rping writes no more than that back. No two bytes that are near each
/// other are alike, and no two rounds.
fn pattern(round: u32, size: usize) -> Vec<u8> {
    let mut text: Vec<u8> =
        (0..size).map(|index| (33 + (index / 64 * 7 + index * 5 + round as usize * 3) % 94) as u8).collect();
    text[size - 1] = 0;
    text
}

/// The client. With a fault it is as it should be if the connection ends without a success; the port of that connection.
pub(crate) fn client(local: IpAddr, peer: SocketAddr, plan: Plan) -> Result<SocketAddr> {
    let device = Device::new(local, plan.crc)?;
    let address = run_client(&device, local, peer, plan)?;
    device.close()?;
    Ok(address)
}

fn run_client(device: &Device, local: IpAddr, peer: SocketAddr, plan: Plan) -> Result<SocketAddr> {
    let end = End::new(device)?;
    let has = |fault| plan.fault == Some(fault);
    let source_flags = if has(Fault::SourceAccess) { 0 } else { NDK_MR_FLAG_ALLOW_REMOTE_READ };
    let sink_flags =
        if has(Fault::SinkAccess) { NDK_MR_FLAG_ALLOW_REMOTE_READ } else { NDK_MR_FLAG_ALLOW_REMOTE_WRITE };
    let source = Region::new(&end.pd, plan.size, source_flags)?;
    let sink = Region::new(&end.pd, plan.size, sink_flags | NDK_MR_FLAG_ALLOW_LOCAL_WRITE)?;
    let unconnected = Unconnected::new(&end.adapter, &end.pd)?;
    if !has(Fault::NoReceive) {
        let mut sge = end.incoming.sge();
        if has(Fault::ShortReceive) {
            sge.Length = MESSAGE as u32 / 2;
        }
        unconnected.receive(sge)?;
    }
    let connection = unconnected.connect(local, peer)?;
    let address = connection.local_address()?;
    if plan.fault.is_some() {
        run_into(&end, &connection, &source, &sink, plan)?;
        return Ok(address);
    }
    for round in 0..plan.count {
        let mut data = pattern(round, plan.size);
        source.fill(&data);
        sink.fill(&vec![0; plan.size]);
        end.send(&connection, Place::of(&source, plan.size).to_bytes())?;
        end.receive(&connection)?;
        end.send(&connection, Place::of(&sink, plan.size).to_bytes())?;
        end.receive(&connection)?;
        if plan.corrupt && round + 1 == plan.count {
            data[plan.size / 2] ^= 1;
        }
        ensure!(sink.to_vec() == data, "data mismatch in round {round}");
    }
    connection.disconnect()?;
    Ok(address)
}

/// The first round, with the fault: no success may come of it.
fn run_into(end: &End, connection: &Connection, source: &Region, sink: &Region, plan: Plan) -> Result<()> {
    let wrong = |place: Place, token, bounds| Place {
        token: if plan.fault == Some(token) { !place.token } else { place.token },
        address: place.address + u64::from(plan.fault == Some(bounds)),
        ..place
    };
    source.fill(&pattern(0, plan.size));
    let of_source = wrong(Place::of(source, plan.size), Fault::SourceToken, Fault::SourceBounds);
    end.send(connection, of_source.to_bytes())?;
    if matches!(plan.fault, Some(Fault::SinkToken | Fault::SinkBounds | Fault::SinkAccess)) {
        end.receive(connection)?;
        let of_sink = wrong(Place::of(sink, plan.size), Fault::SinkToken, Fault::SinkBounds);
        end.send(connection, of_sink.to_bytes())?;
    }
    connection.disconnected()?;
    if plan.fault != Some(Fault::NoReceive) {
        let status = connection.received()?.status;
        ensure!(status != STATUS_SUCCESS, "a receive has succeeded in spite of {:?}", plan.fault);
    }
    ensure!(sink.to_vec().iter().all(|byte| *byte == 0), "bytes were placed in spite of {:?}", plan.fault);
    Ok(())
}

/// A listening server.
pub(crate) struct Server {
    device: Device,
    end: End,
    listener: Listener,
    unconnected: Unconnected,
    plan: Plan,
}

impl Server {
    /// Listens.
    pub(crate) fn new(local: SocketAddr, plan: Plan) -> Result<Self> {
        let device = Device::new(local.ip(), plan.crc)?;
        let end = End::new(&device)?;
        let listener = Listener::new(&end.adapter, local)?;
        let unconnected = Unconnected::new(&end.adapter, &end.pd)?;
        unconnected.receive(end.incoming.sge())?;
        Ok(Self { device, end, listener, unconnected, plan })
    }

    /// Serves one client until it disconnects.
    pub(crate) fn serve(self) -> Result<()> {
        let Self { device, end, listener, unconnected, plan } = self;
        serve(&end, &listener.accept(unconnected)?, plan)?;
        drop(listener);
        drop(end);
        device.close()
    }
}

fn serve(end: &End, connection: &Connection, plan: Plan) -> Result<()> {
    let buffer = Region::new(&end.pd, plan.size, NDK_MR_FLAG_ALLOW_LOCAL_WRITE)?;
    let sges = [buffer.sge()];
    for round in 0..plan.count {
        let source = end.receive(connection)?;
        ensure!(source.size as usize == plan.size, "the client has {} bytes", source.size);
        let read = Work::Read { sges: &sges, address: source.address, token: source.token };
        connection.perform("NdkRead", &read, 0)?;
        if plan.corrupt && round + 1 == plan.count {
            let mut data = buffer.to_vec();
            data[plan.size / 2] ^= 1;
            buffer.fill(&data);
        }
        go_on(end, connection, source, plan)?;
        let sink = end.receive(connection)?;
        ensure!(sink.size as usize == plan.size, "the client has {} bytes", sink.size);
        let write = Work::Write { data: Data::Regions(&sges), address: sink.address, token: sink.token };
        connection.perform("NdkWrite", &write, 0)?;
        go_on(end, connection, sink, plan)?;
    }
    connection.disconnected()?;
    connection.disconnect()?;
    match connection.received()?.status {
        STATUS_SUCCESS => bail!("the client goes on after {} rounds", plan.count),
        _flushed => Ok(()),
    }
}

/// Tells the client to go on.
fn go_on(end: &End, connection: &Connection, used: Place, plan: Plan) -> Result<()> {
    if !plan.invalidate {
        return end.send(connection, used.to_bytes());
    }
    end.outgoing.fill(&used.to_bytes());
    let data = Data::Regions(&[end.outgoing.sge()]);
    let work = Work::SendAndInvalidate { data, token: used.token };
    connection.perform("NdkSendAndInvalidate", &work, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT)
}
