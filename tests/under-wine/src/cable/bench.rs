//! `cargo xtask bench --cable`: TCP over the adapter of softndk.sys under Wine, beside TCP over VXLAN of Linux's kernel, in turns.
//!
//! Both ends of both are Linux's TCP/IP, in network namespaces of one machine: first neither has an offload, then each has those that it can. A
//! figure is the median of the turns.
//! RDMA goes between two drivers over the cable, beside TCP between them, by `ndharness perf`.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use build::command::{cargo, output, step};
use build::{command, dist, paths, setup};
use checks::bench::Wanted;
use serde_json::json;

use super::{
    Computer, LINUX, MEBIBYTE, Network, OTHER, OURS, PACKAGES, is_clean, offloads, session, stream_of, until_reached,
};
use crate::run;
use crate::session::Session;
use crate::two_processes::serve;

const TURNS: usize = 7;
const KERNEL: &str = "VXLAN of Linux";
/// For one run of `ndharness perf`.
const PERF_LIMIT: Duration = Duration::from_secs(300);
/// Bytes of a stream.
const BYTES: u64 = 256 * MEBIBYTE;
/// The network that carries the datagrams.
const MTU: u32 = 1500;

/// A figure of the adapter, beside the reference.
struct Figure {
    name: &'static str,
    /// What the reference is.
    beside: &'static str,
    unit: &'static str,
    device: f64,
    reference: f64,
    /// What is compared, and its bound.
    compared: f64,
    bound: Bound,
}

enum Bound {
    /// The ratio of both is at least this.
    Ratio(f64),
    /// The device takes this much more at most.
    More(f64),
}

impl Figure {
    fn of_rates([name, beside]: [&'static str; 2], device: Vec<f64>, reference: Vec<f64>, bound: f64) -> Self {
        let (device, reference) = (median(device), median(reference));
        Self {
            name,
            beside,
            unit: "MiB/s",
            device,
            reference,
            compared: device / reference,
            bound: Bound::Ratio(bound),
        }
    }

    fn of_times([name, beside]: [&'static str; 2], device: Vec<f64>, reference: Vec<f64>, bound: f64) -> Self {
        let (device, reference) = (median(device), median(reference));
        Self { name, beside, unit: "us", device, reference, compared: device - reference, bound: Bound::More(bound) }
    }

    fn is_met(&self) -> bool {
        match self.bound {
            Bound::Ratio(least) => self.compared >= least,
            Bound::More(most) => self.compared <= most,
        }
    }

    fn line(&self) -> String {
        let Self { name, beside, unit, device, reference, compared, .. } = self;
        let verdict = if self.is_met() { "met" } else { "missed" };
        let target = match self.bound {
            Bound::Ratio(least) => format!("{compared:.2} times, at least {least}"),
            Bound::More(most) => format!("{compared:.1} {unit} more, at most {most}"),
        };
        format!("{name:24} {device:8.1} {unit:5}  {beside:14} {reference:8.1} {unit:5}  {target}: {verdict}")
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// Measures, prints a table or JSON, and writes target/report/cable.json.
pub fn bench(wanted: &Wanted) -> Result<ExitCode> {
    setup::provide(&PACKAGES)?;
    let build = ["build", "--release", "--package", "tunnel"];
    step("building the streams", || command::run(cargo(&paths::root()).args(build)))?;
    dist::build()?;
    let network = Network::build(MTU, &[OURS])?;
    let mut figures = Vec::new();
    for (what, offloads) in [("measuring without offloads", false), ("measuring with offloads", true)] {
        let mut session = session(&OURS, MTU)?;
        offloads::turn(&mut session, offloads)?;
        // The driver is measured, not how the stand-ins look at what it does.
        session.set_keyword("Unchecked", "1")?;
        session.load()?;
        until_reached(&LINUX, &OURS.address())?;
        figures.extend(step(what, || if offloads { with_offloads() } else { without_offloads() })?);
        is_clean(&session.unload()?)?;
    }
    drop(network);
    figures.push(step("measuring RDMA", writes)?);
    let as_json = |figure: &Figure| {
        let Figure { name, beside, unit, device, reference, compared, .. } = figure;
        json!({ "name": name, "reference": beside, "unit": unit, "value": device, "reference_value": reference, "compared": compared, "met": figure.is_met() })
    };
    let text = serde_json::to_string_pretty(&figures.iter().map(as_json).collect::<Vec<_>>())? + "\n";
    let path = paths::root().join("target/report/cable.json");
    fs::create_dir_all(path.parent().context("a report without a folder")?)?;
    fs::write(&path, &text)?;
    if wanted.json {
        print!("{text}");
    } else {
        figures.iter().for_each(|figure| println!("{}", figure.line()));
        println!("report: {}", path.display());
    }
    Ok(if !wanted.check || figures.iter().all(Figure::is_met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Turns the offloads of VXLAN of Linux on or off.
fn turn(offloads: &str) -> Result<()> {
    [LINUX, OTHER].iter().try_for_each(|computer| computer.run(&format!("ethtool -K cable {offloads}")).map(|_| ()))
}

fn with_offloads() -> Result<Vec<Figure>> {
    OURS.run("ethtool -K wire tx-udp-segmentation on")?;
    let [mut out, mut back, mut between] = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        turn("tx on tso on gso on gro on")?;
        between.push(rate(&OTHER, &LINUX)?);
        // Else Linux leaves the checksums in the tunnel to a card, and there is none.
        turn("tx off gso on gro on")?;
        out.push(rate(&OURS, &LINUX)?);
        back.push(rate(&LINUX, &OURS)?);
    }
    Ok(vec![
        Figure::of_rates(["stream out, offloads", KERNEL], out, between.clone(), 0.6),
        Figure::of_rates(["stream in, offloads", KERNEL], back, between, 0.6),
    ])
}

fn without_offloads() -> Result<Vec<Figure>> {
    offloads::without_udp_offload()?;
    turn("tx off tso off gso off gro off")?;
    let [mut out, mut back, mut between] = [const { Vec::new() }; 3];
    let [mut asked, mut beside] = [const { Vec::new() }; 2];
    for _ in 0..TURNS {
        out.push(rate(&OURS, &LINUX)?);
        between.push(rate(&OTHER, &LINUX)?);
        back.push(rate(&LINUX, &OURS)?);
        asked.push(round_trip(&LINUX, &OURS)?);
        beside.push(round_trip(&LINUX, &OTHER)?);
    }
    Ok(vec![
        Figure::of_rates(["TCP stream out", KERNEL], out, between.clone(), 0.35),
        Figure::of_rates(["TCP stream in", KERNEL], back, between, 0.35),
        Figure::of_times(["round trip of a ping", KERNEL], asked, beside, 15.0),
    ])
}

/// RDMA writes of 1 MiB between two drivers, beside TCP's between them.
fn writes() -> Result<Figure> {
    let network = Network::build(MTU, &[OURS, OTHER])?;
    let mut sessions = [session(&OURS, MTU)?, session(&OTHER, MTU)?];
    sessions.iter_mut().try_for_each(Session::load)?;
    until_reached(&OURS, &OTHER.address())?;
    let [mut out, mut beside] = [const { Vec::new() }; 2];
    for _ in 0..TURNS {
        let (server, address) = serve(&sessions[0], "rings")?;
        let arguments = ["perf", &address, "--sizes", "1MiB", "--operation", "write", "--json"];
        let report = run::report_of(&sessions[1], &arguments, PERF_LIMIT)?;
        let (served, said) = server.end()?;
        ensure!(served.success(), "the server ended with {served}: {said}");
        // Writes a second, each of 1 MiB.
        let rate = |of: &str| report["figures"][0][of]["rate"].as_f64().with_context(|| format!("no rate: {report}"));
        out.push(rate("rdma")?);
        beside.push(rate("tcp")?);
    }
    for session in &mut sessions {
        is_clean(&session.unload()?)?;
    }
    drop(network);
    Ok(Figure::of_rates(["RDMA writes of 1 MiB", "TCP"], out, beside, 0.8))
}

/// MiB/s of a stream.
fn rate(from: &Computer, to: &Computer) -> Result<f64> {
    let sent = stream_of(&paths::root().join("target/release/tunnel"), from, to, BYTES)?;
    let seconds = sent.split_once(" bytes in ").and_then(|(_, time)| time.trim().strip_suffix(" s"));
    let seconds: f64 = seconds.with_context(|| format!("the sender says {sent:?}"))?.parse()?;
    Ok(BYTES as f64 / MEBIBYTE as f64 / seconds)
}

/// Microseconds of a ping's round trip, the mean of many.
fn round_trip(from: &Computer, to: &Computer) -> Result<f64> {
    let said = output(&mut from.command(&format!("ping -n -q -c 500 -i 0.002 {}", to.address())))?;
    let times = said.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = "));
    let mean = times.and_then(|times| times.split('/').nth(1));
    let milliseconds: f64 = mean.with_context(|| format!("ping says {said:?}"))?.parse()?;
    ensure!(said.contains(" 0% packet loss"), "{said}");
    Ok(milliseconds * 1000.0)
}
