//! FPDUs: how MPA carries the segments of DDP in a stream of bytes (RFC 5044 section 4), without markers.

use zerocopy::FromBytes;
use zerocopy::byteorder::network_endian::U16;

use crate::crc::{Crc32c, Digest};
use crate::terminate::Cause;

/// Bytes before the ULPDU: its length.
pub const LENGTH: usize = 2;
/// Bytes of the CRC, which are there even if it is not used.
pub const CRC: usize = 4;
/// Bytes of padding and CRC, at most.
pub const MAX_TRAILER: usize = 3 + CRC;
/// Bytes of an FPDU, at most.
pub const MAX_SIZE: usize = size(u16::MAX);

/// Zeros after a ULPDU of so many bytes.
pub const fn padding(ulpdu: u16) -> usize {
    (LENGTH as u16).wrapping_add(ulpdu).wrapping_neg() as usize & 3
}

/// Bytes of the FPDU with a ULPDU of so many bytes.
pub const fn size(ulpdu: u16) -> usize {
    LENGTH.saturating_add(ulpdu as usize).saturating_add(padding(ulpdu)).saturating_add(CRC)
}

/// The start of a stream of FPDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The ULPDU of a whole FPDU.
    Whole {
        /// The segment in it.
        ulpdu: &'a [u8],
        /// Bytes of the FPDU.
        size: usize,
    },
    /// The start of an FPDU of so many bytes; `None`: its length is not there yet.
    Incomplete(Option<usize>),
}

/// Looks at the start of a stream; with `crc`, the CRC is checked once the FPDU is whole. Whoever sends no CRC may fill its place
/// with anything, and padding is not looked at (RFC 5044 section 5).
///
/// Errors: [`Cause::CRC`].
pub fn parse(bytes: &[u8], crc: Option<Crc32c>) -> Result<Parsed<'_>, Cause> {
    let Ok((length, rest)) = U16::read_from_prefix(bytes) else { return Ok(Parsed::Incomplete(None)) };
    let size = size(length.get());
    let covered = size.saturating_sub(CRC);
    let parts = (rest.get(..usize::from(length.get())), bytes.get(..covered), bytes.get(covered..size));
    let (Some(ulpdu), Some(before), Some(sent)) = parts else { return Ok(Parsed::Incomplete(Some(size))) };
    if let Some(crc) = crc {
        let mut digest = crc.digest();
        digest.update(before);
        if digest.finish() != sent {
            return Err(Cause::CRC);
        }
    }
    Ok(Parsed::Whole { ulpdu, size })
}

/// The first bytes of an FPDU.
pub fn length(ulpdu: u16) -> [u8; LENGTH] {
    ulpdu.to_be_bytes()
}

/// The last bytes of an FPDU: padding and CRC.
#[derive(Clone, Copy, Debug)]
pub struct Trailer {
    bytes: [u8; MAX_TRAILER],
    padding: usize,
}

impl Trailer {
    /// Of a ULPDU of so many bytes. `digest` has seen all that comes before; `None`: without a CRC, zeros take its place.
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

    /// To be sent.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.padding.saturating_add(CRC)).unwrap_or_default()
    }
}
