//! OID requests.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering},
};

use ndk_abi::{describe::ZeroInit, ndis::*, status::*};

use crate::{
    attributes::PACKET_FILTERS,
    fault::Fault,
    imports::{
        KeAcquireSpinLockAtDpcLevel, KeReleaseSpinLockFromDpcLevel, NdisAllocateIoWorkItem, NdisFreeIoWorkItem,
        NdisMNetPnPEvent, NdisMOidRequestComplete, NdisQueueIoWorkItem,
    },
    miniport::{ERRORS, adapter_handle},
    offload,
};

/// Serves a regular request (ndis/nc-ndis-miniport_oid_request).
pub(crate) unsafe extern "system" fn request(_context: NDIS_HANDLE, request: *mut NDIS_OID_REQUEST) -> NDIS_STATUS {
    if Fault::KeepsRequest.is_planted_once() {
        return NDIS_STATUS_PENDING;
    }
    // SAFETY: NDIS gives a request that is this driver's until it returns.
    let oid = unsafe { &mut *request };
    // SAFETY: both members have the same layout.
    let data = unsafe { &mut oid.DATA.QUERY_INFORMATION };
    let sets_state = data.Oid == OID_NDK_SET_STATE;
    let status = if oid.RequestType == NdisRequestQueryInformation { query(data) } else { set(data) };
    let pends = Fault::PendsSetState.is_planted() && sets_state;
    if pends || Fault::CompletesWhatDidNotPend.is_planted() {
        // SAFETY: the request of this call.
        unsafe { NdisMOidRequestComplete(adapter_handle(), request, status.0) };
    }
    if pends { NDIS_STATUS_PENDING } else { status }
}

/// Serves a direct request (ndis/nc-ndis-miniport_direct_oid_request).
pub(crate) unsafe extern "system" fn direct(context: NDIS_HANDLE, oid: *mut NDIS_OID_REQUEST) -> NDIS_STATUS {
    let mut lock = 0;
    if Fault::TakesLock.is_planted() {
        // SAFETY: a free lock, at the level of this call, which is DISPATCH_LEVEL here.
        unsafe {
            KeAcquireSpinLockAtDpcLevel(&mut lock);
            KeReleaseSpinLockFromDpcLevel(&mut lock);
        }
    }
    // SAFETY: as for a regular request.
    unsafe { request(context, oid) }
}

fn header(size: u16) -> [u8; 4] {
    let kind = if Fault::AnswersWithType.is_planted() { 0x7F } else { NDIS_OBJECT_TYPE_DEFAULT };
    let revision = if Fault::AnswersWithRevision.is_planted() { 0x7F } else { 1 };
    let [low, high] = if Fault::AnswersWithSize.is_planted() { size - 1 } else { size }.to_le_bytes();
    [kind, revision, low, high]
}

/// Places in NDIS_STATISTICS_INFO.
const SUPPORTED: usize = core::mem::offset_of!(NDIS_STATISTICS_INFO, SupportedStatistics);
const OUT_ERRORS: usize = core::mem::offset_of!(NDIS_STATISTICS_INFO, ifOutErrors);

fn put(answer: &mut [u8], at: usize, bytes: &[u8]) {
    answer.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
}

fn query(data: &mut NDIS_OID_REQUEST_QUERY) -> NDIS_STATUS {
    if Fault::AnswersNothing.is_planted() {
        return NDIS_STATUS_NOT_SUPPORTED;
    }
    let mut answer = [0_u8; 0x100];
    let length: u16 = match data.Oid {
        OID_PNP_QUERY_POWER if !Fault::RefusesPower.is_planted() => 0,
        OID_GEN_VENDOR_DESCRIPTION => 9,
        OID_GEN_STATISTICS => NDIS_SIZEOF_STATISTICS_INFO_REVISION_1,
        OID_GEN_INTERRUPT_MODERATION => NDIS_SIZEOF_INTERRUPT_MODERATION_PARAMETERS_REVISION_1,
        OID_NDK_STATISTICS => NDIS_SIZEOF_NDK_STATISTICS_INFO_REVISION_1,
        OID_NDK_CONNECTIONS | OID_NDK_LOCAL_ENDPOINTS => 0x10,
        OID_GEN_XMIT_OK | OID_GEN_RCV_OK => 8,
        OID_GEN_MAXIMUM_TOTAL_SIZE
        | OID_GEN_RECEIVE_BLOCK_SIZE
        | OID_GEN_RECEIVE_BUFFER_SPACE
        | OID_GEN_TRANSMIT_BLOCK_SIZE
        | OID_GEN_TRANSMIT_BUFFER_SPACE
        | OID_GEN_VENDOR_ID
        | OID_GEN_VENDOR_DRIVER_VERSION => 4,
        _ => return NDIS_STATUS_NOT_SUPPORTED,
    };
    if length > 8 {
        let text = if data.Oid == OID_GEN_VENDOR_DESCRIPTION { *b"self" } else { header(length) };
        if let Some(head) = answer.first_chunk_mut() {
            *head = text;
        }
    }
    match data.Oid {
        // Entries, of which there are none, come in pairs.
        OID_NDK_CONNECTIONS | OID_NDK_LOCAL_ENDPOINTS => {
            if let Some(mapped) = answer.get_mut(0x0C) {
                *mapped = u8::from(!Fault::ListsNoPairs.is_planted());
            }
        }
        OID_GEN_STATISTICS => {
            let counts_nothing = Fault::CountsNothing.is_planted();
            let directed = if counts_nothing { NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_XMIT } else { 0 };
            put(&mut answer, SUPPORTED, &(directed | NDIS_STATISTICS_FLAGS_VALID_XMIT_ERROR).to_le_bytes());
            put(&mut answer, OUT_ERRORS, &ERRORS.load(Ordering::Relaxed).to_le_bytes());
        }
        _ => {}
    }
    if data.InformationBufferLength < length.into() {
        data.BytesNeeded = length.into();
        return NDIS_STATUS_BUFFER_TOO_SHORT;
    }
    // SAFETY: the buffer has at least that many bytes.
    unsafe { data.InformationBuffer.cast::<u8>().copy_from(answer.as_ptr(), length.into()) };
    data.BytesWritten = length.into();
    NDIS_STATUS_SUCCESS
}

/// What OID_NDK_SET_STATE said last.
pub(crate) static ENABLED: AtomicBool = AtomicBool::new(true);

fn set(data: &mut NDIS_OID_REQUEST_QUERY) -> NDIS_STATUS {
    if Fault::AnswersNothing.is_planted() {
        return NDIS_STATUS_NOT_SUPPORTED;
    }
    let length = match data.Oid {
        OID_GEN_CURRENT_LOOKAHEAD | OID_GEN_CURRENT_PACKET_FILTER => 4,
        OID_PNP_SET_POWER if !Fault::RefusesPower.is_planted() => 4,
        OID_NDK_SET_STATE => 1,
        OID_OFFLOAD_ENCAPSULATION => size_of::<NDIS_OFFLOAD_ENCAPSULATION>() as u32,
        OID_TCP_OFFLOAD_PARAMETERS => NDIS_SIZEOF_OFFLOAD_PARAMETERS_REVISION_1.into(),
        _ => return NDIS_STATUS_NOT_SUPPORTED,
    };
    if data.InformationBufferLength < length {
        data.BytesNeeded = length;
        return NDIS_STATUS_INVALID_LENGTH;
    }
    if data.Oid == OID_GEN_CURRENT_PACKET_FILTER {
        // SAFETY: the buffer has four bytes.
        let filter = unsafe { data.InformationBuffer.cast::<u32>().read_unaligned() };
        if filter & !PACKET_FILTERS != 0 {
            return NDIS_STATUS_NOT_SUPPORTED;
        }
    }
    data.BytesWritten = length; // BytesRead, in a set.
    if [OID_OFFLOAD_ENCAPSULATION, OID_TCP_OFFLOAD_PARAMETERS].contains(&data.Oid) {
        // SAFETY: the buffer is as long.
        return unsafe { offload::set(data) };
    }
    if data.Oid == OID_NDK_SET_STATE {
        // SAFETY: the buffer has one byte; the item is freed in its routine.
        unsafe {
            let enable = data.InformationBuffer.cast::<u8>().read();
            ENABLED.store(enable != 0, Ordering::Relaxed);
            let item = NdisAllocateIoWorkItem(adapter_handle());
            let enable = usize::from(enable != 0) as *mut c_void;
            if Fault::RaisesEventInHandler.is_planted() && !enable.is_null() {
                raise_event(enable, item);
            } else {
                NdisQueueIoWorkItem(item, raise_event, enable);
            }
        }
    }
    NDIS_STATUS_SUCCESS
}

/// Raises NetEventNDKEnable or NetEventNDKDisable, away from the request handler.
unsafe extern "system" fn raise_event(enable: *mut c_void, item: NDIS_HANDLE) {
    let mut event = NET_PNP_EVENT_NOTIFICATION {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NET_PNP_EVENT_NOTIFICATION_REVISION_1,
            NDIS_SIZEOF_NET_PNP_EVENT_NOTIFICATION_REVISION_1,
        ),
        ..NET_PNP_EVENT_NOTIFICATION::ZERO
    };
    event.NetPnPEvent.NetEvent = if enable.is_null() { NetEventNDKDisable } else { NetEventNDKEnable };
    // SAFETY: as documented.
    unsafe {
        NdisMNetPnPEvent(adapter_handle(), &event);
        NdisFreeIoWorkItem(item);
    }
}
