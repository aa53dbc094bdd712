//! How often a program calls into the driver.
//!
//! On the plain path it does for each post and each poll, which shows that the driver counts them.

use std::{thread, time::Instant};

use anyhow::ensure;
use ndk_abi::{nd_ioctl::ND_CQ_NOTIFY_ANY, status::STATUS_SUCCESS};

use crate::{
    error,
    nd::{
        client::{QpSize, both::CompletionQueue as _},
        pair::{End, Pair, WRITE, expect},
        run::Nd,
    },
};

/// Writes on their way at once.
const WINDOW: usize = 128;

// Shows C6, S218.
pub(in crate::nd) fn polls(nd: &Nd) -> anyhow::Result<()> {
    let count = if nd.uses_rings() { 1_000_000 } else { 1_000 };
    let cq = End::new(nd)?.receive_cq;
    let (found, made) =
        nd.driver()?.transitions(|| (0..count).filter(|_| !cq.poll(1).is_ok_and(|found| found.is_empty())).count())?;
    ensure!(found == 0, "{found} completions of nothing");
    nd.note(format!("{count} polls: {} control codes", made.requests));
    let as_promised = if nd.uses_rings() { made.requests == 0 } else { made.requests >= count };
    ensure!(as_promised, "{count} polls came to {made:?}");
    Ok(())
}

// Shows C6.
pub(in crate::nd) fn stream(nd: &Nd) -> anyhow::Result<()> {
    /// A busy machine may stop one side again and again, until the other sleeps and a doorbell has to wake it.
    const ATTEMPTS: usize = 5;
    let rings = nd.uses_rings();
    let pair = Pair::sized(nd, QpSize { initiators: WINDOW as u32, ..QpSize::default() })?;
    for (posts, bytes) in [(20_000, 64), (2_000, 16_384)] {
        let posts = if rings { posts } else { posts / 20 };
        let (source, target) = (pair.a.buffer(bytes)?, pair.b.buffer(bytes)?);
        // Asked for here: the DLL asks the driver for tokens.
        let (sges, remote) = ([source.sge(0..bytes)], target.remote(0));
        let write = |context| pair.a.qp.write(context, &sges, remote, 0);
        let (mut few, mut seen) = (false, Vec::new());
        while !few && seen.len() < if rings { ATTEMPTS } else { 1 } {
            let (streamed, made) = nd.driver()?.transitions(|| write_all(&pair, write, posts))?;
            streamed?;
            seen.push(made.doorbells);
            few = made.doorbells * 50 < posts as u64 && made.requests == made.doorbells;
            nd.note(format!("{posts} posts of {bytes} bytes: {} control codes", made.requests));
            ensure!(rings || made.requests >= posts as u64, "{posts} posts came to {made:?}");
        }
        ensure!(few == rings, "{posts} posts of {bytes} bytes, few calls: {few}; {seen:?} doorbells");
    }
    pair.quiet()
}

/// Makes `posts` writes, up to [`WINDOW`] at once.
fn write_all(pair: &Pair, write: impl Fn(usize) -> error::Result<()>, posts: usize) -> anyhow::Result<()> {
    /// The thread yields after this number of empty polls in a row: on a busy machine, a thread that yields at once does not run for a
    /// while, and the driver goes to sleep each time.
    const LOOKS: u32 = 10_000;
    let (mut posted, mut completed, mut vain) = (0, 0, 0);
    while completed < posts {
        while posted < posts && posted - completed < WINDOW {
            write(posted)?;
            posted += 1;
        }
        let found = pair.a.initiator_cq.poll(WINDOW)?;
        vain = if found.is_empty() { vain + 1 } else { 0 };
        if vain == LOOKS {
            vain = 0;
            thread::yield_now();
        }
        for found in found {
            expect(found, WRITE, completed, STATUS_SUCCESS)?;
            completed += 1;
        }
    }
    Ok(())
}

pub(in crate::nd) fn counted(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (waiting, made) = nd.driver()?.transitions(|| pair.b.receive_cq.notify(ND_CQ_NOTIFY_ANY))?;
    ensure!(made.requests == 1 && made.doorbells == 0, "a notify request came to {made:?}");
    drop(waiting?);
    if !nd.uses_rings() {
        return Ok(());
    }
    let (source, target) = (pair.a.buffer(1)?, pair.b.buffer(1)?);
    let (sges, remote) = ([source.sge(0..1)], target.remote(0));
    let deadline = Instant::now() + nd.patience();
    for context in 0.. {
        let post = || pair.a.qp.write(context, &sges, remote, 0);
        let (posted, made) = nd.driver()?.transitions(post)?;
        posted?;
        expect(pair.a.initiated()?, WRITE, context, STATUS_SUCCESS)?;
        ensure!(made.requests == made.doorbells && made.doorbells <= 1, "a post came to {made:?}");
        if made.doorbells == 1 {
            break;
        }
        ensure!(Instant::now() < deadline, "the driver does not go to sleep, or counts no doorbells");
    }
    pair.quiet()
}
