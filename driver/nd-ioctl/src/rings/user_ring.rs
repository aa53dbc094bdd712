//! The driver's side of the rings of [`ndk_abi::softndk_ring`]: user memory, locked and mapped.
#![expect(unsafe_code, reason = "the user's memory is reached by where its MDL is mapped")]

use nd_rings::{Geometry, Mapped};
use ndk_abi::describe::ZeroInit as _;
use ndk_abi::nd_ioctl::{
    ND_MAP_MEMORY, ND_MAPPING, ND_MAPPING_RESULT, ND_RESOURCE_DESCRIPTOR, NdMapMemory, NdModifyAccess,
};
use ndk_abi::softndk_ioctl::SOFTNDK_POST;
use ndk_abi::softndk_ring::{SOFTNDK_COMPLETION, SOFTNDK_RING_COMPLETIONS, request_entry_size};
use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED,
};
use platform::{Passive, Platform};
use zerocopy::{FromBytes, IntoBytes};

use super::cq_ring::CqRing;
use super::work_ring::WorkRing;
use crate::decode::{Reply, range};
use crate::quota::{Locked, Quota};
use crate::{Host, Pinned, Ref, Request};

/// The most bytes of a ring: less than one MDL describes.
const MAX_BYTES: u32 = 1 << 28;

/// The mappings of a create or modify request: none, or `N` rings. STATUS_INVALID_PARAMETER: another number, mappings outside of the input,
/// or memory without NdModifyAccess. STATUS_NOT_SUPPORTED: I/O space or pages, as there is no hardware.
pub(crate) fn mappings<const N: usize>(
    request: &impl Request,
    count: u32,
    offset: u32,
) -> Result<Option<[ND_MAP_MEMORY; N]>, NTSTATUS> {
    if count == 0 {
        return Ok(None);
    }
    let length = count.checked_mul(size_of::<ND_MAPPING>() as u32).ok_or(STATUS_INVALID_PARAMETER)?;
    let bytes = range(request, offset, length)?;
    if count as usize != N {
        return Err(STATUS_INVALID_PARAMETER);
    }
    let mut rings = [ND_MAP_MEMORY::ZERO; N];
    for (ring, mapping) in rings.iter_mut().zip(bytes.chunks_exact(size_of::<ND_MAPPING>())) {
        let (memory, _) = ND_MAP_MEMORY::read_from_prefix(mapping).map_err(|_| STATUS_INVALID_PARAMETER)?;
        if memory.MapType != NdMapMemory {
            return Err(STATUS_NOT_SUPPORTED);
        }
        if memory.AccessType != NdModifyAccess {
            return Err(STATUS_INVALID_PARAMETER);
        }
        *ring = memory;
    }
    Ok(Some(rings))
}

/// Checks that a request has no mappings. STATUS_INVALID_PARAMETER: they are not inside the input; STATUS_NOT_SUPPORTED: there are some.
pub(crate) fn no_mappings(request: &impl Request, count: u32, offset: u32) -> Result<(), NTSTATUS> {
    if count == 0 {
        return Ok(());
    }
    let length = count.checked_mul(size_of::<ND_MAPPING>() as u32).ok_or(STATUS_INVALID_PARAMETER)?;
    range(request, offset, length)?;
    Err(STATUS_NOT_SUPPORTED)
}

/// Checks that the reply of a create or modify request fits: [`descriptor`].
pub(crate) fn room_for_descriptor(request: &impl Request, mappings: u32) -> Result<(), NTSTATUS> {
    let results = (mappings as usize).saturating_mul(size_of::<ND_MAPPING_RESULT>());
    let needed = size_of::<ND_RESOURCE_DESCRIPTOR>().saturating_add(results);
    if request.output_length() < needed { Err(STATUS_BUFFER_TOO_SMALL) } else { Ok(()) }
}

/// The reply of a create or modify request: a handle, and a result for each mapping, numbered from 0.
pub(crate) fn descriptor(request: &mut impl Request, handle: u64, mappings: u32) -> Reply {
    descriptor_with(request, handle, mappings, 0)
}

/// As [`descriptor`], with the `Information` of each mapping's result.
pub(crate) fn descriptor_with(request: &mut impl Request, handle: u64, mappings: u32, information: u64) -> Reply {
    let header = size_of::<ND_RESOURCE_DESCRIPTOR>();
    let offset = if mappings == 0 { 0 } else { header as u32 };
    let descriptor =
        ND_RESOURCE_DESCRIPTOR { Handle: handle, CeMappingResults: mappings, CbMappingResultsOffset: offset };
    let output = request.output();
    let (place, results) = output.split_at_mut_checked(header).ok_or(STATUS_BUFFER_TOO_SMALL)?;
    place.copy_from_slice(descriptor.as_bytes());
    let mut written = header;
    for (id, place) in (0..mappings).zip(results.chunks_exact_mut(size_of::<ND_MAPPING_RESULT>())) {
        place.copy_from_slice(ND_MAPPING_RESULT { Id: id.into(), Information: information }.as_bytes());
        written = written.saturating_add(place.len());
    }
    Ok(written)
}

/// A locked ring.
pub(crate) struct UserRing<H: Host> {
    pub(crate) mapped: Mapped,
    /// `SOFTNDK_RING::Context`, set by the program.
    pub(crate) ring_context: u64,
    /// Dropped last: it keeps the memory of the ring.
    pub(crate) pinned: Locked<H>,
}

impl<H: Host> UserRing<H> {
    /// Locks the memory of a ring and checks its head against `geometry`, whose capacity is the least number of slots.
    /// STATUS_INVALID_PARAMETER: the memory is no such ring; STATUS_ACCESS_VIOLATION: it is not user memory.
    pub(crate) fn open(
        host: &H,
        quota: &Ref<Quota<H>, H>,
        request: &H::Request,
        memory: &ND_MAP_MEMORY,
        geometry: &Geometry,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        if memory.CbLength == 0 || memory.CbLength > MAX_BYTES {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let length = memory.CbLength as usize;
        let pinned = Locked::new(host, quota, request, memory.Address, length, true, passive)?;
        let mdl = pinned.mdl();
        // SAFETY: the MDL of locked memory, which `pinned` keeps.
        let next = unsafe { (*mdl.as_ptr()).Next };
        if !next.is_null() {
            return Err(STATUS_INVALID_PARAMETER);
        }
        // SAFETY: as above.
        let base = unsafe { H::Platform::mdl_system_address(mdl.as_ptr().cast()) };
        let base = base.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        // SAFETY: mapped for `length` bytes until it is unlocked, which happens after the ring is gone.
        let opened = unsafe { Mapped::open(base, length, geometry.kind, geometry.entry_size, geometry.capacity) };
        let (mapped, ring_context) = opened.map_err(|_| STATUS_INVALID_PARAMETER)?;
        Ok(Self { mapped, ring_context, pinned })
    }
}

/// A ring of requests in user memory.
pub(crate) type UserWorkRing<H> = WorkRing<Mapped, Locked<H>, <H as Host>::Platform>;

impl<H: Host> UserWorkRing<H> {
    /// Locks and checks a ring for `depth` requests of at most `sges` SGEs or `inline_bytes` bytes of inline data. Returns its `Context`
    /// too. Errors: [`UserRing::open`].
    pub(crate) fn open(
        host: &H,
        quota: &Ref<Quota<H>, H>,
        request: &H::Request,
        memory: &ND_MAP_MEMORY,
        kind: u32,
        (depth, sges, inline_bytes): (u32, u32, u32),
        passive: &Passive<'_>,
    ) -> Result<(Self, u64), NTSTATUS> {
        let entry_size = request_entry_size(sges, inline_bytes).ok_or(STATUS_INVALID_PARAMETER)?;
        let geometry = Geometry { kind, entry_size, capacity: depth };
        let ring = UserRing::open(host, quota, request, memory, &geometry, passive)?;
        let data_bytes = (entry_size as usize).saturating_sub(size_of::<SOFTNDK_POST>());
        Ok((Self::new(ring.mapped, data_bytes, ring.pinned), ring.ring_context))
    }
}

/// A ring of completions in user memory.
pub(crate) type UserCqRing<H> = CqRing<Mapped, Locked<H>, <H as Host>::Platform>;

impl<H: Host> UserCqRing<H> {
    /// Locks and checks a ring for `depth` completions. Errors: [`UserRing::open`].
    pub(crate) fn open(
        host: &H,
        quota: &Ref<Quota<H>, H>,
        request: &H::Request,
        memory: &ND_MAP_MEMORY,
        depth: u32,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let entry_size = size_of::<SOFTNDK_COMPLETION>() as u32;
        let geometry = Geometry { kind: SOFTNDK_RING_COMPLETIONS, entry_size, capacity: depth };
        let ring = UserRing::open(host, quota, request, memory, &geometry, passive)?;
        Ok(Self::new(ring.mapped, ring.pinned))
    }
}
