//! Terminate: the last message of a stream, with its cause (RFC 5040 section 4.8; codes: RFC 6580, RFC 6581).

use core::fmt::{self, Display, Formatter};

use bitflags::bitflags;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::segment::{MAX_HEADER, READ_REQUEST, Segment, TAGGED, UNTAGGED};

/// Bytes of the message behind its DDP header, at most.
pub const MAX_BODY: usize = HEAD + LENGTH + UNTAGGED + READ_REQUEST;

const HEAD: usize = size_of::<Head>();
const LENGTH: usize = size_of::<U16>();

/// Why a stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cause {
    /// 0: RDMAP, 1: DDP, 2: MPA and below.
    pub layer: u8,
    /// EType: the kind of error in the layer, at most 15.
    pub kind: u8,
    /// Error Code.
    pub code: u8,
}

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $layer:literal, $kind:literal, $code:literal;)*) => {
        impl Cause {
            $($(#[$doc])* pub const $name: Self = Self { layer: $layer, kind: $kind, code: $code };)*
            /// All causes with a name, and that name.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, stringify!($name)),)*];
        }
    };
}

causes! {
    /// RDMAP: an error of the sender of the Terminate, not of its peer.
    LOCAL = 0, 0, 0x00;
    /// RDMAP, remote protection: the STag names nothing.
    STAG = 0, 1, 0x00;
    /// RDMAP, remote protection: the range is outside of the STag's memory.
    BOUNDS = 0, 1, 0x01;
    /// RDMAP, remote protection: the STag does not give the right.
    ACCESS = 0, 1, 0x02;
    /// RDMAP, remote protection: the STag is not for this stream.
    NOT_OF_STREAM = 0, 1, 0x03;
    /// RDMAP, remote protection: offset and size exceed 64 bits.
    WRAP = 0, 1, 0x04;
    /// RDMAP, remote protection: the STag cannot be invalidated.
    PROTECTED_FROM_INVALIDATION = 0, 1, 0x09;
    /// RDMAP, remote protection: another error.
    PROTECTION = 0, 1, 0xff;
    /// RDMAP, remote operation: the RDMAP version is not 1.
    RDMAP_VERSION = 0, 2, 0x05;
    /// RDMAP, remote operation: no such opcode, or it is not allowed now.
    OPCODE = 0, 2, 0x06;
    /// RDMAP, remote operation: a catastrophic error of this stream.
    STREAM = 0, 2, 0x07;
    /// RDMAP, remote operation: a catastrophic error of all streams.
    GLOBAL = 0, 2, 0x08;
    /// RDMAP, remote operation: the STag cannot be invalidated.
    NOT_INVALIDATED = 0, 2, 0x09;
    /// RDMAP, remote operation: another error.
    OPERATION = 0, 2, 0xff;
    /// DDP: an error of the sender of the Terminate, not of its peer.
    DDP_LOCAL = 1, 0, 0x00;
    /// DDP, tagged buffer: the STag names nothing.
    TAGGED_STAG = 1, 1, 0x00;
    /// DDP, tagged buffer: the range is outside of the STag's memory.
    TAGGED_BOUNDS = 1, 1, 0x01;
    /// DDP, tagged buffer: the STag is not for this stream.
    TAGGED_NOT_OF_STREAM = 1, 1, 0x02;
    /// DDP, tagged buffer: offset and size exceed 64 bits.
    TAGGED_WRAP = 1, 1, 0x03;
    /// DDP, tagged buffer: the DDP version is not 1.
    TAGGED_VERSION = 1, 1, 0x04;
    /// DDP, untagged buffer: no such queue, or not the queue of this message.
    QUEUE = 1, 2, 0x01;
    /// DDP, untagged buffer: no buffer for the message.
    NO_BUFFER = 1, 2, 0x02;
    /// DDP, untagged buffer: the message number is not the one that is due.
    MESSAGE_NUMBER = 1, 2, 0x03;
    /// DDP, untagged buffer: the message offset is not the one that is due.
    MESSAGE_OFFSET = 1, 2, 0x04;
    /// DDP, untagged buffer: the message is longer than its buffer.
    UNTAGGED_TOO_LONG = 1, 2, 0x05;
    /// DDP, untagged buffer: the DDP version is not 1.
    UNTAGGED_VERSION = 1, 2, 0x06;
    /// MPA: the TCP connection is lost. Never sent.
    CONNECTION_LOST = 2, 0, 0x01;
    /// MPA: wrong CRC.
    CRC = 2, 0, 0x02;
    /// MPA: a marker or a length is wrong, or a ULPDU is too short for its headers.
    LENGTH = 2, 0, 0x03;
    /// MPA: the Request or the Reply is invalid.
    INVALID_REQUEST_REPLY = 2, 0, 0x04;
    /// MPA: an error of the sender of the Terminate, not of its peer (RFC 6581).
    MPA_LOCAL = 2, 0, 0x05;
    /// MPA: the peer wants more reads than the sender of the Terminate serves (RFC 6581).
    INSUFFICIENT_READS = 2, 0, 0x06;
    /// MPA: the two sides have no kind of ready-to-receive message in common (RFC 6581).
    NO_MATCHING_RTR = 2, 0, 0x07;
}

impl Cause {
    /// The cause with layer and kind exchanged, as Linux siw sends them on a little-endian machine. Applied twice, it returns the cause.
    pub const fn swapped(self) -> Self {
        Self { layer: self.kind, kind: self.layer, code: self.code }
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(cause, _)| cause == self).map_or("unknown", |(_, name)| name);
        write!(f, "{name} ({}, {}, {:#04x})", self.layer, self.kind, self.code)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// The body of a Terminate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminate<'a> {
    /// Why the stream ends.
    pub cause: Cause,
    /// The headers of the segment that was wrong.
    pub headers: Option<TerminatedHeaders<'a>>,
}

/// The headers of a segment that was wrong, as received: in RFC 5040, terminated headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminatedHeaders<'a> {
    /// Bytes of the segment's ULPDU.
    pub length: u16,
    /// The DDP header: 14 bytes if tagged, else 18.
    pub ddp: &'a [u8],
    /// The 28 bytes of a read request behind the DDP header; else empty.
    pub read_request: &'a [u8],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    layer_and_kind: u8,
    code: u8,
    headers: U16,
}

bitflags! {
    /// HdrCt: the parts that follow.
    #[derive(Clone, Copy)]
    struct Headers: u16 {
        const LENGTH = 0x8000;
        const DDP = 0x4000;
        const RDMAP = 0x2000;
    }
}

impl<'a> Terminate<'a> {
    /// The Terminate for `cause`, found in `ulpdu`. The Terminate includes the headers of `ulpdu` if the RFC wants them for `cause` and the end of
    /// the headers is known.
    pub fn of(cause: Cause, ulpdu: &'a [u8]) -> Self {
        let readable =
            ![Cause::RDMAP_VERSION, Cause::OPCODE, Cause::TAGGED_VERSION, Cause::UNTAGGED_VERSION].contains(&cause);
        let has_headers = readable && matches!((cause.layer, cause.kind), (0 | 1, 1 | 2));
        Self { cause, headers: if has_headers { TerminatedHeaders::of(ulpdu, cause) } else { None } }
    }

    /// Parses a received body; `None`: the body is too short. Headers that HdrCt announces but the body lacks are ignored. Linux siw on a
    /// little-endian machine exchanges layer and kind, and reverses the bits of HdrCt. A body whose HdrCt announces headers only in reversed order,
    /// in bits that are otherwise reserved, is read as siw means it. Without headers siw's order cannot be recognised.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let (head, rest) = Head::ref_from_prefix(body).ok()?;
        let cause = Cause { layer: head.layer_and_kind >> 4, kind: head.layer_and_kind & 0xf, code: head.code };
        let headers = Headers::from_bits_truncate(head.headers.get());
        let [first, _] = head.headers.to_bytes();
        let mirrored = Headers::from_bits_truncate(u16::from_be_bytes([first.reverse_bits(), 0]));
        Some(if headers.is_empty() && !mirrored.is_empty() {
            Self { cause: cause.swapped(), headers: TerminatedHeaders::parse(mirrored, rest) }
        } else {
            Self { cause, headers: TerminatedHeaders::parse(headers, rest) }
        })
    }

    /// Writes the body, and returns its size; `None`: no room.
    pub fn emit(&self, bytes: &mut [u8]) -> Option<usize> {
        let mut headers = Headers::empty();
        if let Some(terminated) = self.headers {
            headers |= Headers::LENGTH | Headers::DDP;
            headers.set(Headers::RDMAP, !terminated.read_request.is_empty());
        }
        let layer_and_kind = self.cause.layer << 4 | self.cause.kind & 0xf;
        let head = Head { layer_and_kind, code: self.cause.code, headers: headers.bits().into() };
        head.write_to_prefix(bytes).ok()?;
        let Some(terminated) = self.headers else { return Some(HEAD) };
        let mut end = HEAD;
        for part in [&terminated.length.to_be_bytes(), terminated.ddp, terminated.read_request] {
            let start = end;
            end = start.checked_add(part.len())?;
            bytes.get_mut(start..end)?.copy_from_slice(part);
        }
        Some(end)
    }
}

impl<'a> TerminatedHeaders<'a> {
    fn of(ulpdu: &'a [u8], cause: Cause) -> Option<Self> {
        let (ddp, rest) = split_ddp(ulpdu)?;
        // The 28 bytes of a read request follow only for a remote protection error of RDMAP.
        let is_read_request = cause.layer == 0 && cause.kind == 1 && ddp.len() == UNTAGGED && ddp.get(1)? & 0xf == 1;
        let read_request = if is_read_request { rest.get(..READ_REQUEST).unwrap_or_default() } else { &[] };
        Some(Self { length: u16::try_from(ulpdu.len()).ok()?, ddp, read_request })
    }

    /// The segment that the headers belong to; `None`: the headers are invalid, or a read request lacks its 28 bytes.
    pub fn segment(&self) -> Option<Segment> {
        let mut bytes = [0; MAX_HEADER];
        let (ddp, rest) = bytes.split_at_mut_checked(self.ddp.len())?;
        ddp.copy_from_slice(self.ddp);
        rest.get_mut(..self.read_request.len())?.copy_from_slice(self.read_request);
        let size = self.ddp.len().checked_add(self.read_request.len())?;
        Segment::parse(bytes.get(..size)?).ok().map(|(segment, _)| segment)
    }

    fn parse(headers: Headers, bytes: &'a [u8]) -> Option<Self> {
        if !headers.contains(Headers::LENGTH | Headers::DDP) {
            return None;
        }
        let (length, rest) = U16::read_from_prefix(bytes).ok()?;
        let (ddp, rest) = split_ddp(rest)?;
        let read_request = if headers.contains(Headers::RDMAP) { rest.get(..READ_REQUEST)? } else { &[] };
        Some(Self { length: length.get(), ddp, read_request })
    }
}

/// The DDP header, and the bytes behind it.
fn split_ddp(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let tagged = bytes.first()? & 0x80 != 0;
    bytes.split_at_checked(if tagged { TAGGED } else { UNTAGGED })
}
