//! Each allocation and each request of a socket fails once, while connecting and on the connection, at either end: the status is a
//! documented one, nothing hangs, and nothing is left.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use iwarp::mpa::{FrameKind, RtrKinds};
use peer::{
    Arc,
    device::{HOST, Inbox, Listening, PORT, Side, try_machine},
    establish::{DEVICE, PAGES, accept, at, connect},
    frames,
    raw::{Door, Raw},
};
use platform::OutOfMemory;
use simkernel::{Session, SimKernel, Site, boot_seeded, each_fault, seeds};
use soft_rdma::{Adapter, Connector, Error, Outcome, Post, Status};

/// Longer than one session takes.
const LIMIT: Duration = Duration::from_secs(60);

/// What has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// A step of the device's consumer.
    Step(&'static str, Error),
    /// Something of the peer's.
    Peer,
    /// The peer has seen the end of the connection.
    Gone,
}

impl From<OutOfMemory> for Failed {
    fn from(_: OutOfMemory) -> Self {
        Self::Peer
    }
}

/// Waits until `is` is true, or the connection has ended. The clock advances slowly.
fn either(kernel: &Session, raw: &Raw, is: impl Fn() -> bool) -> Result<(), Failed> {
    for pauses in 1..1_000_000 {
        if is() {
            return Ok(());
        }
        if raw.ended().is_some() || raw.started().is_some_and(|started| started.is_err()) {
            // Both may have happened at once. If a request of the peer failed, the device does not know yet.
            kernel.flush_dpcs();
            if is() {
                return Ok(());
            }
            raw.reset();
            return Err(Failed::Gone);
        }
        if pauses % 500 == 0 {
            kernel.advance(Duration::from_secs(1));
        }
        simkernel::pause();
    }
    panic!("nothing comes");
}

/// Waits for what a callback brings, in any case.
fn told<A: Send>(kernel: &Session, inbox: &Inbox<A>) -> A {
    for pauses in 1..1_000_000 {
        if let Some(told) = inbox.take() {
            return told;
        }
        if pauses % 500 == 0 {
            kernel.advance(Duration::from_secs(1));
        }
        simkernel::pause();
    }
    panic!("nothing is told");
}

fn step<T>(name: &'static str, result: Result<T, Error>) -> Result<T, Failed> {
    result.map_err(|error| Failed::Step(name, error))
}

/// Waits for `bytes` bytes from the device.
fn comes(kernel: &Session, raw: &Raw, bytes: usize) -> Result<(), Failed> {
    either(kernel, raw, || raw.has_come() >= bytes)
}

/// A message each way.
fn transfer(kernel: &Session, raw: &Raw, side: &Side) -> Result<(), Failed> {
    let (statuses, sge) = (RefCell::new(Vec::<(usize, Status)>::new()), side.sge(0x100, 5000));
    step("receive", side.queue_pair().post_receive(1, &[side.sge(0, 64)]))?;
    step("send", side.post(2, &[sge], Post::Send(None)))?;
    raw.send_frames([&frames::send(1, b"hello")]);
    let completed = || {
        statuses.borrow_mut().extend(side.completions().iter().map(|done| (done.request_context, done.status)));
        statuses.borrow().len() == 2
    };
    // Both requests are reported once the connection is over, however it ends.
    if either(kernel, raw, completed).is_err() {
        assert_eq!(told(kernel, &side.disconnects), 1);
        kernel.flush_dpcs();
        assert!(completed(), "{statuses:?}");
    }
    for (_, status) in statuses.take() {
        step("completion", status)?;
    }
    // In two FPDUs.
    comes(kernel, raw, 5000)
}

fn by_peer(kernel: &Session) -> Result<(), Failed> {
    kernel.hold_clock();
    let adapter: Arc<Adapter<SimKernel>> = step("open", try_machine(HOST))?;
    let listening = step("listen", Listening::new(&adapter))?;
    let raw = Raw::connecting(at(0), DEVICE)?;
    either(kernel, &raw, || raw.started() == Some(Ok(()))).map_err(|_| Failed::Peer)?;
    raw.send(&frames::mpa_frame(&frames::plain(FrameKind::Request, frames::enhanced(RtrKinds::WRITE))));
    let incoming = RefCell::new(None);
    either(kernel, &raw, || {
        let mut incoming = incoming.borrow_mut();
        *incoming = incoming.take().or_else(|| listening.incoming.take());
        incoming.is_some()
    })?;
    let side = step("side", Side::new(incoming.take().expect("a connector"), PAGES))?;
    let done = Inbox::default();
    assert_eq!(step("accept", accept(&side, &[], &done))?, Outcome::Pending);
    if comes(kernel, &raw, 24).is_ok() {
        assert!(raw.mpa_frame(FrameKind::Reply).is_some());
        raw.send_frames([&frames::write(1, 0, &[])]);
    }
    step("accept", told(kernel, &done))?;
    transfer(kernel, &raw, &side)
}

fn by_device(kernel: &Session) -> Result<(), Failed> {
    kernel.hold_clock();
    let adapter = step("open", try_machine(HOST))?;
    let door = Door::listening(at(PORT))?;
    door.started().map_err(|_| Failed::Peer)?;
    let raw = door.accepting()?;
    let side = step("side", Connector::new(&adapter).and_then(|connector| Side::new(connector, PAGES)))?;
    let done = Inbox::default();
    // A connect that is refused at once leaves its connector and its queue pair as they were.
    let mut attempts = (0..2).map(|_| connect(&side, &[], &done));
    let begun = attempts.find(|begun| *begun != Err(Error::InsufficientResources));
    assert_eq!(begun, Some(Ok(Outcome::Pending)));
    let connected = RefCell::new(None);
    let over = || {
        let mut connected = connected.borrow_mut();
        *connected = connected.take().or_else(|| done.take());
        connected.is_some()
    };
    either(kernel, &raw, || over() || raw.has_come() >= 24).map_err(|_| Failed::Peer)?;
    if raw.has_come() >= 24 {
        assert!(raw.mpa_frame(FrameKind::Request).is_some());
        raw.send(&frames::mpa_frame(&frames::plain(FrameKind::Reply, frames::enhanced(RtrKinds::WRITE))));
    }
    // A peer that could not send it is reset: the device waits for a Reply as long as there is a connection.
    let _gone = either(kernel, &raw, over);
    let status = connected.take().unwrap_or_else(|| told(kernel, &done));
    step("connect", status)?;
    let event = side.disconnects.callback();
    assert_eq!(step("complete", Connector::complete_connect(side.connector(), Some(event)))?, Outcome::Done);
    transfer(kernel, &raw, &side)
}

/// What each step may fail with, for want of memory or of a socket of this machine, or of the peer's.
fn documented(step: &str) -> &'static [Error] {
    match step {
        "open" | "side" | "listen" => &[Error::InsufficientResources],
        // The stream has ended before the Reply.
        "connect" | "accept" | "complete" => &[Error::InsufficientResources, Error::ConnectionAborted],
        "receive" | "send" => &[Error::ConnectionInvalid],
        "completion" => &[Error::Canceled],
        _ => &[],
    }
}

fn play(scenario: fn(&Session) -> Result<(), Failed>, least: usize) {
    for seed in seeds(2) {
        let mut outcomes = BTreeMap::new();
        let check = |site: Option<&Site>, outcome: Result<(), Failed>| {
            match (site, outcome) {
                (None, outcome) => assert_eq!(outcome, Ok(()), "without a failure"),
                (Some(site), Err(Failed::Step(step, error))) => {
                    assert!(documented(step).contains(&error), "{step} ends with {error:?} after {site}");
                }
                (Some(_), _) => {}
            }
            *outcomes.entry(format!("{outcome:?}")).or_insert(0) += 1;
        };
        let faults = each_fault(|| boot_seeded(seed), LIMIT, scenario, check);
        println!("seed {seed}: {faults}: {outcomes:#?}");
        assert!(faults.failed.len() >= least, "only {faults}");
    }
}

#[test]
fn of_a_connection_by_the_peer() {
    play(by_peer, 40);
}

#[test]
fn of_a_connection_by_the_device() {
    play(by_device, 40);
}
