//! Which addresses there are, and which are taken.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{net::Net, socket::Sock};

pub(super) const NONE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The first of the ports that are given to those who do not say which.
const FIRST_PORT: u16 = 49152;

/// Whether it is some machine's.
pub(super) fn is_somewhere(address: IpAddr) -> bool {
    !address.is_multicast()
}

impl Net {
    fn is_taken(&self, local: SocketAddr) -> bool {
        let same = |other: SocketAddr| {
            other.port() == local.port()
                && other.is_ipv4() == local.is_ipv4()
                && (other.ip() == local.ip() || other.ip().is_unspecified() || local.ip().is_unspecified())
        };
        self.sockets().any(|sock| sock.bound && same(sock.local))
    }

    /// `local` with a port of its own. None: it has one, and that is taken.
    pub(super) fn bind(&mut self, local: SocketAddr) -> Option<SocketAddr> {
        if local.port() != 0 {
            return (!self.is_taken(local)).then_some(local);
        }
        let first = FIRST_PORT + (self.ports_given % u32::from(u16::MAX - FIRST_PORT)) as u16;
        let free = (first..=u16::MAX).chain(FIRST_PORT..first).map(|port| SocketAddr::new(local.ip(), port));
        let found = free.into_iter().find(|local| !self.is_taken(*local));
        self.ports_given += 1;
        found
    }

    /// The id of who listens there.
    pub(super) fn listener_at(&self, remote: SocketAddr) -> Option<u64> {
        let listens =
            |sock: &Sock, ip: IpAddr| sock.listens && !sock.dead && sock.local == SocketAddr::new(ip, remote.port());
        let any = if remote.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(0.into()) };
        let mut ids = [remote.ip(), any].into_iter().filter_map(|ip| self.find(|sock| listens(sock, ip)));
        ids.next()
    }
}
