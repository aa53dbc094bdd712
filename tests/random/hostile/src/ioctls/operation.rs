//! What hostile users do with control requests, as data. Any value is an operation; what a number chooses from depends on what
//! there is.

use arbitrary::Arbitrary;

/// A handle in a request.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Handle {
    /// The right handle, one of the right kind, one that some file has or had, or any number.
    pub how: u8,
    /// Which.
    pub number: u16,
}

/// A request that is right but for what is said here.
#[derive(Arbitrary, Clone, Debug)]
pub struct Request {
    /// Which file it is sent by.
    pub file: u8,
    /// Which request.
    pub case: u8,
    /// Its handles.
    pub handles: [Handle; 4],
    /// What else is wrong; often nothing is.
    pub damage: u8,
    /// The bytes of its input to change.
    pub changes: [(u8, u8); 3],
    /// The length of its input or output.
    pub length: u16,
    /// How it is sent.
    pub way: u8,
}

/// What hostile users do.
#[derive(Arbitrary, Clone, Debug)]
pub enum Operation {
    /// A request that is nearly right.
    Send(Request),
    /// Something else.
    Do(Deed),
}

/// What is no request, or more than one.
#[derive(Arbitrary, Clone, Debug)]
pub enum Deed {
    /// Any bytes with any code.
    Raw {
        /// Which file it is sent by.
        file: u8,
        /// The control code.
        code: u32,
        /// The input.
        input: Vec<u8>,
        /// Bytes of output.
        output: u16,
    },
    /// A connection of two connectors and queue pairs, as far as it gets.
    Connect {
        /// Which file listens.
        file: u8,
        /// Listener, connector and queue pair of it, connector and queue pair of the first file.
        handles: [Handle; 5],
    },
    /// A message over the connection that there was at the beginning.
    Message,
    /// CancelIoEx of a request, or the first half of it; the second half follows later.
    Cancel {
        /// The pending request.
        request: u8,
        /// Only the first half.
        half: bool,
    },
    /// Memory that the users have given to the driver, or will, changes.
    Scribble {
        /// Whose.
        file: u8,
        /// Where.
        offset: u16,
        /// What.
        bytes: [u8; 8],
    },
    /// The memory of a program is unmapped.
    Unmap {
        /// Whose.
        file: u8,
    },
    /// The last handle of a file is closed; 0 of 8: it is opened anew.
    Close {
        /// Which.
        file: u8,
        /// Whether.
        whether: u8,
    },
    /// The allocation after this number of allocations fails.
    RunShort(u8),
    /// Lets the driver run.
    Pause(u8),
    /// The neighbours send a message.
    Others,
}
