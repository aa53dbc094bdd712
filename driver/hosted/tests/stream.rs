//! `platform::Stream` over the host's TCP: what a connection of the device is.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Mutex,
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use hosted::Hosted;
use platform::{Arc, Deferred, Dispatch, Read, RunDeferred, RunStream, SocketError, Stream, Taken};

/// A test that waits so long hangs.
const LIMIT: Duration = Duration::from_secs(60);

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What an end tells.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Started(Result<(), SocketError>),
    /// All that it received before.
    Ended(Result<(), SocketError>, Vec<u8>),
    Closed,
}

struct Work {
    /// What is left to be sent; then it finishes.
    data: Vec<u8>,
    finishes: bool,
    received: Vec<u8>,
    started: bool,
    ended: bool,
    closed: bool,
    closes: bool,
    said: Sender<Said>,
}

/// An end of a connection, or a listener.
struct End {
    deferred: Deferred<Hosted>,
    stream: Stream<Hosted>,
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
        loop {
            let received = &mut work.received;
            let read = Stream::read(this, |bytes| {
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
    fn new(data: Vec<u8>) -> (Arc<Self, Hosted>, Receiver<Said>) {
        let (said, hears) = mpsc::channel();
        let work = Work {
            finishes: !data.is_empty(),
            data,
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

    fn close(this: &Arc<Self, Hosted>) {
        this.work.lock().unwrap().closes = true;
        Deferred::schedule(this);
    }
}

fn hear(from: &Receiver<Said>) -> Said {
    from.recv_timeout(LIMIT).expect("it says something")
}

type Heard = (Arc<End, Hosted>, Receiver<Said>);

/// A listener, and two ends that are connected and send this.
fn connected(ours: Vec<u8>, theirs: Vec<u8>) -> [Heard; 3] {
    let (listener, active, passive) = (End::new(Vec::new()), End::new(ours), End::new(theirs));
    Stream::listen(&listener.0, ANY);
    assert_eq!(hear(&listener.1), Said::Started(Ok(())));
    let (at, _) = listener.0.stream.addresses().unwrap();
    Stream::accept(&passive.0, &listener.0).unwrap();
    Stream::connect(&active.0, ANY, at).unwrap();
    for end in [&active, &passive] {
        assert_eq!(hear(&end.1), Said::Started(Ok(())));
    }
    [listener, active, passive]
}

fn close(ends: [Heard; 3]) {
    for (end, hears) in ends {
        End::close(&end);
        while hear(&hears) != Said::Closed {}
    }
}

fn bytes(count: usize, step: usize) -> Vec<u8> {
    (0..count).map(|at| (at * step % 251) as u8).collect()
}

#[test]
fn both_ends_send_much_and_finish() {
    let (ours, theirs) = (bytes(5 << 20, 3), bytes(3 << 20, 7));
    let ends = connected(ours.clone(), theirs.clone());
    assert!(hear(&ends[1].1) == Said::Ended(Ok(()), theirs));
    assert!(hear(&ends[2].1) == Said::Ended(Ok(()), ours));
    close(ends);
}

#[test]
fn the_close_of_one_end_is_a_reset_for_the_other() {
    let ends = connected(Vec::new(), Vec::new());
    End::close(&ends[1].0);
    assert_eq!(hear(&ends[1].1), Said::Closed);
    let Said::Ended(how, received) = hear(&ends[2].1) else { panic!("it did not end") };
    assert_eq!(received, []);
    // Wine may tell of an end first: its closesocket shuts down what it closes.
    let is_wine = std::env::var_os("WINELOADER").is_some();
    assert!(how == Err(SocketError::Reset) || is_wine && how == Ok(()), "{how:?}");
    let [listener, _, passive] = ends;
    for (end, hears) in [listener, passive] {
        End::close(&end);
        assert_eq!(hear(&hears), Said::Closed);
    }
}

#[test]
fn an_accept_is_canceled_by_the_close_of_its_listener() {
    let (listener, passive) = (End::new(Vec::new()), End::new(Vec::new()));
    Stream::listen(&listener.0, ANY);
    assert_eq!(hear(&listener.1), Said::Started(Ok(())));
    Stream::accept(&passive.0, &listener.0).unwrap();
    End::close(&listener.0);
    assert_eq!(hear(&passive.1), Said::Started(Err(SocketError::Canceled)));
    assert_eq!(hear(&listener.1), Said::Closed);
    End::close(&passive.0);
    while hear(&passive.1) != Said::Closed {}
}

#[test]
fn hundreds_at_once() {
    let all: Vec<_> = (1..300).map(|number| connected(bytes(number * 100, 3), bytes(number * 10, 7))).collect();
    for (number, ends) in (1..300).zip(&all) {
        assert!(hear(&ends[1].1) == Said::Ended(Ok(()), bytes(number * 10, 7)));
        assert!(hear(&ends[2].1) == Said::Ended(Ok(()), bytes(number * 100, 3)));
    }
    all.into_iter().for_each(close);
}
