//! What has happened, for whoever traces the driver.

use core::net::SocketAddr;

/// One thing that has happened. A `status` is the number of an NTSTATUS, a `queue_pair` what its device calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A listener listens.
    Listening {
        /// Where.
        local: SocketAddr,
    },
    /// A listener does not listen: it could not, or the port is another's.
    ListenFailed {
        /// Where it should have.
        local: SocketAddr,
        /// Why not.
        status: u32,
    },
    /// A listener was closed that listened.
    ListenEnded {
        /// Where.
        local: SocketAddr,
    },
    /// A listener's consumer gets a connection request.
    Requested {
        /// Where the listener listens, and who asks.
        addresses: Addresses,
    },
    /// A side of a connection is established.
    Connected {
        /// From where to where.
        addresses: Addresses,
        /// Whose connection it is.
        queue_pair: u32,
        /// This side asked for it.
        active: bool,
    },
    /// This side has refused a request, or an acceptance.
    Rejected {
        /// From where to where.
        addresses: Addresses,
    },
    /// A connection was asked for, by this side or the other, and did not come about.
    ConnectFailed {
        /// From where to where, as far as that is known.
        addresses: Addresses,
        /// This side asked for it.
        active: bool,
        /// Why.
        status: u32,
    },
    /// A side of a connection is not established any more.
    Disconnected {
        /// From where to where.
        addresses: Addresses,
        /// Whose connection it was.
        queue_pair: u32,
        /// Why.
        reason: Ending,
    },
    /// A completion queue is dead, and all queue pairs on it with it.
    CompletionQueueFailed {
        /// How many completions it has room for.
        depth: u32,
        /// Why.
        status: u32,
    },
    /// A request was carried out and has failed, with which its connection ends.
    RequestFailed {
        /// Whose.
        queue_pair: u32,
        /// What kind, as NDK_OPERATION_TYPE has it.
        operation: u16,
        /// Why.
        status: u32,
    },
    /// A request was posted, or refused. Of data: told only where [`Platform::notices_data`](crate::Platform::notices_data).
    Posted {
        /// To which.
        queue_pair: u32,
        /// What kind, as NDK_OPERATION_TYPE has it.
        operation: u16,
        /// 0: it was accepted.
        status: u32,
    },
    /// A receive was posted to a shared queue, or refused. Of data.
    PostedShared {
        /// What its device calls the queue.
        shared_queue: u32,
        /// 0: it was accepted.
        status: u32,
    },
    /// Requests of a kind were reported, in a row. Of data.
    Completed {
        /// Whose.
        queue_pair: u32,
        /// What kind, as NDK_OPERATION_TYPE has it.
        operation: u16,
        /// How many.
        count: u32,
        /// Bytes that the receives among them have got.
        bytes: u32,
        /// What each ended with, 0: success.
        status: u32,
    },
    /// The other machine was told why its connection ends.
    TerminateSent {
        /// From where to where.
        addresses: Addresses,
        /// Why.
        cause: Cause,
    },
    /// The other machine has told why the connection ends.
    TerminateReceived {
        /// From where to where.
        addresses: Addresses,
        /// Why.
        cause: Cause,
    },
}

/// Those of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// This side's.
    pub local: Option<SocketAddr>,
    /// The other's.
    pub remote: Option<SocketAddr>,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// Its consumer disconnected, or closed it.
    Local,
    /// The other side's did.
    Peer,
    /// An error, on either side.
    Error,
}

/// What a Terminate says (RFC 5040 section 4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// 0: RDMAP, 1: DDP, 2: MPA.
    pub layer: u8,
    /// Kind of error in the layer.
    pub kind: u8,
    /// The error.
    pub code: u8,
}
