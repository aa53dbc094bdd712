//! The FPDUs that a wire would carry for a segment within the adapter. The records have no message numbers: this counts them, as the sender of a
//! direction does (RFC 5041 section 5.3).

use iwarp::{
    crc::Crc32c,
    fpdu::{self, Trailer},
    segment::{MAX_HEADER, Segment, Tagged, Untagged},
};

/// Bytes of data in an FPDU, at most: as a SoftNDK adapter sends over a wire.
const DATA: u32 = 32 << 10;

/// The numbers of the next messages of one direction.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    send: u32,
    read: u32,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { send: 1, read: 1 }
    }
}

/// An FPDU: its first bytes, and its length.
pub(crate) struct Fpdu {
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: usize,
}

/// The FPDUs of a segment with `total` bytes, of which `known` are known; `None`: it is no segment. `sender` and `receiver` are the numbers of the two
/// directions: a response is to the receiver's last read.
pub(crate) fn of_segment(known: &[u8], total: u32, sender: &mut Numbers, receiver: &Numbers) -> Option<Vec<Fpdu>> {
    let (segment, data) = Segment::parse(known).ok()?;
    let length = total.checked_sub(u32::try_from(known.len().checked_sub(data.len())?).ok()?)?;
    let mut fpdus = Vec::new();
    let mut offset = 0;
    loop {
        let now = (length - offset).min(DATA);
        let ends = offset + now == length;
        let untagged = |untagged: Untagged, msn| Untagged {
            last: untagged.last && ends,
            msn,
            mo: untagged.mo.wrapping_add(offset),
        };
        let tagged = |tagged: Tagged, stag| Tagged {
            last: tagged.last && ends,
            stag,
            offset: tagged.offset.wrapping_add(offset.into()),
        };
        let part = match segment {
            Segment::Write(to) => Segment::Write(tagged(to, to.stag)),
            Segment::ReadResponse(to) => Segment::ReadResponse(tagged(to, receiver.read.wrapping_sub(1))),
            Segment::Send(to, send) => Segment::Send(untagged(to, sender.send), send),
            Segment::ReadRequest(to, mut request) => {
                request.sink_stag = sender.read;
                Segment::ReadRequest(untagged(to, sender.read), request)
            }
            Segment::Terminate(to) => Segment::Terminate(to),
        };
        let from = data.len().min(offset as usize);
        fpdus.push(fpdu(&part, &data[from..data.len().min((offset + now) as usize)], now)?);
        offset += now;
        if ends {
            break;
        }
    }
    match segment {
        Segment::Send(Untagged { last: true, .. }, _) => sender.send = sender.send.wrapping_add(1),
        Segment::ReadRequest(..) => sender.read = sender.read.wrapping_add(1),
        _ => {}
    }
    Some(fpdus)
}

fn fpdu(segment: &Segment, known: &[u8], length: u32) -> Option<Fpdu> {
    let mut header = [0; MAX_HEADER];
    let used = segment.emit(&mut header)?;
    let ulpdu = u16::try_from(used + length as usize).ok()?;
    let mut bytes = fpdu::length(ulpdu).to_vec();
    bytes.extend_from_slice(header.get(..used)?);
    bytes.extend_from_slice(known);
    if known.len() == length as usize {
        let mut digest = Crc32c::PORTABLE.digest();
        digest.update(&bytes);
        bytes.extend_from_slice(Trailer::new(ulpdu, Some(digest)).as_bytes());
    }
    Some(Fpdu { bytes, length: fpdu::size(ulpdu) })
}
