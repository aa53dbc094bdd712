//! Connected queue pairs and the checks that most cases need.

use std::{
    net::SocketAddr,
    ops::RangeInclusive,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_REMOTE_WRITE},
    ndkpi::{NDK_OPERATION_TYPE, NdkOperationTypeReceive, NdkOperationTypeSend},
    softndk_ioctl::SOFTNDK_RESULT,
    status::{NTSTATUS, STATUS_SHARING_VIOLATION, STATUS_SUCCESS},
};

use crate::{
    Carrier,
    bench::Bench,
    client::{Adapter, Client, Connector, Cq, Listener, Mr, PAUSE, Pd, Qp, QpSize, ReadLimits},
    error,
};

/// All rights that a region can give.
pub const ALL_RIGHTS: u32 = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ | ND_MR_FLAG_ALLOW_REMOTE_WRITE;

/// What a consumer sets up once: a file, the adapter, a protection domain, completion queues.
#[derive(Clone)]
pub struct Site {
    /// For completions of receives.
    pub receive_cq: Cq,
    /// For completions of initiator requests.
    pub initiator_cq: Cq,
    /// The protection domain.
    pub pd: Pd,
    /// The adapter.
    pub adapter: Adapter,
    /// The file.
    pub client: Arc<Client>,
    /// The adapter's address, port 0.
    pub address: SocketAddr,
    /// What ports are picked from.
    pub ports: RangeInclusive<u16>,
    /// What is between it and the site that it connects to.
    pub carrier: Carrier,
}

impl Site {
    /// A site on a file of its own, with CQs of 64 entries.
    pub fn new(bench: &Bench<'_>) -> anyhow::Result<Self> {
        Self::with_cq_depth(bench, 64)
    }

    /// A site whose CQs have `depth` entries each.
    pub fn with_cq_depth(bench: &Bench<'_>, depth: u32) -> anyhow::Result<Self> {
        let client = bench.client()?;
        let address = bench.address(&client)?;
        let adapter = Adapter::open(&client, client.resolve(address)?)?;
        let pd = Pd::new(&adapter)?;
        let initiator_cq = Cq::new(&adapter, depth)?;
        let receive_cq = Cq::new(&adapter, depth)?;
        let ports = bench.ephemeral_ports();
        Ok(Self { receive_cq, initiator_cq, pd, adapter, client, address, ports, carrier: bench.carrier() })
    }

    /// A new buffer of at least `length` bytes, registered with all rights.
    pub fn buffer(&self, length: usize) -> error::Result<Mr> {
        Mr::new(&self.pd, length, ALL_RIGHTS)
    }

    /// An end with a queue pair of the usual size.
    pub fn end(&self) -> error::Result<End> {
        self.sized_end(QpSize::default())
    }

    /// An end with a queue pair of a given size.
    pub fn sized_end(&self, size: QpSize) -> error::Result<End> {
        self.end_with(Qp::new(&self.pd, &self.receive_cq, &self.initiator_cq, size)?)
    }

    /// An end with a given queue pair.
    pub fn end_with(&self, qp: Qp) -> error::Result<End> {
        Ok(End { connector: Connector::new(&self.adapter)?, qp, site: self.clone() })
    }

    /// A listener on a port of its own.
    pub fn listener(&self) -> anyhow::Result<(Listener, SocketAddr)> {
        let listener = Listener::new(&self.adapter)?;
        listener.bind(self.address)?;
        listener.listen(0)?;
        let address = listener.address()?.context("the listener's address has an unknown family")?;
        Ok((listener, address))
    }
}

/// One end of a connection. The connector is dropped before its queue pair.
pub struct End {
    /// The connector.
    pub connector: Connector,
    /// The queue pair.
    pub qp: Qp,
    /// Where it is.
    pub site: Site,
}

impl End {
    /// Takes the next completion of an initiator request.
    pub fn initiated(&self) -> error::Result<SOFTNDK_RESULT> {
        self.site.initiator_cq.take_one()
    }

    /// Takes the next completion of a receive.
    pub fn received(&self) -> error::Result<SOFTNDK_RESULT> {
        self.site.receive_cq.take_one()
    }

    /// Checks the completion of a request that the peer refuses with `status`, and waits until the connection has ended.
    pub fn expect_refused(&self, kind: NDK_OPERATION_TYPE, context: u64, status: NTSTATUS) -> anyhow::Result<()> {
        expect(&self.initiated()?, kind, context, status)?;
        self.connector.notify_disconnect().finish().context("the end of the connection").map(drop)
    }

    /// Checks that both queues are empty: everything completed once.
    pub fn quiet(&self) -> anyhow::Result<()> {
        for (what, cq) in [("initiator", &self.site.initiator_cq), ("receive", &self.site.receive_cq)] {
            let more = cq.poll(64)?.len();
            ensure!(more == 0, "{more} completions too many in the {what} CQ");
        }
        Ok(())
    }
}

/// Two connected ends, each on a file of its own.
pub struct Pair {
    /// The side that connected.
    pub a: End,
    /// The side that listened.
    pub b: End,
    /// Of `b`. Goes after the connector that it made.
    pub listener: Listener,
}

impl Pair {
    /// Two ends of the usual size.
    pub fn new(bench: &Bench<'_>) -> anyhow::Result<Self> {
        Self::sized(bench, QpSize::default())
    }

    /// Two ends with queue pairs of a given size.
    pub fn sized(bench: &Bench<'_>, size: QpSize) -> anyhow::Result<Self> {
        Self::connect(Site::new(bench)?.sized_end(size)?, Site::new(&bench.there())?.sized_end(size)?)
    }

    /// Checks that all queues are empty.
    pub fn quiet(&self) -> anyhow::Result<()> {
        self.a.quiet().context("at the initiator")?;
        self.b.quiet().context("at the listener")
    }

    /// Waits until the driver has these numbers of pending requests of both ends.
    pub fn pended(&self, requests: [u32; 2]) -> error::Result<()> {
        let [a, b] = requests;
        match self.a.site.carrier {
            Carrier::Device => self.a.site.client.pended(a + b),
            Carrier::Wire => self.a.site.client.pended(a).and_then(|()| self.b.site.client.pended(b)),
        }
    }

    /// Connects two ends.
    pub fn connect(a: End, b: End) -> anyhow::Result<Self> {
        let (listener, address) = b.site.listener()?;
        connect(&a, &b, &listener, address)?;
        Ok(Self { a, b, listener })
    }
}

/// Connects `a` to `b`, which listens with `listener` on `address`.
pub fn connect(a: &End, b: &End, listener: &Listener, address: SocketAddr) -> anyhow::Result<()> {
    connect_with(a, b, listener, address, [ReadLimits::default(); 2])
}

/// As [`connect`], with the limits that `a` and `b` ask for.
pub fn connect_with(
    a: &End,
    b: &End,
    listener: &Listener,
    address: SocketAddr,
    limits: [ReadLimits; 2],
) -> anyhow::Result<()> {
    let request = listener.connection_request(&b.connector);
    a.connector.bind(a.site.address)?;
    let mut connect = a.connector.connect(&a.qp, address, limits[0], &[]);
    request.finish_unless_failed(&mut connect).context("waiting for the connection request")?;
    let mut accept = b.connector.accept(&b.qp, limits[1], &[]);
    connect.finish_unless_failed(&mut accept).context("connecting")?;
    a.connector.complete_connect().finish().context("completing the connection")?;
    accept.finish().context("accepting")?;
    Ok(())
}

/// Sends `data` from one end to the other, through fresh buffers, and checks everything about it.
pub fn exchange(from: &End, to: &End, data: &[u8]) -> anyhow::Result<()> {
    /// What the receive buffer holds before, and after the data.
    const GUARD: u8 = 0xa5;
    let source = from.site.buffer(data.len())?;
    let target = to.site.buffer(data.len() + 64)?;
    source.memory().write(0, data);
    target.memory().write(0, &vec![GUARD; target.memory().length()]);
    to.qp.receive(0x1ec, &[target.sge(0..data.len() + 64)])?;
    from.qp.send(0x5e4d, &[source.sge(0..data.len())], 0)?;
    expect(&to.received()?, NdkOperationTypeReceive, 0x1ec, STATUS_SUCCESS)
        .and_then(|result| ensure_length(result, data.len()))
        .context("the receive")?;
    expect(&from.initiated()?, NdkOperationTypeSend, 0x5e4d, STATUS_SUCCESS).context("the send")?;
    ensure_same(&target.memory().read(0..data.len()), data)?;
    let rest = target.memory().read(data.len()..target.memory().length());
    ensure!(rest.iter().all(|byte| *byte == GUARD), "bytes behind the data were written");
    Ok(())
}

/// Checks type, context and status of a completion, and that success comes without an error code.
pub fn expect(
    result: &SOFTNDK_RESULT,
    kind: NDK_OPERATION_TYPE,
    context: u64,
    status: NTSTATUS,
) -> anyhow::Result<&SOFTNDK_RESULT> {
    let found = NDK_OPERATION_TYPE(result.Type.cast_signed());
    ensure!(
        (found, result.RequestContext, result.Status) == (kind, context, status),
        "completion {found:?}, context {:#x}, {}; expected {kind:?}, context {context:#x}, {status}",
        result.RequestContext,
        result.Status,
    );
    ensure!(
        status != STATUS_SUCCESS || result.ProviderErrorCode == 0,
        "provider error code {:#x} with success",
        result.ProviderErrorCode
    );
    Ok(result)
}

/// Checks the number of bytes of a receive.
pub fn ensure_length(result: &SOFTNDK_RESULT, length: usize) -> anyhow::Result<()> {
    ensure!(
        result.BytesTransferred as usize == length,
        "{} bytes received, {length} were sent",
        result.BytesTransferred
    );
    Ok(())
}

/// Checks data that was moved.
pub fn ensure_same(found: &[u8], sent: &[u8]) -> anyhow::Result<()> {
    ensure!(found.len() == sent.len(), "{} bytes instead of {}", found.len(), sent.len());
    // Tests are not optimised: byte by byte only after a difference.
    if found == sent {
        return Ok(());
    }
    let at = found.iter().zip(sent).position(|(found, sent)| found != sent).unwrap_or_default();
    Err(anyhow::anyhow!("byte {at} of {} is {:#04x}, {:#04x} was sent", sent.len(), found[at], sent[at]))
}

/// Checks that a request was refused with `status`.
pub fn refused<T>(result: error::Result<T>, status: NTSTATUS, what: &str) -> anyhow::Result<()> {
    match result {
        Ok(_) => Err(anyhow::anyhow!("{what}: succeeded instead of {status}")),
        Err(error) if error.status() == Some(status) => Ok(()),
        Err(error) => Err(anyhow::anyhow!("{what}: {error}; expected {status}")),
    }
}

/// Bytes without a period that a buffer or page size could hide. Different seeds, different bytes.
#[must_use]
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // xorshift64 (Marsaglia)
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Listens at an address that a listener had: TCP frees the address a moment after the listener is closed.
pub(crate) fn when_free<T>(patience: Duration, listen: impl Fn() -> error::Result<T>) -> error::Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match listen() {
            Err(error::Error::Refused { status: STATUS_SHARING_VIOLATION, .. }) if Instant::now() < deadline => {
                thread::sleep(PAUSE);
            }
            listened => return listened,
        }
    }
}
