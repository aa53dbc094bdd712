//! Connected endpoints.

use std::net::SocketAddr;

use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE},
    status::STATUS_SUCCESS,
};

use crate::nd::{
    client::v1::{Descriptor, Mr, Mw},
    ends,
    interfaces::V1,
    pair::{BIND, expect},
};

/// All rights that a window can give.
pub(in crate::nd) const BOTH: u32 = ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;

/// One end of a connection.
pub(in crate::nd) type End = ends::End<V1>;

/// Two connected ends, each with an adapter of its own.
pub(in crate::nd) type Pair = ends::Pair<V1>;

impl End {
    /// A window onto all of a buffer, bound.
    pub(in crate::nd) fn window(&self, mr: &Mr, flags: u32) -> anyhow::Result<(Mw, Descriptor)> {
        let mw = Mw::new(&self.adapter, 0)?;
        let descriptor = self.qp.bind(usize::MAX, mr, &mw, 0, mr.memory().length(), flags)?;
        expect(self.initiated()?, BIND, usize::MAX, STATUS_SUCCESS)?;
        Ok((mw, descriptor))
    }
}

/// An address with a port in network byte order.
pub(in crate::nd) fn at(address: SocketAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address.ip(), u16::from_be(port))
}
