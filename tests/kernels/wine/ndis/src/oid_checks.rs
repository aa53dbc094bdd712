//! Requests that every miniport gets, with what must be true of the answers.

use kernel::violation;
use ndk_abi::{ndis::*, ndkpi::NDK_VERSION, status::*};

use crate::{
    adapter::Adapter,
    lock, ndk, offload,
    oid::{Operation, request},
};

/// Mandatory queries, with the exact size of the answer where it has one.
const QUERIES: [(u32, Option<u32>); 13] = [
    (OID_GEN_MAXIMUM_TOTAL_SIZE, Some(4)),
    (OID_GEN_RECEIVE_BLOCK_SIZE, Some(4)),
    (OID_GEN_RECEIVE_BUFFER_SPACE, Some(4)),
    (OID_GEN_TRANSMIT_BLOCK_SIZE, Some(4)),
    (OID_GEN_TRANSMIT_BUFFER_SPACE, Some(4)),
    (OID_GEN_VENDOR_ID, Some(4)),
    (OID_GEN_VENDOR_DRIVER_VERSION, Some(4)),
    (OID_GEN_VENDOR_DESCRIPTION, None),
    (OID_GEN_XMIT_OK, None),
    (OID_GEN_RCV_OK, None),
    (OID_GEN_STATISTICS, Some(0x98)),
    (OID_NDK_CONNECTIONS, Some(LIST_HEAD)),
    (OID_NDK_LOCAL_ENDPOINTS, Some(LIST_HEAD)),
];

/// Bytes of NDIS_NDK_CONNECTIONS and NDIS_NDK_LOCAL_ENDPOINTS before their entries.
const LIST_HEAD: u32 = 0x10;

/// An OID that no driver has.
const UNKNOWN_OID: u32 = 0xFF5A_5A5A;

fn complain(oid: u32, problem: &str) {
    violation(&format!("OID {oid:#010x}: {problem}"));
}

fn is_too_short(status: NDIS_STATUS) -> bool {
    status == NDIS_STATUS_INVALID_LENGTH || status == NDIS_STATUS_BUFFER_TOO_SHORT
}

/// A query with room, then one without: the answer's size, BytesWritten and BytesNeeded must agree (network/oid-requests:
/// a short buffer gives NDIS_STATUS_INVALID_LENGTH or BUFFER_TOO_SHORT with BytesNeeded).
fn check_query(adapter: &Adapter, oid: u32, size: Option<u32>, direct: bool) {
    let full = request(adapter, Operation::Query, direct, oid, &[0xEE; 0x1000]);
    if full.status != NDIS_STATUS_SUCCESS {
        complain(oid, &format!("query failed: {}", full.status));
        return;
    }
    if full.transferred == 0 || full.transferred as usize > full.data.len() {
        complain(oid, &format!("BytesWritten is {}", full.transferred));
        return;
    }
    // Statistics may be one of two widths; NDK lists grow with what is open.
    if size.is_some_and(|size| full.transferred < size || (size != LIST_HEAD && full.transferred != size)) {
        complain(oid, &format!("the answer has {} bytes instead of {size:?}", full.transferred));
    }
    let touched = full.data.iter().skip(full.transferred as usize).any(|byte| *byte != 0xEE);
    if touched {
        complain(oid, "bytes behind BytesWritten were written");
    }
    let short = request(adapter, Operation::Query, direct, oid, &[0xEE; 2]);
    if !is_too_short(short.status) {
        complain(oid, &format!("query with a buffer of 2 bytes: {}", short.status));
    } else if short.needed < 3 || (size.is_some_and(|s| s != LIST_HEAD) && short.needed != full.transferred) {
        complain(oid, &format!("BytesNeeded is {} for an answer of {} bytes", short.needed, full.transferred));
    }
    check_header_of_answer(oid, &full.data, full.transferred);
}

/// The lists of connections and of local endpoints, of a provider of iWARP: pairs of an NDK address, with all there is to say, and a
/// TCP address, with addresses only (ntddndis/ns-ntddndis-ndis_ndk_connections). How many there are.
fn check_list(adapter: &Adapter, oid: u32, entry: usize, addresses: usize) -> Option<usize> {
    let answer = request(adapter, Operation::Query, false, oid, &[0xEE; 0x10000]);
    if answer.status != NDIS_STATUS_SUCCESS {
        complain(oid, &format!("query failed: {}", answer.status));
        return None;
    }
    let data = answer.data.get(..answer.transferred as usize).unwrap_or_default();
    let (head, entries) = data.split_at_checked(LIST_HEAD as usize)?;
    let number =
        |at: usize| head[at..at + 4].iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
    let (flags, count, mapped) = (number(4), number(8), number(12));
    if flags != 0 || count * entry != entries.len() {
        complain(oid, &format!("flags {flags:#x}, {count} entries in {} bytes", entries.len()));
    }
    let pairs = entries.chunks_exact(2 * entry);
    if mapped != 1 || !pairs.remainder().is_empty() {
        complain(
            oid,
            &format!("{count} entries that are not pairs of NDK and TCP addresses, or do not say so ({mapped})"),
        );
    }
    for pair in pairs {
        let (ndk, tcp) = pair.split_at(entry);
        if ndk.iter().all(|byte| *byte == 0) || tcp[addresses..].iter().any(|byte| *byte != 0) {
            complain(oid, "a pair without an NDK address, or with an owner of a TCP address");
        }
        let without_tcp = tcp[..addresses].iter().all(|byte| *byte == 0);
        if !without_tcp && tcp[..addresses] != ndk[..addresses] {
            complain(oid, "a TCP address that is not that of NDK (this provider maps no ports)");
        }
    }
    Some(count / 2)
}

/// Both lists, at any moment.
pub(crate) fn check_lists(adapter: &Adapter) {
    if lock(&adapter.driver.provider).is_none() {
        return;
    }
    let connections = check_list(adapter, OID_NDK_CONNECTIONS, size_of::<NDIS_NDK_CONNECTION_ENTRY>(), 0x38);
    let endpoints = check_list(adapter, OID_NDK_LOCAL_ENDPOINTS, size_of::<NDIS_NDK_LOCAL_ENDPOINT_ENTRY>(), 0x1C);
    kernel::trace(&format!("ndis: {connections:?} sides of connections, {endpoints:?} endpoints"));
}

/// Answers that are NDIS structures begin with a header that gives their size.
fn check_header_of_answer(oid: u32, data: &[u8], written: u32) {
    const STRUCTURED: [u32; 5] = [
        OID_GEN_INTERRUPT_MODERATION,
        OID_GEN_STATISTICS,
        OID_NDK_STATISTICS,
        OID_NDK_CONNECTIONS,
        OID_NDK_LOCAL_ENDPOINTS,
    ];
    if !STRUCTURED.contains(&oid) {
        return;
    }
    let [kind, revision, low, high, ..] = *data else { return };
    let size = u32::from(u16::from_le_bytes([low, high]));
    if kind != NDIS_OBJECT_TYPE_DEFAULT || revision != 1 || size != written.min(0xFFFF) {
        complain(
            oid,
            &format!("header {kind:#x} revision {revision} size {size:#x} in an answer of {written:#x} bytes"),
        );
    }
}

/// A set that must succeed, and one too short for it that must not.
fn check_set(adapter: &Adapter, oid: u32, value: &[u8]) {
    let outcome = request(adapter, Operation::Set, false, oid, value);
    if outcome.status != NDIS_STATUS_SUCCESS {
        complain(oid, &format!("set failed: {}", outcome.status));
    } else if outcome.transferred as usize != value.len() {
        complain(oid, &format!("BytesRead is {} of {}", outcome.transferred, value.len()));
    }
    if let [first, _, ..] = value {
        let short = request(adapter, Operation::Set, false, oid, &[*first]);
        if !is_too_short(short.status) {
            complain(oid, &format!("set with a buffer of 1 byte: {}", short.status));
        } else if short.needed as usize != value.len() {
            complain(oid, &format!("BytesNeeded is {} for a set of {}", short.needed, value.len()));
        }
    }
}

/// Everything that is asked of a new adapter.
pub(crate) fn run(adapter: &Adapter) {
    let (is_provider, ndk_enabled, filters) = {
        let attributes = lock(&adapter.attributes);
        (lock(&adapter.driver.provider).is_some(), attributes.ndk_enabled, attributes.packet_filters)
    };
    let is_ndk = |oid: u32| [OID_NDK_CONNECTIONS, OID_NDK_LOCAL_ENDPOINTS].contains(&oid);
    for (oid, size) in QUERIES.into_iter().filter(|(oid, _)| is_provider || !is_ndk(*oid)) {
        check_query(adapter, oid, size, false);
    }
    let moderation = request(adapter, Operation::Query, false, OID_GEN_INTERRUPT_MODERATION, &[0; 12]);
    if moderation.status != NDIS_STATUS_SUCCESS || moderation.transferred != 12 {
        complain(OID_GEN_INTERRUPT_MODERATION, &format!("query failed: {}", moderation.status));
    } else {
        check_header_of_answer(OID_GEN_INTERRUPT_MODERATION, &moderation.data, moderation.transferred);
    }
    for operation in [Operation::Query, Operation::Set] {
        let unknown = request(adapter, operation, false, UNKNOWN_OID, &[0; 64]);
        if unknown.status != NDIS_STATUS_NOT_SUPPORTED && unknown.status != NDIS_STATUS_INVALID_OID {
            complain(UNKNOWN_OID, &format!("unknown, but answered with {}", unknown.status));
        }
    }
    check_set(adapter, OID_GEN_CURRENT_LOOKAHEAD, &128_u32.to_le_bytes());
    let wanted = (NDIS_PACKET_TYPE_DIRECTED | NDIS_PACKET_TYPE_MULTICAST | NDIS_PACKET_TYPE_BROADCAST) & filters;
    check_set(adapter, OID_GEN_CURRENT_PACKET_FILTER, &wanted.to_le_bytes());
    let refused = request(adapter, Operation::Set, false, OID_GEN_CURRENT_PACKET_FILTER, &(!filters).to_le_bytes());
    if refused.status.is_success() {
        complain(OID_GEN_CURRENT_PACKET_FILTER, "an unsupported packet filter was accepted");
    }
    let listed = |oid| lock(&adapter.attributes).oids.contains(&oid);
    // network/oid-pnp-query-power, oid-pnp-set-power: both must succeed. NdisDeviceStateD3 and D0 of NDIS_DEVICE_POWER_STATE.
    for state in [4_u32, 1] {
        if listed(OID_PNP_QUERY_POWER) {
            let asked = request(adapter, Operation::Query, false, OID_PNP_QUERY_POWER, &state.to_le_bytes());
            if asked.status != NDIS_STATUS_SUCCESS {
                complain(OID_PNP_QUERY_POWER, &format!("query failed: {}", asked.status));
            }
        }
        if listed(OID_PNP_SET_POWER) {
            check_set(adapter, OID_PNP_SET_POWER, &state.to_le_bytes());
        }
    }
    if listed(OID_802_3_MULTICAST_LIST) {
        check_multicast(adapter);
    }
    offload::check(adapter);
    if is_provider {
        check_lists(adapter);
        check_query(adapter, OID_NDK_STATISTICS, Some(0xF8), true);
        if ndk_enabled {
            let again = request(adapter, Operation::Set, false, OID_NDK_SET_STATE, &[1]);
            if again.status != NDIS_STATUS_SUCCESS {
                complain(OID_NDK_SET_STATE, &format!("enabling what is enabled: {}", again.status));
            }
        }
        let empty = request(adapter, Operation::Set, false, OID_NDK_SET_STATE, &[]);
        if !is_too_short(empty.status) {
            complain(OID_NDK_SET_STATE, &format!("set with an empty buffer: {}", empty.status));
        }
    }
}

/// network/oid-802-3-multicast-list: addresses of six bytes, and no more than the general attributes allow; none is a list too.
fn check_multicast(adapter: &Adapter) {
    const ADDRESS: [u8; 6] = [0x01, 0x00, 0x5E, 0, 0, 1];
    let most = lock(&adapter.attributes).multicast_addresses;
    for (addresses, whole) in [(1, true), (most, true), (0, true), (most + 1, true), (1, false)] {
        let list = ADDRESS.repeat(addresses);
        let list = if whole { &list[..] } else { &list[1..] };
        let set = request(adapter, Operation::Set, false, OID_802_3_MULTICAST_LIST, list);
        if set.status.is_success() != (whole && addresses <= most) {
            complain(OID_802_3_MULTICAST_LIST, &format!("set of {} bytes: {}", list.len(), set.status));
        }
    }
}

/// Disables or enables RDMA, as an administrator would, and waits for the event: OID_NDK_SET_STATE succeeds at once, the event
/// comes later (network/oid-ndk-set-state). `before` runs in between. False if anything of that fails.
pub(crate) fn set_ndk(adapter: &Adapter, enable: bool, before: impl FnOnce()) -> bool {
    check_lists(adapter);
    let outcome = request(adapter, Operation::Set, false, OID_NDK_SET_STATE, &[enable.into()]);
    before();
    if outcome.status != NDIS_STATUS_SUCCESS {
        complain(OID_NDK_SET_STATE, &format!("set to {enable}: {}", outcome.status));
        return false;
    }
    let told = adapter.ndk.wait_for_state(enable);
    if !told {
        complain(OID_NDK_SET_STATE, &format!("no NetEventNDK event after the set to {enable}"));
    }
    told
}

/// Disables RDMA and enables it again. Done just before the adapter stops, when no consumer is there to be disturbed but one of
/// its own, which is there when RDMA is disabled.
pub(crate) fn cycle_ndk(adapter: &Adapter) {
    if lock(&adapter.driver.provider).is_none() || !lock(&adapter.attributes).ndk_enabled {
        return;
    }
    let mut consumer = ndk::open(adapter, NDK_VERSION { Major: 2, Minor: 0 }).ok();
    for enable in [false, true] {
        set_ndk(adapter, enable, || {
            if let Some(consumer) = consumer.take() {
                adapter.ndk.close_while_disabling(adapter, consumer);
            }
        });
    }
}
