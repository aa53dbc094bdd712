//! What a hostile peer does, and the consumer beside it, as data. Any value is an operation.

use arbitrary::Arbitrary;

/// A distance from what is right; mostly none.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Near(pub u8);

impl Near {
    pub(super) fn of(self, right: u64) -> u64 {
        match self.0 {
            0..200 => right,
            // Most errors are of one.
            200..215 => right.wrapping_add(1),
            215..230 => right.wrapping_sub(1),
            distance => right.wrapping_add_signed(i64::from(distance) - 243),
        }
    }

    pub(super) fn of_number(self, right: u32) -> u32 {
        self.of(right.into()) as u32
    }
}

/// A tag.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Tag {
    /// Of what the peer may read and write.
    Open,
    /// Of what it may only read.
    Read,
    /// Of what it may only write.
    Written,
    /// Of another domain's.
    Foreign,
    /// Of what could be registered, and invalidated.
    Fast,
    /// Of what is not for peers.
    Local,
    /// Any.
    Other(u32),
}

/// Where in what a tag names.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Place {
    /// Counted from the end of what fits.
    pub from_end: bool,
    /// Bytes from there.
    pub distance: u16,
    /// And a few bytes more, or fewer.
    pub near: Near,
}

/// What ends most connections.
#[derive(Arbitrary, Clone, Debug)]
pub enum Seldom {
    /// The peer terminates: the bytes are the Terminate's body; if the first is even, the others choose a read of the device that it
    /// refuses.
    Terminate(Vec<u8>),
    /// An FPDU of anything.
    Frame(Vec<u8>),
    /// Anything.
    Bytes(Vec<u8>),
    /// The peer has no more to send.
    Finish,
    /// The peer resets.
    Reset,
    /// The consumer flushes its queue pair.
    FlushQueue,
    /// The consumer disconnects.
    Disconnect,
}

/// What is done.
#[derive(Arbitrary, Clone, Debug)]
pub enum Operation {
    /// The peer sends, or a part of it.
    Send {
        /// Its number.
        message: Near,
        /// Its offset.
        offset: Near,
        /// Bytes.
        length: u16,
        /// No more of it follows.
        last: bool,
        /// What it invalidates.
        invalidate: Option<Tag>,
    },
    /// The peer writes.
    Write {
        /// Where.
        tag: Tag,
        /// Where in that.
        place: Place,
        /// Bytes.
        length: u16,
        /// No more of it follows.
        last: bool,
    },
    /// The peer reads.
    Read {
        /// Its number.
        message: Near,
        /// Where.
        tag: Tag,
        /// Where in that.
        place: Place,
        /// Bytes.
        size: u16,
    },
    /// The peer answers the oldest read of the device, or a part of it.
    Answer {
        /// Its tag.
        tag: Near,
        /// Its offset.
        offset: Near,
        /// Bytes.
        length: Near,
        /// In two parts, if it is right.
        in_parts: bool,
        /// No more of it follows; mostly.
        last: Near,
    },
    /// What ends most connections: done if the number is a small one.
    Seldom(u8, Seldom),
    /// One bit of the next frame is another one.
    Flip(u16),
    /// The peer sends the frames that it has kept, apart from later ones.
    Flush,
    /// The peer reads the bytes that have arrived.
    Drain,
    /// The consumer posts a receive.
    Receive,
    /// The consumer posts a send.
    PostSend(u16),
    /// The consumer posts a write.
    PostWrite(u16),
    /// The consumer posts a read.
    PostRead(u8),
    /// Others run.
    Pause(u8),
    /// The clock advances by this number of hundredths of a second.
    Wait(u8),
    /// At most this number of bytes, plus one, are under way.
    Limit(u16),
}
