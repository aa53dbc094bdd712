//! Diagnostic requests, about an adapter, and the memory of the driver. Any file can send them at any time, also while other requests are stuck.
//!
//! They change nothing, allocate nothing, and keep no reference. They take only the locks of the tables, each for one entry. One request
//! returns a bounded part of a list; the program asks for the next part from where the last one ended.

use core::net::SocketAddr;
use core::sync::atomic::Ordering;

use ndk_abi::describe::ZeroInit;
use ndk_abi::sockaddr::SOCKADDR_INET;
use ndk_abi::softndk_ioctl::{
    SOFTNDK_ADAPTER, SOFTNDK_ADAPTER_ENABLED, SOFTNDK_CABLE, SOFTNDK_CABLE_FDB, SOFTNDK_CABLE_LENGTH,
    SOFTNDK_CABLE_PEERS, SOFTNDK_COUNTER, SOFTNDK_DIAGNOSTICS, SOFTNDK_DIAGNOSTICS_QUERY, SOFTNDK_IOCTL_VERSION,
    SOFTNDK_LIST, SOFTNDK_LIST_END, SOFTNDK_LIST_PLACES, SOFTNDK_LIST_QUERY,
};
use ndk_abi::status::STATUS_BUFFER_TOO_SMALL;
use zerocopy::{Immutable, IntoBytes};

use crate::decode::{Failure, Reply, input, output, overflow, room_for};
use crate::device_state::DeviceState;
use crate::{Host, Request};

/// SOFTNDK_DIAGNOSTICS: counts of live objects, memory and requests.
#[inline(never)]
pub(crate) fn diagnostics<H: Host>(device: &DeviceState<H>, request: &mut H::Request) -> Reply {
    input::<SOFTNDK_DIAGNOSTICS_QUERY>(request)?;
    room_for::<SOFTNDK_DIAGNOSTICS>(request)?;
    let mut diagnostics = SOFTNDK_DIAGNOSTICS::ZERO;
    device.host.diagnose(&mut diagnostics);
    diagnostics.Version = SOFTNDK_IOCTL_VERSION;
    diagnostics.Size = size_of::<SOFTNDK_DIAGNOSTICS>() as u32;
    diagnostics.Files = device.files.load(Ordering::Relaxed);
    diagnostics.PendedRequests = device.pended.load(Ordering::Relaxed);
    diagnostics.Requests = device.requests.load(Ordering::Relaxed);
    diagnostics.Doorbells = device.doorbells.load(Ordering::Relaxed);
    output(request, &diagnostics)
}

/// SOFTNDK_ADAPTER: the adapter, whether it is open or not and whether RDMA is on or off.
#[inline(never)]
pub(crate) fn adapter<H: Host>(device: &DeviceState<H>, request: &mut H::Request) -> Reply {
    input::<SOFTNDK_DIAGNOSTICS_QUERY>(request)?;
    let (info, most) = device.host.limits();
    let adapter = SOFTNDK_ADAPTER {
        Version: SOFTNDK_IOCTL_VERSION,
        Size: size_of::<SOFTNDK_ADAPTER>() as u32,
        AdapterId: device.host.adapter_id(),
        State: if device.host.is_enabled() { SOFTNDK_ADAPTER_ENABLED } else { 0 },
        NdkVersionMajor: info.Version.Major,
        NdkVersionMinor: info.Version.Minor,
        MaxPdCount: most.MaxPdCount,
        MaxCqCount: most.MaxCqCount,
        MaxMrCount: most.MaxMrCount,
        MaxMwCount: most.MaxMwCount,
        MaxSrqCount: most.MaxSrqCount,
        MaxQpCount: most.MaxQpCount,
        VendorId: info.VendorId,
        DeviceId: info.DeviceId,
        MaxRegistrationSize: info.MaxRegistrationSize as u64,
        MaxWindowSize: info.MaxWindowSize as u64,
        FRMRPageCount: info.FRMRPageCount,
        MaxInitiatorRequestSge: info.MaxInitiatorRequestSge,
        MaxReceiveRequestSge: info.MaxReceiveRequestSge,
        MaxReadRequestSge: info.MaxReadRequestSge,
        MaxTransferLength: info.MaxTransferLength,
        MaxInlineDataSize: info.MaxInlineDataSize,
        MaxInboundReadLimit: info.MaxInboundReadLimit,
        MaxOutboundReadLimit: info.MaxOutboundReadLimit,
        MaxReceiveQueueDepth: info.MaxReceiveQueueDepth,
        MaxInitiatorQueueDepth: info.MaxInitiatorQueueDepth,
        MaxSrqDepth: info.MaxSrqDepth,
        MaxCqDepth: info.MaxCqDepth,
        LargeRequestThreshold: info.LargeRequestThreshold,
        MaxCallerData: info.MaxCallerData,
        MaxCalleeData: info.MaxCalleeData,
        AdapterFlags: info.AdapterFlags,
        RdmaTechnology: info.RdmaTechnology.0.cast_unsigned(),
        Reserved: 0,
    };
    whole(request, &adapter)
}

/// SOFTNDK_ADDRESSES: a part of the adapter's addresses.
pub(crate) fn addresses<H: Host>(device: &DeviceState<H>, request: &mut H::Request) -> Reply {
    part(request, |place| {
        device.host.address(place).map(|address| Some(SOCKADDR_INET::new(SocketAddr::new(address, 0))))
    })
}

/// SOFTNDK_COUNTERS: a part of the adapter's counters.
pub(crate) fn counters<H: Host>(device: &DeviceState<H>, request: &mut H::Request) -> Reply {
    part(request, |place| {
        let (name, value) = device.host.counter(place)?;
        let mut counter = SOFTNDK_COUNTER { Value: value, ..SOFTNDK_COUNTER::ZERO };
        counter.Name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        Some(Some(counter))
    })
}

/// SOFTNDK_FAULT_RULES: a part of the adapter's fault rules.
#[inline(never)]
pub(crate) fn fault_rules<H: Host>(device: &DeviceState<H>, request: &mut H::Request) -> Reply {
    part(request, |place| device.host.fault_rule(place).map(Some))
}

/// SOFTNDK_ENDPOINTS: a part of the addresses in use.
#[inline(never)]
pub(crate) fn endpoints<H: Host>(device: &DeviceState<H>, request: &mut H::Request) -> Reply {
    part(request, |place| device.host.endpoint(place))
}

/// SOFTNDK_CABLE: the cable, its peers and its forwarding database, which are written into the output one by one.
#[inline(never)]
pub(crate) fn cable<H: Host>(device: &DeviceState<H>, request: &mut H::Request) -> Reply {
    input::<SOFTNDK_DIAGNOSTICS_QUERY>(request)?;
    if request.output_length() < SOFTNDK_CABLE_LENGTH {
        return Err(overflow(SOFTNDK_CABLE_LENGTH));
    }
    let host = &device.host;
    let mut used = size_of::<SOFTNDK_CABLE>();
    let mut cable = SOFTNDK_CABLE::ZERO;
    if let Some(found) = host.cable() {
        cable = found;
        let peers = (0..SOFTNDK_CABLE_PEERS).map_while(|place| host.cable_peer(place as usize));
        cable.PeerCount = append(request, &mut used, peers)?;
        let entries = (0..SOFTNDK_CABLE_FDB).filter_map(|place| host.cable_fdb_entry(place as usize));
        cable.FdbCount = append(request, &mut used, entries)?;
    }
    cable.Version = SOFTNDK_IOCTL_VERSION;
    cable.Size = size_of::<SOFTNDK_CABLE>() as u32;
    output(request, &cable)?;
    Ok(used)
}

/// Writes `entries` behind the `used` bytes of the output, which has room for them, and returns their number.
fn append<T: IntoBytes + Immutable>(
    request: &mut impl Request,
    used: &mut usize,
    entries: impl Iterator<Item = T>,
) -> Result<u32, Failure> {
    let mut count = 0_u32;
    for entry in entries {
        let end = used.saturating_add(size_of::<T>());
        let room = request.output().get_mut(*used..end).ok_or(STATUS_BUFFER_TOO_SMALL)?;
        room.copy_from_slice(entry.as_bytes());
        *used = end;
        count = count.saturating_add(1);
    }
    Ok(count)
}

/// Writes the whole structure, or fails with STATUS_BUFFER_OVERFLOW and its length.
fn whole<T: IntoBytes + Immutable>(request: &mut impl Request, value: &T) -> Reply {
    if request.output_length() < size_of::<T>() { Err(overflow(size_of::<T>())) } else { output(request, value) }
}

/// Writes a part of a list: as many entries as the output holds, from at most SOFTNDK_LIST_PLACES places. `at` returns the entry at a
/// place, `Some(None)` for an empty place, `None` behind the last place.
fn part<T: IntoBytes + Immutable>(request: &mut impl Request, at: impl Fn(usize) -> Option<Option<T>>) -> Reply {
    const HEAD: usize = size_of::<SOFTNDK_LIST>();
    let start = input::<SOFTNDK_LIST_QUERY>(request)?.Start;
    let least = HEAD.saturating_add(size_of::<T>());
    if request.output_length() < least {
        return Err(overflow(least));
    }
    let mut list = SOFTNDK_LIST {
        Version: SOFTNDK_IOCTL_VERSION,
        EntrySize: size_of::<T>() as u32,
        Count: 0,
        Next: SOFTNDK_LIST_END,
    };
    let mut used = HEAD;
    for place in start..start.saturating_add(SOFTNDK_LIST_PLACES) {
        let Some(found) = at(place as usize) else { return finish(request, &list, used) };
        let Some(entry) = found else { continue };
        let end = used.saturating_add(size_of::<T>());
        let Some(room) = request.output().get_mut(used..end) else {
            list.Next = place;
            return finish(request, &list, used);
        };
        room.copy_from_slice(entry.as_bytes());
        used = end;
        list.Count = list.Count.saturating_add(1);
    }
    list.Next = start.saturating_add(SOFTNDK_LIST_PLACES);
    finish(request, &list, used)
}

/// Writes the head of a list. `used`: bytes of the output, including the entries already written.
fn finish(request: &mut impl Request, list: &SOFTNDK_LIST, used: usize) -> Reply {
    output(request, list)?;
    Ok(used)
}
