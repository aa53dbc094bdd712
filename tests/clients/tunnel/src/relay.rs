//! Frames of a TAP interface to the peers, and theirs back.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use vxlan::fdb::{EMPTY, Fdb, SETS, Set};
use vxlan::header::{self, Vni};
use vxlan::peers::Peers;
use vxlan::vtep::{Destination, Dropped, Vtep};

use crate::tap::Tap;

/// A datagram, at most.
const LONGEST: usize = 0x1_0000;

struct Relay<'a> {
    tap: &'a Tap,
    socket: UdpSocket,
    vtep: Mutex<Vtep<Vec<Set>>>,
    /// Frames by what became of them.
    counts: Mutex<BTreeMap<String, u64>>,
    start: Instant,
}

/// Relays until standard input ends.
pub(crate) fn run(tap: &Tap, local: SocketAddr, vni: Vni, mtu: usize, peers: Peers) -> Result<()> {
    let relay = Relay {
        tap,
        socket: UdpSocket::bind(local).with_context(|| format!("cannot bind to {local}"))?,
        vtep: Mutex::new(Vtep::new(vni, tap.address, mtu, peers, Fdb::new(vec![EMPTY; SETS]))),
        counts: Mutex::default(),
        start: Instant::now(),
    };
    thread::scope(|scope| -> Result<()> {
        scope.spawn(|| ends("out", relay.out(local.port())));
        scope.spawn(|| ends("in", relay.inward()));
        std::io::stdin().read_to_end(&mut Vec::new())?;
        for (what, count) in &*relay.counts.lock().unwrap_or_else(PoisonError::into_inner) {
            println!("{count} {what}");
        }
        // The threads wait for frames.
        std::process::exit(0)
    })
}

fn ends(way: &str, result: Result<()>) {
    if let Err(error) = result {
        eprintln!("error: {way}: {error:#}");
        std::process::exit(1);
    }
}

impl Relay<'_> {
    fn out(&self, port: u16) -> Result<()> {
        let mut datagram = vec![0; LONGEST];
        loop {
            let (head, frame) = datagram.split_at_mut(header::HEADER);
            let length = self.tap.read(frame)?;
            let frame = frame.get(..length).unwrap_or_default();
            let vtep = self.vtep.lock().unwrap_or_else(PoisonError::into_inner);
            head.copy_from_slice(&vtep.header());
            let to = match vtep.destination(frame, length, self.now()) {
                Ok(Destination::One(peer)) => vtep.peers().get(peer).into_iter().collect(),
                Ok(Destination::All) => vtep.peers().iter().map(|(_, peer)| peer).collect::<Vec<_>>(),
                Err(why) => {
                    self.dropped("out", why);
                    continue;
                }
            };
            drop(vtep);
            let datagram = datagram.get(..length.saturating_add(header::HEADER)).unwrap_or_default();
            for peer in to {
                // A peer may be away, or the way to it too narrow.
                let sent = self.socket.send_to(datagram, (peer, port));
                self.count(sent.map_or_else(|error| format!("not sent: {error}"), |_| "sent".to_owned()));
            }
        }
    }

    fn inward(&self) -> Result<()> {
        let mut datagram = vec![0; LONGEST];
        loop {
            let (length, from) = match self.socket.recv_from(&mut datagram) {
                Ok(received) => received,
                // ICMP says that a peer does not listen.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error.into()),
            };
            let datagram = datagram.get(..length).unwrap_or_default();
            let mut vtep = self.vtep.lock().unwrap_or_else(PoisonError::into_inner);
            match vtep.decapsulate(from.ip(), datagram, self.now()) {
                Ok(frame) => {
                    drop(vtep);
                    self.tap.write(frame)?;
                    self.count("received".to_owned());
                }
                Err(why) => self.dropped("in", why),
            }
        }
    }

    fn dropped(&self, way: &str, why: Dropped) {
        self.count(format!("dropped {way}: {why:?}"));
    }

    fn count(&self, what: String) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(what).or_default();
        *count = count.saturating_add(1);
    }

    /// Seconds since the start.
    fn now(&self) -> u32 {
        self.start.elapsed().as_secs() as u32
    }
}
