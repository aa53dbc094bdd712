//! Captures: what a device records of its connections.

use std::{cell::RefCell, net::SocketAddr, time::Duration};

use iwarp::{
    fpdu,
    segment::{MAX_HEADER, Segment, UNTAGGED},
};
use platform::Ending;
use simkernel::{Pages, Session, boot};
use soft_rdma::{
    CaptureError, CaptureOptions, Error, Flags, Post, QueuePair, RECORD_BYTES, Record, RecordKind, Remote,
};

use crate::common::{Side, connected, ignore, receive, send, statuses, wait_until};

const OWNER: u64 = 7;
const ALL: CaptureOptions = CaptureOptions { port: 0, snap: 16, bytes: 1 << 20 };

/// Takes what a side's device has recorded for the owner.
fn records(side: &Side) -> Vec<(Record, Vec<u8>)> {
    let capture = side.device.capture_of(OWNER).unwrap();
    let mut data = [0; RECORD_BYTES];
    let next = || capture.take(&mut data).map(|record| (record, data[..record.captured as usize].to_vec()));
    std::iter::from_fn(next).collect()
}

fn kinds(records: &[(Record, Vec<u8>)]) -> Vec<RecordKind> {
    records.iter().map(|(record, _)| record.kind).collect()
}

/// A small message arrives.
fn exchange(active: &Side, passive: &Side) {
    receive(passive, 1);
    send(active, 64);
    assert_eq!((statuses(active, 1), statuses(passive, 1)), (vec![Ok(())], vec![Ok(())]));
}

/// Plays `what` within the device and over a wire.
fn play(what: impl Fn(&Session, bool, &Side, &Side)) {
    for apart in [false, true] {
        println!("apart: {apart}");
        let kernel = boot();
        let pages = Pages::new(4);
        let (active, passive) = connected(&kernel, &pages, apart);
        // Over a wire the message that makes the connection comes before this one.
        exchange(&active, &passive);
        what(&kernel, apart, &active, &passive);
        for side in [active, passive] {
            let _may_wait = soft_rdma::close(side.connector, ignore());
            let _may_wait = soft_rdma::close(side.queue_pair, ignore());
        }
        kernel.flush_dpcs();
    }
}

// Shows S1721.
#[test]
fn each_message_is_recorded_with_the_first_bytes_of_its_data() {
    play(|_, apart, active, passive| {
        active.device.start_capture(OWNER, &ALL).unwrap();
        assert_eq!(active.device.start_capture(OWNER + 1, &ALL), Err(CaptureError::Busy));
        receive(passive, 3);
        [64, 0, 3000].iter().for_each(|length| send(active, *length));
        assert_eq!(statuses(active, 3), [Ok(()); 3]);
        let found = records(active);
        let addresses = |record: &Record| (Some(record.source), Some(record.destination));
        let (local, remote) = (active.connector.local_address(), active.connector.peer_address());
        assert!(found.iter().all(|(record, _)| addresses(record) == (local, remote)), "{found:?}");
        let found: Vec<_> =
            found.iter().map(|(record, data)| (record.kind, record.value as usize, &data[..])).collect();
        for ((kind, length, bytes), sent) in found.iter().zip([64, 0, 3000]) {
            let (ulpdu, kept) = if apart {
                assert_eq!((*kind, *length), (RecordKind::Stream, fpdu::size((UNTAGGED + sent) as u16)));
                (&bytes[fpdu::LENGTH..], (fpdu::LENGTH + MAX_HEADER + 16).min(*length))
            } else {
                assert_eq!((*kind, *length), (RecordKind::Segment, UNTAGGED + sent));
                (&bytes[..], UNTAGGED + 16.min(sent))
            };
            assert_eq!(bytes.len(), kept);
            let Ok((Segment::Send(to, _), _)) = Segment::parse(ulpdu) else { panic!("{bytes:?}") };
            assert_eq!((to.last, to.mo), (true, 0));
        }
        assert_eq!(found.len(), 3);

        // Another owner's end is none.
        active.device.end_capture(OWNER + 1);
        active.device.end_capture(OWNER);
        assert!(active.device.capture_of(OWNER).is_none());
        active.device.start_capture(OWNER, &ALL).unwrap();
        assert!(records(active).is_empty());
    });
}

// Shows S1722.
#[test]
fn other_ports_are_left_out_and_what_has_no_room_is_counted() {
    play(|_, _, active, passive| {
        let port = active.connector.peer_address().map_or(0, |address: SocketAddr| address.port());
        active.device.start_capture(OWNER, &CaptureOptions { port: port ^ 1, ..ALL }).unwrap();
        exchange(active, passive);
        assert!(records(active).is_empty());
        active.device.end_capture(OWNER);

        let small = CaptureOptions { port, bytes: 1024, ..ALL };
        active.device.start_capture(OWNER, &small).unwrap();
        for _ in 0..8 {
            exchange(active, passive);
        }
        let capture = active.device.capture_of(OWNER).unwrap();
        let dropped = capture.dropped();
        let taken = records(active).len() as u64;
        assert!(taken > 0 && dropped > 0 && taken + dropped == 8, "{taken} taken, {dropped} dropped");

        let nothing = CaptureOptions { bytes: 0, ..ALL };
        active.device.end_capture(OWNER);
        assert_eq!(active.device.start_capture(OWNER, &nothing), Err(CaptureError::OutOfMemory));
    });
}

// Shows S1722.
#[test]
fn what_fails_which_rules_fire_and_ends_are_recorded() {
    play(|kernel, apart, active, passive| {
        active.device.start_capture(OWNER, &ALL).unwrap();
        active.device.set_fault_rules("on send do delay 1us; on read do reset").unwrap();
        receive(passive, 1);
        send(active, 64);
        kernel.flush_dpcs();
        kernel.advance(Duration::from_millis(100));
        assert_eq!(statuses(active, 1), [Ok(())]);
        let found = records(active);
        let message = if apart { RecordKind::Stream } else { RecordKind::Segment };
        // Over a wire the clock has the RTR message sent again too.
        let found_kinds = kinds(&found);
        assert!(found_kinds[0] == RecordKind::Fault && found_kinds.contains(&message), "{found_kinds:?}");
        assert_eq!((found[0].0.value, &found[0].1[..21]), (1, &b"on send do delay 1us\0"[..]));

        let nowhere = Post::Write(Remote { address: 0, token: 0 });
        QueuePair::post(&active.queue_pair, 0, &[active.sge(0, 64)], Flags::empty(), nowhere).unwrap();
        let status = statuses(active, 1)[0];
        let found = RefCell::new(Vec::new());
        wait_until(|| {
            found.borrow_mut().extend(records(active));
            kinds(&found.borrow()).contains(&RecordKind::Ended)
        });
        let found = found.into_inner();
        let ended = found.iter().find(|(record, _)| record.kind == RecordKind::Ended);
        assert_eq!(ended.map(|(record, _)| record.value), Some(Ending::Error as u32));
        if apart {
            // The write, and the peer's Terminate.
            let received = found.iter().find(|(record, _)| record.source == found[0].0.destination);
            let (_, fpdu) = received.expect("an answer");
            assert!(matches!(Segment::parse(&fpdu[fpdu::LENGTH..]), Ok((Segment::Terminate(_), _))), "{fpdu:?}");
        } else {
            assert_eq!(status, Err(Error::AccessViolation));
            assert_eq!((found[0].0.kind, found[0].0.value), (RecordKind::Failed, Error::AccessViolation as u32));
        }
    });
}

// Shows S1710.
#[test]
fn a_message_without_a_receive_is_recorded_when_it_begins_to_wait() {
    play(|_, apart, active, passive| {
        passive.device.start_capture(OWNER, &ALL).unwrap();
        send(active, 64);
        let found = RefCell::new(Vec::new());
        let look = |kind| {
            found.borrow_mut().extend(records(passive));
            kinds(&found.borrow()).contains(&kind)
        };
        wait_until(|| look(RecordKind::NotReady));
        receive(passive, 1);
        let message = if apart { RecordKind::Stream } else { RecordKind::Segment };
        wait_until(|| look(message));
        assert_eq!(kinds(&found.borrow()), [RecordKind::NotReady, message]);
        let source = active.connector.local_address();
        assert!(found.borrow().iter().all(|(record, _)| Some(record.source) == source), "{found:?}");
    });
}

// Shows S1721.
#[test]
fn a_message_is_captured_up_to_any_length() {
    play(|_, apart, active, passive| {
        for snap in [0, 1, 1413, 1414, 1443, 1459, 1460, 3999, 1 << 18] {
            active.device.start_capture(OWNER, &CaptureOptions { snap, ..ALL }).unwrap();
            receive(passive, 1);
            send(active, 4000);
            assert_eq!((statuses(active, 1), statuses(passive, 1)), (vec![Ok(())], vec![Ok(())]));
            let found = records(active);
            active.device.end_capture(OWNER);
            let captured: usize = found.iter().map(|(_, data)| data.len()).sum();
            if apart {
                let most = fpdu::size((UNTAGGED + 4000) as u16);
                assert_eq!(captured, most.min(fpdu::LENGTH + MAX_HEADER + snap as usize), "{snap}");
            } else if snap >= 1414 {
                assert_eq!(captured - UNTAGGED * found.len(), 4000, "{snap}");
            } else {
                assert_eq!((found.len(), captured), (1, UNTAGGED + snap as usize), "{snap}");
            }
        }
    });
}

/// Over a wire a kernel consumer's message waits 5 s, then the receiver sends a Terminate.
// Shows S1710.
#[test]
fn a_message_that_has_waited_too_long_is_recorded_before_the_terminate() {
    play(|kernel, apart, active, passive| {
        if !apart {
            // There it waits without limit.
            return;
        }
        passive.device.start_capture(OWNER, &ALL).unwrap();
        send(active, 64);
        let found = RefCell::new(Vec::new());
        wait_until(|| {
            found.borrow_mut().extend(records(passive));
            kinds(&found.borrow()).contains(&RecordKind::NotReady)
        });
        wait_until(|| {
            kernel.advance(Duration::from_secs(1));
            kernel.flush_dpcs();
            found.borrow_mut().extend(records(passive));
            kinds(&found.borrow()).iter().filter(|kind| **kind == RecordKind::Stream).count() >= 2
        });
        let found = found.into_inner();
        let fpdus = found.iter().filter(|(record, _)| record.kind == RecordKind::Stream);
        let parse = |(record, fpdu): &(Record, Vec<u8>)| {
            (Some(record.source), Segment::parse(&fpdu[fpdu::LENGTH..]).expect("a segment").0)
        };
        let fpdus: Vec<_> = fpdus.map(parse).collect();
        let (near, far) = (active.connector.local_address(), passive.connector.local_address());
        let send = fpdus.iter().position(|(source, it)| *source == near && matches!(it, Segment::Send(..)));
        let terminate = fpdus.iter().position(|(source, it)| *source == far && matches!(it, Segment::Terminate(_)));
        assert!(send.is_some() && send < terminate, "{fpdus:?}");
    });
}
