//! The points at which a rule can fire, with what the documents let hardware do there.

/// A point that requests, completions, segments or frames pass.
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
    /// A kernel consumer posts a request.
    Post,
    /// A completion goes into its completion queue.
    Complete,
    /// A completion queue notifies its consumer.
    Notify,
    /// A connection sends a DDP segment over a wire.
    SegmentOut,
    /// A connection receives a DDP segment over a wire.
    SegmentIn,
    /// The adapter sends an Ethernet frame over the cable.
    FrameOut,
    /// The adapter receives an Ethernet frame over the cable.
    FrameIn,
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
    /// `bytes=`, `bytes>=`, `bytes<=`: the length of the request or of the registration; of a segment without its headers, of a frame with them.
    Bytes,
    /// `operation=`: what a post asks for.
    Operation,
}

/// What a post asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// NdkSend, NdkSendAndInvalidate.
    Send,
    /// NdkReceive.
    Receive,
    /// NdkRead.
    Read,
    /// NdkWrite.
    Write,
    /// NdkFastRegister.
    FastRegister,
    /// NdkBind.
    Bind,
    /// NdkInvalidate.
    Invalidate,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 7] =
        [Self::Send, Self::Receive, Self::Read, Self::Write, Self::FastRegister, Self::Bind, Self::Invalidate];

    /// The name in a rule.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Read => "read",
            Self::Write => "write",
            Self::FastRegister => "fast-register",
            Self::Bind => "bind",
            Self::Invalidate => "invalidate",
        }
    }
}

/// A kind of action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// [`Action::Fail`](crate::Action::Fail).
    Fail,
    /// [`Action::Delay`](crate::Action::Delay).
    Delay,
    /// [`Action::Stall`](crate::Action::Stall).
    Stall,
    /// [`Action::Disconnect`](crate::Action::Disconnect).
    Disconnect,
    /// [`Action::Reset`](crate::Action::Reset).
    Reset,
    /// [`Action::SendTimeout`](crate::Action::SendTimeout).
    SendTimeout,
    /// [`Action::Overrun`](crate::Action::Overrun).
    Overrun,
    /// [`Action::Terminate`](crate::Action::Terminate).
    Terminate,
    /// [`Action::Drop`](crate::Action::Drop).
    Drop,
    /// [`Action::Duplicate`](crate::Action::Duplicate).
    Duplicate,
    /// [`Action::Reorder`](crate::Action::Reorder).
    Reorder,
    /// [`Action::Corrupt`](crate::Action::Corrupt).
    Corrupt,
}

impl ActionKind {
    /// As a rule has it, with what follows it.
    #[must_use]
    pub const fn syntax(self) -> &'static str {
        match self {
            Self::Fail => "fail STATUS",
            Self::Delay => "delay TIME",
            Self::Stall => "stall",
            Self::Disconnect => "disconnect",
            Self::Reset => "reset",
            Self::SendTimeout => "send-timeout TIME",
            Self::Overrun => "overrun",
            Self::Terminate => "terminate CODE",
            Self::Drop => "drop",
            Self::Duplicate => "duplicate",
            Self::Reorder => "reorder",
            Self::Corrupt => "corrupt",
        }
    }
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
            Self::Operation => "operation",
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
const HOST_UNREACHABLE: Status = ("STATUS_HOST_UNREACHABLE", 0xC000_023D);
const CONNECTION_INVALID: Status = ("STATUS_CONNECTION_INVALID", 0xC000_023A);

impl Point {
    /// All points.
    pub const ALL: [Self; 16] = [
        Self::Listen,
        Self::Connect,
        Self::Accept,
        Self::Register,
        Self::FastRegister,
        Self::Bind,
        Self::Send,
        Self::Read,
        Self::Write,
        Self::Post,
        Self::Complete,
        Self::Notify,
        Self::SegmentOut,
        Self::SegmentIn,
        Self::FrameOut,
        Self::FrameIn,
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
            Self::Post => "post",
            Self::Complete => "complete",
            Self::Notify => "notify",
            Self::SegmentOut => "segment-out",
            Self::SegmentIn => "segment-in",
            Self::FrameOut => "frame-out",
            Self::FrameIn => "frame-in",
        }
    }

    /// The statuses that a rule may name: those of the function's page (NDK_FN_LISTEN, NDK_FN_CONNECT, NDK_FN_ACCEPT, NDK_FN_REGISTER_MR), and for
    /// requests of a queue pair those with which hardware ends one. The pages of the posts (NDK_FN_SEND) have CONNECTION_INVALID and "other".
    #[must_use]
    pub const fn statuses(self) -> &'static [Status] {
        match self {
            Self::Listen => &[INSUFFICIENT_RESOURCES, SHARING_VIOLATION],
            Self::Connect => &[
                CONNECTION_REFUSED,
                IO_TIMEOUT,
                NETWORK_UNREACHABLE,
                HOST_UNREACHABLE,
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
            Self::Post => &[INSUFFICIENT_RESOURCES, CONNECTION_INVALID],
            Self::Complete | Self::Notify | Self::SegmentOut | Self::SegmentIn | Self::FrameOut | Self::FrameIn => &[],
        }
    }

    /// The filters that a rule may have.
    #[must_use]
    pub const fn filters(self) -> &'static [FilterKind] {
        use FilterKind::{Address, Bytes, Operation, Port, Process, QueuePair, Role};
        match self {
            Self::Listen | Self::Connect | Self::Accept => &[Port, Address, Process],
            Self::Register => &[Process, Bytes],
            Self::FastRegister | Self::Bind => &[Port, Address, Role, Process, QueuePair],
            Self::Send | Self::Read | Self::Write | Self::SegmentOut | Self::SegmentIn => {
                &[Port, Address, Role, Process, QueuePair, Bytes]
            }
            Self::Post => &[Port, Address, Role, QueuePair, Operation, Bytes],
            Self::Complete | Self::Notify => &[Process],
            Self::FrameOut | Self::FrameIn => &[Port, Address, Bytes],
        }
    }

    /// The actions that a rule may have.
    #[must_use]
    pub const fn actions(self) -> &'static [ActionKind] {
        use ActionKind::{
            Corrupt, Delay, Disconnect, Drop, Duplicate, Fail, Overrun, Reorder, Reset, SendTimeout, Stall, Terminate,
        };
        match self {
            Self::Listen | Self::Register | Self::Post => &[Fail],
            Self::Connect | Self::Accept => &[Fail, SendTimeout],
            Self::FastRegister | Self::Bind | Self::Send | Self::Read | Self::Write => {
                &[Fail, Delay, Stall, Disconnect, Reset]
            }
            Self::Complete => &[Overrun],
            Self::Notify => &[Delay],
            Self::SegmentOut => &[Delay, Corrupt],
            Self::SegmentIn => &[Delay, Terminate],
            Self::FrameOut | Self::FrameIn => &[Delay, Drop, Duplicate, Reorder, Corrupt],
        }
    }

    /// Whether a queue pair carries the request out.
    #[must_use]
    pub const fn is_request(self) -> bool {
        matches!(self, Self::FastRegister | Self::Bind | Self::Send | Self::Read | Self::Write)
    }
}
