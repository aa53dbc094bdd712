//! A stream of TCP whose bytes the receiver knows.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// Not a power of two: a segment that came twice, or not at all, is noticed.
const PERIOD: u64 = 251;
const MEBIBYTE: u64 = 1 << 20;

fn byte(place: u64) -> u8 {
    (place % PERIOD) as u8
}

/// Sends `bytes`, or until standard input ends, and waits for the receiver's count.
pub(crate) fn send(to: SocketAddr, bytes: Option<u64>) -> Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    if bytes.is_none() {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            let _ended = std::io::stdin().read_to_end(&mut Vec::new());
            over.store(true, Ordering::Relaxed);
        });
    }
    let mut stream = TcpStream::connect(to).with_context(|| format!("cannot connect to {to}"))?;
    let block: Vec<u8> = (0..PERIOD * 256).map(byte).collect();
    let mut sent = 0;
    let start = Instant::now();
    while !over.load(Ordering::Relaxed) && bytes.is_none_or(|bytes| sent < bytes) {
        let left = bytes.map_or(u64::MAX, |bytes| bytes - sent);
        let part = block.get(..left.min(block.len() as u64) as usize).unwrap_or_default();
        stream.write_all(part)?;
        sent += part.len() as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut counted = String::new();
    stream.read_to_string(&mut counted)?;
    ensure!(counted == sent.to_string(), "sent {sent} bytes, and the receiver has {counted:?}");
    println!("{sent} bytes in {} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Accepts one connection, compares what it sends, and answers how many bytes were right. `tell`: says so for each MiB, too.
pub(crate) fn receive(at: SocketAddr, tell: bool) -> Result<()> {
    let listener = TcpListener::bind(at).with_context(|| format!("cannot listen at {at}"))?;
    println!("listening");
    let (mut stream, _) = listener.accept()?;
    let (mut block, mut place) = (vec![0; 0x1_0000], 0);
    loop {
        let length = stream.read(&mut block)?;
        if length == 0 {
            break;
        }
        for found in block.get(..length).unwrap_or_default() {
            ensure!(*found == byte(place), "byte {place} is {found}");
            place += 1;
            if tell && place.is_multiple_of(MEBIBYTE) {
                println!("{place} bytes");
            }
        }
    }
    stream.write_all(place.to_string().as_bytes())?;
    Ok(())
}
