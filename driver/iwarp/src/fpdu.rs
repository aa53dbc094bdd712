//! FPDUs: MPA's frames, each with one DDP segment, in a stream of bytes (RFC 5044 section 4). Markers are not supported.

use zerocopy::FromBytes;
use zerocopy::byteorder::network_endian::U16;

use crate::crc::{Crc32c, Digest};
use crate::terminate::Cause;

/// Bytes of the length field before the ULPDU.
pub const LENGTH: usize = 2;
/// Bytes of the CRC field, which an FPDU has even if no CRC is used.
pub const CRC: usize = 4;
/// Bytes of padding and CRC, at most.
pub const MAX_TRAILER: usize = 3 + CRC;
/// Bytes of an FPDU, at most.
pub const MAX_SIZE: usize = size(u16::MAX);

/// Bytes of padding behind a ULPDU of `ulpdu` bytes.
pub const fn padding(ulpdu: u16) -> usize {
    (LENGTH as u16).wrapping_add(ulpdu).wrapping_neg() as usize & 3
}

/// Bytes of an FPDU whose ULPDU has `ulpdu` bytes.
pub const fn size(ulpdu: u16) -> usize {
    LENGTH.saturating_add(ulpdu as usize).saturating_add(padding(ulpdu)).saturating_add(CRC)
}

/// The FPDU at the start of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedFpdu<'a> {
    /// The FPDU is complete.
    Whole {
        /// Its ULPDU: the DDP segment.
        ulpdu: &'a [u8],
        /// Bytes of the FPDU.
        size: usize,
    },
    /// The FPDU is not complete; its size, if the length field has arrived.
    Incomplete(Option<usize>),
}

/// Parses the start of a stream. With `crc`, checks the CRC of a complete FPDU. Without `crc`, the CRC field may have any value; padding is not
/// checked in either case (RFC 5044 section 4.4).
///
/// Errors: [`Cause::CRC`].
pub fn parse(bytes: &[u8], crc: Option<Crc32c>) -> Result<ParsedFpdu<'_>, Cause> {
    let Ok((length, rest)) = U16::read_from_prefix(bytes) else { return Ok(ParsedFpdu::Incomplete(None)) };
    let size = size(length.get());
    let covered = size.saturating_sub(CRC);
    let parts = (rest.get(..usize::from(length.get())), bytes.get(..covered), bytes.get(covered..size));
    let (Some(ulpdu), Some(before), Some(sent)) = parts else { return Ok(ParsedFpdu::Incomplete(Some(size))) };
    if let Some(crc) = crc {
        let mut digest = crc.digest();
        digest.update(before);
        if digest.finish() != sent {
            return Err(Cause::CRC);
        }
    }
    Ok(ParsedFpdu::Whole { ulpdu, size })
}

/// The length field of an FPDU.
pub fn length(ulpdu: u16) -> [u8; LENGTH] {
    ulpdu.to_be_bytes()
}

/// The padding and the CRC field of an FPDU.
#[derive(Clone, Copy, Debug)]
pub struct Trailer {
    bytes: [u8; MAX_TRAILER],
    padding: usize,
}

impl Trailer {
    /// The trailer of a ULPDU of `ulpdu` bytes. `digest` covers the FPDU up to the padding; `None`: no CRC is used, and the CRC field is 0.
    pub fn new(ulpdu: u16, digest: Option<Digest>) -> Self {
        let padding = padding(ulpdu);
        let mut bytes = [0; MAX_TRAILER];
        if let Some(mut digest) = digest {
            digest.update(bytes.get(..padding).unwrap_or_default());
            for (place, byte) in bytes.iter_mut().skip(padding).zip(digest.finish()) {
                *place = byte;
            }
        }
        Self { bytes, padding }
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.padding.saturating_add(CRC)).unwrap_or_default()
    }
}
