//! Why a call or a work request failed. `ndk-provider` gives each its NTSTATUS.

use platform::OutOfMemory;

/// The failure of a call, of an asynchronous request, or of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Memory, or a count of the adapter, is used up.
    InsufficientResources,
    /// A size beyond the advertised limits, or an argument that makes no sense.
    InvalidParameter,
    /// Two arguments that make no sense together.
    InvalidParameterMix,
    /// Flags that this request does not have, or more inline data than the queue pair was made for.
    InvalidFlags,
    /// The queue is full.
    QueueFull,
    /// More scatter/gather entries than the queue was made for.
    TooManySges,
    /// More bytes than one request may move; less room than there is content.
    BufferOverflow,
    /// More private data than the adapter carries.
    InvalidBufferSize,
    /// A token, range or right that does not allow the access.
    AccessViolation,
    /// A read beyond the end of the remote region.
    RemoteResources,
    /// The peer could not take what was sent.
    DataError,
    /// The request does not fit the state of its object.
    InvalidDeviceRequest,
    /// Memory windows are bound to the region.
    DeviceBusy,
    /// The page list is longer than the region was initialised for.
    ImplementationLimit,
    /// The request was flushed, or its object closed.
    Canceled,
    /// The queue pair is not connected, the connector not in the state for the call.
    ConnectionInvalid,
    /// The queue pair has a connection already.
    ConnectionActive,
    /// The peer gave up.
    ConnectionAborted,
    /// Nobody listens, or the peer rejected.
    ConnectionRefused,
    /// The address does not belong to this adapter.
    InvalidAddress,
    /// The local address is in use.
    SharingViolation,
    /// There is a connection between the two addresses.
    AddressAlreadyExists,
    /// Every ephemeral port is in use.
    TooManyAddresses,
    /// The peer has not answered.
    TimedOut,
    /// There is no way to the destination.
    NetworkUnreachable,
    /// The completion queue or shared receive queue failed.
    InternalError,
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Self {
        Self::InsufficientResources
    }
}

/// What a callback or completion reports.
pub type Status = Result<(), Error>;

/// The answer of a call that may go on in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Done; no callback follows.
    Done,
    /// The callback follows, or has run already.
    Pending,
}
