//! MPA's Request and Reply frames: one of each, before the first FPDU (RFC 5044 section 7.1; RFC 6581).
//! `negotiate.rs` says what they agree on.

use bitfield_struct::bitfield;
use bitflags::bitflags;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of private data in a frame, at most. In an enhanced frame they include the four bytes of [`Enhanced`].
pub const MAX_PRIVATE_DATA: usize = 512;
/// Bytes of a frame, at most.
pub const MAX_FRAME: usize = HEADER + MAX_PRIVATE_DATA;
/// Bytes of a frame without private data.
pub const HEADER: usize = size_of::<Header>();
/// The largest number of reads that [`Enhanced`] can hold.
pub const MAX_READS: u16 = 0x3ffe;
/// Stands in place of the IRD or ORD if the sender does not negotiate that limit (RFC 6581).
pub const READS_NOT_NEGOTIATED: u16 = 0x3fff;

const ENHANCED: usize = size_of::<EnhancedWords>();

/// The two frames of MPA that open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// From the initiator.
    Request,
    /// From the responder.
    Reply,
}

impl FrameKind {
    const fn key(self) -> &'static [u8; 16] {
        match self {
            Self::Request => b"MPA ID Req Frame",
            Self::Reply => b"MPA ID Rep Frame",
        }
    }
}

/// The revision of MPA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// RFC 5044.
    One,
    /// RFC 6581, with its enhanced part if the frame has one.
    Two(Option<Enhanced>),
}

/// A Request or a Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpaFrame<'a> {
    /// Request or Reply.
    pub kind: FrameKind,
    /// The sender wants to receive markers.
    pub markers: bool,
    /// The sender wants CRCs. Both directions have them if either side wants them.
    pub crc: bool,
    /// The responder rejects the connection. Only in a Reply.
    pub reject: bool,
    /// The revision, with its enhanced part.
    pub revision: Revision,
    /// The consumer's private data; at most [`MpaFrame::private_data_limit`] bytes.
    pub private_data: &'a [u8],
}

/// The enhanced part of a Request or Reply (RFC 6581).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enhanced {
    /// In a Request: the initiator will send a ready-to-receive (RTR) message. In a Reply: the initiator must send that message.
    pub peer_to_peer: bool,
    /// In a Request: the kinds of RTR message that the initiator can send. In a Reply: the kinds that the initiator may choose from.
    pub rtr_kinds: RtrKinds,
    /// IRD: reads of its peer that the sender serves at a time; at most [`MAX_READS`], or [`READS_NOT_NEGOTIATED`].
    pub inbound_reads: u16,
    /// ORD: reads that the sender makes at a time; at most [`MAX_READS`], or [`READS_NOT_NEGOTIATED`].
    pub outbound_reads: u16,
}

bitflags! {
    /// The kinds of a ready-to-receive (RTR) message: the initiator's first message, after which the responder may send.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RtrKinds: u8 {
        /// A send without data.
        const SEND = 1;
        /// A write without data.
        const WRITE = 2;
        /// A read without data.
        const READ = 4;
    }
}

/// Why bytes are no Request or Reply. The receiver can only close the connection: the peer may not know FPDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidFrame {
    /// The bytes do not begin with the key of the frame.
    Key,
    /// The revision is this number, neither 1 nor 2.
    Revision(u8),
    /// A Request has the flag to reject.
    RejectInRequest,
    /// More private data than [`MAX_PRIVATE_DATA`].
    TooLong,
    /// The flag for the enhanced part is set, and the private data is too short for it.
    EnhancedMissing,
}

/// The Request or Reply at the start of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedFrame<'a> {
    /// A complete frame, and its size in bytes.
    Frame(MpaFrame<'a>, usize),
    /// The frame is not complete.
    Incomplete,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    key: [u8; 16],
    flags: u8,
    revision: u8,
    length: U16,
}

bitflags! {
    #[derive(Clone, Copy)]
    struct Flags: u8 {
        const MARKERS = 0x80;
        const CRC = 0x40;
        const REJECT = 0x20;
        const ENHANCED = 0x10;
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EnhancedWords {
    inbound: U16,
    outbound: U16,
}

/// The word with the IRD and two flags (RFC 6581 section 9).
#[bitfield(u16)]
struct Inbound {
    #[bits(14)]
    reads: u16,
    send: bool,
    peer_to_peer: bool,
}

/// The word with the ORD and two flags (RFC 6581 section 9).
#[bitfield(u16)]
struct Outbound {
    #[bits(14)]
    reads: u16,
    read: bool,
    write: bool,
}

impl<'a> MpaFrame<'a> {
    /// Parses the start of a stream. Bytes that cannot become a frame are refused before the frame is complete.
    pub fn parse(kind: FrameKind, bytes: &'a [u8]) -> Result<ParsedFrame<'a>, InvalidFrame> {
        let there = bytes.len().min(kind.key().len());
        if bytes.get(..there) != kind.key().get(..there) {
            return Err(InvalidFrame::Key);
        }
        let Ok((header, rest)) = Header::ref_from_prefix(bytes) else { return Ok(ParsedFrame::Incomplete) };
        let flags = Flags::from_bits_truncate(header.flags);
        let reject = flags.contains(Flags::REJECT);
        if reject && kind == FrameKind::Request {
            return Err(InvalidFrame::RejectInRequest);
        }
        let length = usize::from(header.length.get());
        if length > MAX_PRIVATE_DATA {
            return Err(InvalidFrame::TooLong);
        }
        let enhanced = match header.revision {
            1 => false,
            2 => flags.contains(Flags::ENHANCED),
            other => return Err(InvalidFrame::Revision(other)),
        };
        if enhanced && length < ENHANCED {
            return Err(InvalidFrame::EnhancedMissing);
        }
        let Some(data) = rest.get(..length) else { return Ok(ParsedFrame::Incomplete) };
        let (revision, private_data) = match (header.revision, EnhancedWords::read_from_prefix(data)) {
            (1, _) => (Revision::One, data),
            (_, Ok((words, rest))) if enhanced => (Revision::Two(Some(words.into())), rest),
            _ => (Revision::Two(None), data),
        };
        let (markers, crc) = (flags.contains(Flags::MARKERS), flags.contains(Flags::CRC));
        Ok(ParsedFrame::Frame(
            Self { kind, markers, crc, reject, revision, private_data },
            HEADER.saturating_add(length),
        ))
    }

    /// Bytes that [`MpaFrame::private_data`] may have, at most.
    pub fn private_data_limit(&self) -> usize {
        MAX_PRIVATE_DATA.saturating_sub(self.enhanced_bytes())
    }

    /// Writes the frame, and returns its size; `None`: too much private data, or no room.
    pub fn emit(&self, bytes: &mut [u8]) -> Option<usize> {
        let mut flags = Flags::empty();
        flags.set(Flags::MARKERS, self.markers);
        flags.set(Flags::CRC, self.crc);
        flags.set(Flags::REJECT, self.reject);
        let revision = match self.revision {
            Revision::One => 1,
            Revision::Two(enhanced) => {
                flags.set(Flags::ENHANCED, enhanced.is_some());
                2
            }
        };
        let private = Some(self.private_data).filter(|data| data.len() <= self.private_data_limit())?;
        let length = U16::new(u16::try_from(private.len().checked_add(self.enhanced_bytes())?).ok()?);
        let header = Header { key: *self.kind.key(), flags: flags.bits(), revision, length };
        let rest = header.write_to_prefix(bytes).ok().and(bytes.get_mut(HEADER..))?;
        let rest = match self.revision {
            Revision::Two(Some(enhanced)) => {
                EnhancedWords::from(enhanced).write_to_prefix(rest).ok().and(rest.get_mut(ENHANCED..))?
            }
            _ => rest,
        };
        rest.get_mut(..private.len())?.copy_from_slice(private);
        HEADER.checked_add(usize::from(length.get()))
    }

    const fn enhanced_bytes(&self) -> usize {
        if matches!(self.revision, Revision::Two(Some(_))) { ENHANCED } else { 0 }
    }
}

impl From<EnhancedWords> for Enhanced {
    fn from(words: EnhancedWords) -> Self {
        let (inbound, outbound) = (Inbound::from_bits(words.inbound.get()), Outbound::from_bits(words.outbound.get()));
        let mut rtr_kinds = RtrKinds::empty();
        rtr_kinds.set(RtrKinds::SEND, inbound.send());
        rtr_kinds.set(RtrKinds::WRITE, outbound.write());
        rtr_kinds.set(RtrKinds::READ, outbound.read());
        Self {
            peer_to_peer: inbound.peer_to_peer(),
            rtr_kinds,
            inbound_reads: inbound.reads(),
            outbound_reads: outbound.reads(),
        }
    }
}

impl From<Enhanced> for EnhancedWords {
    fn from(enhanced: Enhanced) -> Self {
        let rtr = enhanced.rtr_kinds;
        let inbound = Inbound::new()
            .with_reads(enhanced.inbound_reads.min(READS_NOT_NEGOTIATED))
            .with_send(rtr.contains(RtrKinds::SEND))
            .with_peer_to_peer(enhanced.peer_to_peer);
        let outbound = Outbound::new()
            .with_reads(enhanced.outbound_reads.min(READS_NOT_NEGOTIATED))
            .with_read(rtr.contains(RtrKinds::READ))
            .with_write(rtr.contains(RtrKinds::WRITE));
        Self { inbound: U16::new(inbound.into_bits()), outbound: U16::new(outbound.into_bits()) }
    }
}
