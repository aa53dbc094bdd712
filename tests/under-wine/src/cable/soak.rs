//! `cargo xtask cable --soak MINUTES`: two drivers and a Linux kernel on one cable. A seed gives the order of acts: traffic, links that go and come, and
//! pauses, sleeps, unloads and removals of the first driver. Each stream compares its bytes, and each unload says what the driver has left.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use build::command::step;

use super::{LINUX, MEBIBYTE, Network, OTHER, OURS, away, is_clean, paused, session, stream, until_reached};
use crate::session::Session;

const MTU: u32 = 1500;

/// An act, with the drivers of OURS and OTHER.
type Act = fn(&mut [Session; 2]) -> Result<()>;

const ACTS: [(&str, Act); 10] = [
    ("a stream to Linux", |_| stream(&OURS, &LINUX, 64 * MEBIBYTE)),
    ("a stream from Linux", |_| stream(&LINUX, &OURS, 64 * MEBIBYTE)),
    ("a stream between the drivers", |_| stream(&OURS, &OTHER, 64 * MEBIBYTE)),
    ("Linux off the network in mid stream", |_| away::comes_back(&LINUX)),
    ("a driver off the network in mid stream", |_| away::comes_back(&OURS)),
    ("the cable unplugged during a stream and RDMA", away::goes_on),
    ("pauses in mid stream", |sessions| paused::pauses(&mut sessions[0], &LINUX)),
    ("a sleep in mid stream", |sessions| paused::sleeps(&mut sessions[0], &LINUX)),
    ("an unload in mid stream", |sessions| goes(&mut sessions[0], false)),
    ("a surprise removal in mid stream", |sessions| goes(&mut sessions[0], true)),
];

fn goes(session: &mut Session, is_surprise: bool) -> Result<()> {
    is_clean(&session.unload()?)?;
    paused::goes(session, is_surprise)?;
    session.load()?;
    until_reached(&LINUX, &OURS.address())
}

/// Plays for this time. An act that fails ends the soak.
pub(super) fn soak(minutes: f64, seed: u64) -> Result<ExitCode> {
    println!("soaking the cable for {minutes} minutes; --seed {seed} plays the same acts");
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let network = Network::build(MTU, &[OURS, OTHER])?;
    let mut sessions = [session(&OURS, MTU)?, session(&OTHER, MTU)?];
    sessions.iter_mut().try_for_each(Session::load)?;
    until_reached(&OURS, &OTHER.address())?;
    until_reached(&OURS, &LINUX.address())?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut played = BTreeMap::<&str, u32>::new();
    while Instant::now() < end {
        let (name, act) = ACTS[random.usize(..ACTS.len())];
        let minutes = end.saturating_duration_since(Instant::now()).as_secs_f64() / 60.0;
        step(&format!("{name}; {minutes:.1} minutes left"), || act(&mut sessions))
            .with_context(|| format!("--seed {seed}\n{}{}", sessions[0].log_tail(), sessions[1].log_tail()))?;
        *played.entry(name).or_default() += 1;
    }
    for session in &mut sessions {
        is_clean(&session.unload()?)?;
    }
    drop(network);
    for (name, count) in &played {
        println!("{count:5}  {name}");
    }
    println!("{} acts: nothing lost, left behind or against a rule", played.values().sum::<u32>());
    Ok(ExitCode::SUCCESS)
}
