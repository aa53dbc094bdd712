//! The private data of NdkConnect and NdkAccept.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::ask::Job;

/// Changes with whatever the ends say to each other.
const MARK: [u8; 8] = *b"NDKperf1";

/// Where an end's memory is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) address: u64,
    pub(crate) token: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Wire {
    mark: [u8; 8],
    what: U32,
    operation: U32,
    size: U32,
    depth: U32,
    address: U64,
    token: U32,
    reserved: U32,
}

/// Bytes of a greeting.
pub(crate) const LENGTH: usize = size_of::<Wire>();

/// What an end says first.
pub(crate) fn write(job: Job, place: Place) -> [u8; LENGTH] {
    let (what, operation) = job.numbers();
    zerocopy::transmute!(Wire {
        mark: MARK,
        what: what.into(),
        operation: operation.into(),
        size: job.size.into(),
        depth: job.depth.into(),
        address: place.address.into(),
        token: place.token.into(),
        reserved: 0.into(),
    })
}

/// Reads what the other end said, of which `length` bytes arrived. `None`: it is no end of a measurement.
pub(crate) fn read(bytes: &[u8; LENGTH], length: usize) -> Option<(Job, Place)> {
    let wire = Wire::ref_from_bytes(bytes).ok()?;
    let job = Job::new(wire.what.get(), wire.operation.get(), wire.size.get(), wire.depth.get())?;
    // Some transports pad the data.
    let is_whole = length >= LENGTH && wire.mark == MARK;
    is_whole.then_some((job, Place { address: wire.address.get(), token: wire.token.get() }))
}
