//! [`Notice`]: the driver's events, for tracing ([`Platform::notice`](crate::Platform::notice)).

use core::net::SocketAddr;

/// An event of the driver. A `status` is the number of an NTSTATUS, a `queue_pair` the device's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A listener has started to listen.
    Listening {
        /// The listener's local address.
        local: SocketAddr,
    },
    /// A listen has failed: there was an error, or another listener has the port.
    ListenFailed {
        /// The local address that the consumer asked for.
        local: SocketAddr,
        /// The error.
        status: u32,
    },
    /// A listener that listened was closed.
    ListenEnded {
        /// The listener's local address.
        local: SocketAddr,
    },
    /// A listener's consumer gets a connection request.
    Requested {
        /// The listener's address and the peer's address.
        addresses: Addresses,
    },
    /// A connection is established on this side.
    Connected {
        /// The addresses of the connection.
        addresses: Addresses,
        /// The queue pair of the connection.
        queue_pair: u32,
        /// Whether this side sent the connection request.
        active: bool,
    },
    /// This side has rejected a connection request, or the peer's acceptance.
    Rejected {
        /// The addresses of the connection.
        addresses: Addresses,
    },
    /// A connection request, of this side or of the peer, has failed.
    ConnectFailed {
        /// The addresses of the attempt, as far as they are known.
        addresses: Addresses,
        /// Whether this side sent the connection request.
        active: bool,
        /// The error.
        status: u32,
    },
    /// An established connection has ended on this side.
    Disconnected {
        /// The addresses of the connection.
        addresses: Addresses,
        /// The queue pair of the connection.
        queue_pair: u32,
        /// The reason.
        reason: Ending,
    },
    /// A completion queue has failed, and with it all queue pairs that use it.
    CompletionQueueFailed {
        /// The depth of the queue.
        depth: u32,
        /// The error.
        status: u32,
    },
    /// A request has failed while it was carried out, which ends the connection.
    RequestFailed {
        /// The queue pair.
        queue_pair: u32,
        /// The operation, by its NDK_OPERATION_TYPE.
        operation: u16,
        /// The error.
        status: u32,
    },
    /// A fault rule has fired.
    Fault {
        /// The number of the rule, from 1.
        rule: u32,
        /// The addresses of the request, as far as it has any.
        addresses: Addresses,
        /// The queue pair, if the request is one's.
        queue_pair: Option<u32>,
        /// The status with which the request fails; 0: it does not fail, but waits, or its connection ends.
        status: u32,
    },
    /// A request was posted, or refused. A data notice: made only if
    /// [`Platform::notices_data`](crate::Platform::notices_data) returns true.
    Posted {
        /// The queue pair.
        queue_pair: u32,
        /// The operation, by its NDK_OPERATION_TYPE.
        operation: u16,
        /// The status of the post; 0: the queue accepted the request.
        status: u32,
    },
    /// A receive was posted to a shared receive queue, or refused. A data notice.
    PostedShared {
        /// The device's number for the queue.
        shared_queue: u32,
        /// The status of the post; 0: the queue accepted the request.
        status: u32,
    },
    /// Consecutive requests of one kind have completed with one status. A data notice.
    Completed {
        /// The queue pair.
        queue_pair: u32,
        /// The operation, by its NDK_OPERATION_TYPE.
        operation: u16,
        /// The number of requests.
        count: u32,
        /// The bytes received, if the requests are receives.
        bytes: u32,
        /// The status of each request; 0: success.
        status: u32,
    },
    /// A Terminate was sent to the peer, on another machine.
    TerminateSent {
        /// The addresses of the connection.
        addresses: Addresses,
        /// The content of the Terminate.
        cause: Cause,
    },
    /// A Terminate was received from the peer, on another machine.
    TerminateReceived {
        /// The addresses of the connection.
        addresses: Addresses,
        /// The content of the Terminate.
        cause: Cause,
    },
}

/// The addresses of a connection or of an attempt; `None` if not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// This side's address.
    pub local: Option<SocketAddr>,
    /// The peer's address.
    pub remote: Option<SocketAddr>,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// This side's consumer has disconnected or closed the connection.
    Local,
    /// The peer's consumer has disconnected or closed the connection.
    Peer,
    /// An error on this side or on the peer's side.
    Error,
}

/// The content of a Terminate (RFC 5040 section 4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// 0: RDMAP, 1: DDP, 2: MPA.
    pub layer: u8,
    /// The error type in the layer.
    pub kind: u8,
    /// The error code.
    pub code: u8,
}
