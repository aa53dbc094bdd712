//! SoftNDK's own control codes, which add posts, polls and diagnostics to the published protocol ([`crate::nd_ioctl`]).
//!
//! The codes are buffered and need a handle open for reading and writing. Inputs start with `Version` =
//! [`SOFTNDK_IOCTL_VERSION`]. Object handles are shared with [`crate::nd_ioctl`] and valid for one file.
#![allow(missing_docs, reason = "pure layouts, described per structure")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::nd_ioctl::{FILE_DEVICE_NETWORK, FILE_READ_DATA, FILE_WRITE_DATA, METHOD_BUFFERED, ctl_code};
use crate::sockaddr::SOCKADDR_INET;
use crate::status::NTSTATUS;

pub use crate::softndk_link::*;
pub use crate::softndk_perf::*;

/// The paths of the control devices. An adapter that starts gets the first path that no other adapter has.
pub const SOFTNDK_DEVICE_PATHS: [&str; 8] = [
    r"\\.\SoftNdk",
    r"\\.\SoftNdk2",
    r"\\.\SoftNdk3",
    r"\\.\SoftNdk4",
    r"\\.\SoftNdk5",
    r"\\.\SoftNdk6",
    r"\\.\SoftNdk7",
    r"\\.\SoftNdk8",
];

/// The control code of a SoftNDK operation: function 0x800 + operation.
#[must_use]
pub const fn softndk_control_code(operation: u32) -> u32 {
    ctl_code(FILE_DEVICE_NETWORK, 0x800 + operation, METHOD_BUFFERED, FILE_READ_DATA | FILE_WRITE_DATA)
}

c_consts! { SOFTNDK_CODES: u32;
    /// In: [`SOFTNDK_POST`], its SGEs, its inline data. Out: of a bind [`SOFTNDK_MW_TOKEN`], else nothing.
    IOCTL_SOFTNDK_POST = softndk_control_code(0);
    /// In: [`SOFTNDK_SRQ_POST`] and its SGEs. Out: nothing.
    IOCTL_SOFTNDK_SRQ_POST = softndk_control_code(1);
    /// In: [`SOFTNDK_POLL`]. Out: array of [`SOFTNDK_RESULT`].
    IOCTL_SOFTNDK_POLL = softndk_control_code(2);
    /// In: [`SOFTNDK_FAST_MR_CREATE`]. Out: [`SOFTNDK_FAST_MR`].
    IOCTL_SOFTNDK_FAST_MR_CREATE = softndk_control_code(3);
    /// In: [`SOFTNDK_DIAGNOSTICS_QUERY`]. Out: [`SOFTNDK_DIAGNOSTICS`].
    IOCTL_SOFTNDK_DIAGNOSTICS = softndk_control_code(4);
    /// In: [`SOFTNDK_TEST_PLANT`]. Out: nothing. Only in test builds of the driver that have planted faults.
    IOCTL_SOFTNDK_TEST_PLANT = softndk_control_code(5);
    /// In: [`SOFTNDK_TEST_SMB_DIRECT`]. Out: [`SOFTNDK_TEST_SMB_DIRECT_RESULT`]. Completes when the scenario has ended.
    /// STATUS_NOT_SUPPORTED: the driver was built without the test consumer; STATUS_INVALID_PARAMETER: no such
    /// scenario; STATUS_DEVICE_BUSY: a scenario is running.
    IOCTL_SOFTNDK_TEST_SMB_DIRECT = softndk_control_code(6);
    /// In: [`SOFTNDK_CQ_MODERATE`]. Out: nothing. STATUS_INVALID_PARAMETER_MIX: neither `Count` nor `Interval` is a
    /// limit.
    IOCTL_SOFTNDK_CQ_MODERATE = softndk_control_code(7);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) of an object with rings. Out: nothing. See
    /// [`crate::softndk_ring`].
    IOCTL_SOFTNDK_DOORBELL = softndk_control_code(8);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) of a region. Out: [`SOFTNDK_MR_TOKENS`].
    /// STATUS_INVALID_DEVICE_STATE: the region is not registered.
    IOCTL_SOFTNDK_MR_QUERY = softndk_control_code(9);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) with a handle of 0. Out: [`SOFTNDK_FILE_ID`].
    IOCTL_SOFTNDK_FILE_ID = softndk_control_code(10);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) whose handle is the [`SOFTNDK_FILE_ID`] of a file. Out: nothing.
    /// Joins two files as IOCTL_ND_PROVIDER_BIND_FILE does, but is sent on the second file and names the first by its
    /// identifier. STATUS_INVALID_HANDLE: no file of this process has the identifier; STATUS_INVALID_DEVICE_STATE: the
    /// second file is in use already.
    IOCTL_SOFTNDK_ATTACH = softndk_control_code(11);
    /// In: [`SOFTNDK_LIST_QUERY`]. Out: [`SOFTNDK_LIST`] of [`SOFTNDK_COUNTER`]. This code, the next three and
    /// IOCTL_SOFTNDK_CABLE are read-only and work on any file, at any time. STATUS_BUFFER_OVERFLOW, with the length
    /// needed: the output is too short.
    IOCTL_SOFTNDK_COUNTERS = softndk_control_code(12);
    /// In: [`SOFTNDK_DIAGNOSTICS_QUERY`]. Out: [`SOFTNDK_ADAPTER`].
    IOCTL_SOFTNDK_ADAPTER = softndk_control_code(13);
    /// In: [`SOFTNDK_LIST_QUERY`]. Out: [`SOFTNDK_LIST`] of [`SOCKADDR_INET`]: the addresses of the adapter, with port
    /// 0.
    IOCTL_SOFTNDK_ADDRESSES = softndk_control_code(14);
    /// In: [`SOFTNDK_LIST_QUERY`]. Out: [`SOFTNDK_LIST`] of [`SOFTNDK_ENDPOINT`]: the endpoints of all consumers.
    IOCTL_SOFTNDK_ENDPOINTS = softndk_control_code(15);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) with a handle of 0. Out: nothing. Does nothing, pends, and
    /// succeeds: with this code a program's overlapped file reports the end of an operation that was sent on another
    /// file.
    IOCTL_SOFTNDK_NOP = softndk_control_code(16);
    /// In: [`SOFTNDK_TEST_LINK`], bytes. Out: [`SOFTNDK_TEST_LINK_RESULT`], bytes. STATUS_NOT_SUPPORTED: the driver was
    /// built without the test consumer; STATUS_DEVICE_BUSY: another file has the link, another request uses it, or a
    /// scenario runs; STATUS_INVALID_DEVICE_STATE: the file has no link, or has one already; STATUS_BUFFER_TOO_SMALL:
    /// the next message is longer than the output. The request waits only while it connects, accepts or closes, at most
    /// 30 s from one event of the connection to the next.
    IOCTL_SOFTNDK_TEST_LINK = softndk_control_code(17);
    /// In: [`SOFTNDK_DIAGNOSTICS_QUERY`]. Out: [`SOFTNDK_CABLE`], `PeerCount` [`SOFTNDK_CABLE_PEER`], `FdbCount`
    /// [`SOFTNDK_FDB_ENTRY`]. The output has room for [`SOFTNDK_CABLE_LENGTH`] bytes.
    IOCTL_SOFTNDK_CABLE = softndk_control_code(18);
    /// In: [`SOFTNDK_LIST_QUERY`]. Out: [`SOFTNDK_LIST`] of [`SOFTNDK_FAULT_RULE`]. As IOCTL_SOFTNDK_COUNTERS.
    IOCTL_SOFTNDK_FAULT_RULES = softndk_control_code(19);
    /// In: [`SOFTNDK_DIAGNOSTICS_QUERY`], the rules in UTF-8, at most [`SOFTNDK_FAULT_RULES_LENGTH`] bytes. Out: nothing.
    /// Replaces the adapter's fault rules. Works on any file, at any time. STATUS_NOT_SUPPORTED: fault injection is off;
    /// STATUS_INVALID_PARAMETER: a rule is wrong, or there are too many; STATUS_INSUFFICIENT_RESOURCES.
    IOCTL_SOFTNDK_SET_FAULT_RULES = softndk_control_code(20);
    /// In: [`SOFTNDK_START_CAPTURE`]. Out: nothing. Starts the capture of the adapter, which ends when the file is closed,
    /// or its adapter's RDMA is turned off. STATUS_DEVICE_REMOVED: the file is being closed.
    /// STATUS_NOT_SUPPORTED: captures are off; STATUS_DEVICE_BUSY: the adapter has a capture;
    /// STATUS_INSUFFICIENT_RESOURCES.
    IOCTL_SOFTNDK_START_CAPTURE = softndk_control_code(21);
    /// In: [`SOFTNDK_DIAGNOSTICS_QUERY`]. Out: [`SOFTNDK_CAPTURE`], `Count` times a [`SOFTNDK_CAPTURE_RECORD`] with its
    /// data, each to a multiple of 8 bytes. Takes the oldest records of the file's capture, as far as the output has room
    /// for the longest. STATUS_INVALID_DEVICE_STATE: the file has no capture; STATUS_BUFFER_TOO_SMALL.
    IOCTL_SOFTNDK_CAPTURE = softndk_control_code(22);
    /// In: [`SOFTNDK_TEST_PERF`]. Out: [`SOFTNDK_TEST_PERF_RESULT`], for latencies with room for `Count` samples. The
    /// request ends with the measurement, at the latest 10 s after the other end was last heard of or a minute after the
    /// connection was begun, or when the file or the adapter goes. STATUS_NOT_SUPPORTED: the driver was built without the
    /// test consumer; STATUS_INVALID_PARAMETER: a number is out of its bounds; STATUS_INVALID_ADDRESS: an address is none;
    /// STATUS_DEVICE_BUSY: the adapter has four such requests; STATUS_CANCELLED: the file or the adapter goes;
    /// STATUS_IO_TIMEOUT: the other end is silent; else the error of the NDKPI function that has failed:
    /// STATUS_CONNECTION_REFUSED if nobody listens, STATUS_CONNECTION_ABORTED if the server's request ended first.
    IOCTL_SOFTNDK_TEST_PERF = softndk_control_code(23);
}

c_consts! { SOFTNDK_NUMBERS: u32;
    /// The first field of every input.
    SOFTNDK_IOCTL_VERSION = 1;
    /// [`SOFTNDK_POST::Operation`]: send-and-invalidate. All other operations are values of
    /// [`NDK_OPERATION_TYPE`](crate::ndkpi::NDK_OPERATION_TYPE).
    SOFTNDK_POST_SEND_AND_INVALIDATE = 0x8002;
    /// `ProviderErrorCode` of an `NDK_RESULT_EX`, if the adapter was opened on behalf of a process: a success that
    /// satisfies an arm for solicited completions.
    SOFTNDK_RESULT_SOLICITED = 1;
    /// `ProviderErrorCode` of an `NDK_RESULT_EX`, if the adapter was opened on behalf of a process: a request with
    /// NDK_OP_FLAG_SILENT_SUCCESS has failed.
    SOFTNDK_RESULT_SILENT = 2;
    /// [`SOFTNDK_TEST_PLANT::Kind`]: allocate pool and never free it.
    SOFTNDK_TEST_PLANT_LEAK_POOL = 1;
    /// [`SOFTNDK_TEST_PLANT::Kind`]: call a PASSIVE_LEVEL function at DISPATCH_LEVEL.
    SOFTNDK_TEST_PLANT_WRONG_IRQL = 2;
    /// [`SOFTNDK_TEST_PLANT::Kind`]: clear FILE_DEVICE_SECURE_OPEN of the control device.
    SOFTNDK_TEST_PLANT_OPEN_NAMES = 3;
    /// [`SOFTNDK_ADAPTER::State`]: RDMA is on; adapters can be opened.
    SOFTNDK_ADAPTER_ENABLED = 1;
    /// [`SOFTNDK_LIST::Next`]: the list has ended.
    SOFTNDK_LIST_END = 0xFFFF_FFFF;
    /// The most table entries that the driver reads for one request for a list.
    SOFTNDK_LIST_PLACES = 4096;
    /// [`SOFTNDK_ENDPOINT::Kind`]: a listener. Established: it listens; not established: it is being closed.
    SOFTNDK_ENDPOINT_LISTENER = 1;
    /// [`SOFTNDK_ENDPOINT::Kind`]: a shared endpoint.
    SOFTNDK_ENDPOINT_SHARED = 2;
    /// [`SOFTNDK_ENDPOINT::Kind`]: the connecting side of a connection or of a connection attempt.
    SOFTNDK_ENDPOINT_ACTIVE = 3;
    /// [`SOFTNDK_ENDPOINT::Kind`]: the accepting side of a connection or of a connection attempt.
    SOFTNDK_ENDPOINT_PASSIVE = 4;
    /// [`SOFTNDK_ENDPOINT::Flags`]: a connection is established, a listener listens. Always set for a shared endpoint.
    SOFTNDK_ENDPOINT_ESTABLISHED = 1;
    /// [`SOFTNDK_ENDPOINT::Flags`]: the endpoint belongs to the process `ProcessId`; not set: to a kernel consumer.
    SOFTNDK_ENDPOINT_USER = 2;
    /// [`SOFTNDK_CABLE::State`]: the adapter has a cable. Not set: the fields below are 0, and nothing follows.
    SOFTNDK_CABLE_PRESENT = 1;
    /// [`SOFTNDK_CABLE::State`]: the link is up.
    SOFTNDK_CABLE_UP = 2;
    /// [`SOFTNDK_CABLE::ErrorKind`]: TCP/IP has refused to notify the driver of addresses.
    SOFTNDK_CABLE_ERROR_NOTIFICATIONS = 1;
    /// [`SOFTNDK_CABLE::ErrorKind`]: no other interface of the machine had the address `Local`.
    SOFTNDK_CABLE_ERROR_ADDRESS = 2;
    /// [`SOFTNDK_CABLE::ErrorKind`]: the socket could not be made or bound.
    SOFTNDK_CABLE_ERROR_OPEN = 3;
    /// [`SOFTNDK_CABLE::ErrorKind`]: Winsock Kernel has ended the socket.
    SOFTNDK_CABLE_ERROR_CLOSED = 4;
    /// [`SOFTNDK_CABLE::ErrorKind`]: Winsock Kernel did not send a datagram.
    SOFTNDK_CABLE_ERROR_SEND = 5;
    /// [`SOFTNDK_CABLE::ErrorKind`]: no other adapter of the machine has the other end of the patch cable.
    SOFTNDK_CABLE_ERROR_OTHER_END = 6;
    /// The most [`SOFTNDK_CABLE_PEER`] of a cable.
    SOFTNDK_CABLE_PEERS = 32;
    /// The most bytes of all fault rules.
    SOFTNDK_FAULT_RULES_LENGTH = 8192;
    /// The most bytes of data of a [`SOFTNDK_CAPTURE_RECORD`].
    SOFTNDK_CAPTURE_DATA = 1460;
    /// The most [`SOFTNDK_START_CAPTURE::Bytes`].
    SOFTNDK_CAPTURE_BYTES = 0x400_0000;
    /// [`SOFTNDK_CAPTURE_RECORD::Kind`]: an MPA Request or Reply, or an FPDU, in a TCP stream. `Value`: its bytes.
    SOFTNDK_CAPTURE_STREAM = 1;
    /// [`SOFTNDK_CAPTURE_RECORD::Kind`]: more of the last SOFTNDK_CAPTURE_STREAM of this source and destination.
    SOFTNDK_CAPTURE_MORE = 2;
    /// [`SOFTNDK_CAPTURE_RECORD::Kind`]: a DDP segment within the adapter, with its header; message number and the STags of
    /// a read are 0. `Value`: its bytes.
    SOFTNDK_CAPTURE_SEGMENT = 3;
    /// [`SOFTNDK_CAPTURE_RECORD::Kind`]: a connection has ended. `Value` 0: the source disconnects, 1: the destination
    /// does, 2: by an error.
    SOFTNDK_CAPTURE_ENDED = 4;
    /// [`SOFTNDK_CAPTURE_RECORD::Kind`]: a request of the source within the adapter has failed. `Value`: the NTSTATUS.
    SOFTNDK_CAPTURE_FAILED = 5;
    /// [`SOFTNDK_CAPTURE_RECORD::Kind`]: a fault rule has fired for a request of the source. `Value`: its number. The data is
    /// its text.
    SOFTNDK_CAPTURE_FAULT = 6;
    /// [`SOFTNDK_CAPTURE_RECORD::Kind`]: a message of the source begins to wait, as the destination has no receive.
    SOFTNDK_CAPTURE_NOT_READY = 7;
    /// The most [`SOFTNDK_FDB_ENTRY`] of a cable.
    SOFTNDK_CABLE_FDB = 256;
}

/// Bytes of the longest output of [`IOCTL_SOFTNDK_CABLE`].
pub const SOFTNDK_CABLE_LENGTH: usize = size_of::<SOFTNDK_CABLE>()
    + SOFTNDK_CABLE_PEERS as usize * size_of::<SOFTNDK_CABLE_PEER>()
    + SOFTNDK_CABLE_FDB as usize * size_of::<SOFTNDK_FDB_ENTRY>();

c_structs! { SOFTNDK_LAYOUTS:
    /// One work request for a queue pair. `SgeCount` [`SOFTNDK_SGE`] follow, then `InlineLength` bytes, which are the
    /// payload if `Flags` (`NDK_OP_FLAG_*`) has NDK_OP_FLAG_INLINE; `SgeCount` is 0 then.
    ///
    /// Used by: `RemoteAddress`, read and write; `RemoteToken`, read, write and send-and-invalidate; `ObjectHandle`,
    /// fast register and invalidate (the region), bind and invalidate (the window); `MrHandle`, bind (the region);
    /// `BaseVirtualAddress` and `Length`, fast register and bind.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_POST, size 0x50 {
        0x00 Version: u32,
        0x04 Operation: u32,
        0x08 QpHandle: u64,
        0x10 RequestContext: u64,
        0x18 Flags: u32,
        0x1c SgeCount: u32,
        0x20 RemoteAddress: u64,
        0x28 RemoteToken: u32,
        0x2c InlineLength: u32,
        0x30 ObjectHandle: u64,
        0x38 MrHandle: u64,
        0x40 BaseVirtualAddress: u64,
        0x48 Length: u64,
    }

    /// `Length` bytes at `Address` of the region that `Token` (a local token) names.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_SGE, size 0x10 {
        0x00 Address: u64,
        0x08 Length: u32,
        0x0c Token: u32,
    }

    /// One receive for a shared receive queue; `SgeCount` [`SOFTNDK_SGE`] follow.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_SRQ_POST, size 0x18 {
        0x00 Version: u32,
        0x04 SgeCount: u32,
        0x08 SrqHandle: u64,
        0x10 RequestContext: u64,
    }

    /// Takes at most `MaxResults` completions, and no more than the output holds.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_POLL, size 0x10 {
        0x00 Version: u32,
        0x04 MaxResults: u32,
        0x08 CqHandle: u64,
    }

    /// Interrupt moderation (NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION): the driver delays a notification until `Count`
    /// completions wait or `Interval` microseconds have passed; 0xFFFFFFFF is no limit. With 0 in either field, or a
    /// count of 1, notifications are not delayed, which is the default.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_CQ_MODERATE, size 0x18 {
        0x00 Version: u32,
        0x04 Interval: u32,
        0x08 CqHandle: u64,
        0x10 Count: u32,
        0x14 Reserved: u32,
    }

    /// A completion: `NDK_RESULT_EX`, with the handle of the queue pair. `Type` is an
    /// [`NDK_OPERATION_TYPE`](crate::ndkpi::NDK_OPERATION_TYPE), `Output` the token of a receive-and-invalidate.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_RESULT, size 0x28 {
        0x00 Status: NTSTATUS,
        0x04 BytesTransferred: u32,
        0x08 QpHandle: u64,
        0x10 RequestContext: u64,
        0x18 Type: u32,
        0x1c ProviderErrorCode: u32,
        0x20 Output: u64,
    }

    /// Pins `Length` bytes at `Address` of the calling process for a fast-register region; a posted fast register then
    /// makes the bytes accessible. `RemoteAccess` 0: never to peers; 1: also to peers, if the flags of the fast
    /// register say so.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_FAST_MR_CREATE, size 0x20 {
        0x00 Version: u32,
        0x04 RemoteAccess: u32,
        0x08 PdHandle: u64,
        0x10 Address: u64,
        0x18 Length: u64,
    }

    /// A fast-register region.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_FAST_MR, size 0x10 {
        0x00 MrHandle: u64,
        0x08 LocalToken: u32,
        0x0c RemoteToken: u32,
    }

    /// Output of [`IOCTL_ND_MR_REGISTER`](crate::nd_ioctl::IOCTL_ND_MR_REGISTER), which the protocol leaves to the
    /// driver; `ndfltr` has the same layout. If the output buffer is too small, the request succeeds without it:
    /// [`IOCTL_SOFTNDK_MR_QUERY`] returns the tokens.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_MR_TOKENS, size 0x8 {
        0x00 LocalToken: u32,
        0x04 RemoteToken: u32,
    }

    /// The token that a bind gave its window. Peers can use it once the bind has completed.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_MW_TOKEN, size 0x8 {
        0x00 RemoteToken: u32,
        0x04 Reserved: u32,
    }

    /// Identifies the provider context of an open file to the other files of its process.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_FILE_ID, size 0x8 {
        0x00 Id: u64,
    }

    /// Asks for [`SOFTNDK_DIAGNOSTICS`].
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_DIAGNOSTICS_QUERY, size 0x8 {
        0x00 Version: u32,
        0x04 Reserved: u32,
    }

    /// Of the adapter: open files but for those that capture, live objects by kind, and requests not yet completed. Of the
    /// driver: bytes of pinned memory and of pool. `Size` is the size of this structure, `DriverVersion` major to revision. `Requests` counts the control
    /// codes ever received, except IOCTL_SOFTNDK_DIAGNOSTICS, IOCTL_SOFTNDK_COUNTERS to IOCTL_SOFTNDK_ENDPOINTS,
    /// IOCTL_SOFTNDK_CABLE, IOCTL_SOFTNDK_FAULT_RULES and IOCTL_SOFTNDK_CAPTURE; `Doorbells` counts the doorbells among
    /// them.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_DIAGNOSTICS, size 0x60 {
        0x00 Version: u32,
        0x04 Size: u32,
        0x08 DriverVersion: [u16; 4],
        0x10 Files: u32,
        0x14 Adapters: u32,
        0x18 Pds: u32,
        0x1c Cqs: u32,
        0x20 Mrs: u32,
        0x24 Mws: u32,
        0x28 Srqs: u32,
        0x2c Qps: u32,
        0x30 Connectors: u32,
        0x34 Listeners: u32,
        0x38 SharedEndpoints: u32,
        0x3c PendedRequests: u32,
        0x40 PinnedBytes: u64,
        0x48 PoolBytes: u64,
        0x50 Requests: u64,
        0x58 Doorbells: u64,
    }

    /// A counter of the adapter, counted since the adapter was started: its name, padded with zeros, and its value.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_COUNTER, size 0x28 {
        0x00 Name: [u8; 32],
        0x20 Value: u64,
    }

    /// A fault rule: its text in UTF-8, padded with zeros; the requests that passed its point and agree with its filters,
    /// and those of them at which it fired.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_FAULT_RULE, size 0xb0 {
        0x00 Passed: u64,
        0x08 Fired: u64,
        0x10 Text: [u8; 160],
    }

    /// What a capture has: connections with `Port` (0: all), `Snap` bytes of the data of each segment or FPDU at most. Records
    /// for which `Bytes` have no room are dropped.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_START_CAPTURE, size 0x10 {
        0x00 Version: u32,
        0x04 Snap: u32,
        0x08 Bytes: u32,
        0x0c Port: u16,
        0x0e Reserved: u16,
    }

    /// A part of a capture: `Count` records follow. `Dropped`: records that found no room so far.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_CAPTURE, size 0x10 {
        0x00 Version: u32,
        0x04 Count: u32,
        0x08 Dropped: u64,
    }

    /// A record of a capture: when it was made (in units of 100 ns since 1601 in UTC), what it is
    /// (`SOFTNDK_CAPTURE_STREAM` ...), the bytes of data that follow it, and those that SOFTNDK_CAPTURE_MORE records have
    /// yet. An address that is not known has port 0.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_CAPTURE_RECORD, size 0x50 {
        0x00 Time: u64,
        0x08 Kind: u32,
        0x0c Value: u32,
        0x10 Captured: u32,
        0x14 Left: u32,
        0x18 Source: SOCKADDR_INET,
        0x34 Destination: SOCKADDR_INET,
    }

    /// The adapter behind the control device: its NET_LUID, whether RDMA is on, the most objects of each kind
    /// (`Max..Count`), and the fields of `NDK_ADAPTER_INFO` by their names.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_ADAPTER, size 0x90 {
        0x00 Version: u32,
        0x04 Size: u32,
        0x08 AdapterId: u64,
        0x10 State: u32,
        0x14 NdkVersionMajor: u16,
        0x16 NdkVersionMinor: u16,
        0x18 MaxPdCount: u32,
        0x1c MaxCqCount: u32,
        0x20 MaxMrCount: u32,
        0x24 MaxMwCount: u32,
        0x28 MaxSrqCount: u32,
        0x2c MaxQpCount: u32,
        0x30 VendorId: u32,
        0x34 DeviceId: u32,
        0x38 MaxRegistrationSize: u64,
        0x40 MaxWindowSize: u64,
        0x48 FRMRPageCount: u32,
        0x4c MaxInitiatorRequestSge: u32,
        0x50 MaxReceiveRequestSge: u32,
        0x54 MaxReadRequestSge: u32,
        0x58 MaxTransferLength: u32,
        0x5c MaxInlineDataSize: u32,
        0x60 MaxInboundReadLimit: u32,
        0x64 MaxOutboundReadLimit: u32,
        0x68 MaxReceiveQueueDepth: u32,
        0x6c MaxInitiatorQueueDepth: u32,
        0x70 MaxSrqDepth: u32,
        0x74 MaxCqDepth: u32,
        0x78 LargeRequestThreshold: u32,
        0x7c MaxCallerData: u32,
        0x80 MaxCalleeData: u32,
        0x84 AdapterFlags: u32,
        0x88 RdmaTechnology: u32,
        0x8c Reserved: u32,
    }

    /// Asks for a part of a list, from table index `Start` on: 0, or `Next` of the previous part.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_LIST_QUERY, size 0x8 {
        0x00 Version: u32,
        0x04 Start: u32,
    }

    /// A part of a list: `Count` entries of `EntrySize` bytes follow. `Next` is the `Start` of the next part, or
    /// SOFTNDK_LIST_END; a part may have no entries and still not be the last. Endpoints that appear or disappear
    /// between two parts may be missing; a connection attempt may be in both, once with port 0, if TCP picks its port
    /// in between.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_LIST, size 0x10 {
        0x00 Version: u32,
        0x04 EntrySize: u32,
        0x08 Count: u32,
        0x0c Next: u32,
    }

    /// An address in use. `Kind` is SOFTNDK_ENDPOINT_LISTENER to SOFTNDK_ENDPOINT_PASSIVE, `Flags` has
    /// SOFTNDK_ENDPOINT_ESTABLISHED and _USER. `Remote` is zero for a listener or a shared endpoint.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_ENDPOINT, size 0x44 {
        0x00 Kind: u32,
        0x04 Flags: u32,
        0x08 ProcessId: u32,
        0x0c Local: SOCKADDR_INET,
        0x28 Remote: SOCKADDR_INET,
    }

    /// The cable of the adapter, with its UDP port in `Local`, and its counts since the adapter was started. `Mtu`:
    /// the most bytes of a frame's payload. `ErrorStatus`, `ErrorKind` (SOFTNDK_CABLE_ERROR_*) and `ErrorAge`, in
    /// seconds: the last error; `ErrorKind` is 0 if there was none.
    ///
    /// `FramesOut` counts frames that were queued for a peer, `FramesIn` frames that NDIS got. `In..` and `Out..` count
    /// what was dropped, by reason. In, datagrams: of no peer; without a VXLAN header that has a VNI; of another VNI;
    /// shorter than an Ethernet header; longer than `Mtu` allows; with a VLAN tag; from a group or from 0; from the
    /// adapter's own address; with no free NET_BUFFER_LIST; whose data could not be mapped; not wanted by the packet
    /// filter; while the adapter was paused. Out: frames with a VLAN tag; frames with an IP packet for a peer's address;
    /// frames while the link was down, and datagrams that waited when it went down; segments that were more than there are
    /// slots; datagrams whose data could not be mapped; datagrams that Winsock Kernel did not send.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_CABLE, size 0xe8 {
        0x00 Version: u32,
        0x04 Size: u32,
        0x08 State: u32,
        0x0c Vni: u32,
        0x10 Local: SOCKADDR_INET,
        0x2c Mtu: u32,
        0x30 PeerCount: u32,
        0x34 FdbCount: u32,
        0x38 ErrorStatus: NTSTATUS,
        0x3c ErrorKind: u32,
        0x40 ErrorAge: u32,
        0x44 Reserved: u32,
        0x48 FramesOut: u64,
        0x50 FramesIn: u64,
        0x58 InStranger: u64,
        0x60 InNotVxlan: u64,
        0x68 InOtherVni: u64,
        0x70 InShort: u64,
        0x78 InLong: u64,
        0x80 InVlanTag: u64,
        0x88 InInvalidSource: u64,
        0x90 InOwnAddress: u64,
        0x98 InNoList: u64,
        0xa0 InNotMapped: u64,
        0xa8 InNotWanted: u64,
        0xb0 InPaused: u64,
        0xb8 OutVlanTag: u64,
        0xc0 OutCircularRoute: u64,
        0xc8 OutLinkDown: u64,
        0xd0 OutNoSlot: u64,
        0xd8 OutNotMapped: u64,
        0xe0 OutNotSent: u64,
    }

    /// A peer of the cable, with port 0: the datagrams that Winsock Kernel has sent to it, and all that came from it.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_CABLE_PEER, size 0x30 {
        0x00 Address: SOCKADDR_INET,
        0x1c Reserved: u32,
        0x20 Sent: u64,
        0x28 Received: u64,
    }

    /// An address of the forwarding database: behind which peer its station is, as a place in the list of peers, and
    /// the seconds since the peer has sent the station's last frame.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_FDB_ENTRY, size 0x10 {
        0x00 MacAddress: [u8; 6],
        0x06 Reserved: u16,
        0x08 Peer: u32,
        0x0c Age: u32,
    }

    /// Runs a scenario of the test consumer in the driver, with both ends on the one device. For the numbers see
    /// `Scenario` of `tests/clients/smb-direct`.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_TEST_SMB_DIRECT, size 0x8 {
        0x00 Version: u32,
        0x04 Scenario: u32,
    }

    /// The result of a scenario: STATUS_SUCCESS, or the error of the step that failed (`Step` of
    /// `tests/clients/smb-direct`, 0 for the end). The counts are over both ends; bytes are counted after they were
    /// checked.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_TEST_SMB_DIRECT_RESULT, size 0x70 {
        0x00 Version: u32,
        0x04 Scenario: u32,
        0x08 Status: NTSTATUS,
        0x0c Step: u32,
        0x10 BytesWritten: u64,
        0x18 BytesRead: u64,
        0x20 BytesEchoed: u64,
        0x28 MessagesSent: u64,
        0x30 MessagesReceived: u64,
        0x38 CreditStalls: u64,
        0x40 QueueStalls: u64,
        0x48 Keepalives: u64,
        0x50 RemoteInvalidations: u64,
        0x58 LocalInvalidations: u64,
        0x60 Cancelled: u64,
        0x68 Connections: u64,
    }

    /// Plants a fault, as a negative control of the leak and IRQL checks.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_TEST_PLANT, size 0x8 {
        0x00 Version: u32,
        0x04 Kind: u32,
    }
}

impl SOFTNDK_LIST {
    /// Reads the answer to a request for a list of `T`: its head, and its entries. `None`: it is no such list.
    #[must_use]
    pub fn read<T: FromBytes>(answer: &[u8]) -> Option<(Self, impl Iterator<Item = T>)> {
        let (head, entries) = Self::read_from_prefix(answer).ok()?;
        let size = size_of::<T>();
        let is_whole = head.EntrySize as usize == size && entries.len() == head.Count as usize * size;
        is_whole.then(|| (head, entries.chunks_exact(size).map_while(|entry| T::read_from_bytes(entry).ok())))
    }
}
