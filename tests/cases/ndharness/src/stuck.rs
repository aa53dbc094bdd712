//! A process that is busy until it is killed.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use conformance::{
    Bench, Transport,
    client::{Arm, FastMr, Srq},
    memory::PAGE_SIZE,
    pair::{Pair, pattern},
};
use ndk_abi::ndkpi::NDK_OP_FLAG_SILENT_SUCCESS;

/// Bytes of each message.
const MESSAGE: usize = 64 * 1024;

/// When it ends by itself.
pub(crate) struct Until {
    /// After so long.
    pub(crate) duration: Duration,
    /// When there is no more input, if that is before.
    pub(crate) input_ends: bool,
}

/// Connects `pairs` pairs, pends requests of every kind, says "ready", and keeps traffic going.
pub(crate) fn run(transport: &dyn Transport, until: &Until, pairs: u8) -> anyhow::Result<()> {
    let bench = Bench::new(transport, Duration::from_secs(10));
    let pairs = (0..pairs).map(|_| Pair::new(&bench)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut requests = Vec::new();
    let mut idle = Vec::new();
    for pair in &pairs {
        for end in [&pair.a, &pair.b] {
            // None of these ends by the traffic below: they are there to be cancelled by the death of the process.
            requests.push(end.site.initiator_cq.notify(Arm::Errors));
            requests.push(end.site.receive_cq.notify(Arm::Solicited));
            requests.push(end.connector.notify_disconnect());
        }
        let site = &pair.b.site;
        let (listener, _) = site.listener()?;
        let waiting = site.end()?;
        requests.push(listener.connection_request(&waiting.connector));
        let srq = Srq::new(&site.pd, 8, 1, 1)?;
        srq.receive(1, &[])?;
        requests.push(srq.notify());
        idle.push((listener, waiting, srq, FastMr::new(&site.pd, 16 * PAGE_SIZE)?));
    }
    let buffers = pairs
        .iter()
        .map(|pair| {
            let source = pair.a.site.buffer(MESSAGE)?;
            source.memory().write(0, &pattern(1, MESSAGE));
            Ok((source, pair.b.site.buffer(2 * MESSAGE)?))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    println!("ready");
    let end = Instant::now() + until.duration;
    let input_ended = Arc::new(AtomicBool::new(false));
    if until.input_ends {
        let input_ended = input_ended.clone();
        thread::spawn(move || {
            let _whatever_it_was = io::copy(&mut io::stdin(), &mut io::sink());
            input_ended.store(true, Ordering::Relaxed);
        });
    }
    let mut context = 0;
    while Instant::now() < end && !input_ended.load(Ordering::Relaxed) {
        for (pair, (source, target)) in pairs.iter().zip(&buffers) {
            context += 1;
            pair.b.qp.receive(context, &[target.sge(0..MESSAGE)])?;
            let all = [source.sge(0..MESSAGE)];
            pair.a.qp.write(context, &all, target.remote(MESSAGE), NDK_OP_FLAG_SILENT_SUCCESS)?;
            pair.a.qp.read(context, &all, target.remote(MESSAGE), NDK_OP_FLAG_SILENT_SUCCESS)?;
            pair.a.qp.send(context, &all, 0)?;
        }
        for pair in &pairs {
            pair.a.initiated().context("sending")?;
            pair.b.received().context("receiving")?;
        }
    }
    drop(idle);
    Ok(())
}
