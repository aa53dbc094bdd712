//! The measurements: in short turns, everything that is compared in each of them, so that whatever else runs on the machine meets
//! all alike.

use std::{
    hint,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use conformance::{
    Bench,
    client::Client,
    nd::perf::{Here, Link, Operation},
};
use figures::{Samples, TURN, TURNS, median, progress};

use super::report::{Figures, Measurements, Row};
use crate::{front_end::Path, nd};

/// How long to wait for anything that should happen.
const PATIENCE: Duration = Duration::from_secs(10);
/// Hand-overs that the reference for latencies is taken from.
const HAND_OVERS: u32 = 20_000;

pub(super) fn measure(sizes: &[usize], operations: &[Operation]) -> anyhow::Result<Measurements> {
    let library = nd::library()?;
    let driver = nd::device(&library)?;
    let bench = Bench::new(&*driver, PATIENCE);
    let longest = sizes.iter().copied().max().context("no size is given")?;
    let client = bench.bare_client()?;
    let link = |path: Path| Link::new(&library, path.name(), longest, PATIENCE);
    let (rings, plain) = (link(Path::Rings)?, link(Path::Plain)?);
    let most = rings.max_transfer();
    ensure!(longest <= most, "the adapter takes messages of up to {most} bytes, {longest} are asked for");
    let progress = progress(sizes.len() * operations.len() * TURNS)?;
    let mut figures = Vec::new();
    for &operation in operations {
        for &size in sizes {
            progress.set_message(format!("{operation} of {size} B"));
            rings.check(operation, size).context("over rings")?;
            plain.check(operation, size).context("on the plain path")?;
            let (mut over_rings, mut by_codes, mut copied) = (OfPath::default(), OfPath::default(), Vec::new());
            for _ in 0..TURNS {
                over_rings.take(&rings, &client, operation, size)?;
                copied.push(rings.copies(size, TURN).rate());
                by_codes.take(&plain, &client, operation, size)?;
                progress.inc(1);
            }
            figures.push(Row {
                operation: operation.name(),
                bytes: size,
                memcpy_rate: median(&mut copied),
                rings: over_rings.figures(),
                plain: by_codes.figures(),
            });
        }
    }
    progress.finish_and_clear();
    let moved_bytes = rings.moved() + plain.moved();
    drop((rings, plain, client));
    let left = bench.left_behind();
    ensure!(left.is_empty(), "{}", left.join("\n"));
    let device = format!("softnd.dll on {}", driver.front_end());
    Ok(Measurements { device, hand_over_us: hand_over(), moved_bytes, figures })
}

/// What one path gave.
#[derive(Default)]
struct OfPath {
    samples: Samples,
    calls: u64,
}

impl OfPath {
    fn take(&mut self, link: &Link<Here>, driver: &Client, operation: Operation, size: usize) -> anyhow::Result<()> {
        let latencies = link.latencies(operation, size, TURN)?;
        let (streamed, made) = driver.transitions(|| link.stream(operation, size, TURN))?;
        let streamed = streamed?;
        self.samples.add(latencies, (streamed.operations, streamed.elapsed));
        self.calls += made.requests;
        Ok(())
    }

    fn figures(mut self) -> Figures {
        Figures {
            latency_us: self.samples.latency(),
            rate: self.samples.rate(),
            calls: self.calls as f64 / self.samples.operations() as f64,
        }
    }
}

/// The reference for latencies: microseconds that a word of memory takes from one thread to another that waits for it.
fn hand_over() -> f64 {
    let word = AtomicU32::new(0);
    let wait = |value: u32| {
        while word.load(Ordering::Acquire) != value {
            hint::spin_loop();
        }
    };
    let mut samples = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in (0..2 * HAND_OVERS).step_by(2) {
                wait(turn + 1);
                word.store(turn + 2, Ordering::Release);
            }
        });
        for turn in (0..2 * HAND_OVERS).step_by(2) {
            let started = Instant::now();
            word.store(turn + 1, Ordering::Release);
            wait(turn + 2);
            samples.push(started.elapsed().as_secs_f64() * 1e6 / 2.0);
        }
    });
    median(&mut samples)
}
