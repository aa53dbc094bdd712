//! What the wire is compared with: blocking sockets of the standard library, a thread at each end.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, TcpListener, TcpStream},
    thread,
};

/// Connects to a thread that runs `serve`, which ends when the returned end is dropped.
///
/// # Errors
/// The host's.
fn connect(
    to: IpAddr,
    mut serve: impl FnMut(&mut TcpStream) -> io::Result<()> + Send + 'static,
) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((to, 0))?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let (mut peer, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    peer.set_nodelay(true)?;
    thread::spawn(move || while serve(&mut peer).is_ok() {});
    Ok(stream)
}

/// A connection whose other end sends each message back.
#[derive(Debug)]
pub struct PingPong {
    stream: TcpStream,
    message: Vec<u8>,
}

impl PingPong {
    /// For messages of `size` bytes.
    ///
    /// # Errors
    /// The host's.
    pub fn new(to: IpAddr, size: usize) -> io::Result<Self> {
        let message = vec![1; size];
        let mut answer = message.clone();
        let stream = connect(to, move |peer| {
            peer.read_exact(&mut answer)?;
            peer.write_all(&answer)
        })?;
        Ok(Self { stream, message })
    }

    /// Makes `count` round trips.
    ///
    /// # Errors
    /// The host's.
    pub fn pass(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            self.stream.write_all(&self.message)?;
            self.stream.read_exact(&mut self.message)?;
        }
        Ok(())
    }
}

/// A connection whose other end reads pieces into places in turn, and says so after each row of them.
#[derive(Debug)]
pub struct Stream {
    stream: TcpStream,
    piece: Vec<u8>,
    row: usize,
}

impl Stream {
    /// For rows of `row` pieces of `size` bytes, read to `places`.
    ///
    /// # Errors
    /// The host's.
    pub fn new(to: IpAddr, size: usize, places: usize, row: usize) -> io::Result<Self> {
        let mut memory = vec![1; size * places];
        let stream = connect(to, move |peer| {
            for index in 0..row {
                let first = index % places * size;
                peer.read_exact(&mut memory[first..first + size])?;
            }
            peer.write_all(&[0])
        })?;
        Ok(Self { stream, piece: vec![1; size], row })
    }

    /// Sends `rows` rows, and waits for each to have been read.
    ///
    /// # Errors
    /// The host's.
    pub fn pass(&mut self, rows: usize) -> io::Result<()> {
        for _ in 0..rows {
            for _ in 0..self.row {
                self.stream.write_all(&self.piece)?;
            }
            self.stream.read_exact(&mut [0])?;
        }
        Ok(())
    }
}
