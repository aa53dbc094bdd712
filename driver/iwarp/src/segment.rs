//! Headers of segments: DDP (RFC 5041 section 4) and the RDMAP fields in them (RFC 5040 section 4).

use bitfield_struct::bitfield;
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::terminate::Cause;

/// Bytes of a header, at most: a read request has the longest.
pub const MAX_HEADER: usize = UNTAGGED + READ_REQUEST;
/// Bytes of the header of a tagged segment.
pub const TAGGED: usize = size_of::<TaggedHeader>();
/// Bytes of the header of an untagged segment.
pub const UNTAGGED: usize = size_of::<UntaggedHeader>();
/// Bytes of a read request behind the header of an untagged segment.
pub const READ_REQUEST: usize = size_of::<ReadRequestBody>();

/// The version of DDP (DV) and of RDMAP (RV).
const VERSION: u8 = 1;

/// The queue numbers (QN) of untagged messages.
mod queue {
    pub(super) const SEND: u32 = 0;
    pub(super) const READ_REQUEST: u32 = 1;
    pub(super) const TERMINATE: u32 = 2;
}

mod opcode {
    pub(super) const WRITE: u8 = 0;
    pub(super) const READ_REQUEST: u8 = 1;
    pub(super) const READ_RESPONSE: u8 = 2;
    pub(super) const SEND: u8 = 3;
    pub(super) const SEND_INVALIDATE: u8 = 4;
    pub(super) const SEND_SOLICITED: u8 = 5;
    pub(super) const SEND_SOLICITED_INVALIDATE: u8 = 6;
    pub(super) const TERMINATE: u8 = 7;
}

/// The header of a segment. The segment's data follows it, to the end of the ULPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Data for the receiver's memory.
    Write(Tagged),
    /// A request for data of the receiver's memory. The message is one segment, without data.
    ReadRequest(Untagged, ReadRequest),
    /// Data that a read request has asked for.
    ReadResponse(Tagged),
    /// Data for a receive of the receiver.
    Send(Untagged, Send),
    /// Ends the stream. The data is a [`Terminate`](crate::terminate::Terminate).
    Terminate(Untagged),
}

impl Segment {
    /// Whether the segment, with `bytes` of data, is the last of a message with a consumer's data. An RTR write or send counts as a consumer's.
    /// `None`: the message has no such data. The response to a zero-length read has none: that read may only confirm earlier sends and writes.
    #[must_use]
    pub const fn ends_data(&self, bytes: usize) -> Option<bool> {
        match self {
            Self::ReadResponse(_) if bytes == 0 => None,
            Self::Write(to) | Self::ReadResponse(to) => Some(to.last),
            Self::Send(untagged, _) => Some(untagged.last),
            Self::ReadRequest(..) | Self::Terminate(_) => None,
        }
    }
}

/// Where the data of a tagged segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagged {
    /// L: the last segment of the message.
    pub last: bool,
    /// Steering tag.
    pub stag: u32,
    /// TO: offset of the segment's first byte in the STag's memory; an address, if the memory was registered with one.
    pub offset: u64,
}

/// Where the data of an untagged segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untagged {
    /// L: the last segment of the message.
    pub last: bool,
    /// MSN: number of the message in its queue, from 1.
    pub msn: u32,
    /// MO: offset of the first byte in the message.
    pub mo: u32,
}

/// What a send asks of the receiver besides placing its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Send {
    /// The completion of the receive is a solicited event.
    pub solicited: bool,
    /// The STag that the receiver has to invalidate.
    pub invalidate: Option<u32>,
}

/// A read request's source and sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// STag of the sink, the requester's memory.
    pub sink_stag: u32,
    /// Offset in the sink.
    pub sink_offset: u64,
    /// Bytes.
    pub size: u32,
    /// STag of the source, the responder's memory.
    pub source_stag: u32,
    /// Offset in the source.
    pub source_offset: u64,
}

#[bitfield(u8)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
struct DdpControl {
    #[bits(2)]
    version: u8,
    #[bits(4)]
    _reserved: u8,
    last: bool,
    tagged: bool,
}

#[bitfield(u8)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
struct RdmapControl {
    #[bits(4)]
    opcode: u8,
    #[bits(2)]
    _reserved: u8,
    #[bits(2)]
    version: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Control {
    ddp: DdpControl,
    rdmap: RdmapControl,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct TaggedHeader {
    control: Control,
    stag: U32,
    offset: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct UntaggedHeader {
    control: Control,
    invalidate: U32,
    queue: U32,
    msn: U32,
    mo: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ReadRequestBody {
    sink_stag: U32,
    sink_offset: U64,
    size: U32,
    source_stag: U32,
    source_offset: U64,
}

const _: () = assert!(TAGGED == 14 && UNTAGGED == 18 && READ_REQUEST == 28);

impl Segment {
    /// Parses a ULPDU: the header, and the data behind it. MSNs, offsets and STags are not checked: only the stream knows which are due.
    ///
    /// Errors, in the order of the RFCs' checks: [`Cause::TAGGED_VERSION`], [`Cause::UNTAGGED_VERSION`],
    /// [`Cause::RDMAP_VERSION`], [`Cause::OPCODE`], [`Cause::LENGTH`], [`Cause::QUEUE`].
    pub fn parse(ulpdu: &[u8]) -> Result<(Self, &[u8]), Cause> {
        let (control, _) = Control::ref_from_prefix(ulpdu).map_err(|_| Cause::LENGTH)?;
        let tagged = control.ddp.tagged();
        if control.ddp.version() != VERSION {
            return Err(if tagged { Cause::TAGGED_VERSION } else { Cause::UNTAGGED_VERSION });
        }
        if control.rdmap.version() != VERSION {
            return Err(Cause::RDMAP_VERSION);
        }
        let opcode = control.rdmap.opcode();
        match opcode {
            opcode::WRITE | opcode::READ_RESPONSE if tagged => Self::parse_tagged(opcode, ulpdu),
            opcode::READ_REQUEST | opcode::SEND..=opcode::TERMINATE if !tagged => Self::parse_untagged(opcode, ulpdu),
            _ => Err(Cause::OPCODE),
        }
    }

    fn parse_tagged(opcode: u8, ulpdu: &[u8]) -> Result<(Self, &[u8]), Cause> {
        let (header, data) = TaggedHeader::ref_from_prefix(ulpdu).map_err(|_| Cause::LENGTH)?;
        let last = header.control.ddp.last();
        let tagged = Tagged { last, stag: header.stag.get(), offset: header.offset.get() };
        Ok((if opcode == opcode::WRITE { Self::Write(tagged) } else { Self::ReadResponse(tagged) }, data))
    }

    fn parse_untagged(opcode: u8, ulpdu: &[u8]) -> Result<(Self, &[u8]), Cause> {
        let (header, data) = UntaggedHeader::ref_from_prefix(ulpdu).map_err(|_| Cause::LENGTH)?;
        let last = header.control.ddp.last();
        let untagged = Untagged { last, msn: header.msn.get(), mo: header.mo.get() };
        let (queue, segment, data) = match opcode {
            opcode::READ_REQUEST => {
                let (body, rest) = ReadRequestBody::ref_from_prefix(data).map_err(|_| Cause::LENGTH)?;
                (queue::READ_REQUEST, Self::ReadRequest(untagged, body.into()), rest)
            }
            opcode::TERMINATE => (queue::TERMINATE, Self::Terminate(untagged), data),
            _ => {
                let solicited = matches!(opcode, opcode::SEND_SOLICITED | opcode::SEND_SOLICITED_INVALIDATE);
                let invalidates = matches!(opcode, opcode::SEND_INVALIDATE | opcode::SEND_SOLICITED_INVALIDATE);
                let invalidate = invalidates.then(|| header.invalidate.get());
                (queue::SEND, Self::Send(untagged, Send { solicited, invalidate }), data)
            }
        };
        if header.queue.get() != queue {
            return Err(Cause::QUEUE);
        }
        Ok((segment, data))
    }

    /// Writes the header, and returns its size; `None`: no room.
    pub fn emit(&self, bytes: &mut [u8]) -> Option<usize> {
        match *self {
            Self::Write(tagged) => emit_tagged(opcode::WRITE, tagged, bytes),
            Self::ReadResponse(tagged) => emit_tagged(opcode::READ_RESPONSE, tagged, bytes),
            Self::ReadRequest(untagged, request) => {
                let used = emit_untagged(opcode::READ_REQUEST, queue::READ_REQUEST, 0, untagged, bytes)?;
                ReadRequestBody::from(request).write_to_prefix(bytes.get_mut(used..)?).ok()?;
                used.checked_add(READ_REQUEST)
            }
            Self::Send(untagged, Send { solicited, invalidate }) => {
                let opcode = match (solicited, invalidate) {
                    (false, None) => opcode::SEND,
                    (false, Some(_)) => opcode::SEND_INVALIDATE,
                    (true, None) => opcode::SEND_SOLICITED,
                    (true, Some(_)) => opcode::SEND_SOLICITED_INVALIDATE,
                };
                emit_untagged(opcode, queue::SEND, invalidate.unwrap_or(0), untagged, bytes)
            }
            Self::Terminate(untagged) => emit_untagged(opcode::TERMINATE, queue::TERMINATE, 0, untagged, bytes),
        }
    }
}

fn control(tagged: bool, last: bool, opcode: u8) -> Control {
    Control {
        ddp: DdpControl::new().with_version(VERSION).with_last(last).with_tagged(tagged),
        rdmap: RdmapControl::new().with_version(VERSION).with_opcode(opcode),
    }
}

fn emit_tagged(opcode: u8, tagged: Tagged, bytes: &mut [u8]) -> Option<usize> {
    let control = control(true, tagged.last, opcode);
    let header = TaggedHeader { control, stag: tagged.stag.into(), offset: tagged.offset.into() };
    header.write_to_prefix(bytes).ok()?;
    Some(TAGGED)
}

fn emit_untagged(opcode: u8, queue: u32, invalidate: u32, untagged: Untagged, bytes: &mut [u8]) -> Option<usize> {
    let header = UntaggedHeader {
        control: control(false, untagged.last, opcode),
        invalidate: invalidate.into(),
        queue: queue.into(),
        msn: untagged.msn.into(),
        mo: untagged.mo.into(),
    };
    header.write_to_prefix(bytes).ok()?;
    Some(UNTAGGED)
}

impl From<&ReadRequestBody> for ReadRequest {
    fn from(body: &ReadRequestBody) -> Self {
        Self {
            sink_stag: body.sink_stag.get(),
            sink_offset: body.sink_offset.get(),
            size: body.size.get(),
            source_stag: body.source_stag.get(),
            source_offset: body.source_offset.get(),
        }
    }
}

impl From<ReadRequest> for ReadRequestBody {
    fn from(request: ReadRequest) -> Self {
        Self {
            sink_stag: request.sink_stag.into(),
            sink_offset: request.sink_offset.into(),
            size: request.size.into(),
            source_stag: request.source_stag.into(),
            source_offset: request.source_offset.into(),
        }
    }
}
