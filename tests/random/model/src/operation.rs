//! What a consumer does, as data: numbers that the executor turns into objects, addresses and tokens. Any value is an
//! operation; what a number chooses from depends on what there is at that time.

/// A scatter/gather entry, or what else names memory. `Session::place` says how the numbers are read: most of them name
/// memory that is there.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Place {
    /// Whose token.
    pub token: u8,
    /// Where, from the start of the region.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// A request for an initiator queue.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Post {
    /// What it does.
    pub request: Request,
    /// Where the data is.
    pub sges: Vec<Place>,
    /// NDK_OP_FLAG_*; the executor sees to NDK_OP_FLAG_DEFER.
    pub flags: u32,
}

/// What an initiator request does.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Request {
    /// NdkSend.
    Send,
    /// NdkSendAndInvalidate.
    SendAndInvalidate(Place),
    /// NdkRead.
    Read(Place),
    /// NdkWrite.
    Write(Place),
    /// NdkFastRegister.
    FastRegister {
        /// Which region.
        region: u8,
        /// Its pages, of the region's buffer, in this order.
        pages: Vec<u8>,
        /// The rest of the base address is made of this.
        base: u8,
        /// Where in the first page.
        first_byte_offset: u32,
        /// Bytes.
        length: u32,
    },
    /// NdkBind.
    Bind {
        /// Which window.
        window: u8,
        /// The region, and which part of it.
        part: Place,
    },
    /// NdkInvalidate.
    Invalidate {
        /// Which region.
        region: u8,
    },
    /// NdkInvalidate of a window.
    InvalidateWindow {
        /// Which window.
        window: u8,
    },
}

/// A slot for an object, which may be closed and made again.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Slot {
    /// A completion queue.
    Cq(u8),
    /// A shared receive queue.
    Srq(u8),
    /// A region.
    Mr(u8),
    /// A window.
    Mw(u8),
    /// A queue pair.
    Qp(u8),
    /// A listener.
    Listener(u8),
}

/// A fault rule; `Session` says how the numbers are read.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct FaultRule {
    /// The point.
    pub point: u8,
    /// The least bytes of a passage that counts.
    pub bytes: u16,
    /// Passages that do not fire.
    pub after: u8,
    /// The distance of passages that fire.
    pub every: u8,
    /// The most firings; 0: any number.
    pub times: u8,
    /// What a firing does.
    pub action: u8,
}

/// Which callback a consumer gives for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Event {
    /// None.
    None,
    /// NDK_FN_DISCONNECT_EVENT_CALLBACK.
    Plain,
    /// NDK_FN_DISCONNECT_EVENT_CALLBACK_EX.
    Ex,
}

/// An operation of a consumer. Its first number chooses among the open objects.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
#[allow(missing_docs, reason = "the parameters of the functions named")]
pub enum Operation {
    /// Initiator requests, one after the other, all but the last deferred.
    Post { qp: u8, posts: Vec<Post> },
    /// NdkReceive.
    Receive { qp: u8, sges: Vec<Place> },
    /// NdkSrqReceive.
    SrqReceive { srq: u8, sges: Vec<Place> },
    /// NdkGetCqResultsEx, or (`plain`) NdkGetCqResults.
    Poll { cq: u8, count: u8, plain: bool },
    /// NdkArmCq.
    Arm { cq: u8, notify: u8 },
    /// NdkResizeCq.
    ResizeCq { cq: u8, depth: u32 },
    /// NdkModifySrq.
    ModifySrq { srq: u8, depth: u32, threshold: u32 },
    /// NdkFlush.
    Flush { qp: u8 },
    /// NdkRegisterMr of a part of the region's buffer.
    Register { mr: u8, offset: u16, length: u32, flags: u8 },
    /// NdkDeregisterMr.
    Deregister { mr: u8 },
    /// NdkInitializeFastRegisterMr.
    InitializeFast { mr: u8, pages: u32, remote_access: bool },
    /// The consumer writes to its own memory.
    Scribble { buffer: u8, offset: u16, seed: u8 },
    /// The object is made, if its slot is empty.
    Create(Slot),
    /// The object is closed.
    Close(Slot),
    /// NdkListen.
    Listen { listener: u8 },
    /// NdkControlConnectEvents.
    Pause { listener: u8, pause: bool },
    /// NdkConnect; with a `connector` of 0 to 127 on a new one.
    Connect { connector: u8, qp: u8, listener: u8, inbound: u8, outbound: u8, private_data: u16 },
    /// NdkAccept or NdkAcceptEx.
    Accept { connector: u8, qp: u8, inbound: u8, outbound: u8, private_data: u16, event: Event },
    /// NdkReject.
    Reject { connector: u8, private_data: u16 },
    /// NdkCompleteConnect or NdkCompleteConnectEx.
    Complete { connector: u8, event: Event },
    /// NdkGetConnectionData with a buffer of `room` bytes.
    ConnectionData { connector: u8, room: u16 },
    /// NdkDisconnect.
    Disconnect { connector: u8 },
    /// NdkCloseConnector.
    CloseConnector { connector: u8 },
    /// The device's fault rules are replaced.
    Faults(Vec<FaultRule>),
    /// A whole connection of two idle queue pairs: connect, accept, complete.
    Establish { active: u8, passive: u8, event: Event },
}

/// Operations out of bytes, any bytes.
#[cfg(feature = "arbitrary")]
#[must_use]
pub fn decode(bytes: &[u8]) -> Vec<Operation> {
    /// More does not find more, and takes longer.
    const MOST: usize = 64;
    let mut bytes = arbitrary::Unstructured::new(bytes);
    let mut operations = Vec::new();
    while operations.len() < MOST
        && !bytes.is_empty()
        && let Ok(operation) = bytes.arbitrary()
    {
        operations.push(operation);
    }
    operations
}
