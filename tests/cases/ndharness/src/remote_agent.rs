//! The cases with each end on a computer, or an adapter, of its own, for tests: one has the agent, whose device the other one's program has requests
//! sent to.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use clap::Args;
use conformance::{
    Bench, Transport,
    agent::{Agent, Other, serve},
    memory::shared,
    play_on_two_devices,
};

use crate::{
    front_end::Path,
    ioctl::Device,
    report::Report,
    run::{self, Selection},
};

/// Where the other computer is.
#[derive(Args)]
pub(crate) struct RemoteAgent {
    /// Have the listeners of the cases on the device of another computer, where `ndharness agent` serves. Both computers are on this system, as
    /// prefixes of Wine.
    #[arg(long = "beside", value_name = "ADDRESS:PORT", required = false, requires = "buffers")]
    agent: SocketAddr,
    /// A folder for the memory of the cases, which is made. The agent has to see it at the same place.
    #[arg(long, value_name = "FOLDER", required = false, requires = "agent")]
    buffers: PathBuf,
}

/// Does what a program asks for that runs cases beside this one, and says where, until that has ended.
pub(crate) fn listen(at: SocketAddr, path: &'static str) -> anyhow::Result<()> {
    let listener = TcpListener::bind(at)?;
    println!("serving at {}", listener.local_addr()?);
    Ok(serve(listener, move || Box::new(Device::at(path)))?)
}

/// Runs the cases that are `wanted`, between this computer's device and the agent's.
pub(crate) fn run(
    remote: &RemoteAgent,
    path: Option<Path>,
    wanted: &Selection,
    patience: Duration,
) -> anyhow::Result<Report> {
    shared::share(&remote.buffers).with_context(|| format!("cannot make {}", remote.buffers.display()))?;
    let folder = remote.buffers.to_str().context("the name of the folder is no text")?.to_owned();
    let agent = remote.agent;
    let agent = Arc::new(Agent::connect(agent, folder).with_context(|| format!("cannot reach the agent at {agent}"))?);
    let boot = || -> (Box<dyn Transport>, Box<dyn Transport>) {
        (Box::new(Device::new()), Box::new(Other::boot(agent.clone())))
    };
    let (here, there) = boot();
    let addresses = |device: &dyn Transport| anyhow::Ok(Bench::new(device, patience).client()?.addresses()?);
    let (ours, theirs) = (addresses(&*here)?, addresses(&*there)?);
    let both = ours.iter().find(|address| theirs.contains(address));
    ensure!(both.is_none(), "it is one device: both have {both:?}");
    let front_end = format!("{}, and {}", here.front_end(), there.front_end());
    run::each(front_end, path, wanted, |case, path| {
        play_on_two_devices(case, boot, path, patience).map(|()| Vec::new())
    })
}
