//! What Linux siw has sent, read frame by frame.

mod streams;

use std::path::Path;

use iwarp::crc::Crc32c;
use iwarp::fpdu::{self, ParsedFpdu};
use iwarp::mpa::{self, FrameKind, MpaFrame};
use iwarp::segment::Segment;
use iwarp::terminate::Cause;
use streams::Streams;

/// The connections of a capture.
fn connections(capture: &str) -> Vec<Streams> {
    streams::connections(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(capture))
}

/// What a connection was made of.
#[derive(Debug, Default)]
struct Seen {
    crc: bool,
    segments: Vec<Segment>,
    wrong: Vec<Cause>,
}

/// Reads a connection; `None`: it ended before its first FPDU.
fn read([request, reply]: &Streams) -> Option<Seen> {
    let Ok(mpa::ParsedFrame::Frame(request_frame, after_request)) = MpaFrame::parse(FrameKind::Request, request) else {
        return None;
    };
    let Ok(mpa::ParsedFrame::Frame(reply_frame, after_reply)) = MpaFrame::parse(FrameKind::Reply, reply) else {
        return None;
    };
    if reply_frame.reject {
        return None;
    }
    let mut seen = Seen { crc: request_frame.crc || reply_frame.crc, ..Seen::default() };
    for mut stream in [&request[after_request..], &reply[after_reply..]] {
        loop {
            match fpdu::parse(stream, seen.crc.then_some(Crc32c::PORTABLE)) {
                Ok(ParsedFpdu::Whole { ulpdu, size }) => {
                    match Segment::parse(ulpdu) {
                        Ok((segment, _)) => seen.segments.push(segment),
                        Err(cause) => seen.wrong.push(cause),
                    }
                    stream = &stream[size..];
                }
                Ok(ParsedFpdu::Incomplete(_)) => break,
                Err(cause) => {
                    seen.wrong.push(cause);
                    break;
                }
            }
        }
        assert!(stream.is_empty() || seen.wrong.contains(&Cause::CRC), "{} bytes are left", stream.len());
    }
    Some(seen)
}

/// Counts of writes, read requests, read responses, sends, terminates.
fn counts(seen: &Seen) -> [usize; 5] {
    let mut counts = [0; 5];
    for segment in &seen.segments {
        let place = match segment {
            Segment::Write(_) => 0,
            Segment::ReadRequest(..) => 1,
            Segment::ReadResponse(_) => 2,
            Segment::Send(..) => 3,
            Segment::Terminate(_) => 4,
        };
        counts[place] += 1;
    }
    counts
}

/// What each connection of a capture was made of: whether the CRC was on, and [`counts`]. Nothing may be wrong with any.
fn read_all(capture: &str) -> Vec<Option<(bool, [usize; 5])>> {
    let seen = connections(capture).iter().map(read).collect::<Vec<_>>();
    assert!(seen.iter().flatten().all(|seen| seen.wrong.is_empty()), "{seen:?}");
    seen.iter().map(|seen| seen.as_ref().map(|seen| (seen.crc, counts(seen)))).collect()
}

/// Three rounds: rping reads, then writes, and sends before and after each.
const RPING: [usize; 5] = [3, 3, 3, 12, 0];

// Shows S802.
#[test]
fn rping_with_itself() {
    assert_eq!(read_all("rping-self.pcap"), [Some((false, RPING))]);
}

#[test]
fn rping_and_frames_of_another_program() {
    let one_send = [0, 0, 0, 1, 0];
    let expected = [
        Some((true, RPING)),
        Some((false, RPING)),
        Some((true, one_send)),
        Some((false, one_send)),
        // The initiator asked for markers, and was rejected.
        None,
        // A read in six segments, and a Terminate.
        Some((true, [0, 1, 6, 1, 1])),
        Some((false, one_send)),
        Some((false, RPING)),
        Some((false, RPING)),
    ];
    assert_eq!(read_all("rping-host.pcap"), expected);
}

#[test]
fn head_of_an_smb_direct_session() {
    assert_eq!(read_all("smbdirect-head.pcap"), [Some((false, [0, 0, 0, 48, 0]))]);
}

/// The negative control: `read` finds a changed byte in a capture.
#[test]
fn a_changed_byte_is_found() {
    let [request, reply] = &connections("rping-host.pcap")[0];
    let mut changed = request.clone();
    *changed.last_mut().expect("bytes") ^= 1;
    let seen = read(&[changed, reply.clone()]).expect("a connection");
    assert_eq!(seen.wrong, [Cause::CRC]);
}
