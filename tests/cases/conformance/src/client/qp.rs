//! Queue pairs and their work requests.

use std::sync::Arc;

use nd_rings::user::RequestLimits;
use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{
        IOCTL_ND_QP_CREATE, IOCTL_ND_QP_CREATE_WITH_SRQ, IOCTL_ND_QP_FLUSH, IOCTL_ND_QP_FREE, ND_CREATE_QP,
        ND_CREATE_QP_HDR, ND_CREATE_QP_WITH_SRQ, ND_IOCTL_VERSION, ND_MAPPING,
    },
    ndkpi::{
        NDK_OP_FLAG_INLINE, NDK_OPERATION_TYPE, NdkOperationTypeFastRegister, NdkOperationTypeInvalidate,
        NdkOperationTypeRead, NdkOperationTypeReceive, NdkOperationTypeSend, NdkOperationTypeWrite,
    },
    softndk_ioctl::{
        IOCTL_SOFTNDK_POST, SOFTNDK_IOCTL_VERSION, SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE, SOFTNDK_SGE,
    },
    softndk_ring::{SOFTNDK_RING_INITIATOR, SOFTNDK_RING_RECEIVE},
    status::STATUS_INVALID_PARAMETER,
};
use zerocopy::IntoBytes as _;

use super::{Client, Cq, FastMr, Object, Path, Pd, Remote, Srq, followed_by, object, rings::Requests};
use crate::error::{Error, Result};

/// What a queue pair has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSize {
    /// Receives posted at a time.
    pub receives: u32,
    /// Initiator requests posted at a time.
    pub initiators: u32,
    /// Scatter/gather entries in a receive.
    pub receive_sges: u32,
    /// Scatter/gather entries in an initiator request.
    pub initiator_sges: u32,
    /// Bytes of inline data in a request.
    pub inline: u32,
}

impl Default for QpSize {
    fn default() -> Self {
        Self { receives: 32, initiators: 32, receive_sges: 16, initiator_sges: 16, inline: 256 }
    }
}

/// A queue pair.
#[derive(Clone)]
pub struct Qp {
    pub(super) object: Arc<Object>,
    rings: Option<Arc<Rings>>,
}

struct Rings {
    initiator: Requests,
    receive: Option<Requests>,
}

/// Bytes of one request: what the adapter says of itself.
pub(super) const MAX_TRANSFER: u32 = 1 << 30;

/// The rings of a queue pair that is about to be made, and how the driver is told of them.
struct Made {
    rings: Option<Rings>,
    mappings: Vec<ND_MAPPING>,
    context: u64,
}

impl Made {
    fn new(client: &Client, size: QpSize, own_receives: bool) -> Self {
        if client.path == Path::Plain {
            return Self { rings: None, mappings: Vec::new(), context: 0 };
        }
        let context = client.new_context();
        let initiators = RequestLimits {
            depth: size.initiators,
            sges: size.initiator_sges,
            inline_data: size.inline,
            transfer_length: MAX_TRANSFER,
        };
        let receives = RequestLimits { depth: size.receives, sges: size.receive_sges, inline_data: 0, ..initiators };
        let initiator = Requests::made(SOFTNDK_RING_INITIATOR, initiators, context);
        let receive =
            if own_receives { Requests::made(SOFTNDK_RING_RECEIVE, receives, context).map(Some) } else { Some(None) };
        // A queue that no ring can hold is for the driver to refuse.
        let Some(((initiator, first), receive)) = initiator.zip(receive) else {
            return Self { rings: None, mappings: Vec::new(), context };
        };
        let (receive, second) = receive.unzip();
        let mappings = [Some(first), second].into_iter().flatten().collect();
        Self { rings: Some(Rings { initiator, receive }), mappings, context }
    }

    fn header(&self, header: ND_CREATE_QP_HDR, size: usize) -> ND_CREATE_QP_HDR {
        ND_CREATE_QP_HDR { CeMappingCount: self.mappings.len() as u32, CbMappingsOffset: size as u32, ..header }
    }
}
object!(Qp);

impl Qp {
    /// A new one with a receive queue of its own.
    pub fn new(pd: &Pd, receive_cq: &Cq, initiator_cq: &Cq, size: QpSize) -> Result<Self> {
        let client = &pd.object.client;
        let made = Made::new(client, size, true);
        let request = ND_CREATE_QP {
            Header: made.header(header(pd, receive_cq, initiator_cq, size), size_of::<ND_CREATE_QP>()),
            ReceiveQueueDepth: size.receives,
            MaxReceiveRequestSge: size.receive_sges,
        };
        let (handle, _) = client.query_with_rings(IOCTL_ND_QP_CREATE, &request, &made.mappings)?;
        Ok(Self::made(client, handle, made, &[&pd.object, &receive_cq.object, &initiator_cq.object]))
    }

    /// A new one that takes its receives from `srq`.
    pub fn with_srq(pd: &Pd, receive_cq: &Cq, initiator_cq: &Cq, srq: &Srq, size: QpSize) -> Result<Self> {
        let client = &pd.object.client;
        let made = Made::new(client, size, false);
        let request = ND_CREATE_QP_WITH_SRQ {
            Header: made.header(header(pd, receive_cq, initiator_cq, size), size_of::<ND_CREATE_QP_WITH_SRQ>()),
            SrqHandle: srq.handle(),
        };
        let (handle, _) = client.query_with_rings(IOCTL_ND_QP_CREATE_WITH_SRQ, &request, &made.mappings)?;
        Ok(Self::made(client, handle, made, &[&pd.object, &receive_cq.object, &initiator_cq.object, &srq.object]))
    }

    fn made(client: &Arc<Client>, handle: u64, made: Made, parents: &[&Arc<Object>]) -> Self {
        if made.rings.is_some() {
            client.set_context(made.context, handle);
        }
        Self { object: Object::new(client, handle, IOCTL_ND_QP_FREE, parents), rings: made.rings.map(Arc::new) }
    }

    /// Ends all work requests with STATUS_CANCELLED completions.
    pub fn flush(&self) -> Result<()> {
        self.object.call(IOCTL_ND_QP_FLUSH)
    }

    /// A request on this queue pair, to be completed with what it needs.
    #[must_use]
    pub fn request(&self, operation: NDK_OPERATION_TYPE, context: u64, flags: u32) -> SOFTNDK_POST {
        SOFTNDK_POST {
            Version: SOFTNDK_IOCTL_VERSION,
            Operation: operation.0.cast_unsigned(),
            QpHandle: self.handle(),
            RequestContext: context,
            Flags: flags,
            ..SOFTNDK_POST::ZERO
        }
    }

    /// Posts a request with its scatter/gather list.
    pub fn post(&self, post: SOFTNDK_POST, sges: &[SOFTNDK_SGE]) -> Result<()> {
        let by_ring = post.Operation != NdkOperationTypeFastRegister.0.cast_unsigned();
        if let Some(rings) = self.rings.as_ref().filter(|_| by_ring) {
            return self.post_to(rings, post, sges, &[]);
        }
        let post = SOFTNDK_POST { SgeCount: sges.len() as u32, ..post };
        self.object.client.call(IOCTL_SOFTNDK_POST, followed_by(&post, sges.as_bytes()).as_slice())
    }

    /// Posts a request with its data inline.
    pub fn post_inline(&self, post: SOFTNDK_POST, data: &[u8]) -> Result<()> {
        let flags = post.Flags | NDK_OP_FLAG_INLINE;
        if let Some(rings) = &self.rings {
            return self.post_to(rings, SOFTNDK_POST { Flags: flags, ..post }, &[], data);
        }
        let post = SOFTNDK_POST { Flags: flags, InlineLength: data.len() as u32, ..post };
        self.object.client.call(IOCTL_SOFTNDK_POST, followed_by(&post, data).as_slice())
    }

    fn post_to(&self, rings: &Rings, post: SOFTNDK_POST, sges: &[SOFTNDK_SGE], data: &[u8]) -> Result<()> {
        let is_receive = post.Operation == NdkOperationTypeReceive.0.cast_unsigned();
        let ring = if is_receive { rings.receive.as_ref() } else { Some(&rings.initiator) };
        let refused = Error::Refused { request: "a post to a ring", status: STATUS_INVALID_PARAMETER };
        ring.ok_or(refused)?.post(&self.object.client, self.handle(), &post, sges, data)
    }

    /// Posts a receive.
    pub fn receive(&self, context: u64, sges: &[SOFTNDK_SGE]) -> Result<()> {
        self.post(self.request(NdkOperationTypeReceive, context, 0), sges)
    }

    /// Posts a send.
    pub fn send(&self, context: u64, sges: &[SOFTNDK_SGE], flags: u32) -> Result<()> {
        self.post(self.request(NdkOperationTypeSend, context, flags), sges)
    }

    /// Posts a send of inline data.
    pub fn send_inline(&self, context: u64, data: &[u8], flags: u32) -> Result<()> {
        self.post_inline(self.request(NdkOperationTypeSend, context, flags), data)
    }

    /// A send that invalidates a token of the peer, to be posted with [`Qp::post`] or [`Qp::post_inline`].
    #[must_use]
    pub fn send_and_invalidate(&self, context: u64, flags: u32, token: u32) -> SOFTNDK_POST {
        SOFTNDK_POST {
            Operation: SOFTNDK_POST_SEND_AND_INVALIDATE,
            RemoteToken: token,
            ..self.request(NdkOperationTypeSend, context, flags)
        }
    }

    /// Posts a read of the peer's memory.
    pub fn read(&self, context: u64, sges: &[SOFTNDK_SGE], from: Remote, flags: u32) -> Result<()> {
        let post = self.request(NdkOperationTypeRead, context, flags);
        self.post(SOFTNDK_POST { RemoteAddress: from.address, RemoteToken: from.token, ..post }, sges)
    }

    /// Posts a write to the peer's memory.
    pub fn write(&self, context: u64, sges: &[SOFTNDK_SGE], to: Remote, flags: u32) -> Result<()> {
        let post = self.request(NdkOperationTypeWrite, context, flags);
        self.post(SOFTNDK_POST { RemoteAddress: to.address, RemoteToken: to.token, ..post }, sges)
    }

    /// Posts a fast registration of the first `length` bytes of a region, to be addressed from `base` on.
    pub fn fast_register(&self, context: u64, mr: &FastMr, base: u64, length: u64, flags: u32) -> Result<()> {
        let post = self.request(NdkOperationTypeFastRegister, context, flags);
        let post = SOFTNDK_POST { ObjectHandle: mr.handle(), BaseVirtualAddress: base, Length: length, ..post };
        self.post(post, &[])
    }

    /// Posts an invalidation of a fast-registered region.
    pub fn invalidate(&self, context: u64, mr: &FastMr, flags: u32) -> Result<()> {
        let post = self.request(NdkOperationTypeInvalidate, context, flags);
        self.post(SOFTNDK_POST { ObjectHandle: mr.handle(), ..post }, &[])
    }
}

fn header(pd: &Pd, receive_cq: &Cq, initiator_cq: &Cq, size: QpSize) -> ND_CREATE_QP_HDR {
    ND_CREATE_QP_HDR {
        Version: ND_IOCTL_VERSION,
        CbMaxInlineData: size.inline,
        InitiatorQueueDepth: size.initiators,
        MaxInitiatorRequestSge: size.initiator_sges,
        ReceiveCqHandle: receive_cq.handle(),
        InitiatorCqHandle: initiator_cq.handle(),
        PdHandle: pd.handle(),
        ..ND_CREATE_QP_HDR::ZERO
    }
}
