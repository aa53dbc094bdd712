//! The ends of the two rings: [`Sender`] writes one, [`Receiver`] reads the other, both in place. What one `fill` writes is whole for one
//! `take`: it does not go over the ring's end, so the sender leaves the end unused where it has too little room.
//!
//! Positions count bytes since the connection began, unused ones too. The peer's are checked: those that cannot be end the connection.
#![expect(unsafe_code, reason = "slices of memory that another process changes")]

use std::{
    slice,
    sync::{Arc, atomic::Ordering},
};

use platform::{LARGEST_TRANSFER, WrittenShared};

use super::{
    Shared,
    segment::{NOWHERE, RING},
};

/// Less room than this is filled only if there is no more elsewhere: the largest FPDU needs some 32 KiB.
const LEAST: u64 = 40 << 10;
/// The most that is shown or filled at once, so that both sides copy at the same time: two of the largest FPDUs.
const PIECE: u64 = 72 << 10;
const SIZE: u64 = RING as u64;
const _: () = assert!(RING >= 2 * LARGEST_TRANSFER, "an empty ring has room for a send, wherever it is empty");

/// The bytes from `position` to the ring's end.
fn to_end(position: u64) -> u64 {
    SIZE - position % SIZE
}

/// The position and the number of the bytes that a sender may fill next, `least` if possible, if it has written up to `sent`, and the peer has read up
/// to `received`.
fn room(sent: u64, received: u64, least: u64) -> (u64, u64) {
    let (free, tail) = (SIZE.saturating_sub(sent.wrapping_sub(received)), to_end(sent));
    if tail < least && free.saturating_sub(tail) >= least { (sent + tail, free - tail) } else { (sent, tail.min(free)) }
}

/// Whether a sender has the room that it awaits.
pub(super) fn has_room(sent: u64, received: u64) -> bool {
    room(sent, received, LEAST).1 >= LEAST
}

/// Writes the ring of this side.
pub(in crate::tcp) struct Sender {
    shared: Arc<Shared>,
    sent: u64,
    /// The bytes that the peer had read when this was last looked up.
    received: u64,
}

impl Sender {
    /// Begins to send through the ring, after `by_tcp` bytes that were sent by TCP. `None`: the accepted memory is not there.
    pub(in crate::tcp) fn new(shared: Arc<Shared>, by_tcp: u64) -> Option<Self> {
        shared.segment.join()?;
        shared.segment.ours().sender.0.by_tcp.store(by_tcp, Ordering::Release);
        Some(Self { shared, sent: 0, received: 0 })
    }

    /// Shows room to `fill`, and sends as many bytes as it returns. `None`: the peer has written a position that cannot be.
    pub(in crate::tcp) fn fill(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> Option<WrittenShared> {
        self.fill_at_least(LEAST, fill)
    }

    /// Sends all the bytes, at most half of a ring, or none if there is no room.
    pub(in crate::tcp) fn send(&mut self, bytes: &[u8]) -> Option<WrittenShared> {
        self.fill_at_least(bytes.len() as u64, |room| {
            let Some(room) = room.get_mut(..bytes.len()) else { return 0 };
            room.copy_from_slice(bytes);
            bytes.len()
        })
    }

    fn fill_at_least(&mut self, least: u64, fill: impl FnOnce(&mut [u8]) -> usize) -> Option<WrittenShared> {
        if room(self.sent, self.received, least).1 < least {
            let received = self.shared.segment.theirs().received.0.load(Ordering::Acquire);
            self.sent.checked_sub(received).filter(|used| *used <= SIZE)?;
            self.received = received;
        }
        let (start, length) = room(self.sent, self.received, least);
        let length = length.min(PIECE.max(least));
        let first = self.shared.segment.our_ring()?.wrapping_add((start % SIZE) as usize);
        // SAFETY: `length` bytes of the ring, which only this value writes: `room` ends before its end, and before what the peer may
        // read. A peer that breaks this breaks its own bytes.
        let room = unsafe { slice::from_raw_parts_mut(first, length as usize) };
        let count = fill(room).min(length as usize);
        if count > 0 {
            let words = &self.shared.segment.ours().sender.0;
            if start != self.sent {
                words.unused.store(self.sent, Ordering::Relaxed);
            }
            self.sent = start + count as u64;
            words.sent.store(self.sent, Ordering::Release);
        }
        Some(WrittenShared { count, is_full: length < least })
    }
}

/// Reads the peer's ring.
pub(in crate::tcp) struct Receiver {
    shared: Arc<Shared>,
    received: u64,
}

impl Receiver {
    /// `None`: the accepted memory is not there.
    pub(in crate::tcp) fn new(shared: Arc<Shared>) -> Option<Self> {
        shared.segment.join()?;
        Some(Self { shared, received: 0 })
    }

    /// Shows the bytes before the position `sent` to `take`, or those up to the ring's end, and frees as many as it returns. Returns whether all were
    /// used and there are more. `None`: the peer has written a position that cannot be.
    pub(in crate::tcp) fn take(&mut self, sent: u64, take: impl FnOnce(&[u8]) -> usize) -> Option<bool> {
        // Written before `sent`.
        let unused = self.shared.segment.theirs().sender.0.unused.load(Ordering::Relaxed);
        if unused == self.received && unused != NOWHERE && unused < sent {
            self.received += to_end(self.received);
        }
        let start = self.received;
        let end = if (start..sent).contains(&unused) { unused } else { sent };
        let length = end.checked_sub(start).filter(|length| *length <= SIZE)?.min(to_end(start)).min(PIECE);
        let first = self.shared.segment.their_ring()?.wrapping_add((start % SIZE) as usize);
        // SAFETY: `length` bytes of the ring, as just checked. A peer that writes them now has this side read old and new bytes, as a
        // peer does that sends nonsense.
        let bytes = unsafe { slice::from_raw_parts(first, length as usize) };
        let used = if bytes.is_empty() { 0 } else { take(bytes).min(bytes.len()) };
        self.received += used as u64;
        if self.received != start || start.is_multiple_of(SIZE) {
            self.shared.segment.ours().received.0.store(self.received, Ordering::Release);
        }
        Some(used == bytes.len() && self.received != sent)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::tcp::shared_memory::segment::Segment;

    /// Both ends of the ring of the connecting side, and the memory of that side.
    fn ring(port: u16) -> (Sender, Receiver, Arc<Shared>) {
        let [local, remote] = [port, 1].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let connecting = Shared::new(Segment::offer(local, remote).unwrap());
        let accepting = Shared::new(Segment::accept(remote, local).unwrap());
        (Sender::new(connecting.clone(), 0).unwrap(), Receiver::new(accepting).unwrap(), connecting)
    }

    /// A number below `below`, of a sequence.
    fn draw(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    #[test]
    fn what_one_fill_writes_one_take_can_see() {
        let (mut sender, mut receiver, _) = ring(1);
        let (mut state, mut written, mut read) = (7, 0_u64, 0_u64);
        // Lengths of the pieces that were written and not read.
        let mut pieces = std::collections::VecDeque::new();
        for _ in 0..10_000 {
            let most = [10, 1000, 34 << 10, 80 << 10][draw(&mut state, 4) as usize];
            let wanted = 1 + draw(&mut state, most) as usize;
            let filled = sender.fill(|room| {
                let count = wanted.min(room.len());
                room[..count].iter_mut().for_each(|byte| {
                    *byte = (written % 251) as u8;
                    written += 1;
                });
                count
            });
            let filled = filled.unwrap();
            assert!(filled.is_full || filled.count >= wanted.min(LEAST as usize));
            pieces.extend(Some(filled.count).filter(|&count| count > 0));
            if draw(&mut state, 3) == 0 {
                while let Some(&piece) = pieces.front() {
                    let sent = receiver.shared.show();
                    let more = receiver.take(sent, |bytes| {
                        assert!(bytes.len() >= piece, "a piece goes over the end");
                        assert!(
                            bytes[..piece]
                                .iter()
                                .enumerate()
                                .all(|(at, byte)| (read + at as u64) % 251 == u64::from(*byte))
                        );
                        piece
                    });
                    more.unwrap();
                    read += piece as u64;
                    pieces.pop_front();
                    if draw(&mut state, 4) == 0 {
                        break;
                    }
                }
            }
        }
        assert!(read > 100 * SIZE);
    }

    // Shows T97.
    #[test]
    fn positions_that_cannot_be_end_it() {
        for (port, wrong) in (2..).zip([u64::MAX, 1 << 40, SIZE + 101]) {
            let (mut sender, mut receiver, shared) = ring(port);
            assert_eq!(sender.fill(|_| 100).unwrap().count, 100);
            // The peer says that it has read what was not written.
            shared.segment.theirs().received.0.store(wrong, Ordering::Release);
            while let Some(filled) = sender.fill(|room| room.len()) {
                assert!(filled.count > 0);
            }
            // The peer says that it has written more than the ring holds.
            shared.segment.ours().sender.0.sent.store(wrong, Ordering::Release);
            assert_eq!(receiver.take(receiver.shared.show(), |bytes| bytes.len().min(100)), None);
        }
    }

    // Shows T97.
    #[test]
    fn nonsense_stays_within_the_ring() {
        let (mut sender, mut receiver, shared) = ring(10);
        let mut state = 11;
        for _ in 0..5_000 {
            let mut nonsense = || match draw(&mut state, 4) {
                0 => draw(&mut state, 3 * SIZE),
                1 => u64::MAX - draw(&mut state, 3 * SIZE),
                2 => receiver.received + draw(&mut state, 2 * SIZE),
                _ => SIZE * draw(&mut state, 5),
            };
            let words = &shared.segment.ours().sender.0;
            words.unused.store(nonsense(), Ordering::Relaxed);
            words.sent.store(nonsense(), Ordering::Relaxed);
            shared.segment.theirs().received.0.store(nonsense(), Ordering::Relaxed);
            let sum = |bytes: &[u8]| bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>() % (bytes.len() + 1);
            receiver.take(receiver.shared.show(), sum);
            sender.fill(|room| {
                room.fill(1);
                room.len() / 3
            });
        }
    }
}
