//! Our role of rping against Linux siw: by the device in this process, or by another program; the steps of `cargo xtask interop`.

mod bell;
mod capture;
mod connection;
mod device;
mod peer;
mod roles;
mod rows;
mod side;
mod smb;
mod status;
mod suite;
mod verbs;

use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use clap::{Parser, Subcommand, value_parser};
use rping::Plan;
use side::Side;
use smb::Plan as SmbPlan;
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
        /// Our side is softndk.sys, with its test consumer
        #[arg(long, requires = "program")]
        driver: bool,
        /// `peer/verbs.c`, compiled
        #[arg(long)]
        verbs: Option<PathBuf>,
        /// Plays our role, instead of the device in this process: ndharness, and how it is started
        #[arg(last = true)]
        program: Vec<String>,
    },
    /// Play both roles of rping with the peer of `guest.sh`, over any interface; print a line of JSON for each step
    Roles {
        /// What our side is called
        #[arg(long)]
        name: String,
        /// Plays our role: ndharness, and how it is started
        #[arg(last = true, required = true)]
        program: Vec<String>,
    },
    /// Carry SMB from a port of TCP to a server of SMB Direct that is not ours
    SmbClient {
        /// Our address
        local: IpAddr,
        /// The server's
        peer: SocketAddr,
        /// Where programs connect, one after the other; a failure ends it
        #[arg(long, default_value = "127.0.0.1:4450")]
        listen: SocketAddr,
        /// How the data of reads and writes goes
        #[arg(long, default_value = "invalidate")]
        mode: smb::Mode,
        /// Ask the server for a sign of life after so many seconds without one
        #[arg(long, default_value_t = 120, value_parser = value_parser!(u16).range(1..=3600))]
        keepalive: u16,
        /// Ask for CRCs
        #[arg(long)]
        crc: bool,
    },
    /// Carry SMB from clients of SMB Direct that are not ours, one after the other, to a server of TCP; a failure ends it
    SmbServer {
        /// Where to listen
        local: SocketAddr,
        /// The server
        #[arg(long, default_value = "127.0.0.1:445")]
        to: SocketAddr,
        /// Ask clients for a sign of life after so many seconds without one
        #[arg(long, default_value_t = 120, value_parser = value_parser!(u16).range(1..=3600))]
        keepalive: u16,
        /// Ask for CRCs
        #[arg(long)]
        crc: bool,
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
        Command::Suite { directory, name, crc, driver, verbs, program } => {
            let side = if program.is_empty() { Side::Here { crc } } else { Side::Program(program) };
            let passed = suite::run(&Suite { side, name, crc, driver, verbs }, &directory)?;
            return Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Roles { name, program } => {
            let suite = Suite { side: Side::Program(program), name, crc: false, driver: false, verbs: None };
            return Ok(if suite::roles(&suite) { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::SmbClient { local, peer, listen, mode, keepalive, crc } => {
            let client = smb::Client { local, server: peer, mode, on: smb::On::Here { crc }, fault: None, keepalive };
            let listener = TcpListener::bind(listen)?;
            loop {
                println!("{:?}", client.serve(&listener, None)?);
            }
        }
        Command::SmbServer { local, to, keepalive, crc } => {
            let server = smb::Server::new(local, to, &smb::On::Here { crc }, SmbPlan { corrupt: false, keepalive })?;
            loop {
                println!("{:?}", server.serve()?);
            }
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
