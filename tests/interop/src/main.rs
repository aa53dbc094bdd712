//! The device against Linux siw: rping's protocol in both roles, as a consumer of NDK speaks it, and the suite of `cargo xtask interop`.

mod bell;
mod capture;
mod connection;
mod device;
mod peer;
mod roles;
mod status;
mod suite;
mod table;

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use rping::Plan;

#[derive(Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Try everything with the peer of `guest.sh`; on its link, as 10.77.0.1
    Suite {
        /// Where the capture goes
        #[arg(long)]
        directory: PathBuf,
        /// Print JSON instead of the table
        #[arg(long)]
        json: bool,
    },
    /// Be the client of `rping -s`
    Client {
        /// Our address
        local: IpAddr,
        /// The server's
        peer: SocketAddr,
        /// Ask for CRCs
        #[arg(long)]
        crc: bool,
        #[command(flatten)]
        plan: Plan,
    },
    /// Be the server of `rping -c`
    Server {
        /// Where to listen
        local: SocketAddr,
        /// Ask for CRCs
        #[arg(long)]
        crc: bool,
        #[command(flatten)]
        plan: Plan,
    },
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Command::Suite { directory, json } => {
            let table = suite::run(&directory)?;
            if json {
                println!("{}", serde_json::to_string_pretty(&table)?);
            } else {
                println!("{table}");
            }
            return Ok(if table.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Client { local, peer, crc, plan } => {
            roles::client(local, peer, crc, plan)?;
        }
        Command::Server { local, crc, plan } => {
            let server = roles::Server::new(local, crc, plan)?;
            println!("listening");
            server.serve()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
