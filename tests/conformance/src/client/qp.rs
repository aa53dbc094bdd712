//! Queue pairs and their work requests.

use std::sync::Arc;

use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{
        IOCTL_ND_QP_CREATE, IOCTL_ND_QP_CREATE_WITH_SRQ, IOCTL_ND_QP_FLUSH, IOCTL_ND_QP_FREE, ND_CREATE_QP,
        ND_CREATE_QP_HDR, ND_CREATE_QP_WITH_SRQ, ND_IOCTL_VERSION, ND_RESOURCE_DESCRIPTOR,
    },
    ndkpi::{
        NDK_OP_FLAG_INLINE, NDK_OPERATION_TYPE, NdkOperationTypeFastRegister, NdkOperationTypeInvalidate,
        NdkOperationTypeRead, NdkOperationTypeReceive, NdkOperationTypeSend, NdkOperationTypeWrite,
    },
    softndk_ioctl::{
        IOCTL_SOFTNDK_POST, SOFTNDK_IOCTL_VERSION, SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE, SOFTNDK_SGE,
    },
};
use zerocopy::IntoBytes as _;

use super::{Cq, FastMr, Object, Pd, Remote, Srq, followed_by, object};
use crate::error::Result;

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
}
object!(Qp);

impl Qp {
    /// A new one with a receive queue of its own.
    pub fn new(pd: &Pd, receive_cq: &Cq, initiator_cq: &Cq, size: QpSize) -> Result<Self> {
        let request = ND_CREATE_QP {
            Header: header(pd, receive_cq, initiator_cq, size),
            ReceiveQueueDepth: size.receives,
            MaxReceiveRequestSge: size.receive_sges,
        };
        let created: ND_RESOURCE_DESCRIPTOR = pd.object.client.query(IOCTL_ND_QP_CREATE, &request)?;
        let parents = [&pd.object, &receive_cq.object, &initiator_cq.object];
        Ok(Self { object: Object::new(&pd.object.client, created.Handle, IOCTL_ND_QP_FREE, &parents) })
    }

    /// A new one that takes its receives from `srq`.
    pub fn with_srq(pd: &Pd, receive_cq: &Cq, initiator_cq: &Cq, srq: &Srq, size: QpSize) -> Result<Self> {
        let request =
            ND_CREATE_QP_WITH_SRQ { Header: header(pd, receive_cq, initiator_cq, size), SrqHandle: srq.handle() };
        let created: ND_RESOURCE_DESCRIPTOR = pd.object.client.query(IOCTL_ND_QP_CREATE_WITH_SRQ, &request)?;
        let parents = [&pd.object, &receive_cq.object, &initiator_cq.object, &srq.object];
        Ok(Self { object: Object::new(&pd.object.client, created.Handle, IOCTL_ND_QP_FREE, &parents) })
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
        let post = SOFTNDK_POST { SgeCount: sges.len() as u32, ..post };
        self.object.client.call(IOCTL_SOFTNDK_POST, followed_by(&post, sges.as_bytes()).as_slice())
    }

    /// Posts a request with its data inline.
    pub fn post_inline(&self, post: SOFTNDK_POST, data: &[u8]) -> Result<()> {
        let flags = post.Flags | NDK_OP_FLAG_INLINE;
        let post = SOFTNDK_POST { Flags: flags, InlineLength: data.len() as u32, ..post };
        self.object.client.call(IOCTL_SOFTNDK_POST, followed_by(&post, data).as_slice())
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
