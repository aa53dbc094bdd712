//! One completion.

use crate::Status;

/// What kind of request completed. The numbers are those of NDK_OPERATION_TYPE.
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
    /// How it ended.
    pub status: Status,
    /// Bytes placed; meaningful for receives only.
    pub bytes: u32,
    /// The consumer's value for the queue pair.
    pub qp_context: usize,
    /// The consumer's value for the request.
    pub request_context: usize,
    /// What completed.
    pub kind: OperationKind,
    /// The token that a [`OperationKind::ReceiveAndInvalidate`] invalidated, else 0.
    pub invalidated_token: u32,
    /// Whether it satisfies a solicited arm: the peer asked for it, or it is an error.
    pub solicited: bool,
    /// Whether the request was to succeed silently: it has failed.
    pub silent: bool,
}

impl Completion {
    /// What is in the slots of a queue before there is any.
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
