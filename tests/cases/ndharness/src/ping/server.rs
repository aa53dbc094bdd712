//! A server of this program's own, in another process, which ends with this one.

use std::{
    env,
    io::{BufRead as _, BufReader},
    os::windows::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use windows_sys::Win32::System::Threading::CREATE_NEW_PROCESS_GROUP;

use crate::{client_server, target::Target};

/// `ndharness serve`, which serves one session.
pub(super) struct Server {
    child: Child,
    patience: Duration,
}

impl Server {
    /// Starts it, and waits until it serves: where.
    pub(super) fn start(options: &client_server::Options) -> anyhow::Result<(Self, Target)> {
        let patience = options.patience();
        let mut serve = Command::new(env::current_exe()?);
        serve.args(["serve", "--until-input-ends", "--path", options.path.name()]);
        serve.args(["--patience", &patience.as_secs().to_string()]);
        // Ctrl-C is for this process.
        serve.creation_flags(CREATE_NEW_PROCESS_GROUP);
        let child = serve.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut server = Self { child, patience };
        let lines = BufReader::new(server.child.stdout.take().context("no output")?).lines();
        let (sender, addresses) = channel();
        // All is read, so that the server does not wait for room.
        thread::spawn(move || {
            let found = lines.map_while(Result::ok).filter_map(|line| address(&line));
            found.for_each(|address| sender.send(address).unwrap_or_default());
        });
        let address = addresses.recv_timeout(patience).context("the server serves nowhere")?;
        Ok((server, address.parse()?))
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
