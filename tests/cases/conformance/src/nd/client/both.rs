//! What the objects of both versions do alike: the cases that run over both versions are written over these traits.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use ndk_abi::status::NTSTATUS;

use super::{Completion, Request, Signal};
use crate::error::{Error, Result};

/// IND2CompletionQueue and INDCompletionQueue.
pub(crate) trait CompletionQueue: Clone {
    fn patience(&self) -> Duration;

    fn resize(&self, depth: usize) -> Result<()>;

    fn notify(&self, kind: u32) -> Result<Request> {
        self.notify_by(kind, Signal::Event)
    }

    fn notify_by(&self, kind: u32, signal: Signal) -> Result<Request>;

    /// GetResults, once.
    fn poll(&self, count: usize) -> anyhow::Result<Vec<Completion>>;

    /// Polls until there is one.
    fn take_one(&self) -> anyhow::Result<Completion> {
        let deadline = Instant::now() + self.patience();
        loop {
            if let Some(result) = self.poll(1)?.pop() {
                return Ok(result);
            }
            if Instant::now() > deadline {
                anyhow::bail!(Error::Stalled { awaited: "a completion".to_owned(), after: self.patience() });
            }
            std::thread::yield_now();
        }
    }

    fn cancel(&self) -> Result<()>;
}

/// IND2QueuePair and INDEndpoint.
pub(crate) trait QueuePair: Clone {
    /// An entry of a list of memory.
    type Sge;
    /// What a peer is told of memory that it may use.
    type Remote: Copy;

    fn flush(&self) -> Result<()>;

    fn send(&self, context: usize, sges: &[Self::Sge], flags: u32) -> Result<()>;

    fn receive(&self, context: usize, sges: &[Self::Sge]) -> Result<()>;

    /// A read of the peer's memory from `offset` on.
    fn read_at(&self, context: usize, sges: &[Self::Sge], from: Self::Remote, offset: usize, flags: u32) -> Result<()>;

    /// A write to the peer's memory from `offset` on.
    fn write_at(&self, context: usize, sges: &[Self::Sge], to: Self::Remote, offset: usize, flags: u32) -> Result<()>;
}

/// IND2Connector and INDConnector.
pub(crate) trait Connector {
    /// CompleteConnect, which may be over at once.
    fn complete_connect(&self) -> Result<()>;

    fn reject(&self, data: &[u8]) -> Result<()>;

    /// The private data into a buffer of `room` bytes: the status, the length it says, the buffer.
    fn private_data_raw(&self, room: usize) -> (NTSTATUS, usize, Vec<u8>);

    /// All of the private data: at least what the peer sent.
    fn private_data(&self) -> Result<Vec<u8>>;

    fn local_address(&self) -> anyhow::Result<SocketAddr>;

    fn peer_address(&self) -> anyhow::Result<SocketAddr>;

    /// GetLocalAddress and GetPeerAddress into buffers of `room` bytes: statuses and lengths. A buffer that is too short must not
    /// be written to.
    fn addresses_raw(&self, room: usize) -> [(NTSTATUS, usize); 2];

    fn notify_disconnect(&self) -> Result<Request>;

    fn disconnect(&self) -> Result<Request>;

    fn cancel(&self) -> Result<()>;
}
