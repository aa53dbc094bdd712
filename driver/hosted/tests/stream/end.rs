//! [`End`]: an object with a stream, as the device's connections are.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use hosted::Hosted;
use platform::{Arc, Deferred, Dispatch, Read, RunDeferred, RunStream, SocketError, Stream, Taken};

/// A test that waits so long hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What an end tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Started(Result<(), SocketError>),
    /// All that it received before.
    Ended(Result<(), SocketError>, Vec<u8>),
    Closed,
}

struct Work {
    /// What is left to be sent; then it finishes, if it was made with data, or was told so.
    data: Vec<u8>,
    finishes: bool,
    /// It uses no bytes that it receives.
    holds: bool,
    /// It neither reads nor receives.
    is_deaf: bool,
    received: Vec<u8>,
    started: bool,
    ended: bool,
    closed: bool,
    closes: bool,
    said: Sender<Said>,
}

/// An end of a connection, or a listener.
pub(crate) struct End {
    deferred: Deferred<Hosted>,
    pub(crate) stream: Stream<Hosted>,
    work: Mutex<Work>,
}

impl RunStream<Hosted> for End {
    fn stream(&self) -> &Stream<Hosted> {
        &self.stream
    }

    fn on_ready(this: &Arc<Self, Hosted>) {
        Deferred::schedule(this);
    }
}

impl RunDeferred<Hosted> for End {
    fn deferred(&self) -> &Deferred<Hosted> {
        &self.deferred
    }

    fn run(this: &Arc<Self, Hosted>, _: &Dispatch<'_>) {
        let mut work = this.work.lock().unwrap();
        let Some(started) = this.stream.started() else { return };
        if !std::mem::replace(&mut work.started, true) {
            work.said.send(Said::Started(started)).unwrap();
        }
        if work.closes {
            Stream::close(this);
            if this.stream.is_closed() && !std::mem::replace(&mut work.closed, true) {
                work.said.send(Said::Closed).unwrap();
            }
            return;
        }
        while !work.is_deaf {
            let Work { received, holds, .. } = &mut *work;
            let read = Stream::read(this, |bytes| {
                if *holds {
                    return Taken { used: 0, wanted: 0 };
                }
                received.extend_from_slice(bytes);
                Taken { used: bytes.len(), wanted: 0 }
            });
            match read {
                Read::Some => continue,
                Read::Ended(how) if !work.ended => {
                    work.ended = true;
                    let received = std::mem::take(&mut work.received);
                    work.said.send(Said::Ended(how, received)).unwrap();
                }
                _ => break,
            }
        }
        while !work.data.is_empty() {
            let data = &work.data;
            let written = Stream::write(this, |room| {
                let count = data.len().min(room.len());
                room[..count].copy_from_slice(&data[..count]);
                count
            });
            if written == 0 {
                return;
            }
            work.data.drain(..written);
        }
        if work.finishes {
            Stream::finish(this);
        }
    }
}

impl End {
    pub(crate) fn new(data: Vec<u8>) -> (Arc<Self, Hosted>, Receiver<Said>) {
        let (said, hears) = mpsc::channel();
        let work = Work {
            finishes: !data.is_empty(),
            data,
            holds: false,
            is_deaf: false,
            received: Vec::new(),
            started: false,
            ended: false,
            closed: false,
            closes: false,
            said,
        };
        let end = End { deferred: Deferred::default(), stream: Stream::new().unwrap(), work: Mutex::new(work) };
        let end = Arc::try_new(end).unwrap();
        Deferred::initialize(&end);
        (end, hears)
    }

    /// Sends more.
    pub(crate) fn send(this: &Arc<Self, Hosted>, data: &[u8]) {
        this.work.lock().unwrap().data.extend_from_slice(data);
        Deferred::schedule(this);
    }

    pub(crate) fn finish(this: &Arc<Self, Hosted>) {
        this.work.lock().unwrap().finishes = true;
        Deferred::schedule(this);
    }

    pub(crate) fn hold(this: &Arc<Self, Hosted>, holds: bool) {
        this.work.lock().unwrap().holds = holds;
        Deferred::schedule(this);
    }

    pub(crate) fn deafen(this: &Arc<Self, Hosted>, is_deaf: bool) {
        this.work.lock().unwrap().is_deaf = is_deaf;
        Deferred::schedule(this);
    }

    /// The bytes that are left to be sent.
    pub(crate) fn left(&self) -> usize {
        self.work.lock().unwrap().data.len()
    }

    /// The bytes that were received, and not taken.
    pub(crate) fn received(&self) -> usize {
        self.work.lock().unwrap().received.len()
    }

    /// Takes `count` received bytes, once they are there.
    pub(crate) fn take(&self, count: usize) -> Vec<u8> {
        let until = Instant::now() + LIMIT;
        loop {
            let received = &mut self.work.lock().unwrap().received;
            if received.len() >= count {
                return received.drain(..count).collect();
            }
            assert!(Instant::now() < until, "{} of {count} bytes have come", received.len());
            thread::yield_now();
        }
    }

    pub(crate) fn close(this: &Arc<Self, Hosted>) {
        this.work.lock().unwrap().closes = true;
        Deferred::schedule(this);
    }
}

/// Waits for the turn of a test that looks at shared memory, of which a process has a limited number, or that needs all.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn hear(from: &Receiver<Said>) -> Said {
    from.recv_timeout(LIMIT).expect("it says something")
}

pub(crate) type Heard = (Arc<End, Hosted>, Receiver<Said>);

/// Has an end listen; its address.
pub(crate) fn listen(listener: &Heard) -> SocketAddr {
    Stream::listen(&listener.0, ANY);
    assert_eq!(hear(&listener.1), Said::Started(Ok(())));
    listener.0.stream.addresses().unwrap().0
}

/// A listener, and two ends that are connected and send this.
pub(crate) fn connected(ours: Vec<u8>, theirs: Vec<u8>) -> [Heard; 3] {
    let (listener, active, passive) = (End::new(Vec::new()), End::new(ours), End::new(theirs));
    let at = listen(&listener);
    Stream::accept(&passive.0, &listener.0).unwrap();
    Stream::connect(&active.0, ANY, at).unwrap();
    for end in [&active, &passive] {
        assert_eq!(hear(&end.1), Said::Started(Ok(())));
    }
    [listener, active, passive]
}

pub(crate) fn close<const COUNT: usize>(ends: [Heard; COUNT]) {
    for (end, hears) in ends {
        End::close(&end);
        while hear(&hears) != Said::Closed {}
    }
}

pub(crate) fn bytes(count: usize, step: usize) -> Vec<u8> {
    (0..count).map(|at| (at * step % 251) as u8).collect()
}
