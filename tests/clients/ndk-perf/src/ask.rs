//! What a request asks for, checked.

use core::net::SocketAddr;

use ndk_abi::ndkpi::{NdkOperationTypeRead, NdkOperationTypeSend, NdkOperationTypeWrite};
use ndk_abi::sockaddr::SOCKADDR_INET;
use ndk_abi::softndk_ioctl::{
    SOFTNDK_TEST_PERF, SOFTNDK_TEST_PERF_BYTES, SOFTNDK_TEST_PERF_COUNT, SOFTNDK_TEST_PERF_DEPTH,
    SOFTNDK_TEST_PERF_LATENCY, SOFTNDK_TEST_PERF_MICROSECONDS, SOFTNDK_TEST_PERF_RATE, SOFTNDK_TEST_PERF_SERVE,
    SOFTNDK_TEST_PERF_SIZE, SOFTNDK_TEST_PERF_WINDOW,
};
use ndk_abi::status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_ADDRESS, STATUS_INVALID_PARAMETER};

/// What is done to the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Send,
    Read,
    Write,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Send, Self::Read, Self::Write];

    /// `Operation` of SOFTNDK_TEST_PERF.
    fn number(self) -> u32 {
        let number = match self {
            Self::Send => NdkOperationTypeSend,
            Self::Read => NdkOperationTypeRead,
            Self::Write => NdkOperationTypeWrite,
        };
        number.0.cast_unsigned()
    }
}

/// What both ends know of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) operation: Operation,
    /// One after another, and each is timed.
    pub(crate) is_latency: bool,
    /// Bytes of a message.
    pub(crate) size: u32,
    /// The most messages under way.
    pub(crate) depth: u32,
}

impl Job {
    /// From the numbers of SOFTNDK_TEST_PERF. `None`: one is out of its bounds.
    pub(crate) fn new(what: u32, operation: u32, size: u32, depth: u32) -> Option<Self> {
        let operation = Operation::ALL.into_iter().find(|known| known.number() == operation)?;
        let (is_latency, depths) = match what {
            SOFTNDK_TEST_PERF_LATENCY => (true, 1..=1),
            SOFTNDK_TEST_PERF_RATE => (false, 1..=SOFTNDK_TEST_PERF_DEPTH),
            _ => return None,
        };
        let good = (1..=SOFTNDK_TEST_PERF_SIZE).contains(&size)
            && depths.contains(&depth)
            && depth.checked_mul(size)? <= SOFTNDK_TEST_PERF_WINDOW;
        good.then_some(Self { operation, is_latency, size, depth })
    }

    /// `What` and `Operation` of SOFTNDK_TEST_PERF.
    pub(crate) fn numbers(self) -> (u32, u32) {
        (if self.is_latency { SOFTNDK_TEST_PERF_LATENCY } else { SOFTNDK_TEST_PERF_RATE }, self.operation.number())
    }

    /// The server reports that it has taken messages, by a message of its own, after each batch of this number.
    pub(crate) fn batch(self) -> u32 {
        (self.depth >> 2).max(1)
    }
}

/// A client's measurement.
#[derive(Clone, Copy)]
pub(crate) struct Measurement {
    pub(crate) job: Job,
    pub(crate) count: u32,
    /// No operation begins later, in units of 100 ns.
    pub(crate) limit: u64,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// A request.
pub(crate) enum Ask {
    Serve {
        local: SocketAddr,
        /// No client is accepted later, in units of 100 ns.
        limit: u64,
    },
    Measure(Measurement),
}

impl Ask {
    /// Checks a request, and the `room` bytes for its samples.
    pub(crate) fn new(ask: &SOFTNDK_TEST_PERF, room: usize) -> Result<Self, NTSTATUS> {
        let &SOFTNDK_TEST_PERF { What, Operation, Size, Depth, Count, Microseconds, Local, Remote, Reserved, .. } = ask;
        if !(1..=SOFTNDK_TEST_PERF_MICROSECONDS).contains(&Microseconds) || Reserved != 0 {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let limit = u64::from(Microseconds).saturating_mul(10);
        if What == SOFTNDK_TEST_PERF_SERVE {
            let is_nothing = [Operation, Size, Depth, Count] == [0; 4] && Remote.si_family() == 0;
            return if is_nothing {
                Ok(Self::Serve { local: address(&Local)?, limit })
            } else {
                Err(STATUS_INVALID_PARAMETER)
            };
        }
        let job = Job::new(What, Operation, Size, Depth).ok_or(STATUS_INVALID_PARAMETER)?;
        let is_short = Size.checked_mul(Count).is_some_and(|bytes| bytes <= SOFTNDK_TEST_PERF_BYTES);
        if !(1..=SOFTNDK_TEST_PERF_COUNT).contains(&Count) || !is_short {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let samples = if job.is_latency { (Count as usize).saturating_mul(size_of::<u32>()) } else { 0 };
        if samples > room {
            return Err(STATUS_BUFFER_TOO_SMALL);
        }
        let (local, remote) = (address(&Local)?, address(&Remote)?);
        Ok(Self::Measure(Measurement { job, count: Count, limit, local, remote }))
    }
}

fn address(address: &SOCKADDR_INET) -> Result<SocketAddr, NTSTATUS> {
    address.socket_addr().ok_or(STATUS_INVALID_ADDRESS)
}
