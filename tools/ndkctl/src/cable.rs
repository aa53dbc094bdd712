//! `ndkctl cable`.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use ndk_abi::{
    softndk_ioctl::{
        SOFTNDK_CABLE, SOFTNDK_CABLE_ERROR_ADDRESS, SOFTNDK_CABLE_ERROR_CLOSED, SOFTNDK_CABLE_ERROR_NOTIFICATIONS,
        SOFTNDK_CABLE_ERROR_OPEN, SOFTNDK_CABLE_ERROR_OTHER_END, SOFTNDK_CABLE_ERROR_SEND, SOFTNDK_CABLE_PEER,
        SOFTNDK_CABLE_PRESENT, SOFTNDK_CABLE_UP, SOFTNDK_FDB_ENTRY,
    },
    status::NTSTATUS,
};
use serde::{Serialize, Serializer};

use crate::{
    columns::Columns,
    driver::{self, Driver},
};

/// What the driver says of a cable.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    /// `None`: the adapter has no cable.
    pub(crate) cable: Option<Cable>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Cable {
    /// `up` or `down`.
    pub(crate) link: &'static str,
    /// CableLocal.
    pub(crate) local: Option<IpAddr>,
    pub(crate) port: Option<u16>,
    pub(crate) vni: u32,
    /// The most bytes of a frame's payload.
    pub(crate) mtu: u32,
    pub(crate) peers: Vec<Peer>,
    /// The forwarding database.
    pub(crate) fdb: Vec<Entry>,
    pub(crate) frames_in: u64,
    pub(crate) frames_out: u64,
    /// What was dropped, by reason.
    pub(crate) dropped_in: Counts,
    pub(crate) dropped_out: Counts,
    /// `None`: there was none.
    pub(crate) last_error: Option<LastError>,
}

/// A peer, and the datagrams to and from it.
#[derive(Debug, Serialize)]
pub(crate) struct Peer {
    pub(crate) address: Option<IpAddr>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Peer {
    fn new(found: &SOFTNDK_CABLE_PEER) -> Self {
        let address = found.Address.socket_addr().as_ref().map(SocketAddr::ip);
        Self { address, sent: found.Sent, received: found.Received }
    }
}

/// An address of the forwarding database.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) mac: String,
    /// The peer behind which its station is.
    pub(crate) peer: Option<IpAddr>,
    /// Seconds since the station's last frame.
    pub(crate) age: u32,
}

impl Entry {
    fn new(found: &SOFTNDK_FDB_ENTRY, peers: &[Peer]) -> Self {
        let mac = found.MacAddress.map(|byte| format!("{byte:02x}")).join(":");
        let peer = peers.get(found.Peer as usize).and_then(|peer| peer.address);
        Self { mac, peer, age: found.Age }
    }
}

/// Counts by name, in the driver's order.
#[derive(Debug)]
pub(crate) struct Counts(Vec<(&'static str, u64)>);

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct LastError {
    /// The NTSTATUS, by name.
    pub(crate) status: String,
    /// What has failed.
    pub(crate) what: &'static str,
    /// Seconds since then.
    pub(crate) age: u32,
}

impl LastError {
    fn new(kind: u32, status: NTSTATUS, age: u32) -> Option<Self> {
        let what = match kind {
            0 => return None,
            SOFTNDK_CABLE_ERROR_NOTIFICATIONS => "TCP/IP refused to notify the driver of addresses",
            SOFTNDK_CABLE_ERROR_ADDRESS => "no other interface of this machine had the address CableLocal",
            SOFTNDK_CABLE_ERROR_OPEN => "the socket could not be opened or bound",
            SOFTNDK_CABLE_ERROR_CLOSED => "Windows closed the socket",
            SOFTNDK_CABLE_ERROR_SEND => "a datagram was not sent",
            SOFTNDK_CABLE_ERROR_OTHER_END => "no other adapter had the other end of the patch cable",
            _ => "unknown to this program",
        };
        Some(Self { status: status.to_string(), what, age })
    }
}

impl Cable {
    fn new(found: &SOFTNDK_CABLE, peers: Vec<Peer>, fdb: Vec<Entry>) -> Self {
        let local = found.Local.socket_addr();
        Self {
            link: if found.State & SOFTNDK_CABLE_UP != 0 { "up" } else { "down" },
            local: local.as_ref().map(SocketAddr::ip),
            port: local.as_ref().map(SocketAddr::port),
            vni: found.Vni,
            mtu: found.Mtu,
            peers,
            fdb,
            frames_in: found.FramesIn,
            frames_out: found.FramesOut,
            dropped_in: Counts(vec![
                ("stranger", found.InStranger),
                ("not_vxlan", found.InNotVxlan),
                ("other_vni", found.InOtherVni),
                ("short", found.InShort),
                ("long", found.InLong),
                ("vlan_tag", found.InVlanTag),
                ("invalid_source", found.InInvalidSource),
                ("own_address", found.InOwnAddress),
                ("no_list", found.InNoList),
                ("not_mapped", found.InNotMapped),
                ("not_wanted", found.InNotWanted),
                ("paused", found.InPaused),
            ]),
            dropped_out: Counts(vec![
                ("vlan_tag", found.OutVlanTag),
                ("circular_route", found.OutCircularRoute),
                ("link_down", found.OutLinkDown),
                ("no_slot", found.OutNoSlot),
                ("not_mapped", found.OutNotMapped),
                ("not_sent", found.OutNotSent),
            ]),
            last_error: LastError::new(found.ErrorKind, found.ErrorStatus, found.ErrorAge),
        }
    }
}

impl Found {
    pub(crate) fn read(driver: &dyn Driver) -> anyhow::Result<Self> {
        let (head, peers, fdb) = driver::cable(driver)?;
        let cable = (head.State & SOFTNDK_CABLE_PRESENT != 0).then(|| {
            let peers: Vec<_> = peers.iter().map(Peer::new).collect();
            let mut fdb: Vec<_> = fdb.iter().map(|entry| Entry::new(entry, &peers)).collect();
            fdb.sort_by(|a, b| (a.peer, &a.mac).cmp(&(b.peer, &b.mac)));
            Cable::new(&head, peers, fdb)
        });
        Ok(Self { cable })
    }
}

fn text(address: Option<impl ToString>) -> String {
    address.map_or_else(|| "-".to_owned(), |address| address.to_string())
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cable {
            Some(cable) => cable.fmt(f),
            None => writeln!(
                f,
                "no cable: the adapter's parameter CablePeers names no other machine; set-cable.ps1 sets it (docs/cable.md)"
            ),
        }
    }
}

impl fmt::Display for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "link        {}", self.link)?;
        writeln!(f, "local       {}, UDP port {}", text(self.local), text(self.port))?;
        writeln!(f, "VNI         {}", self.vni)?;
        writeln!(f, "MTU         {}", self.mtu)?;
        writeln!(f, "frames      {} in, {} out", self.frames_in, self.frames_out)?;
        match &self.last_error {
            Some(LastError { status, what, age }) => writeln!(f, "last error  {age} s ago: {what}: {status}")?,
            None => writeln!(f, "last error  none")?,
        }
        let mut columns = Columns::new(["peer", "sent", "received"]);
        for Peer { address, sent, received } in &self.peers {
            columns.row([text(*address), sent.to_string(), received.to_string()]);
        }
        write!(f, "\n{columns}\n")?;
        if self.fdb.is_empty() {
            writeln!(f, "no MAC addresses known")?;
        } else {
            let mut columns = Columns::new(["MAC address", "peer", "age"]);
            for Entry { mac, peer, age } in &self.fdb {
                columns.row([mac.clone(), text(*peer), age.to_string()]);
            }
            write!(f, "{columns}")?;
        }
        let mut columns = Columns::new(["dropped", "reason", "count"]);
        for (way, counts) in [("in", &self.dropped_in), ("out", &self.dropped_out)] {
            for (why, count) in &counts.0 {
                columns.row([way.to_owned(), why.replace('_', " "), count.to_string()]);
            }
        }
        write!(f, "\n{columns}")
    }
}
