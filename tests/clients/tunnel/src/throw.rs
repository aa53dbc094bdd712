//! Datagrams to a tunnel end, as fast as one thread sends them: such as no tunnel end may take, or frames of ever more stations.

use std::array;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use vxlan::ethernet::{HEADER, MacAddress};
use vxlan::header::{self, Vni};

/// The EtherType of frames that have to arrive, and of those that must not: local experimental ones (IEEE 802).
const WELCOME: u16 = 0x88b5;
const UNWELCOME: u16 = 0x88b6;
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
/// Bytes of an ordinary frame.
const FRAME: usize = 200;

/// What is thrown.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Everything that a tunnel end has to drop if a peer sends it: the kinds take turns
    Garbage,
    /// Whole frames of `station`, which a tunnel end has to drop if a stranger sends them
    Frames,
    /// Whole frames, each of another station
    Stations,
}

#[derive(Args)]
pub(crate) struct Plan {
    /// What the datagrams are
    what: What,
    /// Where to send from
    from: SocketAddr,
    /// The tunnel end
    to: SocketAddr,
    /// The network
    #[arg(long)]
    vni: u32,
    /// The address of a station, which frames name as their source
    #[arg(long, value_parser = mac_address)]
    station: MacAddress,
    /// Bytes of a frame's payload, at most
    #[arg(long, default_value_t = 1450)]
    mtu: usize,
    /// How many datagrams
    #[arg(long)]
    count: u64,
    /// Microseconds between two of them
    #[arg(long, default_value_t = 0)]
    pause: u64,
    /// What the random numbers begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// From `02:00:00:00:00:01`: the address.
fn mac_address(text: &str) -> Result<MacAddress> {
    let bytes = text.split(':').map(|digits| u8::from_str_radix(digits, 16)).collect::<Result<Vec<_>, _>>()?;
    Ok(MacAddress(bytes.try_into().ok().context("an Ethernet address has six bytes")?))
}

/// A frame with these addresses, of `length` bytes.
fn frame(destination: MacAddress, source: MacAddress, ether_type: u16, length: usize) -> Vec<u8> {
    let mut frame = [&destination.0[..], &source.0, &ether_type.to_be_bytes()].concat();
    frame.resize(length.max(HEADER), 0x5a);
    frame
}

struct Thrower {
    vni: Vni,
    /// Another network.
    other: Vni,
    adapter: MacAddress,
    station: MacAddress,
    mtu: usize,
    random: fastrand::Rng,
}

impl Thrower {
    fn datagram(&mut self, what: What, turn: u64) -> Vec<u8> {
        match what {
            What::Garbage => self.garbage(turn),
            What::Frames => self.carried(&self.whole(UNWELCOME)),
            What::Stations => {
                let mut station: [u8; 6] = array::from_fn(|_| self.random.u8(..));
                // Locally administered, and no group.
                station[0] = station[0] & !1 | 2;
                self.carried(&frame(self.adapter, MacAddress(station), WELCOME, FRAME))
            }
        }
    }

    /// Behind the header of the network.
    fn carried(&self, frame: &[u8]) -> Vec<u8> {
        [&header::emit(self.vni)[..], frame].concat()
    }

    /// A frame of the station's.
    fn whole(&self, ether_type: u16) -> Vec<u8> {
        frame(self.adapter, self.station, ether_type, FRAME)
    }

    fn of(&self, source: MacAddress) -> Vec<u8> {
        self.carried(&frame(self.adapter, source, UNWELCOME, FRAME))
    }

    fn garbage(&mut self, turn: u64) -> Vec<u8> {
        let whole = self.whole(UNWELCOME);
        match turn % 11 {
            0 => {
                let length = self.random.usize(..self.mtu);
                std::iter::repeat_with(|| self.random.u8(..)).take(length).collect()
            }
            // Half a header of VXLAN, or none at all.
            1 => {
                let length = self.random.usize(..header::HEADER);
                self.carried(&[]).split_at(length).0.to_vec()
            }
            // Without the I flag.
            2 => [&[0; header::HEADER][..], &whole].concat(),
            3 => [&header::emit(self.other)[..], &whole].concat(),
            // Shorter than a header of Ethernet.
            4 => {
                let length = self.random.usize(..HEADER);
                self.carried(whole.split_at(length).0)
            }
            5 => self.carried(&frame(self.adapter, self.station, UNWELCOME, self.mtu + HEADER + 1)),
            6 | 7 => {
                let tag = VLAN_TAGS[(turn % 2) as usize].to_be_bytes();
                let (addresses, rest) = whole.split_at(2 * size_of::<MacAddress>());
                self.carried(&[addresses, &tag, &[0, 5], rest].concat())
            }
            8 => {
                let group = MacAddress([0x01, 0, 0x5e, 0, 0, self.random.u8(..)]);
                self.of(group)
            }
            9 => self.of(MacAddress([0; 6])),
            _ => self.of(self.adapter),
        }
    }
}

/// Throws all of them.
pub(crate) fn throw(plan: &Plan) -> Result<()> {
    let vni = Vni::new(plan.vni).context("a VNI has 24 bits")?;
    let other = Vni::new(plan.vni ^ 1).context("a VNI has 24 bits")?;
    let adapter = MacAddress::of_tunnel_end(plan.to.ip());
    let mut thrower = Thrower {
        vni,
        other,
        adapter,
        station: plan.station,
        mtu: plan.mtu,
        random: fastrand::Rng::with_seed(plan.seed),
    };
    let socket = UdpSocket::bind(plan.from).with_context(|| format!("cannot bind to {}", plan.from))?;
    for turn in 0..plan.count {
        socket.send_to(&thrower.datagram(plan.what, turn), plan.to)?;
        if plan.pause > 0 {
            thread::sleep(Duration::from_micros(plan.pause));
        }
    }
    println!("{} datagrams", plan.count);
    Ok(())
}
