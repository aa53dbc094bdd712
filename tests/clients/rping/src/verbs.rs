//! What the roles need of an RDMA device.

use anyhow::Result;

/// What may be done with memory besides reading it here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Access {
    /// The device writes to it for this side: receives, and what reads bring.
    pub local_write: bool,
    /// The peer reads it.
    pub remote_read: bool,
    /// The peer writes to it.
    pub remote_write: bool,
}

/// Where memory of the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address there.
    pub address: u64,
    /// Its token.
    pub token: u32,
}

/// Registered memory. The device may write to it at any time.
pub trait Memory {
    /// Where it is, for the peer.
    fn place(&self) -> Place;

    /// Copies bytes to its start; there are no more of them than it has.
    fn fill(&self, bytes: &[u8]);

    /// A copy of its first bytes.
    fn bytes(&self, length: usize) -> Vec<u8>;
}

/// What is posted to the initiator queue. Offsets and lengths are in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a, M> {
    /// Sends the first `length` bytes.
    Send {
        /// From here.
        from: &'a M,
        /// So many.
        length: usize,
        /// With solicited event.
        solicit: bool,
        /// With invalidate, of this token of the peer.
        invalidate: Option<u32>,
    },
    /// Reads the peer's memory.
    Read {
        /// Into this memory.
        into: &'a M,
        /// From this byte on.
        offset: usize,
        /// So many.
        length: usize,
        /// From there.
        from: Place,
    },
    /// Writes to the peer's memory.
    Write {
        /// From this memory.
        from: &'a M,
        /// From this byte on.
        offset: usize,
        /// So many.
        length: usize,
        /// To there.
        to: Place,
    },
}

/// How a receive ended: with so many bytes, or with a status, by its name.
pub type Received = Result<usize, String>;

/// A device's queue pair: one connection, with what belongs to it.
pub trait Verbs {
    /// Its registered memory.
    type Memory: Memory;
    /// Its memory windows.
    type Window;

    /// Registers `length` bytes, all zero.
    ///
    /// # Errors
    /// The device refuses.
    fn register(&self, length: usize, access: Access) -> Result<Self::Memory>;

    /// A window that is bound to nothing.
    ///
    /// # Errors
    /// The device refuses.
    fn window(&self) -> Result<Self::Window>;

    /// Binds a window to the first `length` bytes of `memory`, for the peer to write to if `writable`, else to read.
    ///
    /// # Errors
    /// As [`Self::perform`].
    fn bind(&self, window: &Self::Window, memory: &Self::Memory, length: usize, writable: bool) -> Result<Place>;

    /// Posts a receive of up to `length` bytes, before or after the connection is made.
    ///
    /// # Errors
    /// The device refuses.
    fn receive(&self, into: &Self::Memory, length: usize) -> Result<()>;

    /// Waits for the end of the next receive. `solicited`: nothing but solicited events and errors wakes.
    ///
    /// # Errors
    /// None ends.
    fn received(&self, solicited: bool) -> Result<Received>;

    /// Posts requests, then waits for all of them, which have to succeed. An error names what failed.
    ///
    /// # Errors
    /// One is refused, does not succeed or does not end.
    fn perform(&self, work: &[Work<'_, Self::Memory>]) -> Result<()>;

    /// Waits until the device says that the connection is over.
    ///
    /// # Errors
    /// It does not.
    fn disconnected(&self) -> Result<()>;

    /// Ends the connection, and waits until it has ended.
    ///
    /// # Errors
    /// The device refuses, or it does not end.
    fn disconnect(&self) -> Result<()>;
}
