//! The reference between two processes: plain TCP, with reads and writes of equal sizes.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

use super::{Counted, Operation};

/// The client's orders, each with the size of the messages (8 bytes, little-endian) and how long it lasts (milliseconds, 8 bytes too).
const ECHO: u8 = 1;
const TAKE: u8 = 2;
const ANSWER: u8 = 3;
const GIVE: u8 = 4;
const ORDER: usize = 17;

/// The first byte of a message: whether another follows.
const MORE: u8 = 1;
const LAST: u8 = 0;

/// Messages between two looks at the clock.
const TURNS: u64 = 16;

/// The client's end of a connection. The clock determines the number of messages, as on the device.
pub struct Tcp(TcpStream);

impl Tcp {
    pub(super) fn connect(to: SocketAddr, patience: Duration) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, patience);
        let stream = ready(stream.with_context(|| format!("connecting to {to} by TCP"))?, patience)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(Self(stream))
    }

    fn order(&self, what: u8, size: usize, time: Duration) -> anyhow::Result<()> {
        let order = [&[what], &(size as u64).to_le_bytes()[..], &(time.as_millis() as u64).to_le_bytes()].concat();
        Ok((&self.0).write_all(&order)?)
    }

    /// As [`Link::latencies`](super::Link::latencies): a read is a byte there and a message back.
    pub fn latencies(&self, operation: Operation, size: usize, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let reads = operation == Operation::Read;
        let (what, length, part) = if reads { (ANSWER, 1, 1) } else { (ECHO, size, 2) };
        let (mut message, mut back) = (vec![0; length], vec![0; size]);
        self.order(what, size, time)?;
        let mut samples = Vec::new();
        let clock = Instant::now();
        let mut open = true;
        while open {
            open = clock.elapsed() < time;
            message[0] = if open { MORE } else { LAST };
            let started = Instant::now();
            (&self.0).write_all(&message)?;
            (&self.0).read_exact(&mut back)?;
            samples.push(started.elapsed() / part);
        }
        Ok(samples)
    }

    /// As [`Link::stream`](super::Link::stream): from the peer for reads, to it for others, until it says that it has all.
    pub fn stream(&self, operation: Operation, size: usize, time: Duration) -> anyhow::Result<Counted> {
        let mut message = vec![0; size];
        let clock = Instant::now();
        let operations = if operation == Operation::Read {
            self.order(GIVE, size, time)?;
            take(&self.0, &mut message)?
        } else {
            self.order(TAKE, size, time)?;
            let given = give(&self.0, &mut message, time)?;
            (&self.0).read_exact(&mut [0])?;
            given
        };
        Ok(Counted { operations, elapsed: clock.elapsed() })
    }
}

/// Writes messages for about `time`: how many.
fn give(mut stream: &TcpStream, message: &mut [u8], time: Duration) -> anyhow::Result<u64> {
    let clock = Instant::now();
    for given in 1_u64.. {
        let open = !given.is_multiple_of(TURNS) || clock.elapsed() < time;
        message[0] = if open { MORE } else { LAST };
        stream.write_all(message)?;
        if !open {
            return Ok(given);
        }
    }
    bail!("more messages than can be counted")
}

/// Reads messages until the last one: how many.
fn take(mut stream: &TcpStream, message: &mut [u8]) -> anyhow::Result<u64> {
    for taken in 1.. {
        stream.read_exact(message)?;
        if message[0] == LAST {
            return Ok(taken);
        }
    }
    bail!("more messages than can be counted")
}

/// Listens at an address, reports the port, and serves one client, on a thread, which ends with the connection.
pub(super) fn serve(
    at: IpAddr,
    patience: Duration,
    tell: impl FnOnce(u16) -> anyhow::Result<()>,
) -> anyhow::Result<TcpStream> {
    let listener = TcpListener::bind((at, 0)).with_context(|| format!("listening at {at} by TCP"))?;
    listener.set_nonblocking(true)?;
    tell(listener.local_addr()?.port())?;
    let started = Instant::now();
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("a connection by TCP"),
        }
        ensure!(started.elapsed() < patience, "nobody connects by TCP");
        thread::sleep(Duration::from_millis(1));
    };
    stream.set_nonblocking(false)?;
    let stream = ready(stream, patience)?;
    let served = stream.try_clone()?;
    // The thread's result is not read: after an error the client's next read or write fails.
    thread::spawn(move || orders(&served));
    Ok(stream)
}

/// Ends a connection that was served.
pub(super) fn end(stream: &TcpStream) {
    // The client may have done so.
    let _whether_it_was = stream.shutdown(Shutdown::Both);
}

/// A write must not wait for others (no Nagle delay), nor last longer than `patience`.
fn ready(stream: TcpStream, patience: Duration) -> anyhow::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// Carries out the client's orders until the client closes.
fn orders(mut stream: &TcpStream) -> anyhow::Result<()> {
    loop {
        let mut order = [0; ORDER];
        stream.read_exact(&mut order)?;
        let (what, words) = order.split_first().context("an order of nothing")?;
        let word = |at: usize| words[8 * at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let (mut message, time) = (vec![0; usize::try_from(word(0))?], Duration::from_millis(word(1)));
        match *what {
            ECHO => loop {
                stream.read_exact(&mut message)?;
                stream.write_all(&message)?;
                if message[0] == LAST {
                    break;
                }
            },
            ANSWER => loop {
                let mut asked = [0];
                stream.read_exact(&mut asked)?;
                stream.write_all(&message)?;
                if asked == [LAST] {
                    break;
                }
            },
            TAKE => {
                take(stream, &mut message)?;
                stream.write_all(&[LAST])?;
            }
            GIVE => drop(give(stream, &mut message, time)?),
            other => bail!("no order is {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::mpsc::channel};

    use super::*;

    /// One order after another, of either kind and any size, on one connection: a miscount would mix their bytes.
    #[test]
    fn orders_are_carried_out_one_after_another() {
        const PATIENCE: Duration = Duration::from_secs(10);
        let (sender, port) = channel();
        let serves = thread::spawn(move || {
            serve(Ipv4Addr::LOCALHOST.into(), PATIENCE, |port| Ok(sender.send(port)?)).expect("a client")
        });
        let port = port.recv().unwrap();
        let tcp = Tcp::connect((Ipv4Addr::LOCALHOST, port).into(), PATIENCE).unwrap();
        let served = serves.join().unwrap();
        for operation in Operation::ALL {
            for size in [1, 64, 100_000] {
                let time = Duration::from_millis(2);
                assert!(!tcp.latencies(operation, size, time).unwrap().is_empty());
                let streamed = tcp.stream(operation, size, time).unwrap();
                // Whether there are more is asked for after that many.
                assert!(streamed.operations >= TURNS && streamed.operations.is_multiple_of(TURNS), "{streamed:?}");
            }
        }
        end(&served);
        let gone = tcp.latencies(Operation::Send, 1, PATIENCE).unwrap_err();
        assert!(gone.is::<std::io::Error>(), "{gone:#}");
    }
}
