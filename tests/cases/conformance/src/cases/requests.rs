//! Requests that a well-behaved client never sends. They get their status and change nothing.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::*,
    ndkpi::{NDK_OP_FLAG_INLINE, NdkOperationTypeSend},
    softndk_ioctl::*,
    status::{
        NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_DATA_OVERRUN, STATUS_INVALID_BUFFER_SIZE,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_DEVICE_STATE, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED,
    },
};
use zerocopy::IntoBytes as _;

use crate::{
    bench::Bench,
    client::{Client, Connector, Qp, Srq, nd_handle},
    pair::Site,
};

/// Every request a user may send after PROVIDER_INIT, and the bytes of its input. Answers fit into [`ROOM`]. The valid inputs in
/// `World::cases` of the crate `users` need objects: these are refused before a handle is looked up.
const SHAPES: &[(u32, usize)] = &[
    (IOCTL_ND_PROVIDER_BIND_FILE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST, size_of::<ND_HANDLE>()),
    (IOCTL_ND_PROVIDER_RESOLVE_ADDRESS, size_of::<ND_RESOLVE_ADDRESS>()),
    (IOCTL_ND_ADAPTER_OPEN, size_of::<ND_OPEN_ADAPTER>()),
    (IOCTL_ND_ADAPTER_CLOSE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_ADAPTER_QUERY, size_of::<ND_ADAPTER_QUERY>()),
    (IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST, size_of::<ND_HANDLE>()),
    (IOCTL_ND_PD_CREATE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_PD_FREE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CQ_CREATE, size_of::<ND_CREATE_CQ>()),
    (IOCTL_ND_CQ_FREE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CQ_GET_AFFINITY, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CQ_CANCEL_IO, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CQ_MODIFY, size_of::<ND_CQ_MODIFY>()),
    (IOCTL_ND_CQ_NOTIFY, size_of::<ND_CQ_NOTIFY>()),
    (IOCTL_ND_MR_CREATE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_MR_FREE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_MR_CANCEL_IO, size_of::<ND_HANDLE>()),
    (IOCTL_ND_MR_REGISTER, size_of::<ND_MR_REGISTER>()),
    (IOCTL_ND_MR_DEREGISTER, size_of::<ND_HANDLE>()),
    (IOCTL_ND_MW_CREATE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_MW_FREE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_SRQ_CREATE, size_of::<ND_CREATE_SRQ>()),
    (IOCTL_ND_SRQ_FREE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_SRQ_GET_AFFINITY, size_of::<ND_HANDLE>()),
    (IOCTL_ND_SRQ_CANCEL_IO, size_of::<ND_HANDLE>()),
    (IOCTL_ND_SRQ_MODIFY, size_of::<ND_SRQ_MODIFY>()),
    (IOCTL_ND_SRQ_NOTIFY, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_CREATE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_FREE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_CANCEL_IO, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_BIND, size_of::<ND_BIND>()),
    (IOCTL_ND_CONNECTOR_CONNECT, size_of::<ND_CONNECT>()),
    (IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_ACCEPT, size_of::<ND_ACCEPT>()),
    (IOCTL_ND_CONNECTOR_REJECT, size_of::<ND_REJECT>()),
    (IOCTL_ND_CONNECTOR_GET_READ_LIMITS, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_GET_ADDRESS, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, size_of::<ND_HANDLE>()),
    (IOCTL_ND_CONNECTOR_DISCONNECT, size_of::<ND_HANDLE>()),
    (IOCTL_ND_LISTENER_CREATE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_LISTENER_FREE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_LISTENER_CANCEL_IO, size_of::<ND_HANDLE>()),
    (IOCTL_ND_LISTENER_BIND, size_of::<ND_BIND>()),
    (IOCTL_ND_LISTENER_LISTEN, size_of::<ND_LISTEN>()),
    (IOCTL_ND_LISTENER_GET_ADDRESS, size_of::<ND_HANDLE>()),
    (IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, size_of::<ND_GET_CONNECTION_REQUEST>()),
    (IOCTL_ND_QP_CREATE, size_of::<ND_CREATE_QP>()),
    (IOCTL_ND_QP_CREATE_WITH_SRQ, size_of::<ND_CREATE_QP_WITH_SRQ>()),
    (IOCTL_ND_QP_FREE, size_of::<ND_HANDLE>()),
    (IOCTL_ND_QP_FLUSH, size_of::<ND_HANDLE>()),
    (IOCTL_SOFTNDK_FILE_ID, size_of::<ND_HANDLE>()),
    (IOCTL_SOFTNDK_NOP, size_of::<ND_HANDLE>()),
    (IOCTL_SOFTNDK_POST, size_of::<SOFTNDK_POST>()),
    (IOCTL_SOFTNDK_SRQ_POST, size_of::<SOFTNDK_SRQ_POST>()),
    (IOCTL_SOFTNDK_POLL, size_of::<SOFTNDK_POLL>()),
    (IOCTL_SOFTNDK_FAST_MR_CREATE, size_of::<SOFTNDK_FAST_MR_CREATE>()),
    (IOCTL_SOFTNDK_CQ_MODERATE, size_of::<SOFTNDK_CQ_MODERATE>()),
];

/// Bytes of output that every answer fits into.
pub(super) const ROOM: usize = 2048;

/// Sends bytes and expects a status, and that nothing is made.
pub(super) fn send(client: &Client, code: u32, input: &[u8], room: usize, status: NTSTATUS) -> anyhow::Result<()> {
    let before = client.diagnostics()?;
    let found = client.begin(code, input, room).status().with_context(|| format!("code {code:#x}"))?;
    ensure!(found == status, "code {code:#x}, {} bytes: {found} instead of {status}", input.len());
    let after = client.diagnostics()?;
    // The pool may grow by a table that is kept.
    let (pool, requests) = (before.PoolBytes, before.Requests);
    let unchanged = SOFTNDK_DIAGNOSTICS { PoolBytes: pool, Requests: requests, ..after } == before;
    ensure!(unchanged, "code {code:#x}: refused with {status}, but changed {before:?} to {after:?}");
    Ok(())
}

/// A full-size input of a given version whose other fields are 0.
fn blank(version: u32, length: usize) -> Vec<u8> {
    let mut input = vec![0; length];
    input[..4].copy_from_slice(&version.to_le_bytes());
    input
}

// Shows P3.
pub(super) fn init_comes_first(bench: &Bench<'_>) -> anyhow::Result<()> {
    let client = bench.bare_client()?;
    for (code, length) in SHAPES {
        send(&client, *code, &blank(1, *length), ROOM, STATUS_INVALID_DEVICE_STATE)?;
    }
    for version in [0, 2, u32::MAX] {
        let input = ND_HANDLE { Version: version, ..nd_handle(0) };
        send(&client, IOCTL_ND_PROVIDER_INIT, input.as_bytes(), 0, STATUS_INVALID_DEVICE_REQUEST)?;
    }
    client.call(IOCTL_ND_PROVIDER_INIT, &nd_handle(0))?;
    ensure!(!client.addresses()?.is_empty(), "no addresses after PROVIDER_INIT");
    Ok(())
}

// Shows P2, P29, T9.
pub(super) fn unknown_codes(bench: &Bench<'_>) -> anyhow::Result<()> {
    let client = bench.client()?;
    let kernel_only = [
        IOCTL_NDK_MR_REGISTER,
        IOCTL_NDV_PARTITION_RESOLVE_ADAPTER_ID,
        IOCTL_NDV_PARTITION_CREATE,
        IOCTL_NDV_PARTITION_FREE,
        IOCTL_NDV_PARTITION_BIND,
        IOCTL_NDV_PARTITION_UNBIND,
        IOCTL_NDV_PARTITION_BIND_LUID,
    ];
    // Past the last operation of a resource, past the last resource, past our last, and known ones by another method.
    let unknown = [
        nd_control_code(ND_RESOURCE_PD, 2),
        nd_control_code(ND_RESOURCE_QP, 4),
        nd_control_code(11, 0),
        softndk_control_code(0x100),
        IOCTL_ND_PD_CREATE | 3,
        IOCTL_SOFTNDK_POLL | 1,
        0,
        !3,
    ];
    for code in kernel_only.into_iter().chain(unknown) {
        let mut request = client.begin(code, &blank(1, 256), ROOM);
        let status = request.status()?;
        ensure!(status == STATUS_INVALID_DEVICE_REQUEST, "code {code:#x}: {status}");
    }
    Ok(())
}

// Shows P4.
pub(super) fn versions(bench: &Bench<'_>) -> anyhow::Result<()> {
    let client = bench.client()?;
    for (code, length) in SHAPES {
        for version in [0, 2, 0x10000, u32::MAX] {
            send(&client, *code, &blank(version, *length), ROOM, STATUS_INVALID_DEVICE_REQUEST)?;
        }
    }
    Ok(())
}

// Shows T7.
pub(super) fn short_inputs(bench: &Bench<'_>) -> anyhow::Result<()> {
    let client = bench.client()?;
    for (code, length) in SHAPES {
        for short in [0, 1, 3, 4, 8, length / 2, length - 1] {
            let input = &blank(1, *length)[..short];
            send(&client, *code, input, ROOM, STATUS_BUFFER_TOO_SMALL)?;
        }
    }
    Ok(())
}

// Shows P8, T7.
pub(super) fn short_outputs(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let client = &site.client;
    let end = site.end()?;
    let region: u64 = client.query(IOCTL_ND_MR_CREATE, &nd_handle(site.pd.handle()))?;
    let memory = crate::memory::Memory::new(4096);
    let adapter = nd_handle(site.adapter.handle());
    let pd = nd_handle(site.pd.handle());
    let open = ND_OPEN_ADAPTER { Version: 1, AdapterId: client.resolve(site.address)?, ..ND_OPEN_ADAPTER::ZERO };
    let cq = ND_CREATE_CQ { Version: 1, QueueDepth: 1, AdapterHandle: site.adapter.handle(), ..ND_CREATE_CQ::ZERO };
    let srq = ND_CREATE_SRQ {
        Version: 1,
        QueueDepth: 1,
        MaxRequestSge: 1,
        PdHandle: site.pd.handle(),
        ..ND_CREATE_SRQ::ZERO
    };
    let header = ND_CREATE_QP_HDR {
        Version: 1,
        InitiatorQueueDepth: 1,
        MaxInitiatorRequestSge: 1,
        ReceiveCqHandle: site.receive_cq.handle(),
        InitiatorCqHandle: site.initiator_cq.handle(),
        PdHandle: site.pd.handle(),
        ..ND_CREATE_QP_HDR::ZERO
    };
    let qp = ND_CREATE_QP { Header: header, ReceiveQueueDepth: 1, MaxReceiveRequestSge: 1 };
    let register = ND_MR_REGISTER {
        Header: ND_MR_REGISTER_HDR {
            Version: 1,
            CbLength: 4096,
            TargetAddress: memory.address(0),
            MrHandle: region,
            ..ND_MR_REGISTER_HDR::ZERO
        },
        Address: memory.address(0),
    };
    let fast = SOFTNDK_FAST_MR_CREATE {
        Version: 1,
        RemoteAccess: 1,
        PdHandle: site.pd.handle(),
        Address: memory.address(0),
        Length: 4096,
    };
    let query = ND_ADAPTER_QUERY { Version: 1, InfoVersion: ND_VERSION_2, AdapterHandle: site.adapter.handle() };
    for (code, input, answer, status) in [
        (IOCTL_ND_ADAPTER_OPEN, open.as_bytes(), 16, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_ND_PD_CREATE, adapter.as_bytes(), 8, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_ND_CQ_CREATE, cq.as_bytes(), 16, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_ND_MR_CREATE, pd.as_bytes(), 8, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_ND_MW_CREATE, pd.as_bytes(), 8, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_ND_MR_REGISTER, register.as_bytes(), 8, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_ND_SRQ_CREATE, srq.as_bytes(), 16, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_ND_QP_CREATE, qp.as_bytes(), 16, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_ND_CONNECTOR_CREATE, adapter.as_bytes(), 8, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_ND_LISTENER_CREATE, adapter.as_bytes(), 8, STATUS_BUFFER_TOO_SMALL),
        (IOCTL_SOFTNDK_FAST_MR_CREATE, fast.as_bytes(), 16, STATUS_BUFFER_TOO_SMALL),
        // "output buffer smaller than the struct = overflow"
        (IOCTL_ND_ADAPTER_QUERY, query.as_bytes(), 96, STATUS_BUFFER_OVERFLOW),
    ] {
        // The tokens of a region can be asked for later.
        let least = usize::from(code == IOCTL_ND_MR_REGISTER);
        for room in [least, 1, answer - 1] {
            send(client, code, input, room, status)?;
        }
    }
    client.call(IOCTL_ND_MR_FREE, &nd_handle(region))?;
    drop(end);
    Ok(())
}

// Shows P20, T7.
pub(super) fn offsets_and_counts(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let client = &site.client;
    let end = site.end()?;
    let qp: &Qp = &end.qp;
    end.connector.bind(site.address)?;
    // Past the limit of an adapter, a count may be refused for that, before it is compared with the input.
    let extremes = [
        (1, STATUS_INVALID_PARAMETER),
        (16, STATUS_INVALID_PARAMETER),
        (0x1000, STATUS_DATA_OVERRUN),
        (0x1000_0000, STATUS_DATA_OVERRUN),
        (0x8000_0000, STATUS_DATA_OVERRUN),
        (0xffff_fff0, STATUS_DATA_OVERRUN),
        (u32::MAX, STATUS_DATA_OVERRUN),
    ];

    // Scatter/gather counts and inline lengths beyond the input.
    let post = qp.request(NdkOperationTypeSend, 1, 0);
    for (count, status) in extremes {
        let sges = SOFTNDK_POST { SgeCount: count, ..post };
        send(client, IOCTL_SOFTNDK_POST, sges.as_bytes(), 0, status).context("SgeCount")?;
        let inline = SOFTNDK_POST { InlineLength: count, Flags: NDK_OP_FLAG_INLINE, ..post };
        send(client, IOCTL_SOFTNDK_POST, inline.as_bytes(), 0, STATUS_INVALID_PARAMETER).context("InlineLength")?;
    }
    let srq = Srq::new(&site.pd, 1, 1, 0)?;
    for (count, status) in extremes {
        let post = SOFTNDK_SRQ_POST { Version: 1, SgeCount: count, SrqHandle: srq.handle(), ..SOFTNDK_SRQ_POST::ZERO };
        send(client, IOCTL_SOFTNDK_SRQ_POST, post.as_bytes(), 0, status).context("SgeCount of an SRQ")?;
    }

    // Mappings: outside of the input, or inside, which a driver without user-mode queues does not support.
    for (count, offset) in [(1, 24), (1, u32::MAX), (u32::MAX, 0), (0x0800_0001, 0), (1, 0xffff_ffe0)] {
        let open =
            ND_OPEN_ADAPTER { Version: 1, Reserved: 0, CeMappingCount: count, CbMappingsOffset: offset, AdapterId: 0 };
        let open = ND_OPEN_ADAPTER { AdapterId: client.resolve(site.address)?, ..open };
        send(client, IOCTL_ND_ADAPTER_OPEN, open.as_bytes(), ROOM, STATUS_INVALID_PARAMETER).context("mappings")?;
        let cq = ND_CREATE_CQ {
            Version: 1,
            QueueDepth: 1,
            CeMappingCount: count,
            CbMappingsOffset: offset.max(40),
            AdapterHandle: site.adapter.handle(),
            ..ND_CREATE_CQ::ZERO
        };
        send(client, IOCTL_ND_CQ_CREATE, cq.as_bytes(), ROOM, STATUS_INVALID_PARAMETER).context("mappings")?;
        let mapped = ND_CREATE_CQ { CeMappingCount: 1, CbMappingsOffset: 40, ..cq };
        let input = [mapped.as_bytes(), ND_MAPPING::ZERO.as_bytes()].concat();
        send(client, IOCTL_ND_CQ_CREATE, &input, ROOM, STATUS_NOT_SUPPORTED).context("a mapping")?;
    }

    // Private data outside of the input.
    for (length, offset) in [(1, 104), (1, u32::MAX), (508, 0xffff_ff00), (508, 100)] {
        let connect = ND_CONNECT {
            Version: 1,
            CbPrivateDataLength: length,
            CbPrivateDataOffset: offset,
            ConnectorHandle: end.connector.handle(),
            QpHandle: qp.handle(),
            DestinationAddress: ndk_abi::sockaddr::SOCKADDR_INET::new(site.address),
            ..ND_CONNECT::ZERO
        };
        send(client, IOCTL_ND_CONNECTOR_CONNECT, connect.as_bytes(), 0, STATUS_INVALID_PARAMETER)
            .with_context(|| format!("{length} bytes of private data at {offset:#x}"))?;
    }
    let huge = ND_CONNECT {
        Version: 1,
        CbPrivateDataLength: u32::MAX,
        ConnectorHandle: end.connector.handle(),
        QpHandle: qp.handle(),
        DestinationAddress: ndk_abi::sockaddr::SOCKADDR_INET::new(site.address),
        ..ND_CONNECT::ZERO
    };
    let status = client.begin(IOCTL_ND_CONNECTOR_CONNECT, huge.as_bytes(), 0).status()?;
    ensure!(
        [STATUS_INVALID_PARAMETER, STATUS_INVALID_BUFFER_SIZE].contains(&status),
        "4 GiB of private data: {status}"
    );

    // More results than the buffer holds are not asked for.
    let completions = site.receive_cq.poll(0)?;
    ensure!(completions.is_empty(), "results without room for any");
    qp.receive(7, &[])?;
    qp.receive(8, &[])?;
    qp.flush()?;
    let poll = SOFTNDK_POLL { Version: 1, MaxResults: u32::MAX, CqHandle: site.receive_cq.handle() };
    let one = size_of::<SOFTNDK_RESULT>();
    let completion = client.begin(IOCTL_SOFTNDK_POLL, poll.as_bytes(), one + one / 2).finish()?;
    ensure!(completion.output.len() == one, "{} bytes into room for one and a half results", completion.output.len());
    ensure!(site.receive_cq.poll(8)?.len() == 1, "the other result is lost");

    // Addresses of no family.
    let connector = Connector::new(&site.adapter)?;
    for family in [0_u16, 1, 3, 0xffff] {
        let mut bind = ND_BIND { Version: 1, Handle: connector.handle(), ..ND_BIND::ZERO };
        bind.Address.Ipv6.sin6_family = family;
        let status = client.begin(IOCTL_ND_CONNECTOR_BIND, bind.as_bytes(), 0).status()?;
        ensure!(!status.is_success(), "address family {family}: bound");
    }
    Ok(())
}
