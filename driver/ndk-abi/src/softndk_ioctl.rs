//! SoftNDK's own control codes, beside the published protocol, which has none to post and to poll.
//!
//! Buffered, on a handle open for reading and writing. Inputs start with `Version` = [`SOFTNDK_IOCTL_VERSION`].
//! Handles are those of [`crate::nd_ioctl`], per file.
#![allow(missing_docs, reason = "pure layouts, described per structure")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::nd_ioctl::{FILE_DEVICE_NETWORK, FILE_READ_DATA, FILE_WRITE_DATA, METHOD_BUFFERED, ctl_code};
use crate::sockaddr::SOCKADDR_INET;
use crate::status::NTSTATUS;

pub use crate::softndk_link::*;

/// The device, as user programs open it.
pub const SOFTNDK_DEVICE_PATH: &str = r"\\.\SoftNdk";

/// The code of one of our operations: function 0x800 + operation.
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
    /// In: [`SOFTNDK_TEST_PLANT`]. Out: nothing. Only in drivers built to be caught.
    IOCTL_SOFTNDK_TEST_PLANT = softndk_control_code(5);
    /// In: [`SOFTNDK_TEST_SMB_DIRECT`]. Out: [`SOFTNDK_TEST_SMB_DIRECT_RESULT`]. STATUS_NOT_SUPPORTED: the driver was built
    /// without the test consumer; STATUS_INVALID_PARAMETER: no such scenario; STATUS_DEVICE_BUSY: one is running. Completes when the
    /// scenario is over.
    IOCTL_SOFTNDK_TEST_SMB_DIRECT = softndk_control_code(6);
    /// In: [`SOFTNDK_CQ_MODERATE`]. Out: nothing. STATUS_INVALID_PARAMETER_MIX: no limit at all.
    IOCTL_SOFTNDK_CQ_MODERATE = softndk_control_code(7);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) of an object with rings. Out: nothing. See [`crate::softndk_ring`].
    IOCTL_SOFTNDK_DOORBELL = softndk_control_code(8);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) of a region. Out: [`SOFTNDK_MR_TOKENS`]. STATUS_INVALID_DEVICE_STATE: not
    /// registered.
    IOCTL_SOFTNDK_MR_QUERY = softndk_control_code(9);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) with a handle of 0. Out: [`SOFTNDK_FILE_ID`].
    IOCTL_SOFTNDK_FILE_ID = softndk_control_code(10);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) with the identifier of a file as its handle. Out: nothing. As
    /// IOCTL_ND_PROVIDER_BIND_FILE, but sent on the second file, and by the identifier of the first. STATUS_INVALID_HANDLE: no
    /// file that the process opened has it; STATUS_INVALID_DEVICE_STATE: the second file is in use already.
    IOCTL_SOFTNDK_ATTACH = softndk_control_code(11);
    /// In: [`SOFTNDK_LIST_QUERY`]. Out: [`SOFTNDK_LIST`] of [`SOFTNDK_COUNTER`]. As the other three below: on any file, at any time,
    /// read-only; STATUS_BUFFER_OVERFLOW, with the length needed: the output is too short.
    IOCTL_SOFTNDK_COUNTERS = softndk_control_code(12);
    /// In: [`SOFTNDK_DIAGNOSTICS_QUERY`]. Out: [`SOFTNDK_ADAPTER`].
    IOCTL_SOFTNDK_ADAPTER = softndk_control_code(13);
    /// In: [`SOFTNDK_LIST_QUERY`]. Out: [`SOFTNDK_LIST`] of [`SOCKADDR_INET`], the addresses of the adapter, ports 0.
    IOCTL_SOFTNDK_ADDRESSES = softndk_control_code(14);
    /// In: [`SOFTNDK_LIST_QUERY`]. Out: [`SOFTNDK_LIST`] of [`SOFTNDK_ENDPOINT`], of the whole adapter.
    IOCTL_SOFTNDK_ENDPOINTS = softndk_control_code(15);
    /// In: [`ND_HANDLE`](crate::nd_ioctl::ND_HANDLE) with a handle of 0. Out: nothing. Does nothing, pends, and succeeds: so that a
    /// program is told by its overlapped file of what another file was asked to do.
    IOCTL_SOFTNDK_NOP = softndk_control_code(16);
    /// In: [`SOFTNDK_TEST_LINK`], bytes. Out: [`SOFTNDK_TEST_LINK_RESULT`], bytes. STATUS_NOT_SUPPORTED: the driver was built
    /// without the test consumer; STATUS_DEVICE_BUSY: another file has the link, another request works with it, or a scenario runs;
    /// STATUS_INVALID_DEVICE_STATE: the file has none, or has it already; STATUS_BUFFER_TOO_SMALL: the message that is next is longer.
    /// Waits only where it connects, accepts and closes, 30 s for each thing at most.
    IOCTL_SOFTNDK_TEST_LINK = softndk_control_code(17);
}

c_consts! { SOFTNDK_NUMBERS: u32;
    /// The first field of every input.
    SOFTNDK_IOCTL_VERSION = 1;
    /// [`SOFTNDK_POST::Operation`]: send-and-invalidate. All others are values of
    /// [`NDK_OPERATION_TYPE`](crate::ndkpi::NDK_OPERATION_TYPE).
    SOFTNDK_POST_SEND_AND_INVALIDATE = 0x8002;
    /// `ProviderErrorCode` of an `NDK_RESULT_EX` of an adapter that was opened on behalf of a process: a success that satisfies a
    /// request for a solicited notification.
    SOFTNDK_RESULT_SOLICITED = 1;
    /// The same: a request with NDK_OP_FLAG_SILENT_SUCCESS has failed.
    SOFTNDK_RESULT_SILENT = 2;
    /// [`SOFTNDK_TEST_PLANT::Kind`]: allocate pool and never free it.
    SOFTNDK_TEST_PLANT_LEAK_POOL = 1;
    /// [`SOFTNDK_TEST_PLANT::Kind`]: call a PASSIVE_LEVEL function at DISPATCH_LEVEL.
    SOFTNDK_TEST_PLANT_WRONG_IRQL = 2;
    /// [`SOFTNDK_TEST_PLANT::Kind`]: take FILE_DEVICE_SECURE_OPEN from the control device.
    SOFTNDK_TEST_PLANT_OPEN_NAMES = 3;
    /// [`SOFTNDK_ADAPTER::State`]: RDMA is on; adapters can be opened.
    SOFTNDK_ADAPTER_ENABLED = 1;
    /// [`SOFTNDK_LIST::Next`]: there is nothing more.
    SOFTNDK_LIST_END = 0xFFFF_FFFF;
    /// Places of the driver's tables that one request for a list looks at, at most.
    SOFTNDK_LIST_PLACES = 4096;
    /// [`SOFTNDK_ENDPOINT::Kind`]: a listener. Established: it listens; else it is being closed.
    SOFTNDK_ENDPOINT_LISTENER = 1;
    /// [`SOFTNDK_ENDPOINT::Kind`]: a shared endpoint.
    SOFTNDK_ENDPOINT_SHARED = 2;
    /// [`SOFTNDK_ENDPOINT::Kind`]: the side of a connection, or of an attempt at one, that connects.
    SOFTNDK_ENDPOINT_ACTIVE = 3;
    /// [`SOFTNDK_ENDPOINT::Kind`]: the side of a connection, or of an attempt at one, that accepts.
    SOFTNDK_ENDPOINT_PASSIVE = 4;
    /// [`SOFTNDK_ENDPOINT::Flags`]: a connection is established, a listener listens. Always set for a shared endpoint.
    SOFTNDK_ENDPOINT_ESTABLISHED = 1;
    /// [`SOFTNDK_ENDPOINT::Flags`]: of the process `ProcessId`; else of the kernel.
    SOFTNDK_ENDPOINT_USER = 2;
}

c_structs! { SOFTNDK_LAYOUTS:
    /// One work request for a queue pair. `SgeCount` [`SOFTNDK_SGE`] follow, then `InlineLength` bytes, which are the
    /// payload if `Flags` (`NDK_OP_FLAG_*`) has NDK_OP_FLAG_INLINE; `SgeCount` is 0 then.
    ///
    /// `RemoteAddress`: read, write. `RemoteToken`: read, write, send-and-invalidate. `ObjectHandle`: the region of a
    /// fast register, the window of a bind, either of an invalidate. `MrHandle`: the region of a bind.
    /// `BaseVirtualAddress` and `Length`: fast register, bind.
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

    /// Has notifications held back until `Count` completions wait or `Interval` microseconds are over; 0xFFFFFFFF is no
    /// limit. 0 in either, or a count of 1: they are not held back, as is the default. NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION.
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

    /// Pins `Length` bytes at `Address` of the calling process for a fast-register region; a post of a fast register
    /// then makes them accessible. `RemoteAccess` 1: peers may be let in, 0: never.
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
    /// driver; `ndfltr` has the same layout. Not given if there is no room for it: then see [`IOCTL_SOFTNDK_MR_QUERY`].
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_MR_TOKENS, size 0x8 {
        0x00 LocalToken: u32,
        0x04 RemoteToken: u32,
    }

    /// The token that a bind gave its window: the peer's from the completion of the bind on.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_MW_TOKEN, size 0x8 {
        0x00 RemoteToken: u32,
        0x04 Reserved: u32,
    }

    /// Names the provider context of an open file to others of its process.
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

    /// What is alive in the whole driver: objects by kind, requests not yet completed, pinned and pool memory in bytes.
    /// `Size` is that of this structure, `DriverVersion` major to revision. `Requests` and `Doorbells`: control codes ever
    /// received, this code aside, and how many of them were doorbells.
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

    /// A counter of the adapter since that was started: its name, with zeros behind it, and its value.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_COUNTER, size 0x28 {
        0x00 Name: [u8; 32],
        0x20 Value: u64,
    }

    /// The adapter that the device serves: its NET_LUID, whether RDMA is on, how many objects it has at most (`Max..Count`), and what
    /// `NDK_ADAPTER_INFO` says of them, by the same names.
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

    /// Asks for a part of a list: what is from place `Start` of the driver's table on, 0 or `Next` of the part before.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_LIST_QUERY, size 0x8 {
        0x00 Version: u32,
        0x04 Start: u32,
    }

    /// A part of a list: `Count` entries of `EntrySize` bytes follow. There may be none, and still more to come: `Next` is where to go
    /// on, or SOFTNDK_LIST_END. What comes or goes between two parts may be missing; an attempt to connect
    /// may be in both, once with port 0, when TCP picks its port.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_LIST, size 0x10 {
        0x00 Version: u32,
        0x04 EntrySize: u32,
        0x08 Count: u32,
        0x0c Next: u32,
    }

    /// An address in use: `Kind` SOFTNDK_ENDPOINT_LISTENER to SOFTNDK_ENDPOINT_PASSIVE, `Flags` SOFTNDK_ENDPOINT_ESTABLISHED and _USER.
    /// `Remote` is zero unless it is a side of a connection.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_ENDPOINT, size 0x44 {
        0x00 Kind: u32,
        0x04 Flags: u32,
        0x08 ProcessId: u32,
        0x0c Local: SOCKADDR_INET,
        0x28 Remote: SOCKADDR_INET,
    }

    /// Has the test consumer in the driver perform a scenario, against itself. Their numbers: `Scenario` of `tests/clients/smb-direct`.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_TEST_SMB_DIRECT, size 0x8 {
        0x00 Version: u32,
        0x04 Scenario: u32,
    }

    /// How a scenario ended: STATUS_SUCCESS, or why the step (`Step` of `tests/clients/smb-direct`, 0 for the end) failed; and what was
    /// done, counted over both ends. Bytes are those that were checked.
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

    /// A planted fault, for the negative controls of the leak and IRQL checks.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_TEST_PLANT, size 0x8 {
        0x00 Version: u32,
        0x04 Kind: u32,
    }
}
