//! On a connection.

use std::{cell::Cell, time::Duration};

use peer::{
    device::{BASE, Side},
    establish::{By, Scene},
    frames::{self, READS},
    wait,
};
use platform::{Notice, SENDS};
use simkernel::{Session, boot_seeded, seeds};
use soft_rdma::{Access, Error, Post, Remote};

use super::disconnect;
use crate::{pauses, play};

/// Bytes that a connection may have grown by: its buffers at their largest (four times 128 KiB out, 128 KiB in).
const MOST: usize = 660 << 10;

/// Memory now.
fn pool(kernel: &Session) -> usize {
    kernel.ledger().pool_bytes()
}

/// It does not read, while the device sends, writes, or answers its reads: posts are held back, by bounded memory.
// Shows T40.
#[test]
fn it_does_not_read() {
    for number in 0..3 {
        play(4, |kernel, scene| {
            kernel.limit_in_flight(10_000);
            let (raw, side) = (scene.raw(), scene.side());
            let before = pool(kernel);
            let remote = Remote { address: 0x5000, token: 0x1234 };
            let mut posted = 0;
            let mut completed = 0;
            let all = side.region_of(&side.pd, Access::REMOTE_READ).unwrap();
            if number == 2 {
                let size = side.pages.size() as u32;
                let reads: Vec<_> =
                    (1..=READS).map(|read| frames::read(read.into(), size, all.token(), BASE)).collect();
                raw.send_frames(&reads);
                kernel.flush_dpcs();
            }
            for _ in 0..40 {
                let what = if number == 0 { Post::Send(None) } else { Post::Write(remote) };
                match side.post(posted, &[side.sge(0, 0x8000)], what) {
                    Ok(()) => posted += 1,
                    error => assert_eq!(error, Err(Error::QueueFull)),
                }
                kernel.flush_dpcs();
                completed += side.completions().len();
            }
            assert!(posted < 40 && completed < posted, "{completed} of {posted} are complete");
            let grown = pool(kernel).saturating_sub(before);
            assert!(grown < MOST, "{grown} bytes");
            disconnect(kernel, scene);
            let canceled = side.completed(posted - completed);
            assert!(canceled.iter().all(|(_, status)| *status == Err(Error::Canceled)), "{canceled:?}");
        });
    }
}

/// One large request, while the peer reads slowly: the device has several sends under way, not one after the other.
// Shows T40.
#[test]
fn it_reads_slowly() {
    for posts in [true, false] {
        play(4, |kernel, scene| {
            kernel.limit_in_flight(100);
            let (raw, side) = (scene.raw(), scene.side());
            let all = side.region_of(&side.pd, Access::REMOTE_READ).unwrap();
            if posts {
                let remote = Remote { address: 0x5000, token: 0x1234 };
                side.post(1, &[side.sge(0, 0x10000)], Post::Write(remote)).unwrap();
            } else {
                raw.send_frames([&frames::read(1, 0x10000, all.token(), BASE)]);
            }
            kernel.flush_dpcs();
            assert_eq!(kernel.sends_under_way(), SENDS);
            disconnect(kernel, scene);
            let _whatever_it_came_to = side.completions();
        });
    }
}

/// Each byte for itself, of messages and writes.
// Shows T40.
#[test]
fn it_sends_a_byte_at_a_time() {
    play(4, |_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let all = side.region_of(&side.pd, Access::LOCAL_WRITE | Access::REMOTE_WRITE).unwrap();
        for number in 1..4 {
            side.receive(7, 0, 16);
            let text = format!("message {number}");
            let ulpdus = [
                frames::write(all.token(), BASE + 0x100, text.as_bytes()),
                frames::send_part(false, number, 0, &text.as_bytes()[..4]),
                frames::send_part(true, number, 4, &text.as_bytes()[4..]),
            ];
            for byte in ulpdus.iter().flat_map(|ulpdu| frames::fpdu(ulpdu, raw.crc.get())) {
                raw.send(&[byte]);
                (0..10).for_each(|_| simkernel::pause());
            }
            assert_eq!(side.completed(1), [(7, Ok(()))]);
            assert_eq!(side.pages.read(0, text.len()), text.as_bytes());
            assert_eq!(side.pages.read(0x100, text.len()), text.as_bytes());
        }
    });
}

/// As many reads as agreed, over and over: the device's own send is sent too.
#[test]
fn it_reads_without_an_end() {
    play(2, |kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let all = side.region_of(&side.pd, Access::REMOTE_READ).unwrap();
        let before = pool(kernel);
        let mut read = 0;
        let mut answered = 0;
        let mut sent_after = None;
        for round in 0..60 {
            for _ in 0..READS {
                read += 1;
                raw.send_frames([&frames::read(read, 0x4000, all.token(), BASE)]);
            }
            if round == 20 {
                side.post(1, &[side.sge(0, 64)], Post::Send(None)).unwrap();
            }
            while answered < read {
                let ulpdu = raw.ulpdu().unwrap();
                match ulpdu[1] & 0xf {
                    2 => answered += u32::from(ulpdu[0] & 0x40 != 0),
                    3 => sent_after = Some(round),
                    other => panic!("opcode {other}"),
                }
            }
        }
        assert!(matches!(sent_after, Some(20..23)), "the send: {sent_after:?}");
        assert_eq!(side.completed(1), [(1, Ok(()))]);
        let grown = pool(kernel).saturating_sub(before);
        assert!(grown < MOST, "{grown} bytes");
        disconnect(kernel, scene);
    });
}

/// The device answers as many reads as agreed; it refuses one more while all of them are unanswered. The device can send nothing: the
/// stream's buffer is full, and the peer does not read.
#[test]
fn it_reads_no_more_than_agreed() {
    for more in [0, 1] {
        play(4, |kernel, scene| {
            kernel.limit_in_flight(1000);
            kernel.keep_notices();
            let (raw, side) = (scene.raw(), scene.side());
            let all = side.region_of(&side.pd, Access::REMOTE_READ).unwrap();
            let remote = Remote { address: 0x5000, token: 0x1234 };
            for number in 0..32 {
                match side.post(number, &[side.sge(0, 0x8000)], Post::Write(remote)) {
                    Ok(()) => kernel.flush_dpcs(),
                    error => assert_eq!(error, Err(Error::QueueFull)),
                }
            }
            let count = u32::from(READS) + more;
            let reads: Vec<_> = (1..=count).map(|read| frames::read(read, 8, all.token(), BASE)).collect();
            raw.send_frames(&reads);
            kernel.flush_dpcs();
            let (mut answered, mut refused) = (0, None);
            while answered < count && refused.is_none() {
                let ulpdu = raw.ulpdu().unwrap();
                match ulpdu[1] & 0xf {
                    0 => {}
                    2 => answered += 1,
                    // The number of the read that it is for.
                    7 => refused = Some(ulpdu[34..38].to_vec()),
                    other => panic!("opcode {other}"),
                }
            }
            let last = (more > 0).then(|| count.to_be_bytes().to_vec());
            assert_eq!(refused, last, "after {answered} answers");
            if refused.is_none() {
                disconnect(kernel, scene);
            } else {
                side.wait_for_end();
            }
            kernel.flush_dpcs();
            let notices = kernel.take_notices();
            let terminates = notices.iter().filter(|notice| matches!(notice, Notice::TerminateSent { .. }));
            assert_eq!(terminates.count(), more as usize, "noticed when there is room, once");
            let _whatever_it_came_to = side.completions();
        });
    }
}

/// A message begins with a segment without data: the message keeps its receive.
#[test]
fn it_sends_a_segment_without_data() {
    play(4, |_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        side.receive(1, 0, 16);
        side.receive(2, 0x100, 16);
        raw.send_frames([&frames::send_part(false, 1, 0, &[]), &frames::send_part(true, 1, 0, b"hello")]);
        assert_eq!(side.completed(1), [(1, Ok(()))]);
        assert_eq!(side.pages.read(0, 5), b"hello");
        raw.send_frames([&frames::send(2, b"again")]);
        assert_eq!(side.completed(1), [(2, Ok(()))]);
        assert_eq!(side.pages.read(0x100, 5), b"again");
    });
}

/// Nothing, in FPDUs.
#[test]
fn it_writes_nothing_without_an_end() {
    play(2, |kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let before = pool(kernel);
        let nothing: Vec<_> = (0..100).map(|number| frames::write(number, u64::MAX, &[])).collect();
        for _ in 0..100 {
            raw.send_frames(&nothing);
        }
        side.post(1, &[side.sge(0, 64)], Post::Send(None)).unwrap();
        assert_eq!(side.completed(1), [(1, Ok(()))]);
        for _ in 0..100 {
            raw.send_frames(&nothing);
        }
        side.receive(2, 0, 64);
        raw.send_frames([&frames::send(1, b"after all")]);
        assert_eq!(side.completed(1), [(2, Ok(()))]);
        let grown = pool(kernel).saturating_sub(before);
        assert!(grown < MOST, "{grown} bytes");
        assert_eq!(raw.ulpdu(), Some(frames::send(1, &[0; 64])));
        disconnect(kernel, scene);
    });
}

/// FPDUs as long as they can be.
#[test]
fn its_frames_are_long() {
    play(4, |kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let all = side.region_of(&side.pd, Access::LOCAL_WRITE | Access::REMOTE_WRITE).unwrap();
        let before = pool(kernel);
        let data: Vec<u8> = (0..65_521_u32).map(|place| (place % 251) as u8).collect();
        let room = side.pages.size() as u32;
        for number in 0..4 {
            side.receive(7, 0, 1);
            raw.send_frames([&frames::write(all.token(), BASE, &data), &frames::send(2 * number + 1, &[])]);
            assert_eq!(side.completed(1), [(7, Ok(()))]);
            assert!(side.pages.read(0, data.len()) == data, "the write");
            side.pages.write(0, &vec![0; data.len()]);
            side.receive(8, 0, room);
            raw.send_frames([&frames::send(2 * number + 2, &data[..65_517])]);
            assert_eq!(side.completed(1), [(8, Ok(()))]);
            assert!(side.pages.read(0, 65_517) == data[..65_517], "the message");
        }
        let grown = pool(kernel).saturating_sub(before);
        assert!(grown < MOST, "{grown} bytes");
        disconnect(kernel, scene);
    });
}

/// The FPDU that it has begun does not end: its bytes wait, and nothing else does.
// Shows T40.
#[test]
fn it_does_not_end_a_frame() {
    play(4, |kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        raw.send(&frames::fpdu(&frames::write(0, 0, &[1; 60_000]), raw.crc.get())[..50_000]);
        pauses();
        side.post(1, &[side.sge(0, 64)], Post::Send(None)).unwrap();
        assert_eq!(raw.ulpdu(), Some(frames::send(1, &[0; 64])));
        disconnect(kernel, scene);
    });
}

/// Messages for which there is no receive, as many as it can send.
// Shows T41.
#[test]
fn it_sends_more_than_there_are_receives() {
    play(4, |kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let before = pool(kernel);
        let messages: Vec<u8> = (1..2000)
            .flat_map(|number| frames::fpdu(&frames::send(number, &[number as u8; 500]), raw.crc.get()))
            .collect();
        let sent = Cell::new(0);
        for _ in 0..2000 {
            sent.set(sent.get() + raw.send_some(&messages[sent.get()..]));
            simkernel::pause();
        }
        assert!(sent.get() < messages.len(), "it is held back");
        let grown = pool(kernel).saturating_sub(before);
        assert!(grown < 2 * MOST, "{grown} bytes, of both ends");
        // One receive after the other.
        for number in 1..2000 {
            side.receive(number, 0, 500);
            wait("a message", || {
                sent.set(sent.get() + raw.send_some(&messages[sent.get()..]));
                side.completions().iter().any(|completion| {
                    assert_eq!((completion.request_context, completion.status), (number, Ok(())));
                    true
                })
            });
            assert_eq!(side.pages.read(0, 500), [number as u8; 500]);
        }
        disconnect(kernel, scene);
    });
}

/// A message that finds no receive in a shared queue waits until one is posted, however long that takes (ndspi.md section 5,
/// CreateQueuePairWithSrq).
// Shows S807.
#[test]
fn it_sends_into_an_empty_shared_queue() {
    for seed in seeds(4) {
        for by in By::ALL {
            let kernel = boot_seeded(seed);
            kernel.hold_clock();
            let scene = Scene::with(Side::sharing, by, seed % 2 == 0);
            let (raw, side) = (scene.raw(), scene.side());
            raw.send_frames([&frames::send(1, b"hello")]);
            waits(&kernel, 60);
            assert_eq!((raw.has_come(), raw.ended()), (0, None), "it waits");
            side.receive(7, 0, 64);
            assert_eq!(side.completed(1), [(7, Ok(()))]);
            assert_eq!(side.pages.read(0, 5), b"hello");
            // After the peer has finished, the message does not wait without end.
            raw.send_frames([&frames::send(2, b"more")]);
            raw.finish();
            waits(&kernel, 6);
            side.wait_for_end();
        }
    }
}

/// The clock advances by `seconds` seconds.
fn waits(kernel: &Session, seconds: u32) {
    for _ in 0..seconds {
        pauses();
        kernel.advance(Duration::from_secs(1));
    }
    pauses();
}
