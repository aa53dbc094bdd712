//! What a case gets to work with, and how it is run.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    ops::RangeInclusive,
    sync::Arc,
    thread,
    time::Duration,
    time::Instant,
};

use anyhow::{Context as _, anyhow};
use ndk_abi::softndk_ioctl::{IOCTL_SOFTNDK_ATTACH, SOFTNDK_DIAGNOSTICS};

use crate::{
    Carrier, Transport,
    client::{Client, PAUSE, Path, nd_handle},
    complaints::Complaints,
    error,
};

/// A promise of the device, and the function that checks it.
pub struct Case {
    /// `group::case`.
    pub name: &'static str,
    /// One line, for people.
    pub shows: &'static str,
    /// The check.
    pub run: fn(&Bench<'_>) -> anyhow::Result<()>,
}

/// The case cannot be tried on this device.
#[derive(Debug, thiserror::Error)]
#[error("skipped: {0}")]
pub struct Skipped(pub &'static str);

/// What is about control codes that rings replace, or that a queue with a ring does not have.
const PLAIN_ONLY: [&str; 2] = ["moderation::", "requests::"];

/// Cases of any front end that count calls of the driver. Rings save these calls only if the peer keeps up with the posting thread: the
/// peer must not be behind a network, nor wait for a processor.
pub const COUNTS_CALLS: &[&str] = &["transitions::counted", "transitions::stream"];

/// Runs a case on a fresh front end; afterwards nothing of it may be left in the driver.
///
/// `patience`: how long to wait for anything that should happen. What the case noted is for people.
pub fn run(case: &Case, transport: Box<dyn Transport>, path: Path, patience: Duration) -> anyhow::Result<Vec<String>> {
    run_on(case, transport, None, path, patience).map(|(notes, _)| notes)
}

/// As [`run`], on two machines with a wire between them: connections are made from `here` to `there`. True: the case has used `there`.
pub fn run_on_two_devices(
    case: &Case,
    here: Box<dyn Transport>,
    there: Box<dyn Transport>,
    path: Path,
    patience: Duration,
) -> anyhow::Result<bool> {
    run_on(case, here, Some(there), path, patience).map(|(_, uses_there)| uses_there)
}

fn run_on(
    case: &Case,
    here: Box<dyn Transport>,
    there: Option<Box<dyn Transport>>,
    path: Path,
    patience: Duration,
) -> anyhow::Result<(Vec<String>, bool)> {
    if path == Path::Rings && PLAIN_ONLY.iter().any(|group| case.name.starts_with(group)) {
        return Err(Skipped("it is about the plain path").into());
    }
    let bench = Bench { path, there: there.as_deref(), ..Bench::new(&*here, patience) };
    let result = (case.run)(&bench);
    let (notes, uses_there) = (bench.notes.take(), bench.uses_there.get());
    let mut complaints = bench.left_behind();
    if there.is_some() {
        complaints.extend(bench.there().left_behind());
    }
    // The one that was booted first has the kernel of both.
    complaints.extend(there.map_or(Vec::new(), Transport::close));
    complaints.extend(here.close());
    if complaints.is_empty() {
        return result.map(|()| (notes, uses_there));
    }
    let complaints = complaints.join("\n");
    Err(match result {
        Ok(()) => anyhow!("{complaints}"),
        Err(error) => anyhow!("{error:#}\n{complaints}"),
    })
}

/// A device to run cases on.
pub struct Bench<'t> {
    transport: &'t dyn Transport,
    /// Where those are that connections go to, if that is another machine.
    there: Option<&'t dyn Transport>,
    /// The case has used `there`.
    uses_there: Cell<bool>,
    patience: Duration,
    path: Path,
    complaints: Complaints,
    notes: RefCell<Vec<String>>,
}

impl<'t> Bench<'t> {
    /// One whose clients use the plain path. `patience`: how long to wait for anything that should happen.
    #[must_use]
    pub fn new(transport: &'t dyn Transport, patience: Duration) -> Self {
        Self {
            transport,
            there: None,
            uses_there: Cell::default(),
            patience,
            path: Path::Plain,
            complaints: Complaints::default(),
            notes: RefCell::default(),
        }
    }

    /// One whose clients use `path`, and whose listeners are on another machine if there is one.
    pub(crate) fn between(
        here: &'t dyn Transport,
        there: Option<&'t dyn Transport>,
        path: Path,
        patience: Duration,
    ) -> Self {
        Self { there, path, ..Self::new(here, patience) }
    }

    /// The errors of the clean-up.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.complaints.take()
    }

    /// The bench of the listening side: this device, or the other machine's.
    #[must_use]
    pub fn there(&self) -> Self {
        let Self { there, patience, path, ref complaints, .. } = *self;
        self.uses_there.set(there.is_some());
        Self { path, complaints: complaints.clone(), ..Self::new(there.unwrap_or(self.transport), patience) }
    }

    /// What its TCP picks ports from.
    pub(crate) fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        self.transport.ephemeral_ports()
    }

    /// What carries connections from here to there.
    pub(crate) fn carrier(&self) -> Carrier {
        if self.there.is_some() { Carrier::Wire } else { Carrier::Device }
    }

    /// Says something about a case that passes.
    pub(crate) fn note(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }

    /// How its clients post and poll.
    pub(crate) fn path(&self) -> Path {
        self.path
    }

    /// A new file of the device, ready for requests.
    pub fn client(&self) -> error::Result<Arc<Client>> {
        Client::open(self.transport, self.patience, self.complaints.clone(), self.path)
    }

    /// A new file of the device to which nothing was sent yet.
    pub fn bare_client(&self) -> error::Result<Arc<Client>> {
        Client::open_bare(self.transport, self.patience, self.complaints.clone(), self.path)
    }

    /// A second file of a client's provider context.
    pub fn second(&self, first: &Client) -> error::Result<Arc<Client>> {
        let second = self.bare_client()?;
        second.call(IOCTL_SOFTNDK_ATTACH, &nd_handle(first.file_id()?))?;
        Ok(second)
    }

    /// A local IPv4 address of the device, with port 0.
    pub fn address(&self, client: &Client) -> anyhow::Result<SocketAddr> {
        let addresses = client.addresses()?;
        let address = addresses.iter().find(|address| address.is_ipv4()).context("the device has no IPv4 address")?;
        Ok(SocketAddr::new(address.ip(), 0))
    }

    /// The errors of the case's clean-up, and the objects that it left in the driver.
    #[must_use]
    pub fn left_behind(&self) -> Vec<String> {
        let mut complaints = self.complaints.take();
        if let Err(error) = self.all_freed() {
            complaints.push(format!("{error:#}"));
        }
        complaints
    }

    /// Closing a file frees what is behind it, but on some systems not before the close has returned.
    fn all_freed(&self) -> anyhow::Result<()> {
        let client = self.bare_client()?;
        let deadline = Instant::now() + self.patience;
        loop {
            let left = left_over(&client.diagnostics()?);
            if left.is_empty() {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < deadline, "left in the driver after the case: {}", left.join(", "));
            thread::sleep(PAUSE);
        }
    }
}

/// Everything in the driver but the one file that asks.
fn left_over(diagnostics: &SOFTNDK_DIAGNOSTICS) -> Vec<String> {
    let counts = [
        ("files", diagnostics.Files.saturating_sub(1).into()),
        ("adapters", diagnostics.Adapters.into()),
        ("PDs", diagnostics.Pds.into()),
        ("CQs", diagnostics.Cqs.into()),
        ("MRs", diagnostics.Mrs.into()),
        ("MWs", diagnostics.Mws.into()),
        ("SRQs", diagnostics.Srqs.into()),
        ("QPs", diagnostics.Qps.into()),
        ("connectors", diagnostics.Connectors.into()),
        ("listeners", diagnostics.Listeners.into()),
        ("shared endpoints", diagnostics.SharedEndpoints.into()),
        ("pended requests", diagnostics.PendedRequests.into()),
        ("pinned bytes", diagnostics.PinnedBytes),
    ];
    counts
        .iter()
        .filter(|(_, count)| *count != 0)
        .map(|(what, count): &(&str, u64)| format!("{count} {what}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use ndk_abi::describe::ZeroInit as _;

    use super::*;

    #[test]
    fn the_asking_file_is_not_a_left_over_anything_else_is() {
        let clean = SOFTNDK_DIAGNOSTICS { Files: 1, ..SOFTNDK_DIAGNOSTICS::ZERO };
        assert!(left_over(&clean).is_empty());
        let dirty = SOFTNDK_DIAGNOSTICS { Files: 2, Qps: 3, PinnedBytes: 4096, ..clean };
        assert_eq!(left_over(&dirty), ["1 files", "3 QPs", "4096 pinned bytes"]);
    }
}
