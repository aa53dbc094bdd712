//! The local addresses of the adapter.

use core::net::{IpAddr, SocketAddr};

use ndk_abi::sockaddr::SOCKADDR_INET;
use zerocopy::IntoBytes;

use crate::decode::{Reply, overflow};
use crate::{Host, Request};

/// Writes all addresses to the output, as an array of SOCKADDR_INET. STATUS_BUFFER_OVERFLOW, and no address: the output is too short.
pub(crate) fn list<H: Host>(host: &H, request: &mut H::Request) -> Reply {
    let list = (0..).map_while(|index| host.address(index));
    let needed = list.clone().count().saturating_mul(size_of::<SOCKADDR_INET>());
    if needed > request.output_length() {
        return Err(overflow(needed));
    }
    let mut written = 0usize;
    // The addresses are read a second time: if there are more now, the output holds the first of them.
    for (place, address) in request.output().chunks_exact_mut(size_of::<SOCKADDR_INET>()).zip(list) {
        place.copy_from_slice(SOCKADDR_INET::new(SocketAddr::new(address, 0)).as_bytes());
        written = written.saturating_add(size_of::<SOCKADDR_INET>());
    }
    Ok(written)
}

/// Whether an address belongs to the adapter.
pub(crate) fn is_local<H: Host>(host: &H, address: IpAddr) -> bool {
    (0..).map_while(|index| host.address(index)).any(|local| local == address)
}

/// The first address of the adapter in the family of `like`.
pub(crate) fn local_address<H: Host>(host: &H, like: IpAddr) -> Option<IpAddr> {
    (0..).map_while(|index| host.address(index)).find(|local| local.is_ipv4() == like.is_ipv4())
}
