//! What a hostile user does with rings, as data. Any value is an operation; what a number chooses from depends on what there is.

use arbitrary::Arbitrary;

/// A field of the head of a ring.
#[derive(Arbitrary, Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields of SOFTNDK_RING")]
pub enum Field {
    Version,
    EntrySize,
    Capacity,
    Kind,
    Context,
    Tail,
    Head,
    Asleep,
    State,
}

/// A number for a field.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Number {
    /// So far from what is there.
    Near(i8),
    /// A power of two.
    Power(u8),
    /// Any.
    Any(u32),
}

/// A piece of memory that a request names.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Piece {
    /// Whose token; most are good.
    pub token: u8,
    /// Where in the region.
    pub offset: u16,
    /// Bytes.
    pub length: u16,
}

/// A request in a ring.
#[derive(Arbitrary, Clone, Debug)]
pub struct Entry {
    /// Most are ones that the ring is for.
    pub operation: u8,
    /// NDK_OP_FLAG_*; most are none.
    pub flags: u8,
    /// What its completion names it by.
    pub context: u16,
    /// Scatter/gather entries.
    pub pieces: Vec<Piece>,
    /// Bytes of inline data, instead.
    pub inline: Option<u8>,
    /// What is wrong with its counts; often nothing is.
    pub counts: (u8, u32),
    /// The peer's memory, or a region.
    pub remote: Piece,
}

/// How the memory that is passed as a ring differs from one.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Damage {
    /// What is wrong; often nothing is.
    pub what: u8,
    /// A field of its head.
    pub field: Field,
    /// What that is, or the length.
    pub number: Number,
    /// The offset of its address; or, its types of mapping and access.
    pub shift: u16,
    /// It is the memory of this other ring.
    pub of: u8,
}

/// A request of the control device.
#[derive(Arbitrary, Clone, Copy, Debug)]
#[allow(missing_docs, reason = "named as the codes")]
pub enum Request {
    Flush,
    Free,
    Notify(u8),
    CancelIo,
    Disconnect,
    NotifyDisconnect,
    Bind,
    Poll,
    Deregister,
    CancelOldest,
}

/// What a hostile user does.
#[derive(Arbitrary, Clone, Debug)]
pub enum Operation {
    /// Puts requests into a ring, and rings the doorbell.
    Post {
        /// Which ring.
        ring: u8,
        /// What.
        entry: Entry,
        /// How often.
        times: u8,
        /// Without the doorbell.
        silently: bool,
    },
    /// Writes anywhere in a ring.
    Write {
        /// Which ring.
        ring: u8,
        /// Where.
        offset: u16,
        /// What.
        bytes: [u8; 8],
    },
    /// Writes a field of the head.
    Set {
        /// Which ring.
        ring: u8,
        /// Which field.
        field: Field,
        /// What.
        number: Number,
    },
    /// IOCTL_SOFTNDK_DOORBELL.
    Doorbell {
        /// Of which object.
        object: u8,
    },
    /// Takes completions out, as it should be done.
    Poll {
        /// Of which ring.
        ring: u8,
    },
    /// Makes a queue.
    Create {
        /// CQ, SRQ, queue pair, queue pair with an SRQ.
        kind: u8,
        /// The number of requests it is for.
        depth: u8,
        /// What is wrong with its first ring.
        damage: Damage,
    },
    /// Passes another ring to a CQ or an SRQ.
    Modify {
        /// Which.
        object: u8,
        /// The number of requests it is for.
        depth: u8,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Another request of the control device.
    Send {
        /// To which object.
        object: u8,
        /// What.
        request: Request,
    },
    /// The neighbours send a message, and the peer polls its completions.
    Others,
    /// Lets the driver run.
    Pause(u8),
    /// From now on these bits of each word of each ring flip when it has been read.
    Change(u64),
    /// The allocation after this number of allocations fails.
    RunShort(u8),
    /// The process ends, if the number is 0.
    Die(u8),
}
