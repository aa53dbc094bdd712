//! What becomes of a segment that breaks a rule, and whether that is what the RFCs say.

use std::time::Duration;

use iwarp::terminate::Cause;
use peer::{
    establish::Scene,
    frames::{self, READS},
    wait,
};
use platform::SocketError;
use simkernel::Session;
use soft_rdma::{DisconnectReason, Post, Remote, Status};

use super::{
    CANARY,
    breaks::{Break, Targets},
};

/// Which headers of the wrong segment a Terminate has with it (RFC 5040 section 4.8): the M, D and R bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    None,
    /// The DDP header, and the segment's length.
    Ddp,
    /// And the rest of a read request.
    All,
}

/// What has become of it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The wrong segment.
    wrong: Vec<u8>,
    /// The last message of the stream, and how that ended.
    last: Option<Vec<u8>>,
    ended: Result<(), SocketError>,
    completions: Vec<(usize, Status)>,
    reason: Option<DisconnectReason>,
    pub(crate) memory: Vec<u8>,
}

const OPCODE: u8 = 0xf;
const TERMINATE: u8 = 7;

/// Has the peer break a rule.
pub(crate) fn play(kernel: &Session, scene: &Scene, targets: &Targets, what: &Break) -> Answer {
    let (raw, side) = (scene.raw(), scene.side());
    for (number, &(offset, length)) in what.receives.iter().enumerate() {
        side.receive(number + 1, offset, length);
    }
    if what.reads {
        let remote = Remote { address: 0x5000, token: 0x1234 };
        side.post(10, &[side.sge(0x8000, 16)], Post::Read(remote)).expect("a read");
        let request = raw.ulpdu().expect("its request");
        assert_eq!(request[1] & OPCODE, 1);
        assert_eq!(request[18..30], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "number and offset as its sink");
    }
    if let Some(local) = what.bad_receive {
        side.queue_pair().post_receive(1, &[local(side, targets)]).expect("a receive");
    }
    let mut ulpdus = (what.sends)(targets);
    let mut wrong = ulpdus.pop().expect("a segment");
    raw.send_frames(&ulpdus);
    let mut frame = frames::fpdu(&wrong, raw.crc.get());
    if what.needs_crc {
        *frame.last_mut().expect("its CRC") ^= 1;
    }
    if what.floods {
        kernel.limit_in_flight(1000);
    }
    raw.send(&frame);
    if what.waits {
        // A message that waits for its receive does so for five seconds.
        for _ in 0..5 {
            (0..500).for_each(|_| simkernel::pause());
            assert_eq!(raw.has_come(), 0, "too early");
            kernel.advance(Duration::from_secs(1));
        }
    }
    let mut last = None;
    while let Some(ulpdu) = raw.ulpdu() {
        let terminates = last.as_ref().is_some_and(|last: &Vec<u8>| last[1] & OPCODE == TERMINATE);
        assert!(!terminates, "something behind a Terminate");
        last = Some(ulpdu);
    }
    if what.floods {
        // Which one is the first beyond the limit is decided by how fast the answers go.
        let number = last.as_ref().and_then(|last| last.get(34..38)).unwrap_or_default();
        let found = ulpdus.iter().skip(READS.into()).find(|ulpdu| ulpdu[10..14] == *number);
        wrong = found.cloned().unwrap_or(wrong);
    }
    let (rest, ended) = raw.rest();
    assert!(rest.is_empty(), "the end of the stream is within an FPDU");
    let completions = side.completed(what.statuses.len());
    side.wait_for_end();
    wait("the disconnect", || kernel.ledger().dpcs.is_empty());
    let reason = side.disconnects.take();
    let memory = side.pages.read(0, side.pages.size());
    Answer { wrong, last, ended, completions, reason, memory }
}

/// The body that a Terminate has to have, from the RFC's table.
fn body(cause: Cause, headers: Headers, wrong: &[u8]) -> Vec<u8> {
    let bits: u16 = match headers {
        Headers::None => 0,
        Headers::Ddp => 0xC000,
        Headers::All => 0xE000,
    };
    let mut body = vec![cause.layer << 4 | cause.kind, cause.code];
    body.extend(bits.to_be_bytes());
    if headers != Headers::None {
        let length = u16::try_from(wrong.len()).expect("a ULPDU");
        let header = if wrong[0] & 0x80 == 0 { 18 } else { 14 };
        let header = if headers == Headers::All { header + 28 } else { header };
        body.extend(length.to_be_bytes());
        body.extend(wrong.iter().take(header));
    }
    body
}

/// Whether an answer is the right one.
pub(crate) fn check(what: &Break, answer: &Answer) -> Result<(), String> {
    let head = [0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0];
    let terminate = [&head[..], &body(what.cause, what.headers, &answer.wrong)].concat();
    if answer.last.as_ref() != Some(&terminate) {
        return Err(format!("for {}: {:02x?}, not {terminate:02x?}", what.cause, answer.last));
    }
    if answer.ended != Ok(()) {
        return Err(format!("the stream ends with {:?}", answer.ended));
    }
    if answer.completions != what.statuses {
        return Err(format!("completions: {:?}, not {:?}", answer.completions, what.statuses));
    }
    if answer.reason != Some(1) {
        return Err(format!("the disconnect event says {:?}", answer.reason));
    }
    let mut memory = vec![CANARY; answer.memory.len()];
    for &(offset, length, byte) in &what.placed {
        memory[offset..offset + length].fill(byte);
    }
    let differs = memory.iter().zip(&answer.memory).position(|(expected, is)| expected != is);
    differs.map_or(Ok(()), |place| Err(format!("byte {place:#x} of the memory is {:#x}", answer.memory[place])))
}
