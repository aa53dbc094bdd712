//! Running cases on a provider that was named.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::Args;
use conformance::nd::{AnyProvider, Begun, NdCase, ORDERS, Played, ROLE_CASES, RoleCase, Seen, Version};

use super::{
    Findings, Named,
    findings::{LeftOut, Limit, Order, Requests, Statuses},
    version_of_file,
};
use crate::{
    front_end::FrontEnd,
    provider::{self, VERSION_1, VERSION_2, catalog},
    report::{Outcome, Report},
    run::{Selection, progress, show},
};

/// How long `exchange` lasts.
const SHORT: Duration = Duration::from_secs(2);

/// Which provider.
#[derive(Args)]
pub(crate) struct Which {
    /// A provider, which may be anyone's, by the identifier of its entry in the Winsock catalog (`ndharness provider list`), or by its DLL.
    /// It is asked for nothing but what NetworkDirect's interfaces publish: cases that need more are left out, and the report names them.
    #[arg(long, value_name = "GUID|DLL", required = false)]
    provider: Named,
    /// The class to ask the DLL for. Not needed if the catalog has the DLL.
    #[arg(long, value_name = "GUID", value_parser = class, requires = "provider")]
    class: Option<u128>,
}

/// From where to where.
#[derive(Args, Default)]
pub(crate) struct Way {
    /// The local address, one of the provider's. Its first of IPv4 if none is given.
    #[arg(long, requires = "provider")]
    address: Option<IpAddr>,
    /// Play the cases with two roles, and no others, with `ndharness serve` there, which has a provider of its own. Version 2 only.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "provider")]
    peer: Option<SocketAddr>,
}

fn class(text: &str) -> anyhow::Result<u128> {
    provider::read(text).context("an identifier is {xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}")
}

impl Which {
    /// The provider of this version.
    fn find(&self, version: Version, address: Option<IpAddr>) -> anyhow::Result<AnyProvider> {
        let number = match version {
            Version::V1 => VERSION_1,
            Version::V2 => VERSION_2,
        };
        let (library, class): (PathBuf, u128) = match &self.provider {
            Named::Entry(class) => (catalog::library_of(*class, number)?, *class),
            Named::Library(library) => {
                // LoadLibrary would look for a bare name in other folders, too.
                let library = std::path::absolute(library)?;
                ensure!(library.is_file(), "there is no {}", library.display());
                let class = self.class.map_or_else(|| catalog::class_of(&library, number), |class| Ok(Some(class)))?;
                let class =
                    class.context("the Winsock catalog has no entry of this DLL and version: name its --class")?;
                (library, class)
            }
        };
        Ok(AnyProvider { library, class, address })
    }
}

/// Runs the cases that are `wanted` and need nothing but the published interfaces.
pub(crate) fn run(
    which: &Which,
    way: &Way,
    front_end: FrontEnd,
    wanted: &Selection,
    patience: Duration,
) -> anyhow::Result<Report> {
    let (version, interfaces) = match front_end {
        FrontEnd::Nd1 => (Version::V1, "nd1"),
        FrontEnd::Nd2 => (Version::V2, "nd2"),
        FrontEnd::Sim | FrontEnd::Ioctl => anyhow::bail!("--provider needs --front-end nd2 or nd1"),
    };
    let provider = which.find(version, way.address)?;
    let (address, limits) = provider.limits(version)?;
    let mut tried = match way.peer {
        None => in_this_process(&provider, version, wanted, patience)?,
        Some(peer) => {
            ensure!(version == Version::V2, "--peer needs --front-end nd2");
            with_peer(&provider, peer, wanted, patience)?
        }
    };
    let name = provider.library.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let requests =
        |(method, Begun { pended, at_once, refused })| Requests { method, pended, over_at_once: at_once, refused };
    let findings = Findings {
        file_version: version_of_file::of(&provider.library),
        class: provider::written(provider.class),
        interfaces,
        address: address.to_string(),
        limits: limits.into_iter().map(|(field, value)| Limit { field, value }).collect(),
        statuses: tried.statuses.into_rows(),
        requests: tried.begun.into_iter().map(requests).collect(),
        orders: orders(&tried.outcomes),
        left_out: std::mem::take(&mut tried.left_out),
        library: name.clone(),
    };
    let to = way.peer.map(|peer| format!(", with {peer}")).unwrap_or_default();
    let title = format!("{interfaces}, {name}{to}, by its published interfaces alone");
    Ok(Report::new(title, tried.outcomes).with_findings(findings))
}

/// Serves one session of cases, for `run --peer`, and says where, and what is being played.
pub(crate) fn serve(which: &Which, address: Option<IpAddr>, port: u16, patience: Duration) -> anyhow::Result<Report> {
    let provider = which.find(Version::V2, address)?;
    let ready = |address| println!("serving at {address}");
    let played = provider.serve(patience, port, ready, &|what| println!("{what}"))?;
    Ok(Report::new("nd2, by its published interfaces alone".to_owned(), outcomes(played, "serves", "connects")))
}

/// What came of cases.
#[derive(Default)]
struct Tried {
    outcomes: Vec<Outcome>,
    statuses: Statuses,
    begun: BTreeMap<&'static str, Begun>,
    left_out: Vec<LeftOut>,
}

impl Tried {
    fn add(&mut self, case: &str, seen: Seen) {
        self.statuses.add(case, seen.statuses);
        for (method, begun) in seen.begun {
            let sum = self.begun.entry(method).or_default();
            sum.pended += begun.pended;
            sum.at_once += begun.at_once;
            sum.refused += begun.refused;
        }
    }
}

fn in_this_process(
    provider: &AnyProvider,
    version: Version,
    wanted: &Selection,
    patience: Duration,
) -> anyhow::Result<Tried> {
    let cases = wanted.of(version.cases(), |case: &NdCase| case.name)?;
    let mut tried = Tried::default();
    let progress = progress(cases.len())?;
    for case in cases {
        if let Some(needs) = case.needs {
            tried.left_out.push(LeftOut { case: case.name, why: needs.why() });
            continue;
        }
        show(&progress, case.name);
        let started = Instant::now();
        let (result, seen) = provider.run(case, patience);
        tried.add(case.name, seen);
        tried.outcomes.push(Outcome::new(case.name.to_owned(), case.shows, started.elapsed(), result));
        progress.inc(1);
    }
    progress.finish_and_clear();
    ensure!(!tried.outcomes.is_empty(), "each of these cases needs more than the published interfaces");
    Ok(tried)
}

fn with_peer(
    provider: &AnyProvider,
    peer: SocketAddr,
    wanted: &Selection,
    patience: Duration,
) -> anyhow::Result<Tried> {
    let cases = wanted.of(ROLE_CASES.iter(), |case: &RoleCase| case.name)?;
    let needs = |case: &RoleCase| Version::V2.cases().find(|one| one.name == case.name).and_then(|one| one.needs);
    let mut tried = Tried::default();
    let (mut played, mut left_out) = (Vec::new(), Vec::new());
    for case in cases {
        match needs(case) {
            None => played.push(case),
            Some(needs) => left_out.push(LeftOut { case: case.name, why: needs.why() }),
        }
    }
    let progress = progress(played.len())?;
    let (played, seen) = provider.connect(patience, peer, &played, SHORT, &|what| show(&progress, what))?;
    progress.finish_and_clear();
    tried.add("the cases with two roles", seen);
    tried.outcomes = outcomes(played, "connects", "serves");
    tried.left_out = left_out;
    Ok(tried)
}

/// One line for each end of each case.
fn outcomes(played: Vec<Played>, here: &str, there: &str) -> Vec<Outcome> {
    let both = |Played { case, duration, here: own, there: peer }| {
        let outcome = |end, result| Outcome::new(format!("{} ({end})", case.name), case.shows, duration, result);
        [outcome(here, own), outcome(there, peer.map(|()| Vec::new()))]
    };
    played.into_iter().flat_map(both).collect()
}

/// Those of the cases that are about order.
fn orders(outcomes: &[Outcome]) -> Vec<Order> {
    let about = outcomes.iter().filter(|outcome| ORDERS.contains(&outcome.name()));
    about
        .map(|outcome| Order { case: outcome.name().to_owned(), shows: outcome.shows(), passed: outcome.has_passed() })
        .collect()
}
