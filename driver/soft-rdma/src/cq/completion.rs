//! The entries of a completion queue.

use crate::Status;

/// The kind of request that completed. The numbers are NDK_OPERATION_TYPE's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum OperationKind {
    /// A receive.
    Receive = 0x1,
    /// A receive whose send invalidated a token.
    ReceiveAndInvalidate = 0x8001,
    /// A send, with or without invalidation.
    Send = 0x2,
    /// A fast registration.
    FastRegister = 0x4,
    /// A bind of a memory window.
    Bind = 0x8,
    /// An invalidation.
    Invalidate = 0x10,
    /// A read.
    Read = 0x20,
    /// A write.
    Write = 0x40,
}

/// One entry of a completion queue.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The status of the request.
    pub status: Status,
    /// Bytes placed; only for receives.
    pub bytes: u32,
    /// The consumer's context of the queue pair.
    pub qp_context: usize,
    /// The consumer's context of the request.
    pub request_context: usize,
    /// The kind of the request.
    pub kind: OperationKind,
    /// The token that a [`OperationKind::ReceiveAndInvalidate`] invalidated, else 0.
    pub invalidated_token: u32,
    /// Whether this completion satisfies a solicited arm: the peer's send asked for that, or the request has failed.
    pub solicited: bool,
    /// The request was posted with silent success, and has failed.
    pub silent: bool,
}

impl Completion {
    /// Fills the slots that were never used.
    pub(crate) const UNUSED: Self = Self {
        status: Ok(()),
        bytes: 0,
        qp_context: 0,
        request_context: 0,
        kind: OperationKind::Receive,
        invalidated_token: 0,
        solicited: false,
        silent: false,
    };
}
