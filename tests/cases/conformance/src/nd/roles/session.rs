//! A session: cases one after another, between an end that connects and an end that serves.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};

use super::{
    LIVES, MEASURE, ROLE_CASES, RoleCase,
    control::Control,
    ended::ended,
    message::Message,
    role::{Role, Side, Site},
};
use crate::{
    Carrier,
    nd::{
        perf::{Link, There},
        run::{AnyProvider, Nd, Seen},
    },
};

/// A case that was played.
pub struct Played {
    /// The case.
    pub case: &'static RoleCase,
    /// How long it took.
    pub duration: Duration,
    /// How it ended at this end: what it noted, or why it failed.
    pub here: anyhow::Result<Vec<String>>,
    /// How it ended at the peer.
    pub there: anyhow::Result<()>,
}

/// How long `exchange` lasts in a process of its own.
const SHORT: Duration = Duration::from_secs(2);

/// The connecting end: plays `cases` with the server at `to`, an address and a port. Without an address it is on this computer. Those
/// cases that last do so for `duration`. `watch` is told what is going on. Ends early if the peer is gone: the last one then says so.
///
/// # Errors
/// There is no server, or it is of another version.
pub fn connect(
    library: &Path,
    patience: Duration,
    to: (Option<IpAddr>, u16),
    cases: &[&'static RoleCase],
    carrier: Carrier,
    duration: Duration,
    watch: &dyn Fn(&str),
) -> anyhow::Result<Vec<Played>> {
    let nd = Nd::load(library, patience)?.on_network_of(to.0)?;
    let address = to.0.map_or_else(|| nd.address(), Ok)?;
    let played = connect_with(&nd, SocketAddr::new(address, to.1), cases, carrier, duration, watch)?;
    nd.is_unused()?;
    Ok(played)
}

/// Measures with the server at `to`, an address and a port: `act` gets a link to it, for messages of up to `longest` bytes.
///
/// # Errors
/// There is no server, or it is of another version; what `act` or the server failed with.
pub fn measure<T>(
    library: &Path,
    patience: Duration,
    to: (Option<IpAddr>, u16),
    longest: usize,
    act: impl FnOnce(&Link<There<'_>>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let nd = Nd::load(library, patience)?.on_network_of(to.0)?;
    let address = to.0.map_or_else(|| nd.address(), Ok)?;
    let result = measure_with(&nd, SocketAddr::new(address, to.1), longest, act)?;
    nd.is_unused()?;
    Ok(result)
}

fn measure_with<T>(
    nd: &Nd,
    to: SocketAddr,
    longest: usize,
    act: impl FnOnce(&Link<There<'_>>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let site = &Site::new(nd)?;
    let control = Control::connect(site, to)?;
    let side = start(&control, to, &MEASURE, Carrier::Wire, Duration::ZERO)?;
    let role = Role::new(site, &control, side, MEASURE.name, Carrier::Wire, Duration::ZERO, &|_| {});
    let (here, there) = end_to_end(&role, |role| {
        let link = Link::to(role, longest)?;
        let result = act(&link);
        ended(result, link.end())
    });
    let closed = control.tell(&Message::Bye).and_then(|()| control.close());
    let result = here.flatten().map_err(|here| match &there {
        Ok(()) => here,
        Err(there) => anyhow!("{here:#}; the server: {there:#}"),
    })?;
    there.context("the server")?;
    closed?;
    Ok(result)
}

/// The serving end: serves one session, at an address of this computer. `ready` is told the address, once it listens.
///
/// # Errors
/// The address cannot be had; the client is of another version.
pub fn serve(
    library: &Path,
    patience: Duration,
    at: Option<IpAddr>,
    port: u16,
    ready: impl FnOnce(SocketAddr),
    watch: &dyn Fn(&str),
) -> anyhow::Result<Vec<Played>> {
    let nd = Nd::load(library, patience)?.at(at);
    let played = serve_with(&nd, port, ready, &|| false, watch)?;
    nd.is_unused()?;
    Ok(played)
}

impl AnyProvider {
    /// The connecting end, as [`connect`], over another machine's wire; and what it saw.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn connect(
        &self,
        patience: Duration,
        to: SocketAddr,
        cases: &[&'static RoleCase],
        duration: Duration,
        watch: &dyn Fn(&str),
    ) -> anyhow::Result<(Vec<Played>, Seen)> {
        let nd = self.load_anew(patience)?;
        let played = connect_with(&nd, to, cases, Carrier::Wire, duration, watch)?;
        Ok((played, Seen::take()))
    }

    /// The serving end, as [`serve`].
    ///
    /// # Errors
    /// As [`serve`].
    pub fn serve(
        &self,
        patience: Duration,
        port: u16,
        ready: impl FnOnce(SocketAddr),
        watch: &dyn Fn(&str),
    ) -> anyhow::Result<Vec<Played>> {
        serve_with(&self.load_anew(patience)?, port, ready, &|| false, watch)
    }
}

/// Both ends of a case in this process.
pub(super) fn both(nd: &Nd, name: &str) -> anyhow::Result<()> {
    let case = known(name).context("no such case")?;
    let (sender, address) = channel();
    let (library, patience, at) = (nd.shared_library(), nd.patience(), nd.asked_for());
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            let give_up = || is_over.load(Ordering::Relaxed);
            // Without an address, the receiving thread sees that the channel is closed.
            let ready = |address| sender.send(address).unwrap_or_default();
            serve_with(&Nd::of(library, patience).at(at), 0, ready, &give_up, &|_| {})
        });
        let played = match address.recv() {
            Ok(address) => connect_with(nd, address, &[case], Carrier::Device, SHORT, &|_| {}),
            Err(_) => Err(anyhow!("nobody serves")),
        };
        is_over.store(true, Ordering::Relaxed);
        let served = server.join().map_err(|_| anyhow!("the serving end panicked"))?;
        let mut played = played.map_err(|error| match &served {
            Ok(_) => error,
            Err(served) => anyhow!("{error:#}; the serving end: {served:#}"),
        })?;
        let played = played.pop().context("nothing was played")?;
        let there = played.there.context("the serving end");
        match played.here {
            Ok(notes) => notes.into_iter().for_each(|note| nd.note(note)),
            Err(here) => {
                return Err(there.err().map_or_else(|| anyhow!("{here:#}"), |there| anyhow!("{here:#}; {there:#}")));
            }
        }
        there?;
        served.map(drop)
    })
}

fn known(name: &str) -> Option<&'static RoleCase> {
    ROLE_CASES.iter().chain(LIVES).chain([&MEASURE]).find(|case| case.name == name)
}

fn connect_with(
    nd: &Nd,
    to: SocketAddr,
    cases: &[&'static RoleCase],
    carrier: Carrier,
    duration: Duration,
    watch: &dyn Fn(&str),
) -> anyhow::Result<Vec<Played>> {
    let site = &Site::new(nd)?;
    let control = Control::connect(site, to)?;
    let mut all = Vec::new();
    let result = cases.iter().try_for_each(|case| {
        watch(case.name);
        let side = start(&control, to, case, carrier, duration)?;
        all.push(play(Role::new(site, &control, side, case.name, carrier, duration, watch), case));
        Ok(())
    });
    finish(all, result.and_then(|()| control.tell(&Message::Bye)).and_then(|()| control.close()))
}

/// The connecting end: has the server begin a case.
fn start(
    control: &Control,
    to: SocketAddr,
    case: &RoleCase,
    carrier: Carrier,
    duration: Duration,
) -> anyhow::Result<Side> {
    let seconds = u32::try_from(duration.as_secs())?;
    control.tell(&Message::Start { case: case.name.to_owned(), wire: carrier == Carrier::Wire, seconds })?;
    match control.hear()? {
        Message::Ready { port } => Ok(Side::Connects(SocketAddr::new(to.ip(), port))),
        Message::Unknown => bail!("the peer has no case {}", case.name),
        other => bail!("the peer says {other:?} instead of where it is"),
    }
}

fn serve_with(
    nd: &Nd,
    port: u16,
    ready: impl FnOnce(SocketAddr),
    give_up: &dyn Fn() -> bool,
    watch: &dyn Fn(&str),
) -> anyhow::Result<Vec<Played>> {
    let site = &Site::new(nd)?;
    let listen = |port| -> anyhow::Result<_> {
        let listener = site.adapter.listener()?;
        listener.bind(SocketAddr::new(site.address.ip(), port))?;
        listener.listen(0)?;
        let at = listener.local_address()?;
        Ok((listener, at))
    };
    let (listener, at) = listen(port)?;
    ready(at);
    let control = Control::accept(site, &listener, give_up)?;
    drop(listener);
    let mut all = Vec::new();
    let mut serve = || {
        loop {
            let (name, wire, seconds) = match control.hear()? {
                Message::Start { case, wire, seconds } => (case, wire, seconds),
                Message::Bye => return Ok(()),
                other => bail!("the peer says {other:?} instead of a case"),
            };
            let Some(case) = known(&name) else {
                control.tell(&Message::Unknown)?;
                continue;
            };
            watch(case.name);
            let (listener, at) = listen(0)?;
            control.tell(&Message::Ready { port: at.port() })?;
            let duration = Duration::from_secs(seconds.into());
            let side = Side::Serves(listener);
            let carrier = if wire { Carrier::Wire } else { Carrier::Device };
            all.push(play(Role::new(site, &control, side, case.name, carrier, duration, watch), case));
        }
    };
    let result = serve();
    finish(all, result.and_then(|()| control.close()))
}

/// What was played; if the session broke off, the last case failed at the peer.
fn finish(mut all: Vec<Played>, result: anyhow::Result<()>) -> anyhow::Result<Vec<Played>> {
    let Err(error) = result else { return Ok(all) };
    let Some(last) = all.last_mut() else { return Err(error) };
    if last.there.is_ok() {
        last.there = Err(error);
    }
    Ok(all)
}

/// Plays a case; both ends tell each other how it ended.
fn play(role: Role<'_>, case: &'static RoleCase) -> Played {
    let started = Instant::now();
    let (here, there) = end_to_end(&role, case.play);
    Played { case, duration: started.elapsed(), here: here.map(|()| role.into_notes()), there }
}

/// Plays this end, and exchanges results with the other end. Returns the result here, and there.
fn end_to_end<T>(
    role: &Role<'_>,
    act: impl FnOnce(&Role<'_>) -> anyhow::Result<T>,
) -> (anyhow::Result<T>, anyhow::Result<()>) {
    let here = act(role);
    let control = role.control;
    let verdict = here.as_ref().err().map(|error| format!("{error:#}"));
    let there = if control.is_lost() {
        Err(anyhow!("it is gone"))
    } else {
        let heard = control.tell(&Message::Verdict(verdict)).and_then(|()| control.verdict(role.duration));
        heard.and_then(|verdict| verdict.map_or(Ok(()), |why| Err(anyhow!(why))))
    };
    (here, there)
}
