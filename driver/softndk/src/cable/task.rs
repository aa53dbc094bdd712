//! What the cable does with a frame that it sends.

use task_offload::{checksum::Checksums, large_send::LargeSend};
use vxlan::vtep::Dropped;

use super::{counters::Lost, mdl::Bytes};

/// How a frame goes into datagrams.
pub(crate) enum Task<'a> {
    /// As one, of `length` bytes; the transport may leave checksums to the miniport.
    Frame { length: usize, checksums: Option<Checksums> },
    /// As the segments of a large send.
    LargeSend(LargeSend<'a>),
}

impl Task<'_> {
    pub(crate) fn segments(&self) -> usize {
        match self {
            Self::Frame { .. } => 1,
            Self::LargeSend(large) => large.segments(),
        }
    }

    /// Bytes of a segment. The first is the longest.
    pub(crate) fn length(&self, segment: usize) -> usize {
        match self {
            Self::Frame { length, .. } => *length,
            Self::LargeSend(large) => large.headers().saturating_add(large.payload(segment)),
        }
    }

    /// Bytes of all segments.
    pub(crate) fn octets(&self) -> usize {
        match self {
            Self::Frame { length, .. } => *length,
            Self::LargeSend(large) => large.octets(),
        }
    }

    /// Bytes at the start of the frame that each segment has, changed: [`Self::write`] writes them.
    pub(super) fn headers(&self) -> usize {
        match self {
            Self::Frame { .. } => 0,
            Self::LargeSend(large) => large.headers(),
        }
    }

    /// Writes a segment, whose payload is next in `frame`.
    pub(super) fn write(&self, segment: usize, frame: &mut Bytes, room: &mut [u8]) -> Result<(), Lost> {
        if !frame.read(room.get_mut(self.headers()..).unwrap_or_default()) {
            return Err(Lost::NotMapped);
        }
        let written = match self {
            Self::Frame { checksums: None, .. } => Some(()),
            Self::Frame { checksums: Some(checksums), .. } => checksums.write(room),
            Self::LargeSend(large) => large.write_headers(segment, room),
        };
        // `room` is as long as the segment.
        written.ok_or(Lost::Invalid(Dropped::Short))
    }
}
