//! What goes wrong between a test and the device.

use std::time::Duration;

use ndk_abi::status::NTSTATUS;

/// A request that did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The device answered with a failure.
    #[error("{request}: {status}")]
    Refused {
        /// The request, by the name of its control code.
        request: &'static str,
        /// The status it completed with.
        status: NTSTATUS,
    },
    /// The answer is not as long as its structure.
    #[error("{request}: {returned} bytes returned, {expected} expected")]
    WrongLength {
        /// The request, by the name of its control code.
        request: &'static str,
        /// The number of bytes returned.
        returned: usize,
        /// The bytes of the documented structure.
        expected: usize,
    },
    /// Nothing happened for too long. The text says what was awaited.
    #[error("still waiting after {after:?} for {awaited}")]
    Stalled {
        /// What should have happened.
        awaited: String,
        /// How long was waited.
        after: Duration,
    },
}

impl Error {
    /// The status of a refusal.
    #[must_use]
    pub fn status(&self) -> Option<NTSTATUS> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::WrongLength { .. } | Self::Stalled { .. } => None,
        }
    }
}

/// The result of a request.
pub type Result<T> = std::result::Result<T, Error>;
