//! Objects with rings, and their user's side.
#![allow(unsafe_code, reason = "gives rings their memory")]

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
/// SGEs of a request, and bytes of inline data.
const SGES: u32 = 4;

/// The memory of a ring.
pub struct Ring {
    pub pages: Pages,
    geometry: Geometry,
}

impl Ring {
    fn new(user: &User<'_>, kind: u32, entry_size: u32) -> Self {
        let geometry = Geometry::for_depth(kind, entry_size, DEPTH).unwrap();
        let pages = user.device.host().map(geometry.bytes().unwrap().div_ceil(4096));
        pages.write(0, &vec![0; pages.size()]);
        let ring = Self { pages, geometry };
        // What makes it a ring.
        ring.start();
        ring
    }

    fn requests(user: &User<'_>, kind: u32) -> Self {
        Self::new(user, kind, request_entry_size(SGES, 64).unwrap())
    }

    fn start(&self) -> Mapped {
        // SAFETY: zeroed pages of so many bytes, which `self` keeps.
        unsafe { Mapped::create(self.pages.address(0), self.geometry, 0xC0DE) }
    }

    /// The end that the user writes.
    pub fn writer(&self) -> Writer<Mapped> {
        Writer::new(self.start())
    }

    fn mapping(&self) -> [u8; 32] {
        let memory = ND_MAP_MEMORY {
            MapType: NdMapMemory,
            AccessType: NdModifyAccess,
            Address: self.pages.address(0).addr().get() as u64,
            CbLength: self.pages.size() as u32,
            ..ND_MAP_MEMORY::ZERO
        };
        let mut mapping = [0; 32];
        mapping[..size_of::<ND_MAP_MEMORY>()].copy_from_slice(memory.as_bytes());
        mapping
    }
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
fn create<T: IntoBytes + Immutable>(user: &User<'_>, code: u32, input: &T, rings: &[&Ring]) -> Result<u64, NTSTATUS> {
    let mut bytes = input.as_bytes().to_vec();
    bytes.extend(rings.iter().flat_map(|ring| ring.mapping()));
    let room = size_of::<ND_RESOURCE_DESCRIPTOR>() + rings.len() * size_of::<ND_MAPPING_RESULT>();
    let answer = user.send_bytes(code, &bytes, room);
    let status = answer.wait();
    if !status.is_success() {
        return Err(status);
    }
    Ok(u64::from_le_bytes(answer.output()[..8].try_into().unwrap()))
}

impl Ringed {
    pub fn new(user: &User<'_>, world: &World) -> Result<Self, NTSTATUS> {
        let completions = Ring::new(user, SOFTNDK_RING_COMPLETIONS, size_of::<SOFTNDK_COMPLETION>() as u32);
        let [shared, receives] =
            [0; 2].map(|_| Ring::new(user, SOFTNDK_RING_RECEIVE, request_entry_size(SGES, 0).unwrap()));
        let [initiator, srq_initiator] = [0; 2].map(|_| Ring::requests(user, SOFTNDK_RING_INITIATOR));
        let cq = ND_CREATE_CQ {
            Version: 1,
            QueueDepth: DEPTH,
            CeMappingCount: 1,
            CbMappingsOffset: size_of::<ND_CREATE_CQ>() as u32,
            AdapterHandle: world.adapter,
            ..ND_CREATE_CQ::ZERO
        };
        let cq = create(user, IOCTL_ND_CQ_CREATE, &cq, &[&completions])?;
        let srq = ND_CREATE_SRQ {
            Version: 1,
            QueueDepth: DEPTH,
            CeMappingCount: 1,
            CbMappingsOffset: size_of::<ND_CREATE_SRQ>() as u32,
            MaxRequestSge: SGES,
            PdHandle: world.pd,
            ..ND_CREATE_SRQ::ZERO
        };
        let srq = create(user, IOCTL_ND_SRQ_CREATE, &srq, &[&shared])?;
        let header = ND_CREATE_QP_HDR {
            CbMaxInlineData: 64,
            InitiatorQueueDepth: DEPTH,
            MaxInitiatorRequestSge: SGES,
            CbMappingsOffset: size_of::<ND_CREATE_QP>() as u32,
            ..user.qp_header(world.pd, cq)
        };
        let qp = ND_CREATE_QP {
            Header: ND_CREATE_QP_HDR { CeMappingCount: 2, ..header },
            ReceiveQueueDepth: DEPTH,
            MaxReceiveRequestSge: SGES,
        };
        let qp = create(user, IOCTL_ND_QP_CREATE, &qp, &[&initiator, &receives])?;
        let srq_qp = ND_CREATE_QP_WITH_SRQ { Header: ND_CREATE_QP_HDR { CeMappingCount: 1, ..header }, SrqHandle: srq };
        let srq_qp = create(user, IOCTL_ND_QP_CREATE_WITH_SRQ, &srq_qp, &[&srq_initiator])?;
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

/// Connects `active`, a connector and a queue pair of one user, to those of another, who listens.
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
