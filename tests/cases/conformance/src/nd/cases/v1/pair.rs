//! Connected endpoints.

use std::net::SocketAddr;

use ndk_abi::nd_ioctl::{ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE};

use crate::nd::{ends, interfaces::V1};

/// All rights that a window can give.
pub(in crate::nd) const BOTH: u32 = ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;

/// One end of a connection.
pub(in crate::nd) type End = ends::End<V1>;

/// Two connected ends, each with an adapter of its own.
pub(in crate::nd) type Pair = ends::Pair<V1>;

/// An address with a port in network byte order.
pub(in crate::nd) fn at(address: SocketAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address.ip(), u16::from_be(port))
}
