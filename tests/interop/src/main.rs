//! Our role of rping against Linux siw: by the device in this process, or by another program; the steps of `cargo xtask interop`.

mod bell;
mod capture;
mod connection;
mod device;
mod peer;
mod roles;
mod rows;
mod side;
mod status;
mod suite;
mod verbs;

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use rping::Plan;
use side::Side;
use suite::Suite;

#[derive(Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Try everything with the peer of `guest.sh`, on its link; print a line of JSON for each step
    Suite {
        /// Where captures go
        #[arg(long)]
        directory: PathBuf,
        /// What our side is called
        #[arg(long)]
        name: String,
        /// Our side asks for CRCs; a program has been told before
        #[arg(long)]
        crc: bool,
        /// `peer/verbs.c`, compiled
        #[arg(long)]
        verbs: Option<PathBuf>,
        /// Plays our role, instead of the device in this process: `ndharness rping`, and how it is started
        #[arg(last = true)]
        program: Vec<String>,
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
        Command::Suite { directory, name, crc, verbs, program } => {
            let side = if program.is_empty() { Side::Here { crc } } else { Side::Program(program) };
            let passed = suite::run(&Suite { side, name, crc, verbs }, &directory)?;
            return Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE });
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
