//! A server of this program's own, in another process.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

use crate::{client_server, target::Target};

/// `ndharness serve`, which serves one session.
pub(super) struct Server {
    child: Child,
    patience: Duration,
    pub(super) target: Target,
}

impl Server {
    /// Starts it, and waits until it serves.
    pub(super) fn start(options: &client_server::Options) -> anyhow::Result<Self> {
        let mut serve = Command::new(env::current_exe()?);
        let patience = options.patience();
        serve.args(["serve", "--path", options.path.name(), "--patience", &patience.as_secs().to_string()]);
        let mut child = serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let Some(address) = lines.by_ref().map_while(Result::ok).find_map(|line| address(&line)) else {
            bail!("the server serves nowhere: {}", child.wait()?);
        };
        // The rest is read, so that the server does not wait for room.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(Self { child, patience, target: address.parse()? })
    }

    /// Waits until it has ended, as its client has. Error: it says that something was wrong.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < self.patience {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "the server: {status}");
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!("the server has not ended {} s after its client", self.patience.as_secs());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended, or its client has failed.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// From "serving at 10.0.0.1:50000": the address.
fn address(line: &str) -> Option<String> {
    line.trim().strip_prefix("serving at ").map(str::to_owned)
}
