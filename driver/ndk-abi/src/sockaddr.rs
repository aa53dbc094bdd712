//! Socket addresses in the layout of Windows. Ports, IPv4 addresses and flow information are in network byte order.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

c_consts! { ADDRESS_FAMILIES: u16;
    AF_UNSPEC = 0;
    AF_INET = 2;
    AF_INET6 = 23;
}

c_structs! { SOCKADDR_LAYOUTS:
    /// Any socket address; the family gives the real length.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOCKADDR, size 0x10 {
        0x00 sa_family: u16,
        0x02 sa_data: [u8; 14],
    }

    /// IPv4.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOCKADDR_IN, size 0x10 {
        0x00 sin_family: u16,
        0x02 sin_port: u16,
        0x04 sin_addr: [u8; 4],
        0x08 sin_zero: [u8; 8],
    }

    /// IPv6.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOCKADDR_IN6, size 0x1c {
        0x00 sin6_family: u16,
        0x02 sin6_port: u16,
        0x04 sin6_flowinfo: u32,
        0x08 sin6_addr: [u8; 16],
        0x18 sin6_scope_id: u32,
    }

    /// Either family. In C a union of [`SOCKADDR_IN`], [`SOCKADDR_IN6`] and the family; here the longest member, so
    /// that every byte is initialised. [`SOCKADDR_INET::socket_addr`] tells the families apart.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOCKADDR_INET, size 0x1c {
        0x00 Ipv6: SOCKADDR_IN6,
    }
}

const _: () = assert!(align_of::<SOCKADDR_INET>() == 4);

impl SOCKADDR_IN {
    /// The structure for an address.
    #[must_use]
    pub const fn new(address: SocketAddrV4) -> Self {
        Self {
            sin_family: AF_INET,
            sin_port: address.port().to_be(),
            sin_addr: address.ip().octets(),
            sin_zero: [0; 8],
        }
    }

    /// The address, whatever the family field says.
    #[must_use]
    pub const fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::from_octets(self.sin_addr), u16::from_be(self.sin_port))
    }
}

impl SOCKADDR_IN6 {
    /// The structure for an address.
    #[must_use]
    pub const fn new(address: SocketAddrV6) -> Self {
        Self {
            sin6_family: AF_INET6,
            sin6_port: address.port().to_be(),
            sin6_flowinfo: address.flowinfo(),
            sin6_addr: address.ip().octets(),
            sin6_scope_id: address.scope_id(),
        }
    }

    /// The address, whatever the family field says.
    #[must_use]
    pub const fn address(&self) -> SocketAddrV6 {
        SocketAddrV6::new(
            Ipv6Addr::from_octets(self.sin6_addr),
            u16::from_be(self.sin6_port),
            self.sin6_flowinfo,
            self.sin6_scope_id,
        )
    }
}

impl SOCKADDR_INET {
    /// The structure for an address of either family.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => Self::from_ipv4(SOCKADDR_IN::new(v4)),
            SocketAddr::V6(v6) => Self { Ipv6: SOCKADDR_IN6::new(v6) },
        }
    }

    /// The address with the IPv4 member set; `sin_zero` and the bytes behind it are zero.
    #[must_use]
    pub const fn from_ipv4(address: SOCKADDR_IN) -> Self {
        Self {
            Ipv6: SOCKADDR_IN6 {
                sin6_family: address.sin_family,
                sin6_port: address.sin_port,
                // The IPv4 address has this offset in the union.
                sin6_flowinfo: u32::from_ne_bytes(address.sin_addr),
                sin6_addr: [0; 16],
                sin6_scope_id: 0,
            },
        }
    }

    /// The family member.
    #[must_use]
    pub const fn si_family(&self) -> u16 {
        self.Ipv6.sin6_family
    }

    /// The IPv4 member, whatever the family field says.
    #[must_use]
    pub const fn Ipv4(&self) -> SOCKADDR_IN {
        SOCKADDR_IN {
            sin_family: self.Ipv6.sin6_family,
            sin_port: self.Ipv6.sin6_port,
            sin_addr: self.Ipv6.sin6_flowinfo.to_ne_bytes(),
            sin_zero: [0; 8],
        }
    }

    /// The address, or `None` if the family is neither IPv4 nor IPv6.
    #[must_use]
    pub const fn socket_addr(&self) -> Option<SocketAddr> {
        match self.si_family() {
            AF_INET => Some(SocketAddr::V4(self.Ipv4().address())),
            AF_INET6 => Some(SocketAddr::V6(self.Ipv6.address())),
            _ => None,
        }
    }
}
