//! What the two processes say to each other: one line of JSON for each question, and for its answer.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::TcpStream,
    ops::RangeInclusive,
    time::Duration,
};

use ndk_abi::status::NTSTATUS;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::Completion;

/// A question to the process that has the device.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Finds buffers there: [`crate::memory::shared::join`]. It is the first one, on a connection without any other.
    Join(String),
    /// Has the device anew.
    Boot,
    /// [`crate::Transport::open`].
    Open,
    /// The last handle of a file is closed.
    CloseFile(u64),
    /// [`crate::File::submit`].
    Submit {
        file: u64,
        code: u32,
        input: Vec<u8>,
        output_length: usize,
        /// [`crate::memory::shared::buffers`].
        buffers: (u64, Vec<(usize, usize)>),
    },
    /// [`crate::File::send_from_another_process`].
    Stranger { file: u64, code: u32, input: Vec<u8> },
    /// [`crate::Pending::wait`], for so long.
    Wait(u64, Duration),
    /// [`crate::Pending::cancel`].
    Cancel(u64),
    /// A request that is not over is dropped.
    Forget(u64),
    /// [`crate::Transport::close`].
    Close,
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// It is done.
    Done,
    /// [`crate::Transport::front_end`] and [`crate::Transport::ephemeral_ports`].
    Booted(String, RangeInclusive<u16>),
    /// The number of a file, and its handle.
    Opened(Result<(u64, Option<u64>), i32>),
    /// A request has been dispatched: its number, unless it is over; and whether it was pended.
    Submitted { request: Result<u64, Ended>, pended: bool },
    /// What a request that was waited for ended with: it is forgotten then.
    Waited(Option<Ended>),
    /// What another process's request ended with.
    Stranger(Result<i32, String>),
    /// What was noticed.
    Closed(Vec<String>),
}

/// [`Completion`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    status: i32,
    information: usize,
    output: Vec<u8>,
}

impl From<Completion> for Ended {
    fn from(Completion { status, information, output }: Completion) -> Self {
        Self { status: status.0, information, output }
    }
}

impl From<Ended> for Completion {
    fn from(Ended { status, information, output }: Ended) -> Self {
        Self { status: NTSTATUS(status), information, output }
    }
}

/// One end of a socket.
pub(super) struct Line(BufReader<TcpStream>);

impl Line {
    pub(super) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Self(BufReader::new(socket)))
    }

    /// Nothing is waited for any longer than this.
    pub(super) fn limit(&self, limit: Duration) -> io::Result<()> {
        self.0.get_ref().set_read_timeout(Some(limit))
    }

    pub(super) fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.0.get_ref().write_all(&line)
    }

    /// Errors: also if the other end is gone.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}
