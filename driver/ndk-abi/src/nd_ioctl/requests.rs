//! The inputs and outputs of the control codes, in order of resource. An input starts with its version, 1. A handle is
//! an index into a table that the driver keeps for the file.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::sockaddr::SOCKADDR_INET;
use crate::wdm::GROUP_AFFINITY;

c_structs! { REQUEST_LAYOUTS:
    /// The input of requests that name one object.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_HANDLE, size 0x10 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 Handle: u64,
    }

    /// Asks for the adapter that owns a local address.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_RESOLVE_ADDRESS, size 0x24 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 Address: SOCKADDR_INET,
    }

    /// Opens an adapter by its identifier.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_OPEN_ADAPTER, size 0x18 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 CeMappingCount: u32,
        0x0c CbMappingsOffset: u32,
        0x10 AdapterId: u64,
    }

    /// `InfoVersion` is [`ND_VERSION_2`](super::ND_VERSION_2).
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_ADAPTER_QUERY, size 0x10 {
        0x00 Version: u32,
        0x04 InfoVersion: u32,
        0x08 AdapterHandle: u64,
    }

    /// A new object; `CeMappingResults` [`ND_MAPPING_RESULT`](super::ND_MAPPING_RESULT) lie at
    /// `CbMappingResultsOffset` of the output.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_RESOURCE_DESCRIPTOR, size 0x10 {
        0x00 Handle: u64,
        0x08 CeMappingResults: u32,
        0x0c CbMappingResultsOffset: u32,
    }

    /// Creates a completion queue of at least `QueueDepth` entries.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_CREATE_CQ, size 0x28 {
        0x00 Version: u32,
        0x04 QueueDepth: u32,
        0x08 CeMappingCount: u32,
        0x0c CbMappingsOffset: u32,
        0x10 AdapterHandle: u64,
        0x18 Affinity: GROUP_AFFINITY,
    }

    /// Resizes a completion queue.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_CQ_MODIFY, size 0x18 {
        0x00 Version: u32,
        0x04 QueueDepth: u32,
        0x08 CeMappingCount: u32,
        0x0c CbMappingsOffset: u32,
        0x10 CqHandle: u64,
    }

    /// Arms a completion queue; the request is pending until the queue notifies. `Type` is an arm type of NDKPI.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_CQ_NOTIFY, size 0x10 {
        0x00 Version: u32,
        0x04 Type: u32,
        0x08 CqHandle: u64,
    }

    /// Creates a shared receive queue; a threshold of 0 turns notification off.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_CREATE_SRQ, size 0x30 {
        0x00 Version: u32,
        0x04 QueueDepth: u32,
        0x08 CeMappingCount: u32,
        0x0c CbMappingsOffset: u32,
        0x10 MaxRequestSge: u32,
        0x14 NotifyThreshold: u32,
        0x18 PdHandle: u64,
        0x20 Affinity: GROUP_AFFINITY,
    }

    /// Modifies a shared receive queue; 0 leaves a value as it is.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_SRQ_MODIFY, size 0x20 {
        0x00 Version: u32,
        0x04 QueueDepth: u32,
        0x08 CeMappingCount: u32,
        0x0c CbMappingsOffset: u32,
        0x10 NotifyThreshold: u32,
        0x14 Reserved: u32,
        0x18 SrqHandle: u64,
    }

    /// The start of both requests that create a queue pair.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_CREATE_QP_HDR, size 0x30 {
        0x00 Version: u32,
        0x04 CbMaxInlineData: u32,
        0x08 CeMappingCount: u32,
        0x0c CbMappingsOffset: u32,
        0x10 InitiatorQueueDepth: u32,
        0x14 MaxInitiatorRequestSge: u32,
        0x18 ReceiveCqHandle: u64,
        0x20 InitiatorCqHandle: u64,
        0x28 PdHandle: u64,
    }

    /// Creates a queue pair with a receive queue of its own.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_CREATE_QP, size 0x38 {
        0x00 Header: ND_CREATE_QP_HDR,
        0x30 ReceiveQueueDepth: u32,
        0x34 MaxReceiveRequestSge: u32,
    }

    /// Creates a queue pair on a shared receive queue.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_CREATE_QP_WITH_SRQ, size 0x38 {
        0x00 Header: ND_CREATE_QP_HDR,
        0x30 SrqHandle: u64,
    }

    /// The start of a registration. Peers use the addresses from `TargetAddress` on, `CbLength` bytes; `Flags` are
    /// `ND_MR_FLAG_*`.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_MR_REGISTER_HDR, size 0x20 {
        0x00 Version: u32,
        0x04 Flags: u32,
        0x08 CbLength: u64,
        0x10 TargetAddress: u64,
        0x18 MrHandle: u64,
    }

    /// Registers `CbLength` bytes at `Address` of the caller's process.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_MR_REGISTER, size 0x28 {
        0x00 Header: ND_MR_REGISTER_HDR,
        0x20 Address: u64,
    }

    /// Binds a connector or a listener to a local address.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_BIND, size 0x30 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 Handle: u64,
        0x10 Address: SOCKADDR_INET,
        0x2c Padding0: [u8; 4],
    }

    /// The most reads in progress at once: started by the peer (`Inbound`) and by this side (`Outbound`).
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_READ_LIMITS, size 0x8 {
        0x00 Inbound: u32,
        0x04 Outbound: u32,
    }

    /// Connects; `CbPrivateDataLength` bytes lie at `CbPrivateDataOffset` of the input. Pends until the peer answers
    /// or the attempt fails.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_CONNECT, size 0x68 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 ReadLimits: ND_READ_LIMITS,
        0x10 CbPrivateDataLength: u32,
        0x14 CbPrivateDataOffset: u32,
        0x18 ConnectorHandle: u64,
        0x20 QpHandle: u64,
        0x28 DestinationAddress: SOCKADDR_INET,
        0x44 DestinationHwAddress: IF_PHYSICAL_ADDRESS,
        0x66 Padding0: [u8; 2],
    }

    /// Accepts; `CbPrivateDataLength` bytes lie at `CbPrivateDataOffset` of the input. Pends until the peer has
    /// completed the connect, or the connection has failed.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_ACCEPT, size 0x28 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 ReadLimits: ND_READ_LIMITS,
        0x10 CbPrivateDataLength: u32,
        0x14 CbPrivateDataOffset: u32,
        0x18 ConnectorHandle: u64,
        0x20 QpHandle: u64,
    }

    /// Rejects, on the connecting or the accepting side; private data as in [`ND_ACCEPT`].
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_REJECT, size 0x18 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 CbPrivateDataLength: u32,
        0x0c CbPrivateDataOffset: u32,
        0x10 ConnectorHandle: u64,
    }

    /// Starts listening; a backlog of 0 has no limit.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_LISTEN, size 0x10 {
        0x00 Version: u32,
        0x04 Backlog: u32,
        0x08 ListenerHandle: u64,
    }

    /// Waits for a connection request and gives it to the connector. The request is pending until a peer connects.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND_GET_CONNECTION_REQUEST, size 0x18 {
        0x00 Version: u32,
        0x04 Reserved: u32,
        0x08 ListenerHandle: u64,
        0x10 ConnectorHandle: u64,
    }

    /// A hardware address: `Length` of the bytes count.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct IF_PHYSICAL_ADDRESS, size 0x22 {
        0x00 Length: u16,
        0x02 Address: [u8; 32],
    }
}
