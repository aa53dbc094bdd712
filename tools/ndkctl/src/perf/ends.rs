//! The requests of both ends.

use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use figures::TURN;
use ndk_abi::{
    describe::ZeroInit as _,
    ndkpi::{NdkOperationTypeRead, NdkOperationTypeSend, NdkOperationTypeWrite},
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        IOCTL_SOFTNDK_TEST_PERF, SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_PERF, SOFTNDK_TEST_PERF_BYTES,
        SOFTNDK_TEST_PERF_COUNT, SOFTNDK_TEST_PERF_DEPTH, SOFTNDK_TEST_PERF_LATENCY, SOFTNDK_TEST_PERF_RATE,
        SOFTNDK_TEST_PERF_RESULT, SOFTNDK_TEST_PERF_SERVE, SOFTNDK_TEST_PERF_WINDOW,
    },
    status::{
        NTSTATUS, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_REFUSED, STATUS_DEVICE_BUSY,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_NOT_SUPPORTED,
    },
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::Operation;
use crate::driver::{self, Driver};

/// The most samples of a turn.
const SAMPLES: u32 = 4096;
/// One request of the server, in microseconds.
const SERVING: u32 = 250_000;
/// How long a server may be away: between two of its requests it is, for an instant.
const PATIENCE: Duration = Duration::from_secs(3);

/// Messages under way at once in a stream.
pub(super) fn depth(bytes: u32) -> u32 {
    (SOFTNDK_TEST_PERF_WINDOW / bytes).min(SOFTNDK_TEST_PERF_DEPTH)
}

/// Is the other end until `is_over`. Returns the bytes that it has moved.
pub(super) fn serve(driver: &dyn Driver, local: SocketAddr, is_over: &AtomicBool) -> anyhow::Result<u64> {
    let asked = SOFTNDK_TEST_PERF {
        Version: SOFTNDK_IOCTL_VERSION,
        What: SOFTNDK_TEST_PERF_SERVE,
        Microseconds: SERVING,
        Local: SOCKADDR_INET::new(local),
        ..SOFTNDK_TEST_PERF::ZERO
    };
    let mut moved = 0;
    while !is_over.load(Ordering::Acquire) {
        let (result, _) = ask(driver, &asked, 0).map_err(|status| failed(&format!("serve at {local}"), status))?;
        moved += result.Moved;
    }
    Ok(moved)
}

/// The end that measures.
pub(super) struct Client<'a> {
    driver: &'a dyn Driver,
    local: IpAddr,
    server: SocketAddr,
    /// There is no server any more.
    is_over: &'a AtomicBool,
    moved: u64,
}

impl<'a> Client<'a> {
    /// A client at an address of the driver's adapter that fits to the server's.
    pub(super) fn new(driver: &'a dyn Driver, server: SocketAddr, is_over: &'a AtomicBool) -> anyhow::Result<Self> {
        let addresses = driver::addresses(driver)?;
        let addresses = addresses.iter().filter_map(SOCKADDR_INET::socket_addr);
        let local = addresses.map(|address| address.ip()).find(|address| address.is_ipv4() == server.is_ipv4());
        let local = local.with_context(|| format!("the adapter has no address to connect to {} from", server.ip()))?;
        Ok(Self { driver, local, server, is_over, moved: 0 })
    }

    pub(super) fn local(&self) -> IpAddr {
        self.local
    }

    /// Bytes that it has moved.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// For a turn: how long a message takes to the other side, half of a round trip; a read, there and back.
    pub(super) fn latencies(&mut self, operation: Operation, bytes: u32) -> anyhow::Result<Vec<Duration>> {
        let (_, samples) = self.measure(SOFTNDK_TEST_PERF_LATENCY, operation, bytes, 1, SAMPLES)?;
        let ways = if operation == Operation::Read { 1 } else { 2 };
        Ok(samples.into_iter().map(|sample| time(sample.into()) / ways).collect())
    }

    /// For a turn: operations, several of them under way at once, and the time that they took together.
    pub(super) fn stream(&mut self, operation: Operation, bytes: u32) -> anyhow::Result<(u64, Duration)> {
        let (result, _) =
            self.measure(SOFTNDK_TEST_PERF_RATE, operation, bytes, depth(bytes), SOFTNDK_TEST_PERF_COUNT)?;
        Ok((result.Operations, time(result.Time)))
    }

    fn measure(
        &mut self,
        what: u32,
        operation: Operation,
        bytes: u32,
        depth: u32,
        most: u32,
    ) -> anyhow::Result<(SOFTNDK_TEST_PERF_RESULT, Vec<u32>)> {
        let number = match operation {
            Operation::Send => NdkOperationTypeSend,
            Operation::Read => NdkOperationTypeRead,
            Operation::Write => NdkOperationTypeWrite,
        };
        let asked = SOFTNDK_TEST_PERF {
            Version: SOFTNDK_IOCTL_VERSION,
            What: what,
            Operation: number.0.cast_unsigned(),
            Size: bytes,
            Depth: depth,
            Count: most.min(SOFTNDK_TEST_PERF_BYTES / bytes),
            Microseconds: u32::try_from(TURN.as_micros())?,
            Local: SOCKADDR_INET::new(SocketAddr::new(self.local, 0)),
            Remote: SOCKADDR_INET::new(self.server),
            Reserved: 0,
        };
        let samples = if what == SOFTNDK_TEST_PERF_LATENCY { asked.Count } else { 0 };
        let began = Instant::now();
        loop {
            match ask(self.driver, &asked, samples) {
                Ok((result, samples)) => {
                    self.moved += result.Moved;
                    return Ok((result, samples));
                }
                Err(STATUS_CONNECTION_REFUSED | STATUS_CONNECTION_ABORTED)
                    if began.elapsed() < PATIENCE && !self.is_over.load(Ordering::Acquire) =>
                {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(status) => return Err(failed(&format!("measure with {}", self.server), status)),
            }
        }
    }
}

/// Sends a request whose output has room for `samples` samples.
fn ask(
    driver: &dyn Driver,
    asked: &SOFTNDK_TEST_PERF,
    samples: u32,
) -> Result<(SOFTNDK_TEST_PERF_RESULT, Vec<u32>), NTSTATUS> {
    let mut output = vec![0; size_of::<SOFTNDK_TEST_PERF_RESULT>() + samples as usize * size_of::<u32>()];
    let returned = driver.ask(IOCTL_SOFTNDK_TEST_PERF, asked.as_bytes(), &mut output)?;
    let answer = output.get(..returned).unwrap_or_default();
    // An older driver's answer would have failed with STATUS_INVALID_DEVICE_REQUEST.
    let read = SOFTNDK_TEST_PERF_RESULT::read_from_prefix(answer);
    let (result, rest) = read.map_err(|_| STATUS_INVALID_DEVICE_REQUEST)?;
    let samples = rest.chunks_exact(size_of::<u32>()).map_while(|sample| u32::read_from_bytes(sample).ok());
    Ok((result, samples.collect()))
}

fn time(units: u64) -> Duration {
    Duration::from_nanos(units.saturating_mul(100))
}

/// The error of a request, with a hint.
fn failed(what: &str, status: NTSTATUS) -> anyhow::Error {
    let hint = match status {
        STATUS_NOT_SUPPORTED => {
            "; this softndk.sys has no test consumer, as none of a package has: on a test machine, install one that \
             `cargo make test-consumer` has built"
        }
        STATUS_CONNECTION_REFUSED | STATUS_CONNECTION_ABORTED => "; start `ndkctl perf --server` there",
        STATUS_DEVICE_BUSY => "; the adapter has four measurements already",
        STATUS_INVALID_DEVICE_REQUEST => "; the driver is older than this program, or of another version",
        _ => "",
    };
    anyhow::anyhow!("cannot {what}: {status}{hint}")
}
