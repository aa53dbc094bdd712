//! How often a client calls into the driver: over rings hardly ever. On the plain path it does for each post and each poll, which
//! shows that the driver counts them.

use std::{thread, time::Instant};

use anyhow::ensure;
use ndk_abi::{ndkpi::NdkOperationTypeWrite, status::STATUS_SUCCESS};

use crate::{
    bench::Bench,
    client::{Arm, Path, QpSize},
    error,
    pair::{Pair, Site, expect},
};

/// Writes on their way at once.
const WINDOW: u64 = 128;

// Shows S218.
pub(super) fn polls(bench: &Bench<'_>) -> anyhow::Result<()> {
    let rings = bench.path() == Path::Rings;
    let count = if rings { 1_000_000 } else { 1_000 };
    let site = Site::new(bench)?;
    let poll = || -> anyhow::Result<()> {
        for _ in 0..count {
            ensure!(site.receive_cq.poll(1)?.is_empty(), "a completion of nothing");
        }
        Ok(())
    };
    let (polled, made) = site.client.transitions(poll)?;
    polled?;
    bench.note(format!("{count} polls: {} control codes", made.requests));
    let as_promised = if rings { made.requests == 0 } else { made.requests >= count };
    ensure!(as_promised, "{count} polls came to {made:?}");
    Ok(())
}

// Shows S218.
pub(super) fn stream(bench: &Bench<'_>) -> anyhow::Result<()> {
    /// A busy machine may stop one side again and again, until the other sleeps and a doorbell has to wake it.
    const ATTEMPTS: usize = 5;
    let rings = bench.path() == Path::Rings;
    let size = QpSize { initiators: WINDOW as u32, ..QpSize::default() };
    let end = |bench| Site::with_cq_depth(bench, WINDOW as u32)?.sized_end(size).map_err(anyhow::Error::from);
    let pair = Pair::connect(end(bench)?, end(&bench.there())?)?;
    let client = &pair.a.site.client;
    for (posts, bytes) in [(20_000, 64), (2_000, 16_384)] {
        let posts = if rings { posts } else { posts / 20 };
        let (source, target) = (pair.a.site.buffer(bytes)?, pair.b.site.buffer(bytes)?);
        let (sges, remote) = ([source.sge(0..bytes)], target.remote(0));
        let write = |context| pair.a.qp.write(context, &sges, remote, 0);
        let (mut few, mut seen) = (false, Vec::new());
        while !few && seen.len() < if rings { ATTEMPTS } else { 1 } {
            let (streamed, made) = client.transitions(|| write_all(&pair, write, posts))?;
            streamed?;
            seen.push(made.doorbells);
            few = made.doorbells * 50 < posts && made.requests == made.doorbells;
            bench.note(format!("{posts} posts of {bytes} bytes: {} control codes", made.requests));
            ensure!(rings || made.requests >= posts, "{posts} posts came to {made:?}");
        }
        ensure!(few == rings, "{posts} posts of {bytes} bytes, few calls: {few}; {seen:?} doorbells");
    }
    pair.quiet()
}

/// Makes `posts` writes, up to [`WINDOW`] at once.
fn write_all(pair: &Pair, write: impl Fn(u64) -> error::Result<()>, posts: u64) -> anyhow::Result<()> {
    /// The thread yields after this number of empty polls in a row: on a busy machine, a thread that yields at once does not run for a
    /// while, and the driver goes to sleep each time.
    const LOOKS: u32 = 10_000;
    let (mut posted, mut completed, mut vain) = (0, 0, 0);
    while completed < posts {
        while posted < posts && posted - completed < WINDOW {
            write(posted)?;
            posted += 1;
        }
        let found = pair.a.site.initiator_cq.poll(WINDOW as usize)?;
        vain = if found.is_empty() { vain + 1 } else { 0 };
        if vain == LOOKS {
            vain = 0;
            thread::yield_now();
        }
        for found in &found {
            expect(found, NdkOperationTypeWrite, completed, STATUS_SUCCESS)?;
            completed += 1;
        }
    }
    Ok(())
}

pub(super) fn counted(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let (client, cq) = (&pair.b.site.client, &pair.b.site.receive_cq);
    let (_waiting, made) = client.transitions(|| cq.notify(Arm::Any))?;
    ensure!(made.requests == 1 && made.doorbells == 0, "a notify request came to {made:?}");
    if bench.path() == Path::Plain {
        return Ok(());
    }
    let (source, target) = (pair.a.site.buffer(1)?, pair.b.site.buffer(1)?);
    let (sges, remote) = ([source.sge(0..1)], target.remote(0));
    let deadline = Instant::now() + client.patience();
    for context in 0.. {
        let post = || pair.a.qp.write(context, &sges, remote, 0);
        let (posted, made) = client.transitions(post)?;
        posted?;
        expect(&pair.a.site.initiator_cq.take_unarmed()?, NdkOperationTypeWrite, context, STATUS_SUCCESS)?;
        ensure!(made.requests == made.doorbells && made.doorbells <= 1, "a post came to {made:?}");
        if made.doorbells == 1 {
            break;
        }
        ensure!(Instant::now() < deadline, "the driver does not go to sleep, or counts no doorbells");
    }
    pair.quiet()
}
