//! Sending, and waiting for what comes back.

use std::{
    io,
    ops::ControlFlow,
    process::ExitCode,
    sync::mpsc::{RecvTimeoutError, channel},
    time::Duration,
};

use clap::Args;
use figures::size;
use indicatif::ProgressBar;

use super::{
    report::{Report, RoundTrip},
    server::Server,
};
use crate::{client_server, run::progress, target::Target};

/// What `ping` is told.
#[derive(Args)]
pub(crate) struct Options {
    /// Where `serve` is; without an address, on this computer. Without both, another process of this program serves.
    #[arg(value_name = "[ADDRESS]:PORT")]
    target: Option<Target>,
    /// How many messages to send.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Bytes of each, as 64, 4KiB or 1MiB.
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = size)]
    size: usize,
    /// Milliseconds between what comes back and the next message. With 0 there is no line for each.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    interval: u64,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: client_server::Options,
    /// The negative control: the data that is sent is not what is compared with.
    #[arg(long, hide = true)]
    damage: bool,
}

/// Sends, and says what came back. The exit status tells whether all of it was right.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let Options { target, count, size, json, damage, .. } = *options;
    let interval = Duration::from_millis(options.interval);
    let has_lines = !interval.is_zero() && !json;
    let bar = if has_lines { ProgressBar::hidden() } else { progress(usize::try_from(count)?)? };
    let (interrupt, interrupted) = channel();
    let (mut samples, mut peer) = (Vec::new(), None);
    let (server, target) = match target {
        Some(target) => (None, target),
        None => Server::start(&options.options).map(|(server, target)| (Some(server), target))?,
    };
    let result = options.options.measure(target, size, |link| {
        let at = link.peer()?;
        peer = Some(at);
        ctrlc::set_handler(move || interrupt.send(()).unwrap_or_default())?;
        link.ping(size, interval, damage, |nth, took| {
            samples.push(took);
            bar.inc(1);
            if has_lines {
                println!("message {nth}: {size} bytes to {at} and back in {:.1} us", took.as_secs_f64() * 1e6);
            }
            let pause = if nth < count { interval } else { Duration::ZERO };
            match interrupted.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) if nth < count => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        })
    });
    bar.finish_and_clear();
    let result = result.and_then(|()| server.map_or(Ok(()), Server::end));
    // Without a peer nothing was tried.
    let (Some(peer), failure) = (peer, result.as_ref().err().map(|error| format!("{error:#}"))) else {
        return result.map(|()| ExitCode::SUCCESS);
    };
    let device = options.options.device_at_rest()?;
    let (answered, round_trip_us) = (samples.len(), RoundTrip::of(&mut samples));
    let report = Report { device, peer: peer.to_string(), bytes: size, answered, round_trip_us, failure };
    if json {
        serde_json::to_writer_pretty(io::stdout(), &report)?;
        println!();
    } else {
        print!("{report}");
    }
    Ok(if report.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
