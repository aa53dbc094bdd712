//! rping of rdma-core, by softnd.dll: for a peer that has it, or that is this program.

use std::net::{IpAddr, SocketAddr};

use clap::{Args, Subcommand};
use conformance::nd;
use rping::Plan;

use crate::{client_server, nd::library};

/// What is played, and how.
#[derive(Args)]
pub(crate) struct Rping {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Be the client of `rping -s`: have it read and write, and compare. Says "connected from ADDRESS:PORT".
    Client {
        /// Where the server is
        server: SocketAddr,
        /// Our address; the first one of the server's family if none is given
        #[arg(long)]
        address: Option<IpAddr>,
        #[command(flatten)]
        plan: Plan,
        #[command(flatten)]
        options: client_server::Options,
    },
    /// Be the server of `rping -c -C COUNT`: read from the client and write to it, once. Says "listening at ADDRESS:PORT".
    Server {
        /// Where to listen
        address: SocketAddr,
        #[command(flatten)]
        plan: Plan,
        #[command(flatten)]
        options: client_server::Options,
    },
}

/// Plays a role. In a device of this process nothing may be left then.
pub(crate) fn run(rping: &Rping) -> anyhow::Result<()> {
    let library = library()?;
    let (Role::Client { options, .. } | Role::Server { options, .. }) = &rping.role;
    nd::choose_path(options.path.name());
    let patience = options.patience();
    match rping.role {
        Role::Client { server, address, plan, .. } => {
            let connected = |own| println!("connected from {own}");
            nd::rping_client(&library, patience, (address, server), plan, connected)?;
        }
        Role::Server { address, plan, .. } => {
            let listening = || println!("listening at {address}");
            nd::rping_server(&library, patience, address, plan, listening)?;
        }
    }
    println!("passed on {}", options.device_at_rest()?);
    Ok(())
}
