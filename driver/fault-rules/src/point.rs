//! The points at which a rule can fire, with what the documents let hardware do there.

/// A point that requests pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Point {
    /// A listener starts to listen.
    Listen,
    /// A connector connects.
    Connect,
    /// A consumer accepts a connection request.
    Accept,
    /// Memory is registered from an MDL.
    Register,
    /// The queue pair begins to carry out a fast registration.
    FastRegister,
    /// The queue pair begins to carry out a bind.
    Bind,
    /// The queue pair begins to carry out a send.
    Send,
    /// The queue pair begins to carry out a read.
    Read,
    /// The queue pair begins to carry out a write.
    Write,
}

/// A kind of filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind {
    /// `port=`: a port of either side.
    Port,
    /// `address=`: an IP address of either side.
    Address,
    /// `role=`: whether this side connected or accepted.
    Role,
    /// `process=`: the process that opened the adapter.
    Process,
    /// `queue-pair=`: the number that events give the queue pair.
    QueuePair,
    /// `bytes=`, `bytes>=`, `bytes<=`: the length of the request or of the registration.
    Bytes,
}

impl FilterKind {
    /// The name in a rule.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Address => "address",
            Self::Role => "role",
            Self::Process => "process",
            Self::QueuePair => "queue-pair",
            Self::Bytes => "bytes",
        }
    }
}

/// The name of a status that a request may fail with, and its NTSTATUS.
type Status = (&'static str, u32);

const INSUFFICIENT_RESOURCES: Status = ("STATUS_INSUFFICIENT_RESOURCES", 0xC000_009A);
const SHARING_VIOLATION: Status = ("STATUS_SHARING_VIOLATION", 0xC000_0043);
const TOO_MANY_ADDRESSES: Status = ("STATUS_TOO_MANY_ADDRESSES", 0xC000_0209);
const CONNECTION_REFUSED: Status = ("STATUS_CONNECTION_REFUSED", 0xC000_0236);
const NETWORK_UNREACHABLE: Status = ("STATUS_NETWORK_UNREACHABLE", 0xC000_023C);
const CONNECTION_ABORTED: Status = ("STATUS_CONNECTION_ABORTED", 0xC000_0241);
const IO_TIMEOUT: Status = ("STATUS_IO_TIMEOUT", 0xC000_00B5);
const ACCESS_VIOLATION: Status = ("STATUS_ACCESS_VIOLATION", 0xC000_0005);
const REMOTE_RESOURCES: Status = ("STATUS_REMOTE_RESOURCES", 0xC000_013D);
const DATA_ERROR: Status = ("STATUS_DATA_ERROR", 0xC000_003E);

impl Point {
    /// All points.
    pub const ALL: [Self; 9] = [
        Self::Listen,
        Self::Connect,
        Self::Accept,
        Self::Register,
        Self::FastRegister,
        Self::Bind,
        Self::Send,
        Self::Read,
        Self::Write,
    ];

    /// The name in a rule.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::Register => "register",
            Self::FastRegister => "fast-register",
            Self::Bind => "bind",
            Self::Send => "send",
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// The statuses that a rule may name: those of the function's page (NDK_FN_LISTEN, NDK_FN_CONNECT, NDK_FN_ACCEPT, NDK_FN_REGISTER_MR), and for
    /// requests of a queue pair those with which hardware ends one.
    #[must_use]
    pub const fn statuses(self) -> &'static [Status] {
        match self {
            Self::Listen => &[INSUFFICIENT_RESOURCES, SHARING_VIOLATION],
            Self::Connect => &[
                CONNECTION_REFUSED,
                IO_TIMEOUT,
                NETWORK_UNREACHABLE,
                INSUFFICIENT_RESOURCES,
                SHARING_VIOLATION,
                TOO_MANY_ADDRESSES,
            ],
            Self::Accept => &[CONNECTION_ABORTED, IO_TIMEOUT],
            Self::Register => &[INSUFFICIENT_RESOURCES],
            Self::FastRegister | Self::Bind => &[ACCESS_VIOLATION],
            Self::Send => &[IO_TIMEOUT, DATA_ERROR, ACCESS_VIOLATION],
            Self::Read => &[IO_TIMEOUT, REMOTE_RESOURCES, ACCESS_VIOLATION],
            Self::Write => &[IO_TIMEOUT, ACCESS_VIOLATION],
        }
    }

    /// The filters that a rule may have.
    #[must_use]
    pub const fn filters(self) -> &'static [FilterKind] {
        use FilterKind::{Address, Bytes, Port, Process, QueuePair, Role};
        match self {
            Self::Listen | Self::Connect | Self::Accept => &[Port, Address, Process],
            Self::Register => &[Process, Bytes],
            Self::FastRegister | Self::Bind => &[Port, Address, Role, Process, QueuePair],
            Self::Send | Self::Read | Self::Write => &[Port, Address, Role, Process, QueuePair, Bytes],
        }
    }

    /// Whether the request makes a connection, so that a rule may set a time for it.
    #[must_use]
    pub const fn makes_connection(self) -> bool {
        matches!(self, Self::Connect | Self::Accept)
    }

    /// Whether a queue pair carries the request out, so that a rule may also end the connection.
    #[must_use]
    pub const fn has_connection(self) -> bool {
        matches!(self, Self::FastRegister | Self::Bind | Self::Send | Self::Read | Self::Write)
    }
}
