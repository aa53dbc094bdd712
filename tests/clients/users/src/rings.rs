//! Objects with rings, and their user's side.
#![allow(unsafe_code, reason = "gives rings their memory")]

use std::sync::atomic::AtomicU32;

use nd_rings::{Geometry, Mapped, Writer, user::CompletionRing};
use ndk_abi::{
    describe::ZeroInit,
    nd_ioctl::*,
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::*,
    softndk_ring::*,
    status::{NTSTATUS, STATUS_SUCCESS},
};
use simkernel::Pages;
use zerocopy::{Immutable, IntoBytes};

use crate::{User, World, user::handle};

/// Entries of each queue.
pub const DEPTH: u32 = 16;
/// SGEs of a request.
pub const SGES: u32 = 4;
/// Bytes of inline data.
pub const INLINE_BYTES: u32 = 64;

/// The memory of a ring.
#[derive(Clone)]
pub struct Ring {
    pub pages: Pages,
    pub geometry: Geometry,
}

impl Ring {
    fn new(user: &User<'_>, kind: u32, entry_size: u32, depth: u32) -> Self {
        let geometry = Geometry::for_depth(kind, entry_size, depth).unwrap();
        let pages = user.device.host().map(geometry.bytes().unwrap().div_ceil(4096));
        pages.write(0, &vec![0; pages.size()]);
        let ring = Self { pages, geometry };
        // What makes it a ring.
        ring.start();
        ring
    }

    /// For completions.
    pub fn completions(user: &User<'_>) -> Self {
        Self::completions_for(user, DEPTH)
    }

    /// For `depth` completions.
    pub fn completions_for(user: &User<'_>, depth: u32) -> Self {
        Self::new(user, SOFTNDK_RING_COMPLETIONS, size_of::<SOFTNDK_COMPLETION>() as u32, depth)
    }

    /// For initiator requests.
    pub fn initiator(user: &User<'_>) -> Self {
        Self::initiator_for(user, DEPTH)
    }

    /// For `depth` initiator requests.
    pub fn initiator_for(user: &User<'_>, depth: u32) -> Self {
        Self::new(user, SOFTNDK_RING_INITIATOR, request_entry_size(SGES, INLINE_BYTES).unwrap(), depth)
    }

    /// For receives.
    pub fn receives(user: &User<'_>) -> Self {
        Self::receives_for(user, DEPTH)
    }

    /// For `depth` receives.
    pub fn receives_for(user: &User<'_>, depth: u32) -> Self {
        Self::new(user, SOFTNDK_RING_RECEIVE, request_entry_size(SGES, 0).unwrap(), depth)
    }

    /// The ring in it, as its user sees it. What makes it one is written anew.
    pub fn start(&self) -> Mapped {
        // SAFETY: zeroed pages of so many bytes, which `self` keeps.
        unsafe { Mapped::create(self.pages.address(0), self.geometry, 0xC0DE) }
    }

    /// The end that the user writes.
    pub fn writer(&self) -> Writer<Mapped> {
        Writer::new(self.start())
    }

    /// A field of its head: `offset` is one of SOFTNDK_RING.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: in bounds and aligned, and as long there as self; all use it as an atomic.
        unsafe { AtomicU32::from_ptr(self.pages.address(offset).cast().as_ptr()) }
    }

    /// What passes it to the driver.
    pub fn mapping(&self) -> ND_MAPPING {
        ND_MAPPING::memory(self.pages.address(0).addr().get() as u64, self.pages.size() as u32)
    }
}

/// An input with mappings behind it.
pub fn with_mappings<T: IntoBytes + Immutable + ?Sized>(input: &T, mappings: &[ND_MAPPING]) -> Vec<u8> {
    [input.as_bytes(), mappings.as_bytes()].concat()
}

/// A CQ, an SRQ, a queue pair and one with the SRQ, all with rings.
pub struct Ringed {
    pub cq: u64,
    pub srq: u64,
    pub qp: u64,
    pub srq_qp: u64,
    /// Completions; receives of the SRQ; initiator requests and receives; initiator requests.
    pub rings: [Ring; 5],
}

/// Creates an object with rings: its handle.
pub fn create<T: IntoBytes + Immutable>(
    user: &User<'_>,
    code: u32,
    input: &T,
    mappings: &[ND_MAPPING],
) -> Result<u64, NTSTATUS> {
    let room = size_of::<ND_RESOURCE_DESCRIPTOR>() + mappings.len() * size_of::<ND_MAPPING_RESULT>();
    let answer = user.send_bytes(code, &with_mappings(input, mappings), room);
    let status = answer.wait();
    if !status.is_success() {
        return Err(status);
    }
    Ok(u64::from_le_bytes(answer.output()[..8].try_into().unwrap()))
}

/// The inputs that create queues with rings, but for the mappings.
pub fn create_cq(world: &World) -> ND_CREATE_CQ {
    ND_CREATE_CQ {
        Version: 1,
        QueueDepth: DEPTH,
        CeMappingCount: 1,
        CbMappingsOffset: size_of::<ND_CREATE_CQ>() as u32,
        AdapterHandle: world.adapter,
        ..ND_CREATE_CQ::ZERO
    }
}

pub fn create_srq(world: &World) -> ND_CREATE_SRQ {
    ND_CREATE_SRQ {
        Version: 1,
        QueueDepth: DEPTH,
        CeMappingCount: 1,
        CbMappingsOffset: size_of::<ND_CREATE_SRQ>() as u32,
        MaxRequestSge: SGES,
        PdHandle: world.pd,
        ..ND_CREATE_SRQ::ZERO
    }
}

fn qp_header(user: &User<'_>, world: &World, cq: u64) -> ND_CREATE_QP_HDR {
    ND_CREATE_QP_HDR {
        CbMaxInlineData: INLINE_BYTES,
        InitiatorQueueDepth: DEPTH,
        MaxInitiatorRequestSge: SGES,
        CbMappingsOffset: size_of::<ND_CREATE_QP>() as u32,
        ..user.qp_header(world.pd, cq)
    }
}

pub fn create_qp(user: &User<'_>, world: &World, cq: u64) -> ND_CREATE_QP {
    let header = ND_CREATE_QP_HDR { CeMappingCount: 2, ..qp_header(user, world, cq) };
    ND_CREATE_QP { Header: header, ReceiveQueueDepth: DEPTH, MaxReceiveRequestSge: SGES }
}

pub fn create_srq_qp(user: &User<'_>, world: &World, cq: u64, srq: u64) -> ND_CREATE_QP_WITH_SRQ {
    let header = ND_CREATE_QP_HDR { CeMappingCount: 1, ..qp_header(user, world, cq) };
    ND_CREATE_QP_WITH_SRQ { Header: header, SrqHandle: srq }
}

impl Ringed {
    pub fn new(user: &User<'_>, world: &World) -> Result<Self, NTSTATUS> {
        let completions = Ring::completions(user);
        let [shared, receives] = [0; 2].map(|_| Ring::receives(user));
        let [initiator, srq_initiator] = [0; 2].map(|_| Ring::initiator(user));
        let cq = create(user, IOCTL_ND_CQ_CREATE, &create_cq(world), &[completions.mapping()])?;
        let srq = create(user, IOCTL_ND_SRQ_CREATE, &create_srq(world), &[shared.mapping()])?;
        let mappings = [initiator.mapping(), receives.mapping()];
        let qp = create(user, IOCTL_ND_QP_CREATE, &create_qp(user, world, cq), &mappings)?;
        let srq_qp = create_srq_qp(user, world, cq, srq);
        let srq_qp = create(user, IOCTL_ND_QP_CREATE_WITH_SRQ, &srq_qp, &[srq_initiator.mapping()])?;
        Ok(Self { cq, srq, qp, srq_qp, rings: [completions, shared, initiator, receives, srq_initiator] })
    }

    /// The user's end of the ring of completions.
    pub fn completions(&self) -> CompletionRing {
        CompletionRing::new(self.rings[0].start())
    }

    /// The rings of the queue pair that the user writes: initiator requests, receives.
    pub fn writers(&self) -> [Writer<Mapped>; 2] {
        [self.rings[2].writer(), self.rings[3].writer()]
    }
}

/// Puts a request into a ring; false: there is no room.
pub fn push(ring: &mut Writer<Mapped>, head: &SOFTNDK_POST, sges: &[SOFTNDK_SGE]) -> bool {
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    };
    ring.push(&words(head.as_bytes()), &words(sges.as_bytes())).is_ok()
}

/// Connects `active`, a connector and a queue pair of `from`, to `passive`, a connector and a queue pair of `to`, which listens.
pub fn connect(from: &User<'_>, active: [u64; 2], to: &User<'_>, passive: [u64; 2], listener: u64) {
    let address: SOCKADDR_INET = to.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(listener)).unwrap();
    let requested = to.get_request(listener, passive[0]);
    let connected = from.connect(active[0], active[1], address, b"");
    assert_eq!(requested.wait(), STATUS_SUCCESS);
    let accepted = to.accept(passive[0], passive[1], b"");
    assert_eq!(connected.wait(), STATUS_SUCCESS);
    assert_eq!(from.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(active[0])), STATUS_SUCCESS);
    assert_eq!(accepted.wait(), STATUS_SUCCESS);
}
