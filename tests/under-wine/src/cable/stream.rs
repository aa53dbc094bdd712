//! What flows over the cable while something happens to it: a stream of TCP, and pings.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use build::command::wait;

use super::{Computer, LIMIT, program};

/// A stream that flows until it is ended; the receiver compares each byte.
pub(super) struct Stream {
    sender: Child,
    receiver: Child,
    /// One for each MiB that has arrived.
    lines: Receiver<String>,
}

impl Stream {
    pub(super) fn start(from: &Computer, to: &Computer) -> Result<Self> {
        let at = format!("{}:5001", to.address());
        let mut receiver = to.command("");
        let mut receiver = receiver.arg(program()).args(["receive", &at, "--tell"]).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(receiver.stdout.take().context("no output")?);
        let (sender, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        // "listening".
        lines.recv_timeout(LIMIT).context("the receiver does not listen")?;
        let mut sender = from.command("");
        sender.arg(program()).args(["send", &at]).stdin(Stdio::piped()).stdout(Stdio::null());
        let stream = Self { sender: sender.spawn()?, receiver, lines };
        stream.flows()?;
        Ok(stream)
    }

    /// Waits until 8 MiB more have arrived.
    pub(super) fn flows(&self) -> Result<()> {
        const MORE: usize = 8;
        let _before = self.lines.try_iter().count();
        let start = Instant::now();
        for arrived in 0..MORE {
            let left = LIMIT.saturating_sub(start.elapsed());
            let line = self.lines.recv_timeout(left);
            line.with_context(|| format!("of {MORE} MiB of a stream {arrived} have arrived in {LIMIT:?}"))?;
        }
        Ok(())
    }

    /// Ends the stream: all that was sent has to be there.
    pub(super) fn end(mut self) -> Result<()> {
        drop(self.sender.stdin.take());
        let sent = wait(&mut self.sender, LIMIT).context("the sender")?;
        let received = wait(&mut self.receiver, LIMIT).context("the receiver")?;
        ensure!(sent.success() && received.success(), "the sender ended with {sent}, the receiver with {received}");
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for child in [&mut self.sender, &mut self.receiver] {
            // The process has ended, or the check has failed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Pings, twenty in a second.
pub(super) struct Pings(Child);

impl Pings {
    pub(super) fn start(from: &Computer, to: &str) -> Result<Self> {
        let mut command = from.command(&format!("ping -n -q -i 0.05 {to}"));
        Ok(Self(command.stdout(Stdio::piped()).spawn()?))
    }

    /// Ends the pings: how many were sent, and answered.
    pub(super) fn end(mut self, from: &Computer) -> Result<(u64, u64)> {
        // An answer may be on its way.
        thread::sleep(Duration::from_millis(200));
        from.run(&format!("kill -INT {}", self.0.id()))?;
        let mut said = String::new();
        self.0.stdout.take().context("no output")?.read_to_string(&mut said)?;
        self.0.wait()?;
        let count = |what: &str| {
            let (before, _) = said.split_once(what)?;
            before.rsplit([' ', '\n']).next()?.parse().ok()
        };
        let counts = || Some((count(" packets transmitted")?, count(" received")?));
        counts().with_context(|| format!("ping does not count: {said}"))
    }
}

impl Drop for Pings {
    fn drop(&mut self) {
        // The process has ended, or something has failed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
