//! Why a call or a work request failed.

use platform::OutOfMemory;

/// The failure of a call, of an asynchronous request, or of a work request. The numbers are the NTSTATUS values that consumers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Error {
    /// No memory is left, a process has used up its quota, or the device has reached its limit of objects of the kind.
    InsufficientResources = 0xC000_009A,
    /// A size beyond the advertised limits, or an invalid argument.
    InvalidParameter = 0xC000_000D,
    /// Two arguments that contradict each other.
    InvalidParameterMix = 0xC000_0030,
    /// Flags that the request does not take, or more inline data than the queue pair was made for.
    InvalidFlags = 0xC000_00F2,
    /// The queue is full.
    QueueFull = 0x8000_001A,
    /// More scatter/gather entries than the queue was made for.
    TooManySges = 0xC000_003C,
    /// More bytes than one request may move, a receive shorter than its send, a resize below the number of entries, or a
    /// completion queue that was overrun.
    BufferOverflow = 0x8000_0005,
    /// More private data than [`crate::limits::PRIVATE_DATA`].
    InvalidBufferSize = 0xC000_0206,
    /// The token, the range or the token's rights do not allow the access.
    AccessViolation = 0xC000_0005,
    /// A read beyond the end of the remote region.
    RemoteResources = 0xC000_013D,
    /// The peer could not take the data of a send.
    DataError = 0xC000_003E,
    /// The object's state does not allow the request.
    InvalidDeviceRequest = 0xC000_0010,
    /// Memory windows are bound to the region.
    DeviceBusy = 0x8000_0011,
    /// The page list is longer than the limit, or than the region was initialised for.
    ImplementationLimit = 0xC000_042B,
    /// The request was flushed, or its object closed.
    Canceled = 0xC000_0120,
    /// The queue pair is not connected, or the connector is in another state than the call needs.
    ConnectionInvalid = 0xC000_023A,
    /// The queue pair has a connection already.
    ConnectionActive = 0xC000_023B,
    /// The peer closed or broke the connection before it was established.
    ConnectionAborted = 0xC000_0241,
    /// No listener at the address, or the peer rejected.
    ConnectionRefused = 0xC000_0236,
    /// The adapter does not have the address.
    InvalidAddress = 0xC000_0141,
    /// The local address is in use, in the device or in TCP.
    SharingViolation = 0xC000_0043,
    /// A connection between the two addresses exists already.
    AddressAlreadyExists = 0xC000_020A,
    /// Every ephemeral port is in use at this address.
    TooManyAddresses = 0xC000_0209,
    /// The peer did not answer, or had no receive for a send in time.
    TimedOut = 0xC000_00B5,
    /// No route to the destination.
    NetworkUnreachable = 0xC000_023C,
    /// The destination does not answer to ARP or neighbour discovery: only a fault rule says so.
    HostUnreachable = 0xC000_023D,
    /// A completion queue failed, or an invariant of the device does not hold.
    InternalError = 0xC000_00E5,
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Self {
        Self::InsufficientResources
    }
}

/// The status that a callback or completion reports.
pub type Status = Result<(), Error>;

/// The result of a call that may complete asynchronously.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The call is complete; no callback follows.
    Done,
    /// The callback follows, or has run before the call returned.
    Pending,
}
