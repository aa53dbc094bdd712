//! `tests/clients/nd-cpp`: a C++ program that knows the published interfaces of NetworkDirect and nothing else.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use build::command::wait;

use crate::session::{self, Session};

/// Runs it beside a freshly loaded driver, on each path of softnd.dll; the driver has to be clean afterwards.
pub(crate) fn passes(limit: Duration) -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    plays(&session, limit)?;
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// The same where no driver is loaded.
pub(crate) fn passes_without_driver(limit: Duration) -> Result<()> {
    plays(&Session::start(&session::addresses(&[])?)?, limit)
}

fn plays(session: &Session, limit: Duration) -> Result<()> {
    for path in ["rings", "plain"] {
        let mut command = session.program(r"C:\softndk\nd-cpp.exe");
        let mut child =
            command.arg(r"C:\softndk\softnd.dll").env("SOFTND_PATH", path).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("the program has no output")?;
        let status = wait(&mut child, limit)?;
        let text = std::io::read_to_string(output)?;
        ensure!(status.success() && text.trim() == "pass", "on {path} it ended with {status}:\n{text}");
    }
    Ok(())
}
