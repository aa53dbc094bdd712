//! Socket addresses as they cross the interface.

use std::net::SocketAddr;

use ndk_abi::sockaddr::{SOCKADDR, SOCKADDR_IN, SOCKADDR_IN6, SOCKADDR_INET};

/// A pointer to an address, and its length.
pub(crate) type RawAddress = (*const SOCKADDR, u32);

/// An address with the length of its family.
pub(crate) struct Address {
    storage: SOCKADDR_INET,
    length: u32,
}

impl Address {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let length = if address.is_ipv4() { size_of::<SOCKADDR_IN>() } else { size_of::<SOCKADDR_IN6>() };
        Self { storage: SOCKADDR_INET::new(address), length: length as u32 }
    }

    pub(crate) fn pointer(&self) -> *const SOCKADDR {
        std::ptr::from_ref(&self.storage).cast()
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }
}
