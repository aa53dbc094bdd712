//! MPA Requests and Replies on a stream; `handshake.rs` says when they are due.

use iwarp::mpa::{Kind, MAX_FRAME, Parsed, Startup};
use platform::{Arc, Platform, Read, Stream, Taken};

use super::Wire;

/// An MPA Request or Reply, as sent or received.
pub(super) struct Frame {
    bytes: [u8; MAX_FRAME],
    length: usize,
}

impl Frame {
    pub(super) fn new(startup: &Startup<'_>) -> Option<Self> {
        let mut bytes = [0; MAX_FRAME];
        let length = startup.emit(&mut bytes)?;
        Some(Self { bytes, length })
    }

    fn copy_of(frame: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_FRAME];
        bytes.get_mut(..frame.len())?.copy_from_slice(frame);
        Some(Self { bytes, length: frame.len() })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The frame was checked when it was made or received.
    pub(super) fn parsed(&self, kind: Kind) -> Option<Startup<'_>> {
        match Startup::parse(kind, self.as_slice()) {
            Ok(Parsed::Frame(startup, _)) => Some(startup),
            _ => None,
        }
    }
}

/// The peer's startup frame.
#[expect(clippy::large_enum_variant, reason = "on a stack, for a moment")]
pub(super) enum FrameIn {
    Frame(Frame),
    /// Not such a frame, more bytes than the frame, the end of the stream, or no frame in time.
    Wrong,
}

impl<P: Platform> Wire<P> {
    /// Writes a startup frame. The buffer has room: nothing was written before. False: no memory, or the connection has ended.
    pub(super) fn send_frame(this: &Arc<Self, P>, frame: &[u8]) -> bool {
        let written = Stream::write(this, |room| match room.get_mut(..frame.len()) {
            Some(room) => {
                room.copy_from_slice(frame);
                frame.len()
            }
            None => 0,
        });
        written > 0
    }

    /// The peer's startup frame; `None`: it is not complete yet.
    pub(super) fn frame(this: &Arc<Self, P>, kind: Kind) -> Option<FrameIn> {
        let mut came = None;
        let read = Stream::read(this, |bytes| {
            let (used, seen) = match Startup::parse(kind, bytes) {
                Ok(Parsed::Frame(_, size)) if size == bytes.len() => (size, Frame::copy_of(bytes).map(FrameIn::Frame)),
                Ok(Parsed::Incomplete) => (0, None),
                // The peer may send nothing behind it yet.
                Ok(Parsed::Frame(..)) | Err(_) => (0, Some(FrameIn::Wrong)),
            };
            came = seen;
            Taken { used, wanted: 0 }
        });
        match (came, read) {
            (Some(came), _) => Some(came),
            (None, Read::Ended(_)) => Some(FrameIn::Wrong),
            (None, _) => this.state.lock().late.then_some(FrameIn::Wrong),
        }
    }
}
