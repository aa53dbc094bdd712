//! A second computer of Linux, for a driver of two adapters: the value `OtherComputer` is the path of a network namespace, a space, and addresses
//! with commas between them. Sockets that are bound to one of these are of that namespace, so that what the two adapters send to one another goes
//! through both, and not by Linux from one address to the other.

use std::net::IpAddr;

use ndk_abi::sockaddr::SOCKADDR_INET;

use crate::parameter;

/// The namespace of an address.
pub(super) fn of(address: SOCKADDR_INET) -> Option<String> {
    let value = parameter("OtherComputer")?;
    let (namespace, addresses) = value.split_once(' ')?;
    let wanted = address.socket_addr()?.ip();
    let has_it = addresses.split(',').any(|address| address.parse::<IpAddr>() == Ok(wanted));
    has_it.then(|| namespace.to_owned())
}
