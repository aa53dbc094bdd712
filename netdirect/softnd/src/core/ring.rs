//! The rings of this DLL's queues: their memory, and the mappings that pass them to the driver.
#![expect(unsafe_code, reason = "memory of whole pages, which the driver maps too")]

use std::sync::Arc;

use nd_rings::{
    Geometry, Mapped,
    user::{CompletionRing, RequestLimits, RequestRing},
};
use ndk_abi::{
    nd_ioctl::{ND_MAPPING, ND_MAPPING_RESULT, ND_RESOURCE_DESCRIPTOR},
    softndk_ioctl::{SOFTNDK_POST, SOFTNDK_SGE},
    softndk_ring::{SOFTNDK_COMPLETION, SOFTNDK_RING_COMPLETIONS, request_entry_size},
    status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES},
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{device::File, pages::Pages};

/// The most rings that one request passes.
const MAX_RINGS: usize = 2;

/// A ring and its memory. The memory is dropped last.
#[derive(Debug)]
pub(crate) struct MappedRing<R> {
    pub(crate) ring: R,
    pages: Arc<Pages>,
}

/// Allocates and initialises a ring.
fn allocate(kind: u32, entry_size: u32, depth: u32, context: u64) -> Result<(Mapped, Arc<Pages>), NTSTATUS> {
    let geometry = Geometry::for_depth(kind, entry_size, depth).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
    let pages = Pages::new(geometry.bytes().ok_or(STATUS_INSUFFICIENT_RESOURCES)?)?;
    // SAFETY: the pages have the geometry's size, start on a page boundary, are new and zeroed, and are freed after the
    // ring.
    let mapped = unsafe { Mapped::create(pages.base(), geometry, context) };
    Ok((mapped, pages))
}

/// A ring for completions.
pub(crate) fn completions(depth: u32) -> Result<MappedRing<CompletionRing>, NTSTATUS> {
    let (mapped, pages) = allocate(SOFTNDK_RING_COMPLETIONS, size_of::<SOFTNDK_COMPLETION>() as u32, depth, 0)?;
    Ok(MappedRing { ring: CompletionRing::new(mapped), pages })
}

/// A ring for requests: SOFTNDK_RING_INITIATOR or SOFTNDK_RING_RECEIVE. `context` is the `QueuePairContext` of the
/// queue pair's completions.
pub(crate) fn requests(kind: u32, limits: RequestLimits, context: u64) -> Result<MappedRing<RequestRing>, NTSTATUS> {
    let entry_size = request_entry_size(limits.sges, limits.inline_data).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
    let (mapped, pages) = allocate(kind, entry_size, limits.depth, context)?;
    Ok(MappedRing { ring: RequestRing::new(mapped, limits), pages })
}

impl MappedRing<RequestRing> {
    /// Writes a request into the ring; returns whether a doorbell has to follow.
    pub(crate) fn post(&mut self, head: &SOFTNDK_POST, sges: &[SOFTNDK_SGE], inline: &[u8]) -> Result<bool, NTSTATUS> {
        self.ring.post(head, sges, inline)?;
        Ok(self.ring.needs_doorbell())
    }
}

/// The output of a create or modify request.
#[derive(FromBytes, IntoBytes)]
#[repr(C)]
struct Output {
    descriptor: ND_RESOURCE_DESCRIPTOR,
    results: [ND_MAPPING_RESULT; MAX_RINGS],
}

/// The answer to a create or modify request.
pub(crate) struct Passed {
    pub(crate) handle: u64,
    /// Of SRQ_MODIFY: the number of requests in the old ring that the driver has not read.
    pub(crate) unread: u32,
}

/// The mappings by which a request passes rings.
#[derive(Default)]
pub(crate) struct Mappings(Vec<ND_MAPPING>);

impl Mappings {
    pub(crate) fn add<R>(&mut self, ring: &MappedRing<R>) {
        self.0.push(ND_MAPPING::memory(ring.pages.base().addr().get() as u64, ring.pages.length()));
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// Sends a create or modify request: `head`, whose `CbMappingsOffset` is its own length, then the mappings.
    pub(crate) fn send(&self, file: &File, code: u32, head: &[u8]) -> Result<Passed, NTSTATUS> {
        let input = [head, self.0.as_slice().as_bytes()].concat();
        let mut output = Output::new_zeroed();
        file.control(code, &input, output.as_mut_bytes())?;
        Ok(Passed { handle: output.descriptor.Handle, unread: output.results[0].Information as u32 })
    }
}
