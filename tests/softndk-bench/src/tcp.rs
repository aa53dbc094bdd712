//! What the wire is compared with: blocking sockets of the standard library, a thread, or a process, at each end.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
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

    /// With [`serve_echo`] of another process.
    ///
    /// # Errors
    /// The host's.
    pub fn with(echo: SocketAddr, size: usize) -> io::Result<Self> {
        let stream = TcpStream::connect(echo)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, message: vec![1; size] })
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

/// Takes one connection, and sends each message back, until it ends.
///
/// # Errors
/// The host's.
pub fn serve_echo(listener: &TcpListener, size: usize) -> io::Result<()> {
    let mut message = vec![1; size];
    let (mut peer, _) = listener.accept()?;
    peer.set_nodelay(true)?;
    loop {
        match peer.read_exact(&mut message) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        peer.write_all(&message)?;
    }
}

/// Takes one connection: reads pieces into places in turn, and says so after each row of them, until it ends.
///
/// # Errors
/// The host's.
pub fn serve_stream(listener: &TcpListener, size: usize, places: usize, row: usize) -> io::Result<()> {
    let mut memory = vec![1; size * places];
    let (mut peer, _) = listener.accept()?;
    peer.set_nodelay(true)?;
    let mut serve = || {
        for index in 0..row {
            let first = index % places * size;
            peer.read_exact(&mut memory[first..first + size])?;
        }
        peer.write_all(&[0])
    };
    loop {
        match serve() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            served => served?,
        }
    }
}

/// A connection with [`serve_stream`] of another process.
#[derive(Debug)]
pub struct Stream {
    stream: TcpStream,
    piece: Vec<u8>,
    row: usize,
}

impl Stream {
    /// For rows of `row` pieces of `size` bytes.
    ///
    /// # Errors
    /// The host's.
    pub fn new(to: SocketAddr, size: usize, row: usize) -> io::Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
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
