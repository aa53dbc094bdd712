//! What initiator requests are.

use ndk_abi::ndkpi::{
    NDK_OPERATION_TYPE, NdkOperationTypeBind, NdkOperationTypeFastRegister, NdkOperationTypeInvalidate,
    NdkOperationTypeRead, NdkOperationTypeSend, NdkOperationTypeWrite,
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

impl Work {
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
