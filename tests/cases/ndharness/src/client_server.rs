//! Two processes: one serves, one connects.

use std::{convert::Infallible, io, net::IpAddr, process, thread, time::Duration};

use anyhow::ensure;
use clap::Args;
use conformance::{
    Bench, Carrier,
    nd::{
        self as roles, LIVES, Played, ROLE_CASES, RoleCase,
        perf::{Link, There},
    },
};

use crate::{
    front_end::Path,
    nd::{device, library},
    report::{Outcome, Report},
    run::{Selection, progress},
    target::Target,
};

/// What both ends are asked for.
#[derive(Args)]
pub(crate) struct Options {
    /// How this end's softnd.dll reaches the driver; the other end's may do it otherwise.
    #[arg(long, value_enum, default_value_t = Path::Rings)]
    pub(crate) path: Path,
    /// Seconds to wait for anything that should happen before a case fails.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    patience: u64,
}

/// Serves one session of cases, and says where, and what is being played, on standard output.
pub(crate) fn serve(options: &Options, address: Option<IpAddr>, port: u16) -> anyhow::Result<Report> {
    roles::choose_path(options.path.name());
    let ready = |address| println!("serving at {address}");
    let watch = |what: &str| println!("{what}");
    let played = roles::serve(&library()?, options.patience(), address, port, ready, &watch)?;
    options.report(played, "serves", "connects")
}

/// Has this process exit when its input ends, as when the process that started it has ended.
pub(crate) fn exit_with_input() {
    thread::spawn(|| {
        let _whatever_it_was = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(1);
    });
}

/// Refuses whoever asks, and says where, until this process is ended.
pub(crate) fn refuse(options: &Options, address: Option<IpAddr>, port: u16) -> anyhow::Result<Infallible> {
    roles::choose_path(options.path.name());
    roles::refuse(&library()?, options.patience(), address, port, |address| println!("serving at {address}"))
}

/// Plays the cases that are `wanted`, with a server.
pub(crate) fn connect(
    options: &Options,
    target: Target,
    wanted: &Selection,
    carrier: Carrier,
    seconds: u64,
) -> anyhow::Result<Report> {
    let named_only = if wanted.names_none() { &[] } else { LIVES };
    let cases = wanted.of(ROLE_CASES.iter().chain(named_only), |case: &RoleCase| case.name)?;
    roles::choose_path(options.path.name());
    let progress = progress(cases.len())?;
    let watch = |what: &str| progress.set_message(what.to_owned());
    let duration = Duration::from_secs(seconds);
    let played = roles::connect(&library()?, options.patience(), target.parts(), &cases, carrier, duration, &watch)?;
    progress.finish_and_clear();
    options.report(played, "connects", "serves")
}

impl Options {
    pub(crate) fn new(path: Path, patience: Duration) -> Self {
        Self { path, patience: patience.as_secs() }
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }

    /// Measures with the server at `target`: [`conformance::nd::measure`].
    pub(crate) fn measure<T>(
        &self,
        target: Target,
        longest: usize,
        act: impl FnOnce(&Link<There<'_>>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        roles::choose_path(self.path.name());
        roles::measure(&library()?, self.patience(), target.parts(), longest, act)
    }

    /// One line for each end of each case.
    fn report(&self, played: Vec<Played>, here: &str, there: &str) -> anyhow::Result<Report> {
        let device = self.device_at_rest()?;
        let outcomes = played.into_iter().flat_map(|Played { case, duration, here: own, there: peer }| {
            let outcome = |end, result| Outcome::new(format!("{} ({end})", case.name), case.shows, duration, result);
            [outcome(here, own), outcome(there, peer.map(|()| Vec::new()))]
        });
        Ok(Report::new(device, outcomes.collect()))
    }

    /// What softnd.dll is on at this end. In a device of this process nothing may be left.
    pub(crate) fn device_at_rest(&self) -> anyhow::Result<String> {
        let library = library()?;
        if let Some(own) = conformance::nd::hosted(&library)? {
            let left = Bench::new(&*own, self.patience()).left_behind();
            ensure!(left.is_empty(), "{}", left.join("\n"));
        }
        Ok(format!("softnd.dll ({}) on {}", self.path.name(), device(&library)?.front_end()))
    }
}
