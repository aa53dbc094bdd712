//! Streams over the network of the simulated kernel: bytes arrive as they were sent however they are cut, requests end in every
//! state, and nothing is left.

mod ends;
mod faults;
mod many;
mod random;

use std::{
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use platform::{Arc, LARGEST_TRANSFER, Read, SENDS, SocketError, Stream, Taken};
use simkernel::{Session, SimKernel, boot, boot_seeded, pause, seeds, watchdog};

use ends::{Door, End, Pair, address, bytes, close, pair, wait};

const LIMIT: Duration = Duration::from_secs(120);
const MIB: usize = 1 << 20;

/// Runs a test in a session with the machine's schedule, and in seeded ones.
fn in_sessions(count: u64, test: impl Fn(&Session)) {
    let session = boot();
    watchdog(LIMIT, || test(&session));
    drop(session);
    for seed in seeds(count) {
        let session = boot_seeded(seed);
        watchdog(LIMIT, || test(&session));
    }
}

/// Waits until both have got what the other was to send.
fn exchange((_, a, b): &Pair) {
    let got = |to: &End, from: &End| {
        let expected = from.work().data.len();
        to.work().received.len() >= expected
    };
    wait("all bytes", || got(a, b) && got(b, a));
    assert!(a.work().received == b.work().data, "what b has sent");
    assert!(b.work().received == a.work().data, "what a has sent");
}

#[test]
fn a_connection_has_the_addresses_of_both_ends() {
    in_sessions(20, |_| {
        let pair = pair();
        let (door, a, b) = &pair;
        assert_eq!((a.stream.started(), b.stream.started()), (Some(Ok(())), Some(Ok(()))));
        let (local, remote) = a.stream.addresses().unwrap();
        assert_eq!((local.ip(), remote), (address(1, 0).ip(), address(2, 5445)));
        assert!(local.port() != 0, "a port was chosen");
        assert_eq!(b.stream.addresses(), Some((remote, local)));
        assert_eq!(door.stream.addresses(), Some((remote, remote)));
        Stream::connect(a, address(1, 0), address(2, 1)).unwrap();
        Stream::listen(a, address(1, 7));
        assert_eq!(a.stream.addresses(), Some((local, remote)), "started once");
        End::close(a);
        assert_eq!(a.stream.addresses(), None);
        close(pair);
    });
}

#[test]
fn a_start_says_why_it_failed() {
    in_sessions(20, |_| {
        let door = Door::listen(address(2, 80)).unwrap();
        let outcome = |local, remote| {
            let end = End::connect(local, remote).unwrap();
            wait("the outcome", || end.stream.started().is_some());
            let outcome = end.stream.started().unwrap();
            End::close(&end);
            outcome
        };
        let elsewhere = "224.0.0.1:80".parse().unwrap();
        let v6 = "[2001:db8::1]:0".parse().unwrap();
        assert_eq!(outcome(address(1, 0), address(2, 81)), Err(SocketError::Refused));
        assert_eq!(outcome(address(1, 0), elsewhere), Err(SocketError::Unreachable));
        assert_eq!(outcome(elsewhere, address(2, 80)), Err(SocketError::Unreachable));
        assert_eq!(outcome(v6, address(2, 80)), Err(SocketError::Unreachable));
        assert_eq!(outcome(address(2, 80), address(2, 80)), Err(SocketError::AddressInUse));
        assert_eq!(outcome("0.0.0.0:0".parse().unwrap(), address(2, 80)), Ok(()));
        let second = Door::listen(address(2, 80)).unwrap();
        assert_eq!(second.stream.started(), Some(Err(SocketError::AddressInUse)));
        // Of two accepts the second fails.
        let end = End::new().unwrap();
        Stream::accept(&end, &second).unwrap();
        assert_eq!(end.stream.started(), Some(Err(SocketError::Canceled)));
        End::close(&end);
        Door::close_all(&second);
        Door::close_all(&door);
        let again = Door::listen(address(2, 80)).unwrap();
        assert_eq!(again.stream.started(), Some(Ok(())), "the address is free again");
        Door::close_all(&again);
    });
}

/// Each end sends 1 MiB, both at once; the network cuts the bytes anywhere.
#[test]
fn bytes_arrive_as_they_were_sent() {
    in_sessions(6, |_| {
        let pair = pair();
        End::tell(&pair.1, |work| work.data = bytes(MIB, 1));
        End::tell(&pair.2, |work| work.data = bytes(MIB, 2));
        exchange(&pair);
        close(pair);
    });
}

/// Frames that have to be shown whole, larger than what the buffer is at first.
#[test]
fn what_is_wanted_together_is_shown_together() {
    in_sessions(6, |_| {
        for frame in [3, 8191, 8192, 8193, 50_000, LARGEST_TRANSFER] {
            let pair = pair();
            pair.2.work().frame = frame;
            End::tell(&pair.1, |work| work.data = bytes((200_000 / frame).max(2) * frame, 3));
            exchange(&pair);
            close(pair);
        }
    });
}

#[test]
fn more_than_the_largest_buffer_cannot_be_wanted() {
    in_sessions(10, |_| {
        let pair = pair();
        pair.2.work().frame = LARGEST_TRANSFER + 1;
        End::tell(&pair.1, |work| work.data = bytes(10, 4));
        wait("the end", || pair.2.work().ended.is_some());
        assert_eq!(pair.2.work().ended, Some(Err(SocketError::Failed)));
        close(pair);
    });
}

/// The room of a writer grows when it fills all of it, even if the stream sends the bytes at once; if it fills a third, the room stays.
#[test]
fn room_grows_with_what_is_written() {
    in_sessions(6, |kernel| {
        let pair = pair();
        let (_, a, b) = &pair;
        let mut written = 0;
        let mut write = |share| {
            let mut room = 0;
            written += Stream::write(a, |bytes| {
                room = bytes.len();
                bytes.fill(0);
                room / share
            });
            wait("what was written", || b.work().received.len() == written);
            kernel.flush_dpcs();
            room
        };
        let first = write(3);
        assert!((0..10).all(|_| write(3) == first), "a third does not make it grow");
        let rooms: Vec<_> = (0..20).map(|_| write(1)).collect();
        assert!(rooms.is_sorted(), "{rooms:?}");
        assert_eq!(rooms.last(), Some(&LARGEST_TRANSFER), "{rooms:?}");
        close(pair);
    });
}

/// A peer that uses no bytes stops the sender, with bounded memory; once it reads, the transfer continues, and no byte is lost.
#[test]
fn a_peer_that_does_not_read_holds_the_sender_back() {
    in_sessions(10, |kernel| {
        kernel.limit_in_flight(10_000);
        let pair = pair();
        let (_, a, b) = &pair;
        b.work().holds = true;
        End::tell(a, |work| work.data = bytes(MIB, 5));
        kernel.flush_dpcs();
        let written = a.work().written;
        assert_eq!(kernel.sends_under_way(), SENDS, "not one after the other");
        let most = 10_000 + (SENDS + 2) * LARGEST_TRANSFER;
        assert!((1..=most).contains(&written), "{written} bytes were written");
        assert!(kernel.ledger().pool_bytes() < 8 * LARGEST_TRANSFER);
        kernel.flush_dpcs();
        assert_eq!(a.work().written, written, "it waits");
        // The other way is free.
        End::tell(b, |work| work.data = bytes(100_000, 6));
        wait("the other way", || a.work().received.len() == 100_000);
        End::tell(b, |work| work.holds = false);
        exchange(&pair);
        close(pair);
    });
}

/// One end finishes: the other direction still works, and both ends see an end, no reset.
#[test]
fn finish_ends_one_direction_after_its_bytes() {
    in_sessions(20, |_| {
        let pair = pair();
        let (_, a, b) = &pair;
        End::tell(a, |work| (work.data, work.finishes) = (bytes(50_000, 7), true));
        wait("the end of what a sends", || b.work().ended.is_some());
        assert_eq!((b.work().ended, a.work().ended), (Some(Ok(())), None));
        assert!(b.work().received == a.work().data);
        assert!(a.stream.is_finished() || a.stream.started().is_some());
        assert_eq!(Stream::write(a, |room| room.len()), 0, "nothing more is sent");
        End::tell(b, |work| (work.data, work.finishes) = (bytes(200_000, 8), true));
        wait("the end of what b sends", || a.work().ended.is_some());
        assert_eq!(a.work().ended, Some(Ok(())));
        assert!(a.work().received == b.work().data);
        wait("the last of both", || a.stream.is_finished() && b.stream.is_finished());
        End::close(a);
        assert_eq!(b.work().ended, Some(Ok(())), "no reset");
        close(pair);
    });
}

/// The closing end has received and sent all: the bytes that are under way still reach the other end.
#[test]
fn a_close_after_both_have_finished_loses_nothing() {
    in_sessions(20, |_| {
        let pair = pair();
        let (_, a, b) = &pair;
        End::tell(b, |work| work.finishes = true);
        End::tell(a, |work| (work.data, work.finishes) = (bytes(30_000, 9), true));
        wait("both", || a.work().ended.is_some() && a.stream.is_finished());
        End::close(a);
        wait("all", || b.work().ended.is_some());
        assert_eq!(b.work().ended, Some(Ok(())));
        assert!(b.work().received == a.work().data);
        close(pair);
    });
}

#[test]
fn a_reset_ends_both() {
    in_sessions(20, |kernel| {
        let pair = pair();
        let (_, a, b) = &pair;
        for end in [a, b] {
            End::tell(end, |work| work.data = bytes(MIB, 10));
        }
        wait("some bytes", || !a.work().received.is_empty());
        kernel.break_connections();
        wait("both ends", || a.work().ended.is_some() && b.work().ended.is_some());
        assert_eq!((a.work().ended, b.work().ended), (Some(Err(SocketError::Reset)), Some(Err(SocketError::Reset))));
        assert_eq!(Stream::write(a, |_| 1), 0);
        close(pair);
    });
}

#[test]
fn a_close_in_the_middle_resets_the_peer() {
    in_sessions(20, |_| {
        let pair = pair();
        let (_, a, b) = &pair;
        End::tell(a, |work| work.data = bytes(MIB, 11));
        wait("some bytes", || !b.work().received.is_empty());
        End::close(a);
        wait("the other end", || b.work().ended.is_some());
        assert_eq!(b.work().ended, Some(Err(SocketError::Reset)));
        assert!(a.work().data.starts_with(&b.work().received), "what has come is what was sent first");
        close(pair);
    });
}

/// Before a start, while connecting without an answer, listening or accepting, after a failure, and with bytes that the peer does not read:
/// each request ends once.
#[test]
fn a_close_ends_every_state() {
    in_sessions(20, |kernel| {
        let idle = End::new().unwrap();
        assert_eq!(Stream::write(&idle, |room| room.len()), 0, "not started");
        End::close(&idle);
        Stream::connect(&idle, address(1, 0), address(2, 5445)).unwrap();
        assert_eq!(idle.stream.started(), Some(Err(SocketError::Canceled)));

        let busy = pair();
        let (door, a, b) = &busy;
        kernel.hold_network();
        let connecting = End::connect(address(1, 0), address(2, 5445)).unwrap();
        for end in [a, b] {
            End::tell(end, |work| (work.data, work.finishes) = (bytes(MIB, 12), true));
        }
        kernel.flush_dpcs();
        assert_eq!(connecting.stream.started(), None);
        End::close(&connecting);
        End::close(&connecting);
        assert_eq!(connecting.stream.started(), Some(Err(SocketError::Canceled)));

        let accepting = End::new().unwrap();
        let second = Door::listen(address(2, 1)).unwrap();
        assert_eq!(Stream::write(&second, |room| room.len()), 0, "a listener");
        kernel.flush_dpcs();
        Stream::accept(&accepting, &second).unwrap();
        assert_eq!(accepting.stream.started(), Some(Err(SocketError::Canceled)), "one accept at a time");
        End::close(&accepting);
        Door::close(&second);
        assert!(second.state().gave_up, "its accept was cancelled");
        Door::close(door);
        close(busy);
        kernel.release_network();
    });
}

/// One processor calls the routine of the close, another the routine of a send that has succeeded. No writer waits for the send, and no
/// receive is under way, as the receive buffer is full. The later of the two routines calls `on_ready`.
#[test]
fn the_last_routine_says_that_the_close_is_over() {
    for seed in seeds(100) {
        let kernel = boot_seeded(seed);
        let pair = pair();
        let (_, a, b) = &pair;
        a.work().holds = true;
        End::tell(b, |work| work.data = bytes(20_000, 12));
        kernel.flush_dpcs();
        assert_eq!(Stream::write(a, |_| 1), 1);
        a.work().closes = true;
        Stream::close(a);
        wait("the end of the close", || a.work().closed);
        close(pair);
    }
}

/// An accepting end closes while its listener stays, which can then accept another connection.
#[test]
fn an_accept_can_be_closed() {
    in_sessions(20, |_| {
        let door = Door::listen(address(2, 1)).unwrap();
        wait("its accept", || door.is_accepting());
        door.close_next();
        wait("the end of its accept", || door.state().gave_up);
        let accepting = End::new().unwrap();
        Stream::accept(&accepting, &door).unwrap();
        let a = End::connect(address(1, 0), address(2, 1)).unwrap();
        wait("the connection", || accepting.stream.started().is_some());
        assert_eq!(accepting.stream.started(), Some(Ok(())));
        End::close(&accepting);
        End::close(&a);
        Door::close_all(&door);
    });
}

/// Two threads close the connecting end, and a third the listener, at any time.
#[test]
fn closes_race_with_everything() {
    for seed in seeds(300) {
        let _kernel = boot_seeded(seed);
        let door = Door::listen(address(2, 1)).unwrap();
        let a = End::connect(address(1, 0), address(2, 1)).unwrap();
        simkernel::scope(|scope| {
            let (end, listener) = (a.clone(), door.clone());
            scope.spawn(move || {
                End::tell(&end, |work| (work.data, work.finishes) = (bytes(20_000, seed), seed % 3 == 0));
                (0..seed % 7).for_each(|_| simkernel::pause());
                Stream::close(&end);
                wait("the close", || end.stream.is_closed());
            });
            scope.spawn(move || {
                (0..seed % 11).for_each(|_| simkernel::pause());
                Stream::close(&listener);
            });
            (0..seed % 5).for_each(|_| simkernel::pause());
            Stream::close(&a);
        });
        End::close(&a);
        Door::close_all(&door);
    }
}

/// Bytes arrive and the connection fails while a reader wants more bytes: the stream shows it the bytes before the end.
#[test]
fn what_has_come_is_shown_before_the_end() {
    for _ in 0..20 {
        let kernel = boot();
        let pair = pair();
        let (_, a, b) = &pair;
        b.work().holds = true;
        End::tell(a, |work| work.data = bytes(4, 15));
        kernel.flush_dpcs();
        let read = Stream::read(b, |shown| {
            assert_eq!(shown.len(), 4);
            End::tell(a, |work| work.data.extend([1; 4]));
            kernel.flush_dpcs();
            let fault = kernel.fail_request(1);
            assert_eq!(Stream::write(b, |_| 1), 1);
            kernel.flush_dpcs();
            assert!(fault.happened());
            Taken { used: 0, wanted: 8 }
        });
        assert_eq!(read, Read::Nothing);
        let read = Stream::read(b, |shown| {
            assert!(shown.len() > 4);
            Taken { used: shown.len(), wanted: 0 }
        });
        assert_eq!(read, Read::Some);
        assert_eq!(Stream::read(b, |_| unreachable!()), Read::Ended(Err(SocketError::Failed)));
        close(pair);
    }
}

/// One reads, one writes at a time; a read may write.
#[test]
fn reads_and_writes_do_not_overlap() {
    let _kernel = boot();
    let pair = pair();
    let (_, a, b) = &pair;
    b.work().holds = true;
    End::tell(a, |work| work.data = bytes(10, 14));
    let mut nested = None;
    let all = Taken { used: usize::MAX, wanted: 0 };
    while nested.is_none() {
        Stream::read(b, |bytes| {
            let read = Stream::read(b, |_| all);
            let written = Stream::write(b, |room| {
                assert_eq!(Stream::write(b, |_| 1), 0, "in a write");
                room[..2].copy_from_slice(b"ab");
                2
            });
            nested = Some((read, written, bytes.len()));
            all
        });
        pause();
    }
    let (read, written, length) = nested.unwrap();
    assert_eq!((read, written), (Read::Nothing, 2));
    assert!((1..=10).contains(&length), "all of what had come");
    wait("what was written", || a.work().received == b"ab");
    close(pair);
}

/// Two readers at once: the stream tells neither of them the end before it has shown the bytes that precede it.
#[test]
fn the_end_is_told_to_who_has_seen_all() {
    let mut told = 0;
    for seed in seeds(200) {
        let kernel = boot_seeded(seed);
        let pair = pair();
        let (_, a, b) = &pair;
        b.work().holds = true;
        End::tell(a, |work| (work.data, work.finishes) = (bytes(10, 16), true));
        simkernel::scope(|scope| {
            let reads = |end: Arc<End, SimKernel>| {
                let mut told = 0;
                for _ in 0..40 {
                    let mut shown = 0;
                    let read = Stream::read(&end, |bytes| {
                        shown = bytes.len();
                        Taken { used: 0, wanted: 0 }
                    });
                    assert!(!matches!(read, Read::Ended(_)) || shown == 10, "{read:?} with {shown} bytes");
                    told += u32::from(shown == 10);
                    pause();
                }
                told
            };
            let threads = [b.clone(), b.clone()].map(|end| scope.spawn(move || reads(end)));
            threads.into_iter().for_each(|thread| told += thread.join().unwrap());
        });
        kernel.flush_dpcs();
        close(pair);
    }
    assert!(told > 0);
}

/// A read that leaves bytes is to be repeated, one that uses all is not, and one of a closed stream says so.
#[test]
fn a_read_says_whether_more_may_follow() {
    let kernel = boot();
    let pair = pair();
    let (_, a, b) = &pair;
    b.work().holds = true;
    End::tell(a, |work| work.data = bytes(10, 17));
    kernel.flush_dpcs();
    let read = |used| Stream::read(b, |_| Taken { used, wanted: 0 });
    assert_eq!([read(4), read(6), read(1)], [Read::Some, Read::Nothing, Read::Nothing]);
    End::close(b);
    assert_eq!(read(1), Read::Ended(Err(SocketError::Canceled)));
    close(pair);
}

/// The error that a stream has ended with stays, though its peer finishes later.
#[test]
fn an_end_does_not_change() {
    let kernel = boot();
    let pair = pair();
    let (_, a, b) = &pair;
    kernel.flush_dpcs();
    let fault = kernel.fail_request(1);
    assert_eq!(Stream::write(a, |_| 1), 1);
    kernel.flush_dpcs();
    assert!(fault.happened());
    drop(fault);
    End::tell(b, |work| work.finishes = true);
    kernel.flush_dpcs();
    assert_eq!(Stream::read(a, |_| unreachable!()), Read::Ended(Err(SocketError::Failed)));
    close(pair);
}

/// Two threads write: their bytes arrive in the order of the writes.
#[test]
fn bytes_of_two_writers_keep_their_order() {
    for seed in seeds(100) {
        let kernel = boot_seeded(seed);
        let pair = pair();
        let (_, a, b) = &pair;
        let count = AtomicU8::new(0);
        simkernel::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        Stream::write(a, |room| {
                            room[0] = count.fetch_add(1, Ordering::Relaxed);
                            1
                        });
                        pause();
                    }
                });
            }
        });
        kernel.flush_dpcs();
        let written: Vec<u8> = (0..count.into_inner()).collect();
        wait("all bytes", || b.work().received.len() == written.len());
        assert_eq!(b.work().received, written);
        close(pair);
    }
}

#[test]
fn a_stream_says_what_it_takes_of_the_pool() {
    let kernel = boot();
    let before = kernel.ledger().pool_bytes();
    let stream = Stream::<SimKernel>::new().unwrap();
    let taken = kernel.ledger().pool_bytes() - before;
    assert!(taken > 1 && Stream::<SimKernel>::pool_bytes() >= taken as u64, "{taken} bytes");
    drop(stream);
}
