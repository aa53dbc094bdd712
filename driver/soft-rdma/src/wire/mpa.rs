//! MPA Requests and Replies on a stream; `handshake.rs` says when they are due.

use iwarp::mpa::{FrameKind, MAX_FRAME, MpaFrame, ParsedFrame};
use platform::{Arc, Platform, Read, Stream, Taken};

use super::Wire;

/// An MPA Request or Reply, as sent or received.
pub(super) struct FrameBytes {
    bytes: [u8; MAX_FRAME],
    length: usize,
}

impl FrameBytes {
    pub(super) fn new(frame: &MpaFrame<'_>) -> Option<Self> {
        let mut bytes = [0; MAX_FRAME];
        let length = frame.emit(&mut bytes)?;
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

    /// Parses the frame, which was already checked when it was made or received.
    pub(super) fn parsed(&self, kind: FrameKind) -> Option<MpaFrame<'_>> {
        match MpaFrame::parse(kind, self.as_slice()) {
            Ok(ParsedFrame::Frame(frame, _)) => Some(frame),
            _ => None,
        }
    }
}

/// The peer's Request or Reply.
#[expect(clippy::large_enum_variant, reason = "on a stack, for a moment")]
pub(super) enum ReceivedFrame {
    Frame(FrameBytes),
    /// The bytes are not the expected frame, more bytes follow the frame, the stream has ended, or no frame came in time.
    Invalid,
}

impl<P: Platform> Wire<P> {
    /// Writes a Request or Reply. The buffer has room: nothing was written before. False: no memory, or the connection has ended.
    pub(super) fn send_mpa_frame(this: &Arc<Self, P>, frame: &[u8]) -> bool {
        let written = Stream::write(this, |room| match room.get_mut(..frame.len()) {
            Some(room) => {
                room.copy_from_slice(frame);
                frame.len()
            }
            None => 0,
        });
        if written > 0
            && let Some(tap) = this.device.capture().tap(|| this.addresses())
        {
            tap.mpa_frame(tap.sent, frame);
        }
        written > 0
    }

    /// The peer's Request or Reply; `None`: the frame is not complete yet.
    pub(super) fn mpa_frame(this: &Arc<Self, P>, kind: FrameKind) -> Option<ReceivedFrame> {
        let mut came = None;
        let read = Stream::read(this, |bytes| {
            let (used, seen) = match MpaFrame::parse(kind, bytes) {
                Ok(ParsedFrame::Frame(_, size)) if size == bytes.len() => {
                    (size, FrameBytes::copy_of(bytes).map(ReceivedFrame::Frame))
                }
                Ok(ParsedFrame::Incomplete) => (0, None),
                // The peer may send nothing behind its frame yet.
                Ok(ParsedFrame::Frame(..)) | Err(_) => (0, Some(ReceivedFrame::Invalid)),
            };
            came = seen;
            Taken { used, wanted: 0 }
        });
        if let Some(ReceivedFrame::Frame(frame)) = &came
            && let Some(tap) = this.device.capture().tap(|| this.addresses())
        {
            tap.mpa_frame(tap.received, frame.as_slice());
        }
        match (came, read) {
            (Some(came), _) => Some(came),
            (None, Read::Ended(_)) => Some(ReceivedFrame::Invalid),
            (None, _) => this.state.lock().must_reset().then_some(ReceivedFrame::Invalid),
        }
    }
}
