//! On softndk.sys under Wine: programs of each front end on one driver, and what they may meet with.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use build::command;
use build::dist::TEST_DRIVER;
use fastrand::Rng;
use serde_json::Value;

use super::figures::Figures;
use super::watch::Watch;
use super::{Plan, Planted};
use crate::prefix;
use crate::run;
use crate::session::{self, Session};
use crate::two_processes::{self, Harness};
use crate::wine_tests::{diagnostics, still_alive};

/// How long an act may take: seconds of traffic, the programs' patience, and Wine.
const ACT_LIMIT: Duration = Duration::from_secs(300);
/// Seconds to wait for anything that should happen before it is lost: other programs may keep the machine busy meanwhile.
const PATIENCE: &str = "150";
/// The same of softnd.dll's programs, which wait for more than one thing in turn.
const PATIENT_ND: &[&str] = &["--patience", "60"];
/// How long the driver may take to say what it has.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Cases of nd1 or nd2 that are played at a time.
const CASES: usize = 6;
/// Connections of an exchange.
const EXCHANGE_CONNECTIONS: u64 = 4;
/// Acts between a load and an unload, at most.
const MOST_ACTS: usize = 4;
/// Seconds of traffic in an act, at most.
const MOST_SECONDS: u64 = 6;

/// Seconds of one that is killed before.
const LONG: u64 = 600;

/// The variable that keeps softnd.dll from the driver.
const DRIVERLESS: Option<(&str, &str)> = Some(("SOFTND_MODE", "hosted"));

/// What is done with a loaded driver.
#[derive(Clone, Copy)]
enum Act {
    /// Consumers of the IOCTLs beside two processes of nd2 that exchange traffic.
    Traffic(Trouble),
    /// Two processes of nd1 play their cases.
    Roles,
    /// Some cases of nd1, or of nd2.
    Cases(Version),
    /// RDMA is turned off beneath a program of nd1, or nd2, that looks at what it is told.
    Removed(Version),
    /// Two processes, each with a device of its own, exchange traffic.
    Driverless,
    /// Two processes connect, send and disconnect, again and again.
    Lives(Front),
}

/// What programs of a NetworkDirect version are on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Front {
    Driver(Version),
    Driverless(Version),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Nd1,
    Nd2,
}

impl Version {
    fn name(self) -> &'static str {
        if self == Self::Nd1 { "nd1" } else { "nd2" }
    }
}

/// In the first cycle, also of the shortest soak, each of them.
const ACTS: [Act; 14] = [
    Act::Traffic(Trouble::Nothing),
    Act::Traffic(Trouble::KillsConsumer),
    Act::Traffic(Trouble::KillsExchange),
    Act::Traffic(Trouble::Disables),
    Act::Roles,
    Act::Cases(Version::Nd1),
    Act::Cases(Version::Nd2),
    Act::Removed(Version::Nd1),
    Act::Removed(Version::Nd2),
    Act::Driverless,
    Act::Lives(Front::Driver(Version::Nd1)),
    Act::Lives(Front::Driver(Version::Nd2)),
    Act::Lives(Front::Driverless(Version::Nd1)),
    Act::Lives(Front::Driverless(Version::Nd2)),
];

/// What happens to programs in mid-traffic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Nothing,
    KillsConsumer,
    KillsExchange,
    Disables,
}

struct Soak<'a> {
    plan: &'a Plan<'a>,
    random: Rng,
    session: Session,
    watch: Arc<Watch>,
    ioctl: Figures,
    nd1: Figures,
    nd2: Figures,
    driverless: Figures,
}

/// Four rows, until it is time.
pub(super) fn run(plan: &Plan<'_>) -> Result<Vec<(&'static str, Figures)>> {
    let mut soak = Soak {
        plan,
        random: Rng::with_seed(plan.seed),
        session: start(plan)?,
        watch: Arc::default(),
        ioctl: Figures::default(),
        nd1: Figures::default(),
        nd2: Figures::default(),
        driverless: Figures::default(),
    };
    // What the planted driver does it does at its end.
    let mut acts = if plan.planted.is_some() { vec![Act::Roles] } else { ACTS.to_vec() };
    loop {
        if let Err(error) = soak.cycle(&acts) {
            soak.ioctl.wrong += 1;
            soak.ioctl.find(format!("{error:#}\n{}", soak.session.log_tail()));
            // Whatever it is, it is not to go on in the next one.
            soak = soak.restarted()?;
        }
        if plan.left().is_zero() {
            break;
        }
        acts = (0..soak.random.usize(1..=MOST_ACTS)).filter_map(|_| soak.random.choice(ACTS)).collect();
        // By chance alone nd1 would connect a few hundred times in half an hour: its cases are not counted as connections.
        let version = if soak.random.bool() { Version::Nd1 } else { Version::Nd2 };
        acts.push(Act::Lives(Front::Driver(version)));
    }
    Ok(vec![
        ("softndk.sys, IOCTLs", soak.ioctl),
        ("softndk.sys, nd1", soak.nd1),
        ("softndk.sys, nd2", soak.nd2),
        ("nd1 and nd2 without a driver", soak.driverless),
    ])
}

fn start(plan: &Plan<'_>) -> Result<Session> {
    let driver = if plan.planted.is_some() { TEST_DRIVER } else { prefix::DRIVER };
    Session::start_driver(driver, &session::addresses(&[])?)
}

impl Soak<'_> {
    /// With another session. This one first: it ends all processes of the prefix.
    fn restarted(self) -> Result<Self> {
        drop(self.session);
        Ok(Self { session: start(self.plan)?, ..self })
    }

    /// Loads the driver, does these things, and unloads it: nothing may be left.
    fn cycle(&mut self, acts: &[Act]) -> Result<()> {
        self.session.load()?;
        let idle = diagnostics(&self.session)?;
        for act in acts {
            self.say();
            self.watched(*act)?;
            if let Some(left) = still_alive(&self.session, &idle)? {
                self.ioctl.leaked += 1;
                self.ioctl.find(left);
            }
        }
        match self.plan.planted {
            Some(Planted::Leak) => self.session.plant("leak")?,
            Some(Planted::Irql) => self.session.plant("irql")?,
            None => {}
        }
        let report = self.session.unload()?;
        self.ioctl.unloads += 1;
        self.ioctl.leaked += report.pool_allocations + report.objects.unsigned_abs();
        self.ioctl.violations += report.irql_violations;
        if !report.is_clean() {
            self.ioctl.find(format!("left by softndk.sys: {report}"));
        }
        Ok(())
    }

    /// Does it, and asks the driver what it has if that hangs.
    fn watched(&mut self, act: Act) -> Result<()> {
        let mut asked = ["status", "objects"].map(|what| {
            let mut command = self.session.program("ndkctl.exe");
            command.args([what, "--json"]);
            command
        });
        let ask = move || {
            let answers = asked.iter_mut().map(|command| match command::outcome(command, ANSWER_LIMIT) {
                Ok(output) => command::said(&output),
                Err(error) => format!("{error:#}"),
            });
            format!("the driver says: {}", answers.collect::<Vec<_>>().join("\n"))
        };
        let (watch, end) = (Arc::clone(&self.watch), self.session.end_of_programs());
        watch.within(ACT_LIMIT, ask, end, || match act {
            Act::Traffic(trouble) => self.traffic(trouble).context("traffic"),
            Act::Roles => self.roles().context("cases with two roles of nd1"),
            Act::Cases(version) => self.cases(version).with_context(|| format!("cases of {}", version.name())),
            Act::Removed(version) => self.removed(version).with_context(|| format!("{} removed", version.name())),
            Act::Driverless => self.driverless().context("traffic without a driver"),
            Act::Lives(front) => self.lives(front).context("connections one after the other"),
        })
    }

    /// A harness that is watched.
    fn harness(&self, arguments: &[&str], variable: Option<(&str, &str)>) -> Result<Harness> {
        let harness = Harness::start_in(&self.session, arguments, variable)?;
        self.watch.add(&harness);
        Ok(harness)
    }

    fn say(&self) {
        let operations = [&self.ioctl, &self.nd1, &self.nd2, &self.driverless].map(|row| row.operations);
        let (operations, unloads) = (operations.iter().sum::<u64>(), self.ioctl.unloads);
        self.plan.progress.set_message(format!("under Wine {operations} operations, {unloads} unloads"));
    }

    /// Seconds that something may take.
    fn seconds(&mut self) -> u64 {
        let most = self.plan.left().as_secs().clamp(2, MOST_SECONDS);
        self.random.u64(2..=most)
    }

    fn path(&mut self) -> &'static str {
        if self.random.bool() { "rings" } else { "plain" }
    }

    fn traffic(&mut self, trouble: Trouble) -> Result<()> {
        use Trouble::{Disables, KillsConsumer, KillsExchange, Nothing};
        let seconds = self.seconds();
        let is_victim = |number| trouble == KillsConsumer && number == 0;
        let consumers = (0..self.random.usize(1..=3))
            .map(|number| self.consumer(if is_victim(number) { LONG } else { seconds }, trouble))
            .collect::<Result<Vec<_>>>()?;
        let path = self.path();
        let is_ended = matches!(trouble, KillsExchange | Disables);
        let exchange = self.exchange(path, None, &[], if is_ended { FOREVER } else { SHORT })?;
        // Some of it is under way.
        exchange.server.until(|line| two_processes::so_many_requests(line, 1))?;
        thread::sleep(Duration::from_millis(self.random.u64(..1000)));
        let kills_server = self.random.bool();
        if trouble == Disables {
            self.session.set_rdma(false)?;
            thread::sleep(Duration::from_millis(self.random.u64(..500)));
            self.session.set_rdma(true)?;
            self.ioctl.disables += 1;
        }
        self.nd2 += match trouble {
            Disables => exchange.ends_somehow(),
            KillsExchange => exchange.end(Some(kills_server)),
            Nothing | KillsConsumer => exchange.end(None),
        }
        .unwrap_or_else(|error| Figures::wrong(&error));
        for (number, mut consumer) in consumers.into_iter().enumerate() {
            let is_killed = is_victim(number);
            if is_killed {
                consumer.kill()?;
                self.ioctl.kills += 1;
            }
            let figures = consumer.figures(is_killed, ACT_LIMIT);
            self.ioctl += figures.unwrap_or_else(|error| Figures::wrong(&error));
        }
        Ok(())
    }

    /// A process that lives random lives.
    fn consumer(&mut self, seconds: u64, trouble: Trouble) -> Result<Harness> {
        let seed = self.random.u64(..).to_string();
        let seconds = seconds.to_string();
        let mut arguments = vec!["soak", "--front-end", "ioctl", "--json", "--seed", &seed, "--threads", "2"];
        arguments.extend(["--seconds", &seconds, "--patience", PATIENCE]);
        arguments.extend((trouble == Trouble::Disables).then_some("--removable"));
        self.harness(&arguments, None)
    }

    /// Two processes that exchange traffic for so many seconds.
    fn exchange(&self, path: &str, variable: Option<(&str, &str)>, more: &[&str], seconds: &str) -> Result<Exchange> {
        let (server, address) = self.server(path, variable)?;
        let arguments = ["connect", &address, "exchange::mixed", "--path", path, "--seconds", seconds, "--json"];
        let client = self.harness(&[&arguments, PATIENT_ND, more].concat(), variable)?;
        Ok(Exchange { server, client })
    }

    /// The serving end; the address that it serves at.
    fn server(&self, path: &str, variable: Option<(&str, &str)>) -> Result<(Harness, String)> {
        let server = self.harness(&[&["serve", "--path", path], PATIENT_ND].concat(), variable)?;
        let address = server.until(two_processes::serving_at)?;
        Ok((server, address))
    }

    /// The cases with two roles of nd1.
    fn roles(&mut self) -> Result<()> {
        let (serving, connecting) = (self.path(), self.path());
        let (server, address) = self.server(serving, None)?;
        let arguments = ["connect", &address, "version1", "--path", connecting, "--json"];
        let (status, report) = self.harness(&[&arguments, PATIENT_ND].concat(), None)?.end()?;
        let report: Value = serde_json::from_str(&report).with_context(|| format!("{status}, and said: {report}"))?;
        let (served, text) = server.end()?;
        self.nd1 += played(&report);
        if !served.success() {
            self.nd1.wrong += 1;
            self.nd1.find(text);
        }
        Ok(())
    }

    fn cases(&mut self, version: Version) -> Result<()> {
        let name = version.name();
        let (_, list) = self.harness(&["list", "--front-end", name, "--busy"], None)?.end()?;
        let all: Vec<_> =
            list.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| word.contains("::")).collect();
        ensure!(!all.is_empty(), "the harness lists no cases of {name}:\n{list}");
        let chosen = self.random.choose_multiple(all, CASES);
        let arguments =
            [&["run", "--front-end", name, "--path", self.path(), "--json"], PATIENT_ND, chosen.as_slice()].concat();
        let report = run::report_of(&self.session, &arguments, run::CASE_LIMIT)?;
        *self.row(version) += played(&report);
        Ok(())
    }

    fn removed(&mut self, version: Version) -> Result<()> {
        let path = self.path();
        let process = self.harness(&["removed", "--front-end", version.name(), "--path", path], None)?;
        process.until(|line| (line == "ready").then_some(()))?;
        self.session.set_rdma(false)?;
        let (status, told) = process.end()?;
        self.session.set_rdma(true)?;
        let row = self.row(version);
        row.disables += 1;
        row.operations += told.lines().count() as u64;
        if !status.success() {
            row.wrong += 1;
            row.find(told);
        }
        Ok(())
    }

    fn driverless(&mut self) -> Result<()> {
        let path = self.path();
        let exchange = self.exchange(path, DRIVERLESS, &["--wire"], SHORT)?;
        exchange.server.until(|line| two_processes::so_many_requests(line, 1))?;
        self.driverless += exchange.end(None).unwrap_or_else(|error| Figures::wrong(&error));
        Ok(())
    }

    fn lives(&mut self, front: Front) -> Result<()> {
        let (version, variable, more) = match front {
            Front::Driver(version) => (version, None, &[][..]),
            Front::Driverless(version) => (version, DRIVERLESS, &["--wire"][..]),
        };
        let case = if version == Version::Nd1 { "lives::version1" } else { "lives::version2" };
        let (serving, connecting, seconds) = (self.path(), self.path(), self.seconds().to_string());
        let (server, address) = self.server(serving, variable)?;
        let arguments = ["connect", &address, case, "--path", connecting, "--seconds", &seconds, "--json"];
        let client = self.harness(&[&arguments, PATIENT_ND, more].concat(), variable)?;
        let (status, report) = client.end()?;
        let (served, said) = server.end()?;
        let connects = said.lines().filter_map(|line| two_processes::connections(line.trim())).max().unwrap_or(0);
        let row = match front {
            Front::Driver(version) => self.row(version),
            Front::Driverless(_) => &mut self.driverless,
        };
        row.connects += connects;
        row.operations += connects;
        if !status.success() || !served.success() {
            row.wrong += 1;
            row.find(format!("{status}: {report}\nthe server: {served}: {said}"));
        }
        Ok(())
    }

    fn row(&mut self, version: Version) -> &mut Figures {
        if version == Version::Nd1 { &mut self.nd1 } else { &mut self.nd2 }
    }
}

/// Cases that were played.
fn played(report: &Value) -> Figures {
    let count = |name: &str| report[name].as_u64().unwrap_or(0);
    let failed = report["cases"].as_array().into_iter().flatten().filter(|case| case["result"] == "failed");
    let mut figures = Figures { operations: count("passed"), wrong: count("failed"), ..Figures::default() };
    failed.for_each(|case| figures.find(format!("{}: {}", case["name"], case["failure"])));
    figures
}

/// Two processes that exchange traffic.
struct Exchange {
    server: Harness,
    client: Harness,
}

/// Seconds that an exchange lasts.
const SHORT: &str = "3";
/// One that is ended before.
const FOREVER: &str = "600";

impl Exchange {
    /// Waits for its end, or kills one: the server, or not.
    fn end(self, kills_server: Option<bool>) -> Result<Figures> {
        let Self { server, client } = self;
        let mut figures = Figures { connects: EXCHANGE_CONNECTIONS, ..Figures::default() };
        let said = if let Some(kills_server) = kills_server {
            let (mut victim, survivor) = if kills_server { (server, client) } else { (client, server) };
            victim.kill()?;
            figures.kills += 1;
            let (status, said) = survivor.end()?;
            ensure!(status.code() == Some(1), "the other process ended with {status}:\n{said}");
            two_processes::is_told(&said)?;
            said
        } else {
            let (status, report) = client.end()?;
            let (served, said) = server.end()?;
            ensure!(status.success() && served.success(), "{status}: {report}\nthe server: {served}: {said}");
            said
        };
        figures.operations =
            said.lines().filter_map(|line| two_processes::so_many_requests(line.trim(), 0)).max().unwrap_or(1);
        Ok(figures)
    }

    /// Both end, without what they need.
    fn ends_somehow(self) -> Result<Figures> {
        let (_, _) = self.client.end()?;
        let (_, said) = self.server.end()?;
        let operations =
            said.lines().filter_map(|line| two_processes::so_many_requests(line.trim(), 0)).max().unwrap_or(1);
        Ok(Figures { connects: EXCHANGE_CONNECTIONS, operations, ..Figures::default() })
    }
}
