//! What initiator requests are.

use ndk_abi::ndkpi::{
    NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_DEFER,
    NDK_OP_FLAG_INLINE, NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE, NDK_OP_FLAG_RDMA_READ_SINK, NDK_OP_FLAG_READ_FENCE,
    NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS, NDK_OPERATION_TYPE, NdkOperationTypeBind,
    NdkOperationTypeFastRegister, NdkOperationTypeInvalidate, NdkOperationTypeRead, NdkOperationTypeSend,
    NdkOperationTypeWrite,
};

use super::{Bind, FastRegistration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sge {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) token: u32,
}

pub(super) fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

/// What an initiator request does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Send { invalidate: Option<u32> },
    Read { address: u64, token: u32 },
    Write { address: u64, token: u32 },
    FastRegister { region: usize, registration: FastRegistration },
    Bind(Bind),
    Invalidate { region: usize },
    InvalidateWindow { window: usize },
}

/// A request as it is posted.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) context: usize,
    pub(crate) work: Work,
    pub(crate) sges: Vec<Sge>,
    /// The data of an inline request.
    pub(crate) inline: Option<Vec<u8>>,
    pub(crate) flags: u32,
}

/// Whether flags are set that the request does not have. Remote write is two bits, and one of them alone is none; a fast
/// registration has both.
pub(super) fn unknown_flags(work: &Work, flags: u32) -> bool {
    let write =
        matches!(work, Work::Bind(_)) && flags & NDK_OP_FLAG_ALLOW_REMOTE_WRITE == NDK_OP_FLAG_ALLOW_REMOTE_WRITE;
    let flags = if write { flags & !NDK_OP_FLAG_ALLOW_REMOTE_WRITE } else { flags };
    flags & !work.flags() != 0
}

/// The flags of all initiator requests, but for NDK_OP_FLAG_DEFER: the executor sets that.
pub const COMMON_FLAGS: [u32; 2] = [NDK_OP_FLAG_SILENT_SUCCESS, NDK_OP_FLAG_READ_FENCE];
/// The flags of NdkSend.
pub const SEND_FLAGS: &[u32] =
    &[COMMON_FLAGS[0], COMMON_FLAGS[1], NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_INLINE];
/// The flags of NdkWrite.
pub const WRITE_FLAGS: &[u32] = &[COMMON_FLAGS[0], COMMON_FLAGS[1], NDK_OP_FLAG_INLINE];
/// The flags of NdkFastRegister. Remote write is two bits: local write, and one that is nothing alone.
pub const FAST_REGISTER_FLAGS: &[u32] = &[
    COMMON_FLAGS[0],
    COMMON_FLAGS[1],
    NDK_OP_FLAG_ALLOW_REMOTE_READ,
    NDK_OP_FLAG_ALLOW_REMOTE_WRITE & !NDK_OP_FLAG_ALLOW_LOCAL_WRITE,
    NDK_OP_FLAG_ALLOW_LOCAL_WRITE,
    NDK_OP_FLAG_RDMA_READ_SINK,
];

fn all(flags: &[u32]) -> u32 {
    flags.iter().fold(0, |all, flag| all | flag)
}

impl Work {
    fn flags(&self) -> u32 {
        let own = match self {
            Self::Send { .. } => all(SEND_FLAGS),
            Self::Write { .. } => all(WRITE_FLAGS),
            Self::Read { .. } => NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE,
            Self::FastRegister { .. } => all(FAST_REGISTER_FLAGS),
            Self::Bind(_) => NDK_OP_FLAG_ALLOW_REMOTE_READ,
            Self::Invalidate { .. } | Self::InvalidateWindow { .. } => 0,
        };
        own | all(&COMMON_FLAGS) | NDK_OP_FLAG_DEFER
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Send { invalidate: None } => "NdkSend",
            Self::Send { invalidate: Some(_) } => "NdkSendAndInvalidate",
            Self::Read { .. } => "NdkRead",
            Self::Write { .. } => "NdkWrite",
            Self::FastRegister { .. } => "NdkFastRegister",
            Self::Bind(_) => "NdkBind",
            Self::Invalidate { .. } => "NdkInvalidate",
            Self::InvalidateWindow { .. } => "NdkInvalidate of a window",
        }
    }

    pub(super) fn kind(&self) -> NDK_OPERATION_TYPE {
        match self {
            Self::Send { .. } => NdkOperationTypeSend,
            Self::Read { .. } => NdkOperationTypeRead,
            Self::Write { .. } => NdkOperationTypeWrite,
            Self::FastRegister { .. } => NdkOperationTypeFastRegister,
            Self::Bind(_) => NdkOperationTypeBind,
            Self::Invalidate { .. } | Self::InvalidateWindow { .. } => NdkOperationTypeInvalidate,
        }
    }
}
