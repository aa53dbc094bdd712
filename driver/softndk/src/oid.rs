//! OID requests. The miniport completes each request within the call: no request pends, so no request is cancelled.
//!
//! If a buffer is too short the status is NDIS_STATUS_INVALID_LENGTH, or NDIS_STATUS_BUFFER_TOO_SHORT for the lists of connections and
//! endpoints, and BytesNeeded is the length needed. Otherwise BytesWritten or BytesRead is the number of bytes used ("Miniport driver OID
//! request handling").
#![expect(unsafe_code, reason = "handlers that NDIS calls, on requests and buffers that NDIS owns")]
#![expect(non_upper_case_globals, reason = "C names in patterns")]

use core::{ffi::c_void, mem::offset_of, slice, sync::atomic::Ordering};

use ndk_abi::{
    ndis::{
        NDIS_HANDLE, NDIS_INTERRUPT_MODERATION_PARAMETERS, NDIS_INTERRUPT_MODERATION_PARAMETERS_REVISION_1,
        NDIS_NDK_CONNECTION_ENTRY, NDIS_NDK_CONNECTIONS, NDIS_NDK_CONNECTIONS_REVISION_1,
        NDIS_NDK_LOCAL_ENDPOINT_ENTRY, NDIS_NDK_LOCAL_ENDPOINTS, NDIS_NDK_LOCAL_ENDPOINTS_REVISION_1,
        NDIS_NDK_STATISTICS_INFO, NDIS_NDK_STATISTICS_INFO_REVISION_1, NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_DEFAULT,
        NDIS_OFFLOAD_PARAMETERS, NDIS_OFFLOAD_PARAMETERS_REVISION_3, NDIS_OID_REQUEST,
        NDIS_SIZEOF_INTERRUPT_MODERATION_PARAMETERS_REVISION_1, NDIS_SIZEOF_NDK_STATISTICS_INFO_REVISION_1,
        NDIS_SIZEOF_OFFLOAD_PARAMETERS_REVISION_1, NDIS_SIZEOF_OFFLOAD_PARAMETERS_REVISION_3,
        NDIS_SIZEOF_STATISTICS_INFO_REVISION_1, NDIS_STATISTICS_INFO, NDIS_STATISTICS_INFO_REVISION_1,
        NdisInterruptModerationNotSupported, NdisRequestQueryInformation, NdisRequestQueryStatistics,
        NdisRequestSetInformation, OID_802_3_CURRENT_ADDRESS, OID_802_3_MAXIMUM_LIST_SIZE, OID_802_3_MULTICAST_LIST,
        OID_802_3_PERMANENT_ADDRESS, OID_GEN_CURRENT_LOOKAHEAD, OID_GEN_CURRENT_PACKET_FILTER,
        OID_GEN_INTERRUPT_MODERATION, OID_GEN_LINK_PARAMETERS, OID_GEN_MAXIMUM_TOTAL_SIZE, OID_GEN_RCV_OK,
        OID_GEN_RECEIVE_BLOCK_SIZE, OID_GEN_RECEIVE_BUFFER_SPACE, OID_GEN_STATISTICS, OID_GEN_TRANSMIT_BLOCK_SIZE,
        OID_GEN_TRANSMIT_BUFFER_SPACE, OID_GEN_VENDOR_DESCRIPTION, OID_GEN_VENDOR_DRIVER_VERSION, OID_GEN_VENDOR_ID,
        OID_GEN_XMIT_OK, OID_NDK_CONNECTIONS, OID_NDK_LOCAL_ENDPOINTS, OID_NDK_SET_STATE, OID_NDK_STATISTICS,
        OID_OFFLOAD_ENCAPSULATION, OID_PNP_QUERY_POWER, OID_PNP_SET_POWER, OID_TCP_OFFLOAD_PARAMETERS,
        OID_TCP_RSC_STATISTICS,
    },
    sockaddr::SOCKADDR_INET,
    status::{
        NDIS_STATUS, NDIS_STATUS_BUFFER_TOO_SHORT, NDIS_STATUS_INVALID_DATA, NDIS_STATUS_INVALID_LENGTH,
        NDIS_STATUS_NOT_SUPPORTED, NDIS_STATUS_RESOURCES, STATUS_SUCCESS,
    },
};
use ndk_provider::{ConnectionSide, LocalEndpoint};
use platform::{Event, Passive};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::{
    adapter::Adapter,
    attributes::{self, ETHERNET_HEADER, MULTICAST_LIST_SIZE, PACKET_FILTERS, STATISTICS},
    cable::Cable,
    configuration, driver, ndk,
    offload::Offloads,
    platform::Windows,
    traffic::{Count, Frames},
};

/// OID_GEN_SUPPORTED_LIST. NDIS answers some of these from the general attributes; this module answers the others.
pub(crate) static SUPPORTED_OIDS: [u32; 28] = [
    OID_GEN_CURRENT_LOOKAHEAD,
    OID_GEN_CURRENT_PACKET_FILTER,
    OID_GEN_INTERRUPT_MODERATION,
    OID_GEN_LINK_PARAMETERS,
    OID_GEN_MAXIMUM_TOTAL_SIZE,
    OID_GEN_RCV_OK,
    OID_GEN_RECEIVE_BLOCK_SIZE,
    OID_GEN_RECEIVE_BUFFER_SPACE,
    OID_GEN_STATISTICS,
    OID_GEN_TRANSMIT_BLOCK_SIZE,
    OID_GEN_TRANSMIT_BUFFER_SPACE,
    OID_GEN_VENDOR_DESCRIPTION,
    OID_GEN_VENDOR_DRIVER_VERSION,
    OID_GEN_VENDOR_ID,
    OID_GEN_XMIT_OK,
    OID_802_3_CURRENT_ADDRESS,
    OID_802_3_MAXIMUM_LIST_SIZE,
    OID_802_3_MULTICAST_LIST,
    OID_802_3_PERMANENT_ADDRESS,
    OID_PNP_QUERY_POWER,
    OID_PNP_SET_POWER,
    OID_NDK_SET_STATE,
    OID_NDK_STATISTICS,
    OID_NDK_CONNECTIONS,
    OID_NDK_LOCAL_ENDPOINTS,
    OID_OFFLOAD_ENCAPSULATION,
    OID_TCP_OFFLOAD_PARAMETERS,
    OID_TCP_RSC_STATISTICS,
];

/// [`SUPPORTED_OIDS`] without its last three, which an adapter without a cable does not support.
pub(crate) fn without_offloads() -> &'static [u32] {
    SUPPORTED_OIDS.split_last_chunk::<3>().map_or(&[], |(others, _)| others)
}

/// OID_GEN_VENDOR_ID of a vendor to which IEEE has assigned no number.
const NO_VENDOR_ID: u32 = 0x00FF_FFFF;

/// OID_GEN_VENDOR_DESCRIPTION, null-terminated.
const DESCRIPTION: &[u8] = b"SoftNDK virtual RDMA adapter\0";

/// Bytes of a multicast address.
const MAC_LENGTH: u32 = 6;

/// Bytes of a list of connections or endpoints before its first entry.
const LIST_HEAD: usize = offset_of!(NDIS_NDK_CONNECTIONS, Connections);
const _: () = assert!(LIST_HEAD == offset_of!(NDIS_NDK_LOCAL_ENDPOINTS, LocalEndpoints));
const _: () = assert!(offset_of!(NDIS_NDK_CONNECTIONS, Count) == offset_of!(NDIS_NDK_LOCAL_ENDPOINTS, Count));

/// The offset of a list's flag for entries in pairs: the NDK entry, then the entry of its TCP connection or endpoint.
const MAPPED: usize = offset_of!(NDIS_NDK_CONNECTIONS, NDConnectionsMappedtoTCPConnections);
const _: () = assert!(MAPPED == offset_of!(NDIS_NDK_LOCAL_ENDPOINTS, NDLocalEndpointsMappedtoTCPLocalEndpoints));

/// `MiniportOidRequest`. PASSIVE_LEVEL, one request at a time.
pub(crate) unsafe extern "system" fn request(context: NDIS_HANDLE, request: *mut NDIS_OID_REQUEST) -> NDIS_STATUS {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the context of this adapter, which NDIS does not halt during a request.
    let adapter = unsafe { Adapter::from_context(context) };
    // SAFETY: NDIS gives a valid request, which this driver owns until the request is completed.
    let Some(mut buffer) = (unsafe { Buffer::new(request) }) else { return NDIS_STATUS_NOT_SUPPORTED };
    let outcome = match buffer.kind {
        Kind::Query => query(adapter, &mut buffer),
        Kind::Set => set(adapter, &mut buffer, &passive),
    };
    buffer.finish(outcome)
}

/// `MiniportDirectOidRequest`. <= DISPATCH_LEVEL, any number at a time.
pub(crate) unsafe extern "system" fn direct_request(
    context: NDIS_HANDLE,
    request: *mut NDIS_OID_REQUEST,
) -> NDIS_STATUS {
    // SAFETY: the context of this adapter, which NDIS does not halt during a request.
    let adapter = unsafe { Adapter::from_context(context) };
    // SAFETY: NDIS gives a valid request, which this driver owns until the request is completed.
    let Some(mut buffer) = (unsafe { Buffer::new(request) }) else { return NDIS_STATUS_NOT_SUPPORTED };
    let outcome = match (buffer.oid, buffer.kind) {
        (OID_NDK_STATISTICS, Kind::Query) => rdma_statistics(adapter, &mut buffer),
        _ => Err(NDIS_STATUS_NOT_SUPPORTED),
    };
    buffer.finish(outcome)
}

/// `MiniportCancelOidRequest` and `MiniportCancelDirectOidRequest`: do nothing, as no request pends. <= DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn cancel(_context: NDIS_HANDLE, _id: *mut c_void) {}

fn query(adapter: &Adapter, buffer: &mut Buffer) -> Result<(), NDIS_STATUS> {
    match buffer.oid {
        OID_GEN_CURRENT_LOOKAHEAD => buffer.answer_number(adapter.lookahead.load(Ordering::Relaxed)),
        OID_GEN_CURRENT_PACKET_FILTER => buffer.answer_number(adapter.traffic().packet_filter.load(Ordering::Relaxed)),
        OID_GEN_INTERRUPT_MODERATION => buffer.answer(
            NDIS_INTERRUPT_MODERATION_PARAMETERS {
                Header: NDIS_OBJECT_HEADER::new(
                    NDIS_OBJECT_TYPE_DEFAULT,
                    NDIS_INTERRUPT_MODERATION_PARAMETERS_REVISION_1,
                    NDIS_SIZEOF_INTERRUPT_MODERATION_PARAMETERS_REVISION_1,
                ),
                Flags: 0,
                InterruptModeration: NdisInterruptModerationNotSupported,
            }
            .as_bytes(),
        ),
        // Each buffer holds one frame.
        OID_GEN_MAXIMUM_TOTAL_SIZE
        | OID_GEN_RECEIVE_BLOCK_SIZE
        | OID_GEN_RECEIVE_BUFFER_SPACE
        | OID_GEN_TRANSMIT_BLOCK_SIZE
        | OID_GEN_TRANSMIT_BUFFER_SPACE => buffer.answer_number(adapter.mtu().saturating_add(ETHERNET_HEADER)),
        OID_GEN_STATISTICS => statistics(adapter, buffer),
        OID_GEN_VENDOR_DESCRIPTION => buffer.answer(DESCRIPTION),
        OID_GEN_VENDOR_DRIVER_VERSION => {
            let [major, minor, ..] = driver::VERSION;
            buffer.answer_number(u32::from(major) << 16 | u32::from(minor))
        }
        OID_GEN_VENDOR_ID => buffer.answer_number(NO_VENDOR_ID),
        OID_GEN_XMIT_OK => {
            let frames = adapter.traffic().sent.read().frames();
            buffer.answer_count(frames.wrapping_add(adapter.provider().counters().RDMAOutFrames))
        }
        OID_GEN_RCV_OK => {
            let frames = adapter.traffic().received.read().frames();
            buffer.answer_count(frames.wrapping_add(adapter.provider().counters().RDMAInFrames))
        }
        OID_802_3_MAXIMUM_LIST_SIZE => buffer.answer_number(MULTICAST_LIST_SIZE),
        OID_PNP_QUERY_POWER => Ok(()),
        OID_NDK_STATISTICS => rdma_statistics(adapter, buffer),
        OID_TCP_RSC_STATISTICS => coalesced(adapter, buffer),
        OID_NDK_CONNECTIONS => connections(adapter, buffer),
        OID_NDK_LOCAL_ENDPOINTS => local_endpoints(adapter, buffer),
        _ => Err(NDIS_STATUS_NOT_SUPPORTED),
    }
}

fn set(adapter: &Adapter, buffer: &mut Buffer, passive: &Passive<'_>) -> Result<(), NDIS_STATUS> {
    match buffer.oid {
        OID_GEN_CURRENT_LOOKAHEAD => {
            let lookahead = buffer.take_number()?;
            if lookahead > adapter.mtu() {
                return Err(NDIS_STATUS_INVALID_DATA);
            }
            adapter.lookahead.store(lookahead, Ordering::Relaxed);
            Ok(())
        }
        OID_GEN_CURRENT_PACKET_FILTER => {
            let filter = buffer.take_number()?;
            if filter & !PACKET_FILTERS != 0 {
                return Err(NDIS_STATUS_NOT_SUPPORTED);
            }
            adapter.traffic().packet_filter.store(filter, Ordering::Relaxed);
            Ok(())
        }
        // The length of the list is checked, but the list is not stored: see `Cable::wants`.
        OID_802_3_MULTICAST_LIST => {
            let length = buffer.length;
            if !length.is_multiple_of(MAC_LENGTH) || length > MULTICAST_LIST_SIZE * MAC_LENGTH {
                return Err(NDIS_STATUS_INVALID_LENGTH);
            }
            buffer.used = length;
            Ok(())
        }
        // The adapter has no hardware to power down.
        OID_PNP_SET_POWER => buffer.take_number().map(|_state| ()),
        OID_NDK_SET_STATE => {
            let enable = buffer.take(1)?.first().is_some_and(|flag| *flag != 0);
            if enable && !configuration::network_direct(adapter.miniport(), passive)? {
                return Err(NDIS_STATUS_NOT_SUPPORTED);
            }
            ndk::set_state(adapter, enable)
        }
        OID_OFFLOAD_ENCAPSULATION => {
            change_offloads(adapter, |offloads| offloads.set_encapsulation(&buffer.take_structure()?), passive)
        }
        OID_TCP_OFFLOAD_PARAMETERS => {
            change_offloads(adapter, |offloads| offloads.set_parameters(&buffer.take_parameters()?), passive)
        }
        // The virtual link has no parameters, and the adapter no interrupts.
        OID_GEN_LINK_PARAMETERS | OID_GEN_INTERRUPT_MODERATION => Err(NDIS_STATUS_NOT_SUPPORTED),
        _ => Err(NDIS_STATUS_NOT_SUPPORTED),
    }
}

/// Changes the task offloads of an adapter with a cable, and tells NDIS which are on now, when no segments are joined that are not to be any more
/// ("Querying and Changing RSC State").
fn change_offloads(
    adapter: &Adapter,
    change: impl FnOnce(&Offloads) -> Result<(), NDIS_STATUS>,
    passive: &Passive<'_>,
) -> Result<(), NDIS_STATUS> {
    let cable = adapter.cable().ok_or(NDIS_STATUS_NOT_SUPPORTED)?;
    let flushed = Event::new().map_err(|_| NDIS_STATUS_RESOURCES)?;
    change(&adapter.offloads)?;
    Cable::flush(&cable, flushed, passive);
    attributes::indicate_offloads(adapter.miniport(), adapter.offloads.current());
    Ok(())
}

/// OID_TCP_RSC_STATISTICS, of an adapter with a cable.
fn coalesced(adapter: &Adapter, buffer: &mut Buffer) -> Result<(), NDIS_STATUS> {
    let cable = adapter.cable().ok_or(NDIS_STATUS_NOT_SUPPORTED)?;
    buffer.answer(cable.coalesced().as_bytes())
}

/// OID_NDK_STATISTICS. <= DISPATCH_LEVEL, any number at a time: takes no lock.
fn rdma_statistics(adapter: &Adapter, buffer: &mut Buffer) -> Result<(), NDIS_STATUS> {
    let statistics = NDIS_NDK_STATISTICS_INFO {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NDIS_NDK_STATISTICS_INFO_REVISION_1,
            NDIS_SIZEOF_NDK_STATISTICS_INFO_REVISION_1,
        ),
        Flags: 0,
        CounterSet: adapter.provider().counters(),
    };
    buffer.answer(statistics.as_bytes())
}

/// OID_GEN_STATISTICS. RDMA traffic counts as directed frames.
fn statistics(adapter: &Adapter, buffer: &mut Buffer) -> Result<(), NDIS_STATUS> {
    let rdma = adapter.provider().counters();
    let with_rdma = |frames: Frames, rdma_frames: u64, rdma_octets: u64| Frames {
        directed: Count {
            frames: frames.directed.frames.wrapping_add(rdma_frames),
            octets: frames.directed.octets.wrapping_add(rdma_octets),
        },
        ..frames
    };
    let sent = with_rdma(adapter.traffic().sent.read(), rdma.RDMAOutFrames, rdma.RDMAOutOctets);
    let received = with_rdma(adapter.traffic().received.read(), rdma.RDMAInFrames, rdma.RDMAInOctets);
    let statistics = NDIS_STATISTICS_INFO {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEFAULT,
            NDIS_STATISTICS_INFO_REVISION_1,
            NDIS_SIZEOF_STATISTICS_INFO_REVISION_1,
        ),
        SupportedStatistics: STATISTICS,
        ifInDiscards: received.discards,
        ifInErrors: received.errors,
        ifHCInOctets: received.octets(),
        ifHCInUcastPkts: received.directed.frames,
        ifHCInMulticastPkts: received.multicast.frames,
        ifHCInBroadcastPkts: received.broadcast.frames,
        ifHCInUcastOctets: received.directed.octets,
        ifHCInMulticastOctets: received.multicast.octets,
        ifHCInBroadcastOctets: received.broadcast.octets,
        ifHCOutOctets: sent.octets(),
        ifHCOutUcastPkts: sent.directed.frames,
        ifHCOutMulticastPkts: sent.multicast.frames,
        ifHCOutBroadcastPkts: sent.broadcast.frames,
        ifHCOutUcastOctets: sent.directed.octets,
        ifHCOutMulticastOctets: sent.multicast.octets,
        ifHCOutBroadcastOctets: sent.broadcast.octets,
        ifOutErrors: sent.errors,
        ifOutDiscards: sent.discards,
    };
    buffer.answer(statistics.as_bytes())
}

/// OID_NDK_CONNECTIONS: for each side of a connection its NDK entry, then the entry of its TCP connection, zeroed if the side has none.
fn connections(adapter: &Adapter, buffer: &mut Buffer) -> Result<(), NDIS_STATUS> {
    let pair = |side: ConnectionSide| {
        let (local, remote) = (SOCKADDR_INET::new(side.local), SOCKADDR_INET::new(side.remote));
        let without_owner = NDIS_NDK_CONNECTION_ENTRY::new_zeroed();
        let tcp = NDIS_NDK_CONNECTION_ENTRY { Local: local, Remote: remote, ..without_owner };
        let ndk = NDIS_NDK_CONNECTION_ENTRY {
            UserModeOwner: side.process.is_some().into(),
            OwnerPid: side.process.unwrap_or(0),
            ..tcp
        };
        [ndk, if side.over_tcp { tcp } else { without_owner }]
    };
    buffer.answer_list(NDIS_NDK_CONNECTIONS_REVISION_1, || adapter.provider().connections().map(pair))
}

/// OID_NDK_LOCAL_ENDPOINTS: for each listener and shared endpoint its NDK entry, then its TCP entry. The TCP entry of a shared endpoint is
/// zeroed: TCP picks a port for each of its connections.
fn local_endpoints(adapter: &Adapter, buffer: &mut Buffer) -> Result<(), NDIS_STATUS> {
    let pair = |endpoint: LocalEndpoint| {
        let without_owner = NDIS_NDK_LOCAL_ENDPOINT_ENTRY::new_zeroed();
        let tcp = NDIS_NDK_LOCAL_ENDPOINT_ENTRY { Local: SOCKADDR_INET::new(endpoint.local), ..without_owner };
        let ndk = NDIS_NDK_LOCAL_ENDPOINT_ENTRY {
            UserModeOwner: endpoint.process.is_some().into(),
            Listener: endpoint.listener.into(),
            OwnerPid: endpoint.process.unwrap_or(0),
            ..tcp
        };
        [ndk, if endpoint.listener { tcp } else { without_owner }]
    };
    buffer.answer_list(NDIS_NDK_LOCAL_ENDPOINTS_REVISION_1, || adapter.provider().local_endpoints().map(pair))
}

#[derive(Clone, Copy)]
enum Kind {
    Query,
    Set,
}

/// A query or set: its buffer, and the numbers of bytes that were used, or would be needed.
struct Buffer {
    request: *mut NDIS_OID_REQUEST,
    oid: u32,
    kind: Kind,
    memory: *mut u8,
    length: u32,
    used: u32,
    needed: u32,
}

impl Buffer {
    /// `None`: the request is neither a query nor a set.
    ///
    /// # Safety
    /// `request` and its buffer are valid and unshared until `finish`.
    unsafe fn new(request: *mut NDIS_OID_REQUEST) -> Option<Self> {
        // SAFETY: valid, by contract. Only the beginning is read: the size of the structure depends on the version of NDIS.
        let kind = match unsafe { (*request).RequestType } {
            NdisRequestQueryInformation | NdisRequestQueryStatistics => Kind::Query,
            NdisRequestSetInformation => Kind::Set,
            _ => return None,
        };
        // SAFETY: valid, by contract.
        let data = unsafe { (*request).DATA };
        // SAFETY: queries and sets have the same layout.
        let query = unsafe { data.QUERY_INFORMATION };
        let memory: *mut u8 = query.InformationBuffer.cast();
        let length = if memory.is_null() { 0 } else { query.InformationBufferLength };
        Some(Self { request, oid: query.Oid, kind, memory, length, used: 0, needed: 0 })
    }

    /// Reports the bytes used and needed. BytesWritten of a query has the offset of BytesRead of a set, and BytesNeeded has the same offset
    /// in both.
    fn finish(self, outcome: Result<(), NDIS_STATUS>) -> NDIS_STATUS {
        // SAFETY: valid and unshared, by contract of `new`.
        let data = unsafe { &mut (*self.request).DATA };
        // SAFETY: queries and sets have the same layout.
        let query = unsafe { &mut data.QUERY_INFORMATION };
        query.BytesWritten = self.used;
        query.BytesNeeded = self.needed;
        match outcome {
            Ok(()) => STATUS_SUCCESS,
            Err(status) => status,
        }
    }

    /// Checks that the buffer has `length` bytes.
    fn require(&mut self, length: u32) -> Result<(), NDIS_STATUS> {
        if self.length >= length {
            return Ok(());
        }
        self.needed = length;
        Err(NDIS_STATUS_INVALID_LENGTH)
    }

    /// Answers a query.
    fn answer(&mut self, bytes: &[u8]) -> Result<(), NDIS_STATUS> {
        let length = bytes.len() as u32;
        self.require(length)?;
        self.put(0, bytes);
        self.used = length;
        Ok(())
    }

    /// Writes `bytes` at `offset`, if there is room for them.
    fn put(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let fits = offset.checked_add(bytes.len()).is_some_and(|end| end <= self.length as usize);
        if fits {
            // SAFETY: inside the buffer, or at its end, as `bytes` fit.
            let place = unsafe { self.memory.add(offset) };
            // SAFETY: the buffer has room for `bytes` there, and does not overlap them, as it is NDIS's.
            unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        fits
    }

    /// Answers with NDIS_NDK_CONNECTIONS or NDIS_NDK_LOCAL_ENDPOINTS, in pairs: an NDK entry and a TCP entry. The device's list is read
    /// twice. If it grows in between, the answer has the pairs for which the buffer has room.
    fn answer_list<T: IntoBytes + Immutable, I: Iterator<Item = [T; 2]>>(
        &mut self,
        revision: u8,
        pairs: impl Fn() -> I,
    ) -> Result<(), NDIS_STATUS> {
        let length = |pairs: usize| pairs.saturating_mul(size_of::<[T; 2]>()).saturating_add(LIST_HEAD);
        let saturated = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        self.require(saturated(length(pairs().count()))).map_err(|_| NDIS_STATUS_BUFFER_TOO_SHORT)?;
        let mut count = 0_usize;
        for pair in pairs() {
            if !self.put(length(count), pair.as_bytes()) {
                break;
            }
            count = count.saturating_add(1);
        }
        let size = u16::try_from(length(count)).unwrap_or(u16::MAX);
        let header = NDIS_OBJECT_HEADER::new(NDIS_OBJECT_TYPE_DEFAULT, revision, size);
        // The header, no flags, the count, and the flag that entries come in pairs.
        self.put(0, &[0; LIST_HEAD]);
        self.put(0, header.as_bytes());
        self.put(MAPPED, &[1]);
        self.put(offset_of!(NDIS_NDK_CONNECTIONS, Count), &saturated(count.saturating_mul(2)).to_ne_bytes());
        self.used = saturated(length(count));
        Ok(())
    }

    fn answer_number(&mut self, number: u32) -> Result<(), NDIS_STATUS> {
        self.answer(&number.to_ne_bytes())
    }

    /// Answers with a counter: 64 bits if the buffer has room for them, else the low 32 bits ("OID_GEN_XMIT_OK").
    fn answer_count(&mut self, count: u64) -> Result<(), NDIS_STATUS> {
        if self.length as usize >= size_of::<u64>() {
            return self.answer(&count.to_ne_bytes());
        }
        self.needed = size_of::<u64>() as u32;
        self.answer_number(count as u32)
    }

    /// The first `length` bytes of a set's buffer.
    fn take(&mut self, length: u32) -> Result<&[u8], NDIS_STATUS> {
        self.require(length)?;
        self.used = length;
        // SAFETY: the buffer has `length` bytes, which the sender of the request has initialised.
        Ok(unsafe { slice::from_raw_parts(self.memory, length as usize) })
    }

    /// The structure at the start of a set's buffer.
    fn take_structure<T: FromBytes>(&mut self) -> Result<T, NDIS_STATUS> {
        let bytes = self.take(size_of::<T>() as u32)?;
        T::read_from_bytes(bytes).map_err(|_| NDIS_STATUS_INVALID_LENGTH)
    }

    /// NDIS_OFFLOAD_PARAMETERS. The members that its revision does not have are 0, which changes nothing.
    fn take_parameters(&mut self) -> Result<NDIS_OFFLOAD_PARAMETERS, NDIS_STATUS> {
        let header = self.take_structure::<NDIS_OBJECT_HEADER>()?;
        let length = match header.Revision {
            ..NDIS_OFFLOAD_PARAMETERS_REVISION_3 => NDIS_SIZEOF_OFFLOAD_PARAMETERS_REVISION_1,
            _ => NDIS_SIZEOF_OFFLOAD_PARAMETERS_REVISION_3,
        };
        let bytes = self.take(length.into())?;
        let mut parameters = NDIS_OFFLOAD_PARAMETERS::new_zeroed();
        parameters.as_mut_bytes().iter_mut().zip(bytes).for_each(|(member, byte)| *member = *byte);
        Ok(parameters)
    }

    fn take_number(&mut self) -> Result<u32, NDIS_STATUS> {
        let bytes = self.take(size_of::<u32>() as u32)?;
        bytes.try_into().map(u32::from_ne_bytes).map_err(|_| NDIS_STATUS_INVALID_LENGTH)
    }
}
