//! `cargo xtask crowd`: `softndk-bench crowd` against a listener of softndk.sys under Wine.

use std::process::Command;

use anyhow::{Result, ensure};
use build::command::step;
use build::dist;
use checks::bench;

use crate::computers::{Computers, Count};
use crate::two_processes::{Harness, serving_at};

/// Who comes, and how it is judged.
#[derive(clap::Args)]
pub struct Wanted {
    /// So many of each kind
    #[arg(long, default_value_t = 1000)]
    peers: usize,
    /// Fail if a good client has to wait for 50 ms or more
    #[arg(long)]
    check: bool,
}

/// The program prints the longest wait for each kind of peer. Nothing may be left in the driver.
pub fn crowd(wanted: &Wanted) -> Result<()> {
    dist::build()?;
    let program = bench::build()?;
    let computers = step("loading softndk.sys", || Computers::load(Count::One))?;
    let mut server = Harness::start(computers.serving(), &["refuse"])?;
    let address = server.until(serving_at)?;
    let mut crowd = Command::new(program);
    crowd.args(["crowd", "--at", &address, "--peers", &wanted.peers.to_string()]);
    if wanted.check {
        crowd.arg("--check");
    }
    let status = crowd.status()?;
    server.kill()?;
    computers.are_idle_again()?;
    computers.unload()?;
    ensure!(status.success(), "softndk-bench crowd ended with {status}");
    Ok(())
}
