//! Why a call or a work request failed.

use platform::OutOfMemory;

/// The failure of a call, of an asynchronous request, or of a work request. The numbers are those of NTSTATUS that consumers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Error {
    /// Memory, or a count of the adapter, is used up.
    InsufficientResources = 0xC000_009A,
    /// A size beyond the advertised limits, or an argument that makes no sense.
    InvalidParameter = 0xC000_000D,
    /// Two arguments that make no sense together.
    InvalidParameterMix = 0xC000_0030,
    /// Flags that this request does not have, or more inline data than the queue pair was made for.
    InvalidFlags = 0xC000_00F2,
    /// The queue is full.
    QueueFull = 0x8000_001A,
    /// More scatter/gather entries than the queue was made for.
    TooManySges = 0xC000_003C,
    /// More bytes than one request may move; less room than there is content.
    BufferOverflow = 0x8000_0005,
    /// More private data than the adapter carries.
    InvalidBufferSize = 0xC000_0206,
    /// A token, range or right that does not allow the access.
    AccessViolation = 0xC000_0005,
    /// A read beyond the end of the remote region.
    RemoteResources = 0xC000_013D,
    /// The peer could not take what was sent.
    DataError = 0xC000_003E,
    /// The request does not fit the state of its object.
    InvalidDeviceRequest = 0xC000_0010,
    /// Memory windows are bound to the region.
    DeviceBusy = 0x8000_0011,
    /// The page list is longer than the region was initialised for.
    ImplementationLimit = 0xC000_042B,
    /// The request was flushed, or its object closed.
    Canceled = 0xC000_0120,
    /// The queue pair is not connected, the connector not in the state for the call.
    ConnectionInvalid = 0xC000_023A,
    /// The queue pair has a connection already.
    ConnectionActive = 0xC000_023B,
    /// The peer gave up.
    ConnectionAborted = 0xC000_0241,
    /// Nobody listens, or the peer rejected.
    ConnectionRefused = 0xC000_0236,
    /// The address does not belong to this adapter.
    InvalidAddress = 0xC000_0141,
    /// The local address is in use.
    SharingViolation = 0xC000_0043,
    /// There is a connection between the two addresses.
    AddressAlreadyExists = 0xC000_020A,
    /// Every ephemeral port is in use.
    TooManyAddresses = 0xC000_0209,
    /// The peer has not answered.
    TimedOut = 0xC000_00B5,
    /// There is no way to the destination.
    NetworkUnreachable = 0xC000_023C,
    /// The completion queue or shared receive queue failed.
    InternalError = 0xC000_00E5,
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
