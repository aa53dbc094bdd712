//! Connections between processes of this machine, whose bytes go through shared memory.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File, Permissions},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::PathBuf,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use hosted::{Hosted, Tcp};
use platform::{Arc, Read, RunStream, SocketError, Sockets as _, Stream, Taken};

use crate::{
    end::{ANY, End, Heard, LIMIT, Said, bytes, close, connected, hear, listen, turn},
    process::{file, input, line, mappings, other},
};

/// Two ends that have exchanged a byte, and the addresses of the one that has connected.
fn pair() -> ([Heard; 3], (SocketAddr, SocketAddr)) {
    let ends = connected(Vec::new(), Vec::new());
    let [_, (active, _), (passive, _)] = &ends;
    End::send(active, b"?");
    assert_eq!(passive.take(1), b"?");
    End::send(passive, b"!");
    assert_eq!(active.take(1), b"!");
    let addresses = active.stream.addresses().unwrap();
    (ends, addresses)
}

// Shows S1108.
#[test]
fn both_ends_have_the_memory_and_nobody_else_finds_it() {
    let _turn = turn();
    let (ends, (local, remote)) = pair();
    let [_, active, passive] = &ends;
    // A header and rings on each side.
    assert_eq!(mappings(local, remote), 4);
    assert!(!file(local, remote).exists());
    let all = bytes(5 << 20, 3);
    for (from, to) in [(active, passive), (passive, active)] {
        End::send(&from.0, &all);
        assert!(to.0.take(all.len()) == all);
    }
    for (from, to) in [(active, passive), (passive, active)] {
        End::send(&from.0, b"last");
        End::finish(&from.0);
        assert_eq!(hear(&to.1), Said::Ended(Ok(()), b"last".to_vec()));
    }
    close(ends);
    assert_eq!(mappings(local, remote), 0);
}

#[test]
fn what_nobody_reads_fills_the_memory_and_waits() {
    let _turn = turn();
    let (ends, _) = pair();
    let [_, (active, _), (passive, _)] = &ends;
    let all = bytes(3 << 20, 7);
    for end in [active, passive] {
        End::hold(end, true);
    }
    for end in [active, passive] {
        End::send(end, &all);
    }
    thread::sleep(Duration::from_millis(20));
    for (from, to) in [(active, passive), (passive, active)] {
        // A ring is 512 KiB.
        assert!(from.left() > 2 << 20, "{}", from.left());
        End::hold(to, false);
        assert!(to.take(all.len()) == all);
    }
    close(ends);
}

#[test]
fn the_close_of_one_end_is_a_reset_for_the_other() {
    let _turn = turn();
    for held in [false, true] {
        let (ends, _) = pair();
        let [listener, active, passive] = ends;
        if held {
            End::hold(&passive.0, true);
            End::send(&active.0, b"unread");
            while active.0.left() > 0 {
                thread::yield_now();
            }
        }
        End::close(&active.0);
        assert_eq!(hear(&active.1), Said::Closed);
        let Said::Ended(how, _) = hear(&passive.1) else { panic!("it did not end") };
        assert_eq!(how, Err(SocketError::Reset));
        for (end, hears) in [listener, passive] {
            End::close(&end);
            assert_eq!(hear(&hears), Said::Closed);
        }
    }
}

/// A file with the right name that is no offer: then the peer, which knows nothing of it, gets the bytes by TCP, and no others.
// Shows T96.
#[test]
fn what_is_no_offer_is_left_alone() {
    let _turn = turn();
    let make = |path: &PathBuf, size: u64, mode: u32| {
        let file = File::create_new(path).unwrap();
        file.set_len(size).unwrap();
        file.set_permissions(Permissions::from_mode(mode)).unwrap();
        file
    };
    let size = 4 << 10;
    for (size, mode, locked) in [(size, 0o600, true), (size, 0o600, false), (size, 0o666, true), (100, 0o600, true)] {
        let (listener, end) = (End::new(Vec::new()), End::new(Vec::new()));
        let at = listen(&listener);
        Stream::accept(&end.0, &listener.0).unwrap();
        let mut peer = TcpStream::connect(at).unwrap();
        assert_eq!(hear(&end.1), Said::Started(Ok(())));
        let path = file(peer.local_addr().unwrap(), peer.peer_addr().unwrap());
        let file = make(&path, size, mode);
        if locked {
            file.lock().unwrap();
        }
        End::send(&end.0, b"by TCP");
        let mut got = [0; 6];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"by TCP");
        peer.write_all(b"back").unwrap();
        assert_eq!(end.0.take(4), b"back");
        End::finish(&end.0);
        assert_eq!(peer.read(&mut got).unwrap(), 0);
        fs::remove_file(path).unwrap();
        close([listener, end]);
    }
}

/// Ends this process when the test's does, or closes its connection.
fn end_with(mut test: TcpStream) {
    thread::spawn(move || {
        let _ended = test.read(&mut [0]);
        std::process::exit(0);
    });
}

/// Sends for ever.
fn pour(end: &Arc<End, Hosted>) -> ! {
    let all = bytes(251 * 1000, 1);
    loop {
        if end.left() < all.len() {
            End::send(end, &all);
        }
        thread::yield_now();
    }
}

/// Connects to where the test says, exchanges a byte, and sends for ever.
#[test]
#[ignore = "it is run by another test"]
fn that_connects() {
    let mut test: TcpStream = input();
    let (end, hears) = End::new(Vec::new());
    Stream::connect(&end, ANY, line(&mut test).parse().unwrap()).unwrap();
    assert_eq!(hear(&hears), Said::Started(Ok(())));
    test.write_all(b"connected").unwrap();
    end_with(test);
    End::send(&end, b"?");
    assert_eq!(end.take(1), b"!");
    pour(&end);
}

/// Listens where it tells the test, and does the same.
#[test]
#[ignore = "it is run by another test"]
fn that_accepts() {
    let mut test: TcpStream = input();
    let (listener, (end, hears)) = (End::new(Vec::new()), End::new(Vec::new()));
    let at = listen(&listener);
    Stream::accept(&end, &listener.0).unwrap();
    writeln!(test, "{at}").unwrap();
    end_with(test);
    assert_eq!(hear(&hears), Said::Started(Ok(())));
    assert_eq!(end.take(1), b"?");
    End::send(&end, b"!");
    pour(&end);
}

/// Kills the other process, which pours; what this end has received are whole pieces of that, and its end is a reset.
fn kill(mut child: Child, after: Duration, end: &Heard) {
    thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    let Said::Ended(how, received) = hear(&end.1) else { panic!("it did not end") };
    assert_eq!(how, Err(SocketError::Reset));
    assert!(received == bytes(received.len(), 1));
}

// Shows S1108.
#[test]
fn a_peer_that_is_killed_in_the_midst_is_reset() {
    let _turn = turn();
    for kills in 0..10 {
        let after = Duration::from_micros(kills * 2700);
        let (child, mut test) = other("shared_memory::that_accepts");
        let end = End::new(Vec::new());
        Stream::connect(&end.0, ANY, line(&mut test).parse().unwrap()).unwrap();
        assert_eq!(hear(&end.1), Said::Started(Ok(())));
        End::send(&end.0, b"?");
        assert_eq!(end.0.take(1), b"!");
        let (local, remote) = end.0.stream.addresses().unwrap();
        assert_eq!(mappings(local, remote), 2);
        kill(child, after, &end);
        close([end]);
        assert_eq!(mappings(local, remote), 0);

        let (listener, end) = (End::new(Vec::new()), End::new(Vec::new()));
        let at = listen(&listener);
        Stream::accept(&end.0, &listener.0).unwrap();
        let (child, mut test) = other("shared_memory::that_connects");
        writeln!(test, "{at}").unwrap();
        assert_eq!(hear(&end.1), Said::Started(Ok(())));
        assert_eq!(end.0.take(1), b"?");
        End::send(&end.0, b"!");
        let (local, remote) = end.0.stream.addresses().unwrap();
        while end.0.left() > 0 {
            thread::yield_now();
        }
        assert_eq!(mappings(remote, local), 2);
        kill(child, after, &end);
        close([listener, end]);
        assert_eq!(mappings(remote, local), 0);
        assert!(!file(remote, local).exists());
    }
}

/// The next process of the user deletes the offer of one that was killed before its peer answered.
// Shows T96.
#[test]
fn what_a_killed_process_has_offered_is_deleted() {
    let _turn = turn();
    let connect = || {
        let peer = TcpListener::bind(ANY).unwrap();
        let (child, mut test) = other("shared_memory::that_connects");
        writeln!(test, "{}", peer.local_addr().unwrap()).unwrap();
        test.read_exact(&mut [0; 9]).unwrap();
        let (connection, from) = peer.accept().unwrap();
        (child, (connection, test), file(from, peer.local_addr().unwrap()))
    };
    let (mut first, _connection, left) = connect();
    assert!(left.exists());
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(left.exists());
    let (mut second, _connection, offered) = connect();
    assert!(!left.exists());
    assert!(offered.exists());
    second.kill().unwrap();
    second.wait().unwrap();
    fs::remove_file(offered).unwrap();
}

/// A peer that knows nothing of shared memory: the offer is gone as soon as the peer has sent a byte by TCP.
#[test]
fn an_offer_ends_when_the_peer_speaks() {
    let _turn = turn();
    let (peer, end) = (TcpListener::bind(ANY).unwrap(), End::new(Vec::new()));
    Stream::connect(&end.0, ANY, peer.local_addr().unwrap()).unwrap();
    assert_eq!(hear(&end.1), Said::Started(Ok(())));
    let (mut peer, _) = peer.accept().unwrap();
    let (local, remote) = end.0.stream.addresses().unwrap();
    assert!(file(local, remote).exists());
    peer.write_all(b"bytes").unwrap();
    assert_eq!(end.0.take(5), b"bytes");
    assert!(!file(local, remote).exists());
    End::send(&end.0, b"back");
    let mut got = [0; 4];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"back");
    assert_eq!(mappings(local, remote), 0);
    close([end]);
}

/// A thread polls while one connection's ring has bytes that nobody reads, then sends by TCP: that must not await the thread's next poll.
#[test]
fn a_ring_that_nobody_reads_delays_no_other_connection() {
    let _turn = turn();
    let (shared, (local, _)) = pair();
    hosted::share_memory(false);
    let tcp = connected(Vec::new(), Vec::new());
    hosted::share_memory(true);
    assert_ne!(local, tcp[1].0.stream.addresses().unwrap().0);
    let poll = |time| {
        let until = Instant::now() + time;
        while Instant::now() < until {
            Tcp::poll_hint();
        }
    };
    // From now on this thread serves the sockets.
    poll(Duration::from_millis(200));
    End::deafen(&shared[2].0, true);
    for _ in 0..2 {
        End::send(&shared[1].0, b"unread");
        poll(Duration::from_millis(20));
    }
    let all = bytes(20, 3);
    for byte in &all {
        End::send(&tcp[1].0, &[*byte]);
    }
    Tcp::must_watch();
    assert_eq!(tcp[2].0.take(all.len()), all);
    close(shared);
    close(tcp);
}

/// A thread that polls looks at the rings, and gets no bells: it sees the peer's finish there.
#[test]
fn a_finish_is_seen_by_polling() {
    let _turn = turn();
    let (ends, _) = pair();
    let [_, (active, _), (passive, said)] = &ends;
    let poll_until = |is_over: &dyn Fn() -> bool| {
        let until = Instant::now() + Duration::from_secs(10);
        while !is_over() && Instant::now() < until {
            Tcp::poll_hint();
        }
        assert!(is_over(), "nothing tells it");
    };
    for _ in 0..20 {
        End::send(active, b"message");
        poll_until(&|| passive.received() == 7);
        passive.take(7);
        let received = Instant::now();
        poll_until(&|| received.elapsed() > Duration::from_millis(5));
    }
    End::finish(active);
    let heard = std::cell::OnceCell::new();
    poll_until(&|| said.try_recv().is_ok_and(|said| heard.set(said).is_ok()) || heard.get().is_some());
    assert_eq!(heard.get(), Some(&Said::Ended(Ok(()), Vec::new())));
    close(ends);
}

/// Its reads and writes are calls of this test.
struct Duplex(Stream<Hosted>);

impl RunStream<Hosted> for Duplex {
    fn stream(&self) -> &Stream<Hosted> {
        &self.0
    }

    fn on_ready(_: &Arc<Self, Hosted>) {}
}

/// Writes all the bytes, in small pieces, `late` as it may be.
fn write(end: &Arc<Duplex, Hosted>, all: &[u8], late: usize) {
    (0..late).for_each(|_| std::hint::spin_loop());
    let mut sent = 0;
    let until = Instant::now() + LIMIT;
    while sent < all.len() {
        let written = Stream::write(end, |room| {
            let piece = &all[sent..all.len().min(sent + room.len().min(97))];
            room[..piece.len()].copy_from_slice(piece);
            piece.len()
        });
        sent += written;
        if written == 0 {
            assert!(Instant::now() < until, "stuck at {sent}");
            thread::yield_now();
        }
    }
}

/// Reads what `write` writes.
fn read(end: &Arc<Duplex, Hosted>, all: &[u8]) {
    let mut got = 0;
    let until = Instant::now() + LIMIT;
    while got < all.len() {
        let read = Stream::read(end, |shown| {
            assert!(shown == &all[got..got + shown.len()], "other bytes from {got} on");
            got += shown.len();
            Taken { used: shown.len(), wanted: 0 }
        });
        assert!(!matches!(read, Read::Ended(_)), "it has ended at {got}");
        assert!(Instant::now() < until, "stuck at {got}");
    }
}

/// On each side one thread reads and one writes while the bytes go over from TCP to memory.
#[test]
fn no_byte_overtakes_another_at_the_change_to_memory() {
    let _turn = turn();
    let all = bytes(40_000, 1);
    for round in 0..400 {
        let listener = End::new(Vec::new());
        let at = listen(&listener);
        let [active, passive] = [(); 2].map(|()| Arc::try_new(Duplex(Stream::new().unwrap())).unwrap());
        Stream::accept(&passive, &listener.0).unwrap();
        Stream::connect(&active, ANY, at).unwrap();
        while active.0.started().is_none() || passive.0.started().is_none() {
            thread::yield_now();
        }
        thread::scope(|scope| {
            for (end, late) in [(&active, 0), (&passive, round * 20)] {
                let all = &all;
                scope.spawn(move || write(end, all, late));
                scope.spawn(move || read(end, all));
            }
        });
        for end in [active, passive] {
            Stream::close(&end);
            while !end.0.is_closed() {
                thread::yield_now();
            }
        }
        close([listener]);
    }
}

/// A peer that has finished, and reads no more, goes: what this side still sends has failed.
#[test]
fn the_reset_of_a_peer_that_has_finished_is_noticed() {
    let _turn = turn();
    for is_full in [false, true] {
        let ([listener, active, passive], _) = pair();
        End::hold(&active.0, true);
        End::finish(&active.0);
        assert_eq!(hear(&passive.1), Said::Ended(Ok(()), Vec::new()));
        if is_full {
            End::send(&passive.0, &bytes(3 << 20, 3));
            thread::sleep(Duration::from_millis(20));
        }
        End::close(&active.0);
        while hear(&active.1) != Said::Closed {}
        let until = Instant::now() + LIMIT;
        while !passive.0.stream.is_finished() {
            End::send(&passive.0, b"more");
            assert!(Instant::now() < until, "nobody tells it");
            thread::sleep(Duration::from_millis(5));
        }
        close([listener, passive]);
    }
}

/// Has this process's memory of the connection say that the accepting side has written, or read, up to an impossible position.
fn break_words(addresses: (SocketAddr, SocketAddr), offset: u64) {
    let name = file(addresses.0, addresses.1);
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    // The header begins the file.
    let is_header =
        |line: &&str| line.contains(name.to_str().unwrap()) && line.split_whitespace().nth(2) == Some("00000000");
    let start = maps.lines().find(is_header).unwrap().split('-').next().unwrap();
    let at = u64::from_str_radix(start, 16).unwrap() + offset;
    let memory = File::options().write(true).open("/proc/self/mem").unwrap();
    memory.write_all_at(&(u64::MAX - 5).to_le_bytes(), at).unwrap();
}

// Shows T97.
#[test]
fn impossible_positions_reset_both_ends() {
    let _turn = turn();
    // Of the accepting side: `sent`, and `received`.
    for offset in [512, 640] {
        let (ends, addresses) = pair();
        let [_, active, passive] = &ends;
        // A position that is written again is a right one.
        for end in [active, passive] {
            End::deafen(&end.0, true);
        }
        End::send(&passive.0, b"unread");
        while passive.0.left() > 0 {
            thread::yield_now();
        }
        break_words(addresses, offset);
        if offset == 640 {
            End::send(&active.0, &bytes(2 << 20, 3));
        }
        for end in [active, passive] {
            End::deafen(&end.0, false);
            let Said::Ended(how, _) = hear(&end.1) else { panic!("it did not end") };
            assert_eq!(how, Err(SocketError::Reset));
        }
        close(ends);
    }
}

/// A killed peer had offered memory, which this side uses, and still sent by TCP. If a bell gets the connection's error, the receive must not take
/// the end for the peer's finish.
#[test]
fn a_reset_that_a_bell_has_met_is_a_reset() {
    let _turn = turn();
    let (listener, end) = (End::new(Vec::new()), End::new(Vec::new()));
    let at = listen(&listener);
    Stream::accept(&end.0, &listener.0).unwrap();
    let mut peer = TcpStream::connect(at).unwrap();
    assert_eq!(hear(&end.1), Said::Started(Ok(())));
    // The peer's offer: the magic number; the connecting side's `by_tcp`, not known yet, and its `wants`.
    let offer = File::create_new(file(peer.local_addr().unwrap(), at)).unwrap();
    offer.set_permissions(Permissions::from_mode(0o600)).unwrap();
    offer.lock().unwrap();
    offer.set_len(4 << 10).unwrap();
    let ring_me = || offer.write_all_at(&[1], 384).unwrap();
    offer.write_all_at(b"SoftNDK1", 0).unwrap();
    offer.write_all_at(&u64::MAX.to_le_bytes(), 128 + 8).unwrap();
    ring_me();
    End::send(&end.0, b"accepts");
    peer.read_exact(&mut [0]).unwrap();
    assert_eq!(offer.metadata().unwrap().len(), (4 << 10) + (1 << 20));
    End::deafen(&end.0, true);
    peer.write_all(b"by TCP").unwrap();
    thread::sleep(Duration::from_millis(20));
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    thread::sleep(Duration::from_millis(20));
    ring_me();
    End::send(&end.0, b"rings");
    End::finish(&end.0);
    while !end.0.stream.is_finished() {
        thread::yield_now();
    }
    End::deafen(&end.0, false);
    assert_eq!(hear(&end.1), Said::Ended(Err(SocketError::Reset), b"by TCP".to_vec()));
    close([listener, end]);
}
