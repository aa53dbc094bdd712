//! IOCTL_SOFTNDK_TEST_PERF: the test consumer measures NDKPI between two ends, each of which is one request (`tests/clients/ndk-perf`).
#![allow(missing_docs, reason = "pure layouts, described per structure")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::sockaddr::SOCKADDR_INET;

c_consts! { SOFTNDK_PERF_NUMBERS: u32;
    /// [`SOFTNDK_TEST_PERF::What`]: listen at `Local`, and be the other end of one client after another. The request ends
    /// with the first client that is served after `Microseconds`, or when none comes within them. `Operation`, `Size`,
    /// `Depth`, `Count` and `Remote` are 0.
    SOFTNDK_TEST_PERF_SERVE = 1;
    /// [`SOFTNDK_TEST_PERF::What`]: connect from `Local` to `Remote`, and do one operation after another: a send that the
    /// other end sends back, a write that it writes back, or a read. The samples are the times until a message is back.
    /// `Depth` is 1.
    SOFTNDK_TEST_PERF_LATENCY = 2;
    /// [`SOFTNDK_TEST_PERF::What`]: connect from `Local` to `Remote`, and do as many operations as there can be, `Depth`
    /// of them at once.
    SOFTNDK_TEST_PERF_RATE = 3;
    /// The most [`SOFTNDK_TEST_PERF::Size`].
    SOFTNDK_TEST_PERF_SIZE = 0x40_0000;
    /// The most [`SOFTNDK_TEST_PERF::Depth`].
    SOFTNDK_TEST_PERF_DEPTH = 128;
    /// The most `Depth` times `Size`.
    SOFTNDK_TEST_PERF_WINDOW = 0x100_0000;
    /// The most [`SOFTNDK_TEST_PERF::Count`].
    SOFTNDK_TEST_PERF_COUNT = 0x1_0000;
    /// The most `Size` times `Count`.
    SOFTNDK_TEST_PERF_BYTES = 0x4000_0000;
    /// The most [`SOFTNDK_TEST_PERF::Microseconds`].
    SOFTNDK_TEST_PERF_MICROSECONDS = 1_000_000;
}

c_structs! { SOFTNDK_PERF_LAYOUTS:
    /// One end of a measurement: `Count` operations (`NdkOperationTypeSend`, `NdkOperationTypeRead` or
    /// `NdkOperationTypeWrite`) with `Size` bytes each, or as many as begin within `Microseconds`. Each end has a queue
    /// pair and memory of its own, only for the request.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_TEST_PERF, size 0x58 {
        0x00 Version: u32,
        0x04 What: u32,
        0x08 Operation: u32,
        0x0c Size: u32,
        0x10 Depth: u32,
        0x14 Count: u32,
        0x18 Microseconds: u32,
        0x1c Local: SOCKADDR_INET,
        0x38 Remote: SOCKADDR_INET,
        0x54 Reserved: u32,
    }

    /// The operations that were measured, or the clients that were served to their end; the time that all operations took
    /// together, in units of 100 ns; the bytes of all requests of this end. `Samples` times follow, each a ULONG in units
    /// of 100 ns.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_TEST_PERF_RESULT, size 0x20 {
        0x00 Version: u32,
        0x04 Samples: u32,
        0x08 Operations: u64,
        0x10 Time: u64,
        0x18 Moved: u64,
    }
}
