//! What opens a device and carries its IOCTLs.
//!
//! A transport moves bytes and statuses and adds nothing: what a status means is the [client](crate::client)'s business.

use std::{ops::RangeInclusive, time::Duration};

use ndk_abi::status::NTSTATUS;

/// The default range from which TCP picks ports on Windows.
pub(crate) const PORTS_OF_WINDOWS: RangeInclusive<u16> = 49152..=65535;

/// A device of one front end.
pub trait Transport {
    /// What stands behind it, for people: "simulated kernel, in process", say.
    fn front_end(&self) -> String;

    /// What its TCP picks ports from.
    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        PORTS_OF_WINDOWS
    }

    /// Opens the device: a new file, which is a handle space of its own. Dropping the file closes it.
    fn open(&self) -> Result<Box<dyn File>, NTSTATUS>;

    /// Ends the front end, when all files are closed. What it noticed by itself: IRQL violations, leaks, files that do not
    /// close.
    fn close(self: Box<Self>) -> Vec<String>;
}

/// An open file of the device.
pub trait File: Send + Sync {
    /// Begins a METHOD_BUFFERED request. `output_length` is the size of the output buffer, in bytes.
    fn submit(&self, code: u32, input: &[u8], output_length: usize) -> Box<dyn Pending>;

    /// Its HANDLE, where drivers can make something of one: Wine's ObReferenceObjectByHandle knows no handles of clients.
    fn handle(&self) -> Option<u64>;

    /// Has another process, which has a handle of the file, send a request without output, and gives how that ended. The request
    /// must not be one that pends.
    fn send_from_another_process(&self, code: u32, input: &[u8]) -> Result<NTSTATUS, String>;
}

/// A request on its way. Dropping one that has not completed cancels it.
pub trait Pending: Send + Sync {
    /// Waits until the request has completed. `None` after `timeout`; it can then be waited for again.
    fn wait(&mut self, timeout: Duration) -> Option<Completion>;

    /// Whether the call that began it returned STATUS_PENDING: then, and only then, the completion is told to an event or
    /// completion port.
    fn pended(&self) -> bool;

    /// Asks for the request to be completed early, as `CancelIoEx` does. It still has to be waited for.
    fn cancel(&self);
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// `IO_STATUS_BLOCK.Status`.
    pub status: NTSTATUS,
    /// `IO_STATUS_BLOCK.Information`: bytes returned, or, with STATUS_BUFFER_OVERFLOW, the bytes needed.
    pub information: usize,
    /// What was returned: at most `information` bytes, and at most the output buffer's length.
    pub output: Vec<u8>,
}
