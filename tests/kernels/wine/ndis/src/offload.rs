//! Task offloads: what a miniport says that it can do, and does, and what it is asked ("TCP/IP Task Offload").

use kernel::violation;
use ndk_abi::{describe::ZeroInit, ndis::*, status::*};

use crate::{
    adapter::Adapter,
    check_header, lock,
    oid::{Operation, request},
};

const WHAT: &str = "NDIS_OFFLOAD";

/// Sizes of NDIS_OFFLOAD, by revision.
const SIZES: [u16; 4] = [0x70, 0x90, 0x9C, NDIS_SIZEOF_NDIS_OFFLOAD_REVISION_4];

/// What of NDIS_OFFLOAD a transport looks at.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Offloads {
    pub(crate) ipv4_checksum: bool,
    pub(crate) tcp_checksum: [bool; 2],
    /// For IPv4, for IPv6: the most bytes of payload, if large sends are on.
    pub(crate) large_send: [Option<u32>; 2],
    /// Receive segment coalescing.
    pub(crate) coalesce: [bool; 2],
}

/// IPv4 and IPv6, in arrays.
pub(crate) const IPV4: usize = 0;
pub(crate) const IPV6: usize = 1;

impl Offloads {
    /// Whether `other` has none that this has not.
    fn includes(&self, other: &Self) -> bool {
        let either = |version: usize| {
            (self.tcp_checksum[version] || !other.tcp_checksum[version])
                && (self.coalesce[version] || !other.coalesce[version])
                && other.large_send[version].is_none_or(|most| self.large_send[version] >= Some(most))
        };
        (self.ipv4_checksum || !other.ipv4_checksum) && either(IPV4) && either(IPV6)
    }

    fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// What the adapter's transport may ask, if the miniport has offloads.
#[derive(Clone, Copy, Default)]
pub(crate) struct State {
    pub(crate) current: Offloads,
    pub(crate) capabilities: Offloads,
    /// Indications of NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG.
    indications: u64,
}

/// Reads an NDIS_OFFLOAD.
///
/// # Safety
/// `offload` is null, or a structure that is as long as its header says.
unsafe fn read(offload: *const NDIS_OFFLOAD) -> Option<Offloads> {
    // SAFETY: passed on to the caller.
    let revision = unsafe { check_header(offload.cast(), WHAT, NDIS_OBJECT_TYPE_OFFLOAD, &SIZES) }.ok()?;
    let mut copy = NDIS_OFFLOAD::ZERO;
    // SAFETY: as many bytes, by the header.
    unsafe { (&raw mut copy).cast::<u8>().copy_from(offload.cast(), SIZES[usize::from(revision) - 1].into()) };
    let two_bits = |bits: u32, place: u32| match bits >> place & 3 {
        NDIS_OFFLOAD_SUPPORTED => true,
        NDIS_OFFLOAD_NOT_SUPPORTED => false,
        _ => {
            violation(&format!("{WHAT}: a member of two bits in {bits:#x} is neither supported nor not"));
            false
        }
    };
    for ([encapsulation, bits], checksums) in [
        (copy.Checksum.IPv4Transmit, 0x3F << 4),
        (copy.Checksum.IPv4Receive, 0x3F << 4),
        (copy.Checksum.IPv6Transmit, 0xF << 4),
        (copy.Checksum.IPv6Receive, 0xF << 4),
    ] {
        let is_on = bits & checksums != 0;
        if is_on != (encapsulation & NDIS_ENCAPSULATION_IEEE_802_3 != 0) {
            violation(&format!("{WHAT}: checksums {bits:#x} with encapsulation {encapsulation:#x}"));
        }
        // A NIC that segments has to handle options; one that does not would need a transport that looks.
        if is_on && !(two_bits(bits, 0) && two_bits(bits, 2)) {
            violation(&format!("{WHAT}: checksums {bits:#x}, but not of packets with options"));
        }
    }
    let large_send = |[encapsulation, most, least]: [u32; 3]| {
        if encapsulation == NDIS_ENCAPSULATION_NOT_SUPPORTED {
            return None;
        }
        if most == 0 || most > 0x1_0000 || least < 1 {
            violation(&format!("{WHAT}: large sends of {most} bytes at most, and {least} segments at least"));
        }
        Some(most)
    };
    let [kind, most, least, bits] = copy.LsoV2.IPv6;
    let large_send = [large_send(copy.LsoV2.IPv4), large_send([kind, most, least])];
    if large_send[IPV6].is_some() && !(two_bits(bits, 0) && two_bits(bits, 2)) {
        violation(&format!("{WHAT}: large sends of IPv6 {bits:#x}, but not with extensions or options"));
    }
    // An older structure has zeros there.
    let coalesce = [copy.Rsc[IPV4], copy.Rsc[IPV6]];
    if coalesce.iter().any(|on| *on > 1) {
        violation(&format!("{WHAT}: Rsc {coalesce:?}, which is no BOOLEAN"));
    }
    let [ipv4, ipv6] = [copy.Checksum.IPv4Transmit[1], copy.Checksum.IPv6Transmit[1]];
    Some(Offloads {
        ipv4_checksum: two_bits(ipv4, 8),
        tcp_checksum: [two_bits(ipv4, 4), two_bits(ipv6, 4)],
        large_send,
        coalesce: coalesce.map(|on| on != 0),
    })
}

/// NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES: what is wrong with them.
///
/// # Safety
/// The miniport's attributes.
pub(crate) unsafe fn attributes(
    adapter: &Adapter,
    attributes: *const NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES,
) -> Result<(), &'static str> {
    let sizes = [NDIS_SIZEOF_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES_REVISION_1];
    let kind = NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES;
    // SAFETY: passed on to the caller.
    let checked = unsafe { check_header(attributes.cast(), "NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES", kind, &sizes) };
    checked.map_err(|_| "offload attributes with a wrong header")?;
    // SAFETY: the size has been checked.
    let attributes = unsafe { &*attributes };
    // SAFETY: structures of the miniport's, as is checked.
    let current = unsafe { read(attributes.DefaultOffloadConfiguration) };
    // SAFETY: as above.
    let capabilities = unsafe { read(attributes.HardwareOffloadCapabilities) };
    let Some((current, capabilities)) = current.zip(capabilities) else {
        return Err("offload attributes without a configuration and capabilities");
    };
    if !capabilities.includes(&current) {
        return Err("an offload is on that the capabilities have not");
    }
    if !attributes.DefaultTcpConnectionOffloadConfiguration.is_null() {
        return Err("connection offload, which Windows has no more");
    }
    lock(&adapter.attributes).offloads = Some(State { current, capabilities, indications: 0 });
    Ok(())
}

/// NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG.
///
/// # Safety
/// The status buffer is as long as its size says.
pub(crate) unsafe fn indicated(adapter: &Adapter, indication: &NDIS_STATUS_INDICATION) {
    let Ok(size) = u16::try_from(indication.StatusBufferSize) else { return };
    if !SIZES.contains(&size) && (size as usize) < size_of::<NDIS_OFFLOAD>() {
        return violation(&format!("{WHAT}: an indication of {size} bytes"));
    }
    // SAFETY: passed on to the caller.
    let Some(current) = (unsafe { read(indication.StatusBuffer.cast()) }) else { return };
    let mut attributes = lock(&adapter.attributes);
    let Some(state) = &mut attributes.offloads else {
        return violation("NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG: of a miniport without offload attributes");
    };
    if !state.capabilities.includes(&current) {
        violation("NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG: an offload is on that the capabilities have not");
    }
    state.current = current;
    state.indications += 1;
}

/// A set, after which the miniport has to have said what is on if it succeeded: that.
fn set(adapter: &Adapter, oid: u32, bytes: &[u8], succeeds: bool) -> Option<Offloads> {
    let state = || lock(&adapter.attributes).offloads;
    let before = state()?;
    let outcome = request(adapter, Operation::Set, false, oid, bytes);
    let after = state()?;
    if outcome.status.is_success() != succeeds {
        violation(&format!("OID {oid:#010x}: a set ended with {}", outcome.status));
    }
    let told = after.indications - before.indications;
    if told != u64::from(outcome.status.is_success()) {
        violation(&format!(
            "OID {oid:#010x}: {told} times NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG after {}",
            outcome.status
        ));
    }
    if !outcome.status.is_success() && after.current != before.current {
        violation(&format!("OID {oid:#010x}: a set that failed has changed the offloads"));
    }
    Some(after.current)
}

/// The places of LsoV2IPv4, LsoV2IPv6, RscIPv4 and RscIPv6 in NDIS_OFFLOAD_PARAMETERS.
const LARGE_SENDS: [usize; 2] = [0x0B, 0x0C];
const COALESCES: [usize; 2] = [0x16, 0x17];

/// The input of OID_TCP_OFFLOAD_PARAMETERS: one setting for checksums, one for large sends and for coalescing, whose numbers are alike.
pub(crate) fn parameters(checksums: u32, others: u32) -> Vec<u8> {
    let size = NDIS_SIZEOF_OFFLOAD_PARAMETERS_REVISION_3;
    let mut bytes = vec![0; size.into()];
    bytes[..2].copy_from_slice(&[NDIS_OBJECT_TYPE_DEFAULT, NDIS_OFFLOAD_PARAMETERS_REVISION_3]);
    bytes[2..4].copy_from_slice(&size.to_le_bytes());
    // IPv4Checksum, TCPIPv4Checksum, TCPIPv6Checksum.
    [4, 5, 7].iter().for_each(|place| bytes[*place] = checksums as u8);
    LARGE_SENDS.iter().chain(&COALESCES).for_each(|place| bytes[*place] = others as u8);
    bytes
}

/// The first revision, which has no setting for coalescing.
fn first_revision(mut bytes: Vec<u8>) -> Vec<u8> {
    let size = NDIS_SIZEOF_OFFLOAD_PARAMETERS_REVISION_1;
    bytes.truncate(size.into());
    bytes[1] = NDIS_OFFLOAD_PARAMETERS_REVISION_1;
    bytes[2..4].copy_from_slice(&size.to_le_bytes());
    bytes
}

/// The input of OID_OFFLOAD_ENCAPSULATION, for both versions of IP.
fn encapsulation(enabled: u32, kind: u32) -> Vec<u8> {
    let size = NDIS_SIZEOF_OFFLOAD_ENCAPSULATION_REVISION_1;
    let header = [NDIS_OBJECT_TYPE_OFFLOAD_ENCAPSULATION, NDIS_OFFLOAD_ENCAPSULATION_REVISION_1];
    let version = [enabled, kind, 14].map(u32::to_le_bytes).concat();
    [&header[..], &size.to_le_bytes(), &version, &version].concat()
}

/// Turns them off and on, as a transport and an administrator do. A miniport with offloads takes both requests, another refuses them.
pub(crate) fn check(adapter: &Adapter) {
    let off = parameters(NDIS_OFFLOAD_PARAMETERS_TX_RX_DISABLED, NDIS_OFFLOAD_PARAMETERS_LSOV2_DISABLED);
    let ethernet = encapsulation(NDIS_OFFLOAD_SET_ON, NDIS_ENCAPSULATION_IEEE_802_3);
    let Some(State { current: before, capabilities, .. }) = lock(&adapter.attributes).offloads else {
        for (oid, bytes) in [(OID_TCP_OFFLOAD_PARAMETERS, &off), (OID_OFFLOAD_ENCAPSULATION, &ethernet)] {
            let outcome = request(adapter, Operation::Set, false, oid, bytes);
            if outcome.status != NDIS_STATUS_NOT_SUPPORTED {
                violation(&format!("OID {oid:#010x}: {} of a miniport without offloads", outcome.status));
            }
        }
        return;
    };
    let expect = |what: &str, found: Option<Offloads>, wanted: Offloads| {
        if found.is_some_and(|found| found != wanted) {
            violation(&format!("offloads {what}: {found:?} instead of {wanted:?}"));
        }
    };
    expect("when a transport binds", set(adapter, OID_OFFLOAD_ENCAPSULATION, &ethernet, true), before);
    let none = encapsulation(NDIS_OFFLOAD_SET_OFF, 0);
    expect("off", set(adapter, OID_OFFLOAD_ENCAPSULATION, &none, true), Offloads::default());
    expect("on again", set(adapter, OID_OFFLOAD_ENCAPSULATION, &ethernet, true), before);
    let other = encapsulation(NDIS_OFFLOAD_SET_ON, 8);
    expect("of LLC", set(adapter, OID_OFFLOAD_ENCAPSULATION, &other, false), before);
    expect("turned off", set(adapter, OID_TCP_OFFLOAD_PARAMETERS, &off, true), Offloads::default());
    let unchanged = parameters(NDIS_OFFLOAD_PARAMETERS_NO_CHANGE, NDIS_OFFLOAD_PARAMETERS_NO_CHANGE);
    expect("left alone", set(adapter, OID_TCP_OFFLOAD_PARAMETERS, &unchanged, true), Offloads::default());
    let on = parameters(NDIS_OFFLOAD_PARAMETERS_TX_RX_ENABLED, NDIS_OFFLOAD_PARAMETERS_LSOV2_ENABLED);
    expect("turned on", set(adapter, OID_TCP_OFFLOAD_PARAMETERS, &on, true), capabilities);
    expect("off again", set(adapter, OID_OFFLOAD_ENCAPSULATION, &none, true), Offloads::default());
    // network/oid-tcp-offload-parameters: it can also activate what it configures.
    expect("turned on again", set(adapter, OID_TCP_OFFLOAD_PARAMETERS, &on, true), capabilities);
    let old = first_revision(off);
    let coalesces = Offloads { coalesce: capabilities.coalesce, ..Offloads::default() };
    expect("turned off by the first revision", set(adapter, OID_TCP_OFFLOAD_PARAMETERS, &old, true), coalesces);
    expect("on after the first revision", set(adapter, OID_TCP_OFFLOAD_PARAMETERS, &on, true), capabilities);
    for wrong in [parameters(9, 0), parameters(0, 9), vec![0; 0x14]] {
        expect("with a wrong setting", set(adapter, OID_TCP_OFFLOAD_PARAMETERS, &wrong, false), capabilities);
    }
    restore(adapter, before);
}

/// Turns on what was on, and all else off.
fn restore(adapter: &Adapter, wanted: Offloads) {
    let checksum = |on: bool| {
        (if on { NDIS_OFFLOAD_PARAMETERS_TX_ENABLED_RX_DISABLED } else { NDIS_OFFLOAD_PARAMETERS_TX_RX_DISABLED }) as u8
    };
    let large = |on: bool| {
        (if on { NDIS_OFFLOAD_PARAMETERS_LSOV2_ENABLED } else { NDIS_OFFLOAD_PARAMETERS_LSOV2_DISABLED }) as u8
    };
    let mut bytes = parameters(0, 0);
    bytes[4] = checksum(wanted.ipv4_checksum);
    bytes[5] = checksum(wanted.tcp_checksum[IPV4]);
    bytes[7] = checksum(wanted.tcp_checksum[IPV6]);
    for version in [IPV4, IPV6] {
        bytes[LARGE_SENDS[version]] = large(wanted.large_send[version].is_some());
        bytes[COALESCES[version]] = large(wanted.coalesce[version]);
    }
    if set(adapter, OID_TCP_OFFLOAD_PARAMETERS, &bytes, true).is_some_and(|found| found != wanted) {
        violation("the offloads cannot be turned on as they were");
    }
}

/// Turns large sends off while `body` runs, then on as they were. Without them nothing runs.
pub(crate) fn without_large_sends(adapter: &Adapter, body: impl FnOnce()) {
    let Some(State { current, .. }) = lock(&adapter.attributes).offloads else { return };
    if !current.any() {
        return;
    }
    let off = parameters(NDIS_OFFLOAD_PARAMETERS_NO_CHANGE, NDIS_OFFLOAD_PARAMETERS_LSOV2_DISABLED);
    if set(adapter, OID_TCP_OFFLOAD_PARAMETERS, &off, true).is_some() {
        body();
    }
    restore(adapter, current);
}
