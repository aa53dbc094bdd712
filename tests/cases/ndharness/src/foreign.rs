//! A request by a handle that another process has opened: this program starts itself, and the child, which inherits the handle,
//! sends it.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, ensure};
use clap::Args;
use ndk_abi::status::NTSTATUS;

use crate::ioctl::Device;

/// Longer than a refusal takes.
const LIMIT: Duration = Duration::from_secs(10);

/// What the child is told.
#[derive(Args)]
pub(crate) struct Request {
    /// The handle of the file.
    handle: u64,
    /// The control code.
    code: u32,
    /// The bytes of the input.
    input: Vec<u8>,
}

/// Has a child of this process send a request, which must not be one that pends; how it ended. The handle is one that is inherited.
pub(crate) fn send_from_child(handle: u64, code: u32, input: &[u8]) -> anyhow::Result<NTSTATUS> {
    let program = std::env::current_exe().context("this program")?;
    let mut command = Command::new(program);
    command.args(["foreign-request", &handle.to_string(), &code.to_string()]);
    command.args(input.iter().map(u8::to_string));
    let output = command.output().context("cannot start a child")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "the child ended with {}: {text}", output.status);
    Ok(NTSTATUS(text.trim().parse().with_context(|| format!("the child said {text:?}"))?))
}

/// What the child does: prints the status as a number.
pub(crate) fn send(request: &Request) -> anyhow::Result<()> {
    let file = Device::new().inherited(request.handle);
    let completion = file.submit(request.code, &request.input, 0).wait(LIMIT).context("the request does not end")?;
    println!("{}", completion.status.0);
    Ok(())
}
