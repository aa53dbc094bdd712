//! Another process of a program of ours. Both talk in lines of JSON; it ends when the one that started it does.

use std::{
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result};
use serde::{Serialize, de::DeserializeOwned};

/// The other process.
pub(crate) struct Peer {
    process: Child,
    /// It ends when this is closed.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts `program peer` and what else it is told.
    pub(crate) fn start(program: &Path, task: &[&str]) -> Result<Self> {
        let mut process = Command::new(program)
            .arg("peer")
            .args(task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the other process")?;
        let (input, output) = (process.stdin.take(), process.stdout.take().context("no output")?);
        Ok(Self { process, input, output: BufReader::new(output) })
    }

    /// Waits for what it says next.
    pub(crate) fn heard<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).context("the other process ended, or says something else")
    }

    /// Says something to it.
    pub(crate) fn say(&mut self, said: &impl Serialize) -> Result<()> {
        Ok(line(self.input.as_mut().context("no input")?, said)?)
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        let _status = self.process.wait();
    }
}

fn line(mut to: impl Write, said: &impl Serialize) -> io::Result<()> {
    writeln!(to, "{}", serde_json::to_string(said)?)?;
    to.flush()
}

/// Says something to whoever started this process.
pub(crate) fn tell(said: &impl Serialize) -> Result<()> {
    Ok(line(io::stdout().lock(), said)?)
}
