//! Violations that the report must name: rules of which a mere count would not say that each was checked.

/// Structures of a miniport, but for attributes, with a type of their own.
const STRUCTURES: [&str; 9] = [
    "NDIS_MINIPORT_DRIVER_CHARACTERISTICS",
    "NDIS_NDK_PROVIDER_CHARACTERISTICS",
    "NDIS_NDK_CAPABILITIES",
    "NDIS_DEVICE_OBJECT_ATTRIBUTES",
    "NDIS_CONFIGURATION_OBJECT",
    "NET_PNP_EVENT_NOTIFICATION",
    "NDIS_STATUS_INDICATION",
    "NDIS_LINK_STATE",
    "NET_BUFFER_LIST_POOL_PARAMETERS",
];
/// Their type is what says which they are.
const ATTRIBUTES: [&str; 4] = [
    "NDIS_MINIPORT_ADAPTER_REGISTRATION_ATTRIBUTES",
    "NDIS_MINIPORT_ADAPTER_GENERAL_ATTRIBUTES",
    "NDIS_MINIPORT_ADAPTER_NDK_ATTRIBUTES",
    "NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES",
];
/// Mandatory OIDs (network/mandatory-oids-for-miniport-drivers, network/ndk-oids), in the order in which the report lists them.
const MANDATORY: [u32; 19] = [
    0x0001_010F, // OID_GEN_CURRENT_LOOKAHEAD
    0x0001_010E, // OID_GEN_CURRENT_PACKET_FILTER
    0x0001_0209, // OID_GEN_INTERRUPT_MODERATION
    0x0001_0208, // OID_GEN_LINK_PARAMETERS
    0x0001_0111, // OID_GEN_MAXIMUM_TOTAL_SIZE
    0x0001_010B, // OID_GEN_RECEIVE_BLOCK_SIZE
    0x0001_0109, // OID_GEN_RECEIVE_BUFFER_SPACE
    0x0002_0106, // OID_GEN_STATISTICS
    0x0001_010A, // OID_GEN_TRANSMIT_BLOCK_SIZE
    0x0001_0108, // OID_GEN_TRANSMIT_BUFFER_SPACE
    0x0001_010D, // OID_GEN_VENDOR_DESCRIPTION
    0x0001_0116, // OID_GEN_VENDOR_DRIVER_VERSION
    0x0001_010C, // OID_GEN_VENDOR_ID
    0x0002_0101, // OID_GEN_XMIT_OK
    0x0002_0102, // OID_GEN_RCV_OK
    0xFC04_0201, // OID_NDK_SET_STATE
    0xFC04_0202, // OID_NDK_STATISTICS
    0xFC04_0203, // OID_NDK_CONNECTIONS
    0xFC04_0204, // OID_NDK_LOCAL_ENDPOINTS
];
/// Those that set something, and one that a miniport without a link to set up may refuse.
const SETS: [u32; 3] = [0x0001_010F, 0x0001_010E, 0xFC04_0201];
const MAY_BE_REFUSED: u32 = 0x0001_0208;
/// OIDs whose answer is a structure, with its size.
const STRUCTURED: [(u32, u32); 5] =
    [(0x0001_0209, 0x0C), (0x0002_0106, 0x98), (0xFC04_0202, 0xF8), (0xFC04_0203, 0x10), (0xFC04_0204, 0x10)];

/// Parts of their texts.
pub(crate) fn violations() -> Vec<String> {
    let mut texts: Vec<String> = [
        "NDK attributes before general attributes",
        "general attributes before registration attributes",
        "offload attributes before general attributes",
        "offload attributes without their OIDs in the list",
        "a large send that says 0x422005b4",
        "a large send while they are off was completed with",
        "a large send with its TCP header elsewhere was completed with",
        "OID 0x0101010a: a set ended with",
        "OID 0xfc01020c: a set ended with",
        "OID 0xfc01020c: 0 times NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG after",
        "NdisMSetMiniportAttributes: unknown header type",
        "NDIS_MINIPORT_DRIVER_CHARACTERISTICS: revision 3 does not go with NDIS 6.60",
        "NDIS_MINIPORT_DRIVER_CHARACTERISTICS: required handlers missing: HaltHandlerEx",
        "a frame, and one of 13 bytes, were completed",
        "a frame, and one of 1515 bytes, were completed",
        "OID_GEN_STATISTICS: two frames of a wrong length are not two errors",
        "NdisMIndicateReceiveNetBufferLists: a frame of 13 bytes",
        "NdisMIndicateReceiveNetBufferLists: a frame of 1515 bytes",
        "OID 0xfd010101: set failed",
        "OID 0xfd010102: query failed",
        "when the computer woke up, MiniportInitializeEx returned",
        "NdisMIndicateStatusEx: not an adapter's handle",
        "an NDK adapter was opened when its device had gone",
        "a file that has been cleaned up has requests that do not end",
        "cannot be shared with the driver, nor locked",
        "ExFreeCacheAwareRundownProtection called above IRQL 1",
        "ExWaitForRundownProtectionRelease called above IRQL 1",
        "EtwRegister called above IRQL 0",
        "no release of KMDF has 437 functions",
        "an OID request was not completed within 12 s",
        "no send was completed for 22 s",
        "an overlapped request ended in its dispatch routine with the warning 0x80000005",
        "WskRegister called above IRQL 0",
        "WskBind: the IRP has no completion routine",
        "WskBind: the IRP's completion routine is not to be called whatever comes",
        "a completion routine of a WSK request did not return STATUS_MORE_PROCESSING_REQUIRED",
        "WskGetLocalAddress called by a completion routine",
        "WskConnect: the Connection is Made",
        "WskBind: no such socket, or it is closed",
        "WskSend: the buffer is longer than its MDLs by 1 bytes",
        "WskSend: of 1000 sends no two were under way on one socket",
        "WskSocket: an owner that is not the system process",
        "WskCloseSocket: no such socket, or it is closed",
        "WskGetLocalAddress: no such socket, or it is closed",
        "WskSend: after WskDisconnect",
        "WskDisconnect: again",
        "WskConnect: the socket is a Datagram",
        "WskSendMessages: the Datagram is Made",
        "WskControlSocket: callbacks are enabled by an IRP",
        "WskControlSocket: the NpiId is not WSK's",
        "WskControlSocket: the input is no WSK_EVENT_CALLBACK_CONTROL",
        "WskControlSocket: the Datagram is Made",
        "WskControlSocket: the socket has no WskReceiveFromEvent",
        "WskControlSocket: the EventMask is not WSK_EVENT_RECEIVE_FROM",
        "WskControlSocket called above IRQL 2",
        "WskSendMessages: the buffer is longer than its MDLs by 1 bytes",
        "WskSendMessages: no address, or one of another family",
        "WskSendMessages: no datagram",
        "WskSendMessages: UDP_SEND_MSG_SIZE, which WskControlSocket has not said to be there",
        "WskSendMessages: control information that is no UDP_SEND_MSG_SIZE",
        "WskSendMessages: the length of control information",
        "WskSendMessages: datagrams of no bytes",
        "WskControlSocket: UDP_SEND_MSG_SIZE is four bytes",
        "WskReceiveFromEvent returned 0xc0000001",
        "WskReceiveFromEvent was called at IRQL",
        "WskRelease: WskReceiveFromEvent returned 0x0, and did not keep the list",
        "WskCloseSocket: the client has not released 1 lists of datagrams",
        "WskRelease: again",
        "WskRelease: the client does not have this list",
        "WskRelease: no such socket, or it is closed",
        "the client has written to datagrams that it had given back",
        "NdisAllocateNetBufferListPool called above IRQL 2",
        "NdisAllocateNetBufferListPool: not an adapter's handle",
        "NET_BUFFER_LIST_POOL_PARAMETERS: no tag",
        "NET_BUFFER_LIST_POOL_PARAMETERS: the protocol 0x1 of a miniport",
        "NdisFreeNetBufferListPool: 1 lists of the pool are not freed",
        "NdisFreeNetBufferListPool: no such pool, or it was freed",
        "NdisAllocateNetBufferAndNetBufferList: the pool was made without fAllocateNetBuffer",
        "NdisAllocateNetBufferAndNetBufferList: 101 bytes, of which the MDLs describe 100",
        "NdisAllocateNetBufferAndNetBufferList: no such pool, or it was freed",
        "NdisFreeNetBufferList: a list that was freed",
        "NdisFreeNetBufferList: a list that the protocol has",
        "NdisFreeNetBufferList: another NET_BUFFER than the list was allocated with",
        "NdisMIndicateReceiveNetBufferLists: a list that was freed",
        "NdisMIndicateReceiveNetBufferLists: a list that the protocol has",
        "NdisMIndicateReceiveNetBufferLists: a list of no pool",
        "NdisMIndicateReceiveNetBufferLists: the flags say DISPATCH_LEVEL, which it is not",
        "NdisMIndicateReceiveNetBufferLists: flags 0x10002",
        "NdisMIndicateReceiveNetBufferLists: port 1",
        "NdisMIndicateReceiveNetBufferLists: a list with the status",
        "NdisMIndicateReceiveNetBufferLists: a list of 2 NET_BUFFERs",
        "NdisMIndicateReceiveNetBufferLists: a frame of 60 bytes, of which the MDLs describe 20",
        "NdisMIndicateReceiveNetBufferLists: a frame was changed while the protocol had it",
        "NdisMIndicateReceiveNetBufferLists: a list was changed while the protocol had it",
        "RSC: duplicate acknowledgments or timestamps of a list that is no unit",
        "RSC: a unit of 2 segments, 60 bytes: its frame is not TCP's",
        "RSC: a unit of 2 segments, 60 bytes: they are off",
        "RSC: a unit of 1 segments, 60 bytes: of one segment",
        "RSC: a unit of 2 segments, 60 bytes: its packet is not as long as its frame",
        "RSC: a unit of 2 segments, 60 bytes: NDIS would turn RSC off for its duplicate acknowledgments",
        "RSC: a unit of 2 segments, 60 bytes: it does not say that its checksums are right",
        "RSC: a unit of 2 segments, 60 bytes: its checksums are wrong",
        "RSC: a unit of 2 segments, 60 bytes: of segments with flags or options that are not to be joined",
        "RSC: a unit of 2 segments, 54 bytes: no such segments fit into the network",
        "NdisMIndicateReceiveNetBufferLists: 1 lists, but the count is 2",
        "NdisMIndicateReceiveNetBufferLists: SourceHandle is not the adapter's handle",
        "NdisMIndicateReceiveNetBufferLists: in state Pausing",
        "NdisMIndicateReceiveNetBufferLists: in state Paused",
        "stand-in: the TAP interface no/interface: errno",
        "MiniportPause completed with 1 received lists outstanding",
        "MiniportPause completed with 1 calls of NdisMIndicateReceiveNetBufferLists that have not returned",
    ]
    .map(str::to_owned)
    .into();
    for name in STRUCTURES {
        texts.push(format!("{name}: header type"));
    }
    for name in STRUCTURES.into_iter().chain(ATTRIBUTES) {
        texts.extend([format!("{name}: revision 127"), format!("{name}: size")]);
    }
    let listed = MANDATORY.map(|oid| format!("{oid:#010x}")).join(", ");
    texts.push(format!("the supported OID list lacks mandatory OIDs: {listed}"));
    for oid in MANDATORY.into_iter().filter(|oid| *oid != MAY_BE_REFUSED) {
        let verb = if SETS.contains(&oid) { "set" } else { "query" };
        texts.push(format!("OID {oid:#010x}: {verb}"));
    }
    for (oid, size) in STRUCTURED {
        let wrong = |kind: u8, revision: u8, size: u32| format!("header {kind:#x} revision {revision} size {size:#x} ");
        let headers = [wrong(0x7F, 1, size), wrong(0x80, 0x7F, size), wrong(0x80, 1, size - 1)];
        texts.extend(headers.map(|header| format!("OID {oid:#010x}: {header}")));
    }
    texts
}
