//! Task offloads: the checksum of TCP over IPv4, and large sends over IPv4. As the adapter sends nowhere, it only says that it does them.

use core::sync::atomic::{AtomicU32, Ordering};

use ndk_abi::{describe::ZeroInit, ndis::*, status::*};

use crate::{
    attributes::{HEADER, MTU},
    fault::Fault,
    imports::NdisMIndicateStatusEx,
    miniport::adapter_handle,
};

const CHECKSUM: u32 = 1;
const LARGE_SEND: u32 = 2;
const ALL: u32 = CHECKSUM | LARGE_SEND;

/// What settings have turned on, and whether the encapsulation leaves it on.
static CONFIGURED: AtomicU32 = AtomicU32::new(ALL);
static ACTIVE: AtomicU32 = AtomicU32::new(ALL);

fn current() -> u32 {
    CONFIGURED.load(Ordering::Relaxed) & ACTIVE.load(Ordering::Relaxed)
}

/// As NDIS describes a set of them.
fn describe(set: u32) -> NDIS_OFFLOAD {
    let mut offload = NDIS_OFFLOAD {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_OFFLOAD,
            NDIS_OFFLOAD_REVISION_4,
            NDIS_SIZEOF_NDIS_OFFLOAD_REVISION_4,
        ),
        ..NDIS_OFFLOAD::ZERO
    };
    if set & CHECKSUM != 0 {
        // IpOptionsSupported, TcpOptionsSupported, TcpChecksum.
        offload.Checksum.IPv4Transmit = [NDIS_ENCAPSULATION_IEEE_802_3, 0b01_01_01];
    }
    if set & LARGE_SEND != 0 {
        offload.LsoV2.IPv4 = [NDIS_ENCAPSULATION_IEEE_802_3, 0x1_0000, 2];
    }
    offload
}

/// The structures of the attributes: what is on, and all.
pub(crate) fn descriptions() -> [NDIS_OFFLOAD; 2] {
    [describe(current()), describe(ALL)]
}

pub(crate) fn attributes([current, all]: &mut [NDIS_OFFLOAD; 2]) -> NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES {
    NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES,
            NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES_REVISION_1,
        ),
        DefaultOffloadConfiguration: current,
        HardwareOffloadCapabilities: all,
        ..NDIS_MINIPORT_ADAPTER_OFFLOAD_ATTRIBUTES::ZERO
    }
}

fn switch(place: &AtomicU32, set: u32, on: Option<bool>) {
    match on {
        None => {}
        Some(true) => _ = place.fetch_or(set, Ordering::Relaxed),
        Some(false) => _ = place.fetch_and(!set, Ordering::Relaxed),
    }
}

/// OID_TCP_OFFLOAD_PARAMETERS and OID_OFFLOAD_ENCAPSULATION.
///
/// # Safety
/// The buffer is as long as the request's structure.
pub(crate) unsafe fn set(data: &NDIS_OID_REQUEST_QUERY) -> NDIS_STATUS {
    let wrong = if Fault::TakesAnySetting.is_planted() { NDIS_STATUS_SUCCESS } else { NDIS_STATUS_INVALID_DATA };
    if data.Oid == OID_OFFLOAD_ENCAPSULATION {
        // SAFETY: passed on to the caller.
        let [enabled, kind, _] =
            unsafe { data.InformationBuffer.cast::<NDIS_OFFLOAD_ENCAPSULATION>().read_unaligned() }.IPv4;
        match enabled {
            NDIS_OFFLOAD_SET_ON if kind != NDIS_ENCAPSULATION_IEEE_802_3 => return wrong,
            NDIS_OFFLOAD_SET_ON => switch(&ACTIVE, ALL, Some(true)),
            _ => switch(&ACTIVE, ALL, Some(false)),
        }
    } else {
        let mut parameters = NDIS_OFFLOAD_PARAMETERS::ZERO;
        let length = size_of::<NDIS_OFFLOAD_PARAMETERS>().min(data.InformationBufferLength as usize);
        // SAFETY: passed on to the caller; as many bytes as both have.
        unsafe { (&raw mut parameters).cast::<u8>().copy_from(data.InformationBuffer.cast(), length) };
        let checksum = match u32::from(parameters.TCPIPv4Checksum) {
            NDIS_OFFLOAD_PARAMETERS_NO_CHANGE => None,
            NDIS_OFFLOAD_PARAMETERS_TX_RX_ENABLED | NDIS_OFFLOAD_PARAMETERS_TX_ENABLED_RX_DISABLED => Some(true),
            NDIS_OFFLOAD_PARAMETERS_TX_RX_DISABLED | NDIS_OFFLOAD_PARAMETERS_RX_ENABLED_TX_DISABLED => Some(false),
            _ => return wrong,
        };
        let large = match u32::from(parameters.LsoV2IPv4) {
            NDIS_OFFLOAD_PARAMETERS_NO_CHANGE => None,
            NDIS_OFFLOAD_PARAMETERS_LSOV2_ENABLED => Some(true),
            NDIS_OFFLOAD_PARAMETERS_LSOV2_DISABLED => Some(false),
            _ => return wrong,
        };
        if parameters.Header.Type != NDIS_OBJECT_TYPE_DEFAULT {
            return wrong;
        }
        switch(&CONFIGURED, CHECKSUM, checksum);
        switch(&CONFIGURED, LARGE_SEND, large);
        switch(&ACTIVE, CHECKSUM, checksum.filter(|on| *on));
        switch(&ACTIVE, LARGE_SEND, large.filter(|on| *on));
    }
    if !Fault::TellsNoOffloads.is_planted() {
        indicate();
    }
    NDIS_STATUS_SUCCESS
}

/// NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG.
fn indicate() {
    let mut current = describe(current());
    let status = NDIS_STATUS_INDICATION {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_STATUS_INDICATION,
            NDIS_STATUS_INDICATION_REVISION_1,
            NDIS_SIZEOF_STATUS_INDICATION_REVISION_1,
        ),
        SourceHandle: adapter_handle(),
        StatusCode: NDIS_STATUS_TASK_OFFLOAD_CURRENT_CONFIG,
        StatusBuffer: (&raw mut current).cast(),
        StatusBufferSize: NDIS_SIZEOF_NDIS_OFFLOAD_REVISION_4.into(),
        ..NDIS_STATUS_INDICATION::ZERO
    };
    // SAFETY: an indication that outlives the call.
    unsafe { NdisMIndicateStatusEx(adapter_handle(), &status) };
}

/// The status of a list that asks for a large send. `None`: it asks for none.
pub(crate) fn large_send(list: &mut NET_BUFFER_LIST) -> Option<NDIS_STATUS> {
    use NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO as LargeSend;
    const TCP_HEADER: usize = HEADER as usize + 20;
    let info = list.NetBufferListInfo.get_mut(TcpLargeSendNetBufferListInfo)?;
    let asked = LargeSend(info.addr() as u32);
    if asked.0 == 0 {
        return None;
    }
    if !Fault::LeavesLargeSends.is_planted() {
        *info = core::ptr::without_provenance_mut(LargeSend::COMPLETE.0 as usize);
    }
    let is_on = current() & LARGE_SEND != 0 || Fault::SegmentsWhileOff.is_planted();
    let fits = (1..=MTU as usize - 40).contains(&asked.mss());
    let is_right = !asked.is_ipv6() && asked.tcp_header_offset() == TCP_HEADER || Fault::SegmentsAnything.is_planted();
    Some(if is_on && fits && is_right { NDIS_STATUS_SUCCESS } else { NDIS_STATUS_INVALID_DATA })
}
