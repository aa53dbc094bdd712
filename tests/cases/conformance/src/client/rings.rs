//! The path of a client's posts and polls, and the rings of the faster one.
#![expect(unsafe_code, reason = "gives rings their memory")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use nd_rings::{
    Geometry, Mapped,
    user::{CompletionRing, RequestLimits, RequestRing},
};
use ndk_abi::{
    nd_ioctl::{ND_MAPPING, ND_MAPPING_RESULT, ND_RESOURCE_DESCRIPTOR},
    softndk_ioctl::{IOCTL_SOFTNDK_DOORBELL, SOFTNDK_POST, SOFTNDK_SGE},
    softndk_ring::{SOFTNDK_COMPLETION, SOFTNDK_RING_COMPLETIONS, request_entry_size},
    status::NTSTATUS,
};
use zerocopy::{FromBytes as _, Immutable, IntoBytes};

use super::{Client, nd_handle};
use crate::{
    error::{Error, Result},
    memory::Memory,
};

/// How a client posts and polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// By a control code each.
    #[default]
    Plain,
    /// By rings in memory that it shares with the driver.
    Rings,
}

impl Path {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Rings];
}

/// The memory of a ring.
pub(super) struct RingMemory {
    memory: Memory,
    geometry: Geometry,
}

impl RingMemory {
    fn new(kind: u32, entry_size: u32, depth: u32) -> Option<Self> {
        let geometry = Geometry::for_depth(kind, entry_size, depth)?;
        Some(Self { memory: Memory::new(geometry.bytes()?), geometry })
    }

    fn ring(&self, context: u64) -> Mapped {
        // SAFETY: zeroed pages of at least so many bytes, which whoever has the ring keeps with it.
        unsafe { Mapped::create(self.memory.start(), self.geometry, context) }
    }

    fn mapping(&self) -> ND_MAPPING {
        ND_MAPPING::memory(self.memory.address(0), self.memory.length() as u32)
    }
}

/// A ring and its memory, for the thread that has the lock.
pub(super) struct Shared<R> {
    ring: Mutex<(R, RingMemory)>,
}

impl<R> Shared<R> {
    fn new(ring: R, memory: RingMemory) -> Self {
        Self { ring: Mutex::new((ring, memory)) }
    }

    fn lock(&self) -> MutexGuard<'_, (R, RingMemory)> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ring of a CQ.
pub(super) type Completions = Shared<CompletionRing>;
/// The ring of a queue of requests.
pub(super) type Requests = Shared<RequestRing>;

impl Completions {
    /// One for `depth` completions, and how the driver is told of it. `None`: no ring can be so long.
    pub(super) fn made(depth: u32) -> Option<(Self, ND_MAPPING)> {
        let memory = RingMemory::new(SOFTNDK_RING_COMPLETIONS, size_of::<SOFTNDK_COMPLETION>() as u32, depth)?;
        let mapping = memory.mapping();
        Some((Self::new(CompletionRing::new(memory.ring(0)), memory), mapping))
    }

    /// Takes out up to `most` completions of the CQ with this handle.
    pub(super) fn poll(&self, client: &Client, handle: u64, most: usize) -> Result<Vec<SOFTNDK_COMPLETION>> {
        let mut ring = self.lock();
        let mut completions = Vec::new();
        ring.0.poll(most, |completion| completions.push(completion));
        if !completions.is_empty() && ring.0.needs_doorbell() {
            client.call(IOCTL_SOFTNDK_DOORBELL, &nd_handle(handle))?;
        }
        Ok(completions)
    }

    /// Completions that wait.
    pub(super) fn waiting(&self) -> usize {
        self.lock().0.waiting() as usize
    }

    /// Goes on in `other`, after what is left here was handed to `take`.
    pub(super) fn replace(&self, other: Self, mut take: impl FnMut(SOFTNDK_COMPLETION)) {
        let mut ring = self.lock();
        ring.0.poll(usize::MAX, &mut take);
        *ring = other.ring.into_inner().unwrap_or_else(PoisonError::into_inner);
    }
}

impl Requests {
    /// One for a queue with these limits. `None`: no ring can be so long.
    pub(super) fn made(kind: u32, limits: RequestLimits, context: u64) -> Option<(Self, ND_MAPPING)> {
        let entry_size = request_entry_size(limits.sges, limits.inline_data)?;
        let memory = RingMemory::new(kind, entry_size, limits.depth)?;
        let mapping = memory.mapping();
        Some((Self::new(RequestRing::new(memory.ring(context), limits), memory), mapping))
    }

    /// Posts to the queue of the object with this handle.
    pub(super) fn post(
        &self,
        client: &Client,
        handle: u64,
        head: &SOFTNDK_POST,
        sges: &[SOFTNDK_SGE],
        inline: &[u8],
    ) -> Result<()> {
        let mut ring = self.lock();
        let refused = |status: NTSTATUS| Error::Refused { request: "a post to a ring", status };
        ring.0.post(head, sges, inline).map_err(refused)?;
        if ring.0.needs_doorbell() {
            client.call(IOCTL_SOFTNDK_DOORBELL, &nd_handle(handle))?;
        }
        Ok(())
    }

    /// Continues in `other`, with the entries that the driver has not taken out of this ring. `pass` tells the driver, which returns their
    /// number. True: a doorbell has to follow, as the driver may have polled the new ring, and gone to sleep, before it had these entries.
    pub(super) fn replace(&self, mut other: Self, pass: impl FnOnce() -> Result<u64>) -> Result<bool> {
        let mut ring = self.lock();
        let new = other.ring.get_mut().unwrap_or_else(PoisonError::into_inner);
        ring.0.prepare(&mut new.0);
        let left = pass()?;
        let moved = ring.0.move_to(&mut new.0, u32::try_from(left).unwrap_or(u32::MAX));
        *ring = other.ring.into_inner().unwrap_or_else(PoisonError::into_inner);
        moved.map_err(|status| Error::Refused { request: "moving a ring", status })?;
        Ok(ring.0.needs_doorbell())
    }
}

impl Client {
    /// A create or modify request with rings: its mappings lie behind it, where `CbMappingsOffset` has to say.
    /// Gives the handle, and what is said of the first of them.
    pub(super) fn query_with_rings(
        &self,
        code: u32,
        request: &(impl IntoBytes + Immutable),
        mappings: &[ND_MAPPING],
    ) -> Result<(u64, u64)> {
        let input = super::followed_by(request, mappings.as_bytes());
        let room = size_of::<ND_RESOURCE_DESCRIPTOR>() + mappings.len() * size_of::<ND_MAPPING_RESULT>();
        let completion = self.begin(code, &input, room).finish()?;
        let wrong = || Error::WrongLength {
            request: super::code_name(code),
            returned: completion.output.len(),
            expected: room,
        };
        if completion.output.len() != room {
            return Err(wrong());
        }
        let (descriptor, results) =
            ND_RESOURCE_DESCRIPTOR::read_from_prefix(&completion.output).map_err(|_| wrong())?;
        let information = ND_MAPPING_RESULT::read_from_prefix(results).map_or(0, |(result, _)| result.Information);
        Ok((descriptor.Handle, information))
    }
}
