//! Which pairs of addresses the SMB client of Windows will use: MS-SMB2 3.2.5.14.11 and the notes to it in appendix A, "Product Behavior", which has
//! the steps that are numbered here.
//!
//! Steps 1 to 5 make pairs of addresses, 7 to 10 choose among them, 11 says how many connections each gets. Step 6 sorts by what suits best, which
//! the document does not define: here pairs keep the order of the interfaces and their addresses. So of several addresses of one interface the
//! first is taken, where Windows may take another.

use std::{collections::BTreeSet, net::IpAddr};

use serde::Serialize;

/// A network interface of the client or the server.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    /// IfIndex.
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) rdma: bool,
    pub(crate) rss: bool,
    /// Bits per second.
    pub(crate) speed: u64,
    pub(crate) addresses: Vec<IpAddr>,
}

/// An address of the client and one of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pair {
    pub(crate) client: IpAddr,
    pub(crate) server: IpAddr,
    pub(crate) client_interface: u32,
    pub(crate) client_name: String,
    pub(crate) server_interface: u32,
    pub(crate) server_name: String,
    /// Both interfaces are RDMA capable.
    pub(crate) rdma: bool,
    /// Both are RSS capable.
    pub(crate) rss: bool,
    /// The lower link speed of both.
    pub(crate) speed: u64,
}

/// A pair that Windows will use.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Chosen {
    #[serde(flatten)]
    pub(crate) pair: Pair,
    pub(crate) connections: u32,
}

/// Why Windows will not use a pair: the step at which it drops out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    IndexZero,
    LinkLocal,
    NoRoute,
    NotRdma,
    NotRss,
    Slower,
    Spare,
}

impl Reason {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::IndexZero => "the server's interface has the index 0 (step 1)",
            Self::LinkLocal => "link-local: by these only interfaces without other addresses pair (steps 2 to 4)",
            Self::NoRoute => "no route leads from the client's interface to it",
            Self::NotRdma => "not RDMA capable, and another pair is (step 8)",
            Self::NotRss => "not RSS capable, and another pair is (step 8)",
            Self::Slower => "another pair has a higher link speed (step 9)",
            Self::Spare => "both interfaces are in another pair already (step 10)",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    #[serde(flatten)]
    pub(crate) pair: Pair,
    pub(crate) reason: Reason,
}

/// What the client will do.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Prediction {
    pub(crate) chosen: Vec<Chosen>,
    /// Pairs of addresses of one family that it will not use.
    pub(crate) left_out: Vec<LeftOut>,
}

/// Whether an address is link-local. MS-SMB2 names no family: those of IPv4 (RFC 3927) count too.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn has_only_link_local(interface: &Interface) -> bool {
    interface.addresses.iter().all(|address| is_link_local(*address))
}

/// What a client with these interfaces will do when a server answers with those. `reaches` says whether a route leads from the client's interface of
/// this index to that address.
pub(crate) fn predict(client: &[Interface], server: &[Interface], reaches: impl Fn(u32, IpAddr) -> bool) -> Prediction {
    let (pairs, mut left_out) = pairs(client, server, reaches);
    let pairs = best(pairs, &mut left_out);
    let is_used = spread(&pairs);
    let mut chosen = Vec::new();
    for (pair, is_used) in pairs.into_iter().zip(is_used) {
        if is_used {
            let connections = connections(&pair);
            chosen.push(Chosen { pair, connections });
        } else {
            left_out.push(LeftOut { pair, reason: Reason::Spare });
        }
    }
    Prediction { chosen, left_out }
}

/// Steps 1 to 5: all pairs of addresses of one family, and those that drop out.
fn pairs(
    client: &[Interface],
    server: &[Interface],
    reaches: impl Fn(u32, IpAddr) -> bool,
) -> (Vec<Pair>, Vec<LeftOut>) {
    let (mut pairs, mut left_out) = (Vec::new(), Vec::new());
    for (near, far) in client.iter().flat_map(|near| server.iter().map(move |far| (near, far))) {
        let all = near.addresses.iter().flat_map(|client| far.addresses.iter().map(move |server| (*client, *server)));
        for (client, server) in all.filter(|(client, server)| client.is_ipv4() == server.is_ipv4()) {
            let pair = Pair {
                client,
                server,
                client_interface: near.index,
                client_name: near.name.clone(),
                server_interface: far.index,
                server_name: far.name.clone(),
                rdma: near.rdma && far.rdma,
                rss: near.rss && far.rss,
                speed: near.speed.min(far.speed),
            };
            let fit = match (is_link_local(client), is_link_local(server)) {
                (false, false) => true,
                (true, true) => has_only_link_local(near) && has_only_link_local(far),
                _ => false,
            };
            if far.index == 0 {
                left_out.push(LeftOut { pair, reason: Reason::IndexZero });
            } else if !fit {
                left_out.push(LeftOut { pair, reason: Reason::LinkLocal });
            } else if !reaches(near.index, server) {
                left_out.push(LeftOut { pair, reason: Reason::NoRoute });
            } else {
                pairs.push(pair);
            }
        }
    }
    (pairs, left_out)
}

/// Steps 7 to 9: RDMA before RSS before the rest, then the highest link speed.
fn best(mut pairs: Vec<Pair>, left_out: &mut Vec<LeftOut>) -> Vec<Pair> {
    let mut keep = |pairs: Vec<Pair>, reason, is_kept: &dyn Fn(&Pair) -> bool| {
        let (kept, dropped): (Vec<_>, Vec<_>) = pairs.into_iter().partition(is_kept);
        left_out.extend(dropped.into_iter().map(|pair| LeftOut { pair, reason }));
        kept
    };
    if pairs.iter().any(|pair| pair.rdma) {
        pairs = keep(pairs, Reason::NotRdma, &|pair| pair.rdma);
    } else if pairs.iter().any(|pair| pair.rss) {
        pairs = keep(pairs, Reason::NotRss, &|pair| pair.rss);
    }
    let highest = pairs.iter().map(|pair| pair.speed).max().unwrap_or_default();
    keep(pairs, Reason::Slower, &|pair| pair.speed == highest)
}

/// Step 10: which of these pairs are used, so that all their interfaces are. Pairs of interfaces that are both free come first, then those that bring
/// in the interfaces that remain.
fn spread(pairs: &[Pair]) -> Vec<bool> {
    let (mut near, mut far) = (BTreeSet::new(), BTreeSet::new());
    let mut used = vec![false; pairs.len()];
    for both in [true, false] {
        for (pair, used) in pairs.iter().zip(&mut used) {
            let (near_free, far_free) = (!near.contains(&pair.client_interface), !far.contains(&pair.server_interface));
            if near_free && far_free || !both && (near_free || far_free) {
                *used = true;
                near.insert(pair.client_interface);
                far.insert(pair.server_interface);
            }
        }
    }
    used
}

/// Step 11, by default.
fn connections(pair: &Pair) -> u32 {
    match (pair.rdma, pair.rss) {
        (true, _) => 2,
        (false, true) => 4,
        (false, false) => 1,
    }
}
