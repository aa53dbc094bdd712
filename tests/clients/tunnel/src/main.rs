//! `tunnel`: the crate `vxlan` in a process of Linux, between a TAP interface and a UDP socket, and streams and datagrams to send to it.
//! `cargo xtask cable` starts it in network namespaces.

mod relay;
mod stream;
mod tap;
mod throw;

use std::net::{IpAddr, SocketAddr, UdpSocket};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Parser, Subcommand};
use vxlan::header::{PORT, Vni};
use vxlan::peers::Peers;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Carry frames between a TAP interface and the peers until standard input ends; print what was dropped
    Relay {
        /// The TAP interface
        #[arg(long)]
        tap: String,
        /// The address to send from
        #[arg(long)]
        local: IpAddr,
        /// Addresses of the peers, with commas between them
        #[arg(long)]
        peers: String,
        /// The network
        #[arg(long)]
        vni: u32,
        /// Bytes of a frame's payload, at most
        #[arg(long, default_value_t = 1450)]
        mtu: usize,
    },
    /// Send a UDP datagram
    Datagram {
        /// The address and port to send from; port 0: any
        from: SocketAddr,
        /// Where to send it
        to: SocketAddr,
        /// What is in it, two hexadecimal digits for each byte
        bytes: String,
        /// How often
        times: usize,
    },
    /// Accept one connection, and compare each byte that its sender sends
    Receive {
        /// Where to listen
        at: SocketAddr,
        /// Say how many bytes have arrived, once for each MiB
        #[arg(long)]
        tell: bool,
    },
    /// Connect to a receiver, and send it bytes that it knows
    Send {
        /// The receiver's address
        to: SocketAddr,
        /// Bytes to send; until standard input ends if none are named
        bytes: Option<u64>,
    },
    /// Send a tunnel end datagrams that it has to drop, or frames of ever more stations
    Throw(throw::Plan),
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Relay { tap, local, peers, vni, mtu } => {
            let peers = Peers::parse(&peers).map_err(|refusal| anyhow!("the list of peers: {refusal:?}"))?;
            let vni = Vni::new(vni).context("a VNI has 24 bits")?;
            relay::run(&tap::Tap::open(&tap)?, SocketAddr::new(local, PORT), vni, mtu, peers)
        }
        Task::Datagram { from, to, bytes, times } => {
            let socket = UdpSocket::bind(from).with_context(|| format!("cannot bind to {from}"))?;
            let digits = bytes.as_bytes().chunks(2);
            let datagram =
                digits.map(|two| Ok(u8::from_str_radix(str::from_utf8(two)?, 16)?)).collect::<Result<Vec<_>>>()?;
            (0..times).try_for_each(|_| {
                let sent = socket.send_to(&datagram, to)?;
                ensure!(sent == datagram.len(), "sent {sent} of {} bytes", datagram.len());
                Ok(())
            })
        }
        Task::Receive { at, tell } => stream::receive(at, tell),
        Task::Send { to, bytes } => stream::send(to, bytes),
        Task::Throw(plan) => throw::throw(&plan),
    }
}
