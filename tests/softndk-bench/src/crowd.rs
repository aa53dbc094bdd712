//! How long a good client waits for a listener's answer at most, among peers that reset, say nothing, or say little now and then.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use socket2::SockRef;

use crate::ndk::{Adapter, Listener};

/// A good client comes after so many of the others.
const BETWEEN: usize = 50;
/// The others are connected by then, and those that reset have gone.
const SETTLED: Duration = Duration::from_millis(10);
/// What takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a good client may wait for its answer.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// A Request of MPA (RFC 5044 section 7.1): key, no flags, revision 1, no private data.
const REQUEST: &[u8; 20] = b"MPA ID Req Frame\0\x01\0\0";
const REPLY: &[u8; 16] = b"MPA ID Rep Frame";

/// What the others do, and how long a good client has waited at most.
pub type Wait = (&'static str, Duration);

/// Lets so many `peers` of each kind come, one kind after the other, to a device of this process, whose consumer refuses who asks.
///
/// # Errors
/// A client was not answered, or this process is short of sockets.
pub fn waits(peers: usize) -> Result<Vec<Wait>> {
    let adapter = Adapter::default();
    let listener = adapter.listener();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| refuse(&listener, &over));
        let waits = among(listener.address(), peers);
        over.store(true, Ordering::Release);
        waits
    })
}

/// The consumer.
fn refuse(listener: &Listener, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        if !listener.refuse() {
            thread::yield_now();
        }
    }
}

/// Whether no good client has waited too long.
///
/// # Errors
/// One has.
pub fn check(waits: &[Wait]) -> Result<()> {
    for (kind, wait) in waits {
        ensure!(*wait < LONGEST_WAIT, "a good client has waited for {wait:?} among peers that {kind}");
    }
    Ok(())
}

/// The same with a listener elsewhere, which answers each Request of MPA.
///
/// # Errors
/// As [`waits`].
pub fn among(listener: SocketAddr, peers: usize) -> Result<Vec<Wait>> {
    let reset = |_: &mut Vec<TcpStream>| {
        let peer = TcpStream::connect(listener)?;
        Ok(SockRef::from(&peer).set_linger(Some(Duration::ZERO))?)
    };
    let say_nothing = |all: &mut Vec<TcpStream>| {
        all.push(TcpStream::connect(listener)?);
        Ok(())
    };
    let say_little = |all: &mut Vec<TcpStream>| {
        let mut peer = TcpStream::connect(listener)?;
        peer.write_all(&REQUEST[..1])?;
        all.push(peer);
        // One of those before goes on; it may have been reset meanwhile.
        let before = all.len() / 2;
        let _may_be_reset = all[before].write(&REQUEST[1..2]);
        Ok(())
    };
    Ok(vec![
        ("reset", longest(listener, peers, reset)?),
        ("say nothing", longest(listener, peers, say_nothing)?),
        ("say little", longest(listener, peers, say_little)?),
    ])
}

/// The longest wait among peers that come by `come`, and stay until the last of them has come.
fn longest(listener: SocketAddr, peers: usize, come: impl Fn(&mut Vec<TcpStream>) -> Result<()>) -> Result<Duration> {
    let mut all = Vec::new();
    let mut longest = Duration::ZERO;
    for number in 1..=peers {
        come(&mut all)?;
        if number % BETWEEN == 0 || number == peers {
            thread::sleep(SETTLED);
            longest = longest.max(answer(listener).with_context(|| format!("after {number} others"))?);
        }
    }
    Ok(longest)
}

/// How long a good client waits for its answer, from its connect on.
fn answer(listener: SocketAddr) -> Result<Duration> {
    let start = Instant::now();
    let mut client = TcpStream::connect(listener)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.write_all(REQUEST)?;
    let mut reply = [0; REPLY.len()];
    client.read_exact(&mut reply)?;
    let wait = start.elapsed();
    ensure!(&reply == REPLY, "{reply:?} is no reply");
    Ok(wait)
}
