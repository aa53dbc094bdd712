//! What is between the two ends of a connection.

use ndk_abi::status::{NTSTATUS, STATUS_SUCCESS};

/// What carries the connections of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Both ends have the same device.
    Device,
    /// iWARP. Sends and writes are complete when they are on their way (RFC 5040, section 5.5): if the peer refuses one, its sender
    /// learns only that the connection has ended. What is long is refused in parts: those before the first that has to be are placed.
    /// Who reads is told why that is refused.
    Wire,
}

impl Carrier {
    /// What a request ends with that the peer refuses with `status`; whether it `reads`.
    #[must_use]
    pub fn refusal(self, reads: bool, status: NTSTATUS) -> NTSTATUS {
        match self {
            Self::Wire if !reads => STATUS_SUCCESS,
            Self::Device | Self::Wire => status,
        }
    }
}
