//! NDK_QP: creation, flush and the post functions.

use ndk_abi::ndkpi::NDK_OP_FLAG_INLINE;
use ndk_abi::ndkpi::{NDK_CQ, NDK_MR, NDK_PD, NDK_QP, NDK_SGE, NDK_SGE_ADDRESS, NDK_SRQ};
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_PARAMETER_4};
use platform::{Arc, Passive, Platform};

use crate::{Lam, Owned, opaque};

/// Sizes of a queue pair.
#[allow(missing_docs, reason = "named as the parameters of NdkCreateQp")]
pub struct QpDepths {
    pub initiator_depth: u32,
    pub initiator_sges: u32,
    pub inline_bytes: u32,
}

/// The data of a send or a write.
#[derive(Clone, Copy)]
pub enum Data<'a> {
    /// SGEs in registered regions.
    Regions(&'a [NDK_SGE]),
    /// Inline data, which the provider copies before the call returns.
    Inline(&'a [u8]),
}

/// An initiator work request.
#[allow(missing_docs, reason = "named as the functions and parameters of NDK_QP_DISPATCH")]
pub enum Work<'a, K: Send + Sync, P: Platform> {
    Send(Data<'a>),
    SendAndInvalidate { data: Data<'a>, token: u32 },
    Write { data: Data<'a>, address: u64, token: u32 },
    Read { sges: &'a [NDK_SGE], address: u64, token: u32 },
    FastRegister { mr: &'a Owned<NDK_MR, K, P>, lam: &'a Lam<P>, base: u64, length: usize },
    Invalidate(&'a Owned<NDK_MR, K, P>),
}

impl<Q: Send + Sync, P: Platform> Owned<NDK_QP, Q, P> {
    /// NdkCreateQp. `handle` becomes the `QPContext` of its completions.
    #[expect(clippy::too_many_arguments, reason = "those of NdkCreateQp")]
    pub fn create_qp<J: Send + Sync, C: Send + Sync>(
        pd: &Owned<NDK_PD, J, P>,
        receive_cq: &Owned<NDK_CQ, C, P>,
        initiator_cq: &Owned<NDK_CQ, C, P>,
        handle: u64,
        (receive_depth, receive_sges): (u32, u32),
        depths: &QpDepths,
        object_context: Arc<Q, P>,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let create = pd.table().NdkCreateQp;
        let (receive_cq, initiator_cq) = (receive_cq.as_ptr(), initiator_cq.as_ptr());
        let &QpDepths { initiator_depth, initiator_sges, inline_bytes } = depths;
        let call = |completion, context, out| {
            // SAFETY: an open PD, open CQs; the arguments belong together.
            unsafe {
                create(
                    pd.as_ptr(),
                    receive_cq,
                    initiator_cq,
                    opaque(handle),
                    receive_depth,
                    initiator_depth,
                    receive_sges,
                    initiator_sges,
                    inline_bytes,
                    completion,
                    context,
                    out,
                )
            }
        };
        // SAFETY: NdkCreateQp makes a QP, which has no callbacks.
        unsafe { Self::create(object_context, passive, call) }
    }

    /// NdkCreateQpWithSrq. `handle` becomes the `QPContext` of its completions.
    #[expect(clippy::too_many_arguments, reason = "those of NdkCreateQpWithSrq")]
    pub fn create_qp_with_srq<J: Send + Sync, C: Send + Sync, S: Send + Sync>(
        pd: &Owned<NDK_PD, J, P>,
        receive_cq: &Owned<NDK_CQ, C, P>,
        initiator_cq: &Owned<NDK_CQ, C, P>,
        srq: &Owned<NDK_SRQ, S, P>,
        handle: u64,
        depths: &QpDepths,
        object_context: Arc<Q, P>,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let create = pd.table().NdkCreateQpWithSrq;
        let (receive_cq, initiator_cq, srq) = (receive_cq.as_ptr(), initiator_cq.as_ptr(), srq.as_ptr());
        let &QpDepths { initiator_depth, initiator_sges, inline_bytes } = depths;
        let call = |completion, context, out| {
            // SAFETY: an open PD, open CQs and SRQ; the arguments belong together.
            unsafe {
                create(
                    pd.as_ptr(),
                    receive_cq,
                    initiator_cq,
                    srq,
                    opaque(handle),
                    initiator_depth,
                    initiator_sges,
                    inline_bytes,
                    completion,
                    context,
                    out,
                )
            }
        };
        // SAFETY: NdkCreateQpWithSrq makes a QP, which has no callbacks.
        unsafe { Self::create(object_context, passive, call) }
    }

    /// NdkFlush.
    pub fn flush(&self) {
        // SAFETY: an open QP.
        unsafe { (self.table().NdkFlush)(self.as_ptr()) };
    }

    /// NdkReceive. Not to overlap with itself.
    pub fn receive(&self, context: u64, sges: &[NDK_SGE]) -> NTSTATUS {
        let count = u32::try_from(sges.len()).unwrap_or(u32::MAX);
        // SAFETY: an open QP, `count` entries; the provider checks their contents.
        unsafe { (self.table().NdkReceive)(self.as_ptr(), opaque(context), sges.as_ptr(), count) }
    }

    /// Posts to the initiator queue. Not to overlap with itself.
    ///
    /// STATUS_INVALID_PARAMETER_4 if `flags` has NDK_OP_FLAG_INLINE: with that flag the provider reads at the addresses
    /// of the SGEs, and the addresses in [`Data::Regions`] come from a program.
    pub fn post<K: Send + Sync>(&self, context: u64, work: &Work<'_, K, P>, flags: u32) -> NTSTATUS {
        if flags & NDK_OP_FLAG_INLINE != 0 {
            return STATUS_INVALID_PARAMETER_4;
        }
        let (qp, table, context) = (self.as_ptr(), self.table(), opaque(context));
        match work {
            Work::Send(data) => data.with(|sges, count, inline| {
                // SAFETY: an open QP, `count` entries; inline ones point to readable memory, the provider checks
                // others.
                unsafe { (table.NdkSend)(qp, context, sges, count, flags | inline) }
            }),
            Work::SendAndInvalidate { data, token } => data.with(|sges, count, inline| {
                // SAFETY: as for Send.
                unsafe { (table.NdkSendAndInvalidate)(qp, context, sges, count, flags | inline, *token) }
            }),
            Work::Write { data, address, token } => data.with(|sges, count, inline| {
                // SAFETY: as for Send; the remote address and token are checked by the peer.
                unsafe { (table.NdkWrite)(qp, context, sges, count, *address, *token, flags | inline) }
            }),
            Work::Read { sges, address, token } => {
                let count = u32::try_from(sges.len()).unwrap_or(u32::MAX);
                // SAFETY: as for Write.
                unsafe { (table.NdkRead)(qp, context, sges.as_ptr(), count, *address, *token, flags) }
            }
            Work::FastRegister { mr, lam, base, length } => {
                let (count, pages) = (lam.page_count(), lam.pages());
                let (mr, offset, base) = (mr.as_ptr(), lam.first_byte_offset(), opaque(*base));
                // SAFETY: an open QP and MR, `count` addresses of a mapping that outlives the MR.
                unsafe { (table.NdkFastRegister)(qp, context, mr, count, pages, offset, *length, base, flags) }
            }
            Work::Invalidate(mr) => {
                // SAFETY: an open QP and MR.
                unsafe { (table.NdkInvalidate)(qp, context, mr.as_ptr().cast(), flags) }
            }
        }
    }
}

impl Data<'_> {
    /// Calls `post` with the SGEs, their number, and NDK_OP_FLAG_INLINE or 0.
    fn with(self, post: impl FnOnce(*const NDK_SGE, u32, u32) -> NTSTATUS) -> NTSTATUS {
        match self {
            Self::Regions(sges) => post(sges.as_ptr(), u32::try_from(sges.len()).unwrap_or(u32::MAX), 0),
            Self::Inline([]) => post(core::ptr::null(), 0, NDK_OP_FLAG_INLINE),
            Self::Inline(bytes) => {
                let u = NDK_SGE_ADDRESS::from_virtual(bytes.as_ptr().cast_mut().cast());
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let sge = NDK_SGE { u, Length: length, MemoryRegionToken: 0 };
                post(&raw const sge, 1, NDK_OP_FLAG_INLINE)
            }
        }
    }
}
