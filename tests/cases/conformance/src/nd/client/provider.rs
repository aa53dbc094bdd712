//! The provider, and what it and adapters say of their addresses.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, ensure};
use nd_com::v2::{IND2Adapter, IND2Provider};
use ndk_abi::{
    sockaddr::{AF_INET, SOCKADDR_INET},
    status::{NTSTATUS, STATUS_BUFFER_OVERFLOW},
};
use windows_core::{GUID, Interface as _};
use zerocopy::{FromBytes as _, FromZeros as _, IntoBytes as _};

use super::{Adapter, ask, call, create};
use crate::error::Result;

/// IND2Provider.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) com: IND2Provider,
    pub(crate) patience: Duration,
}

impl Provider {
    /// QueryAddressList: asks for the length, then for the list.
    pub(crate) fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        query_addresses(|list, length| call!(IND2Provider::QueryAddressList, self.com, list.cast(), length))
    }

    pub(crate) fn resolve(&self, address: SocketAddr) -> Result<u64> {
        let (address, length) = sockaddr(address);
        self.resolve_raw(&address.as_bytes()[..length])
    }

    /// ResolveAddress of any bytes.
    pub(crate) fn resolve_raw(&self, address: &[u8]) -> Result<u64> {
        let mut id = 0;
        let length = address.len() as u32;
        ask!(IND2Provider::ResolveAddress, self.com, address.as_ptr().cast(), length, &raw mut id)?;
        Ok(id)
    }

    pub(crate) fn open(&self, id: u64) -> Result<Adapter> {
        let com = create!(IND2Adapter, IND2Provider::OpenAdapter, self.com, id)?;
        Adapter::new(com, self.patience)
    }

    /// OpenAdapter for another interface.
    pub(crate) fn open_as(&self, iid: &GUID, id: u64) -> NTSTATUS {
        let mut object = std::ptr::without_provenance_mut(1);
        let status = call!(IND2Provider::OpenAdapter, self.com, iid, id, &raw mut object);
        assert!(status.is_success() || object.is_null(), "OpenAdapter fails and leaves a pointer");
        status
    }
}

/// An address as methods take it, and its length.
pub(super) fn sockaddr(address: SocketAddr) -> (SOCKADDR_INET, usize) {
    let length = if address.is_ipv4() { 16 } else { 28 };
    (SOCKADDR_INET::new(address), length)
}

/// A number of bytes: ULONG in version 2, SIZE_T in version 1.
pub(super) trait Length: Copy {
    fn of(bytes: usize) -> Self;
    fn get(self) -> usize;
}

impl Length for u32 {
    fn of(bytes: usize) -> Self {
        bytes as Self
    }

    fn get(self) -> usize {
        self as usize
    }
}

impl Length for usize {
    fn of(bytes: usize) -> Self {
        bytes
    }

    fn get(self) -> usize {
        self
    }
}

/// A method that answers with an address: the status, the length it says, and the address if there is one.
pub(super) fn query_address<L: Length>(
    method: impl FnOnce(*mut u8, *mut L) -> NTSTATUS,
) -> (NTSTATUS, L, Option<SocketAddr>) {
    let mut address = SOCKADDR_INET::new_zeroed();
    let mut length = L::of(size_of::<SOCKADDR_INET>());
    let status = method(address.as_mut_bytes().as_mut_ptr(), &raw mut length);
    (status, length, address.socket_addr().filter(|_| status.is_success()))
}

/// A method that answers with a SOCKET_ADDRESS_LIST; also checks how it answers to short buffers.
pub(super) fn query_addresses<L: Length>(
    method: impl Fn(*mut u8, *mut L) -> NTSTATUS,
) -> anyhow::Result<Vec<SocketAddr>> {
    let mut length = L::of(0);
    let status = method(std::ptr::null_mut(), &raw mut length);
    let needed = length.get();
    ensure!(status == STATUS_BUFFER_OVERFLOW, "asked for the length of its address list: {status}");
    ensure!(needed >= 8, "an address list of {needed} bytes");
    // Aligned as its pointers have to be.
    let mut list = vec![u64::from_ne_bytes([0xa5; 8]); needed.div_ceil(8)];
    length = L::of(needed - 1);
    let status = method(list.as_mut_bytes().as_mut_ptr(), &raw mut length);
    ensure!(status == STATUS_BUFFER_OVERFLOW, "a buffer that is one byte short: {status}");
    ensure!(length.get() == needed, "now it needs {} bytes, before {needed}", length.get());
    ensure!(list.as_bytes().iter().all(|byte| *byte == 0xa5), "a buffer that is too short was written to");
    let status = method(list.as_mut_bytes().as_mut_ptr(), &raw mut length);
    ensure!(status.is_success(), "a buffer of the length it asked for: {status}");
    parse_list(list.as_bytes(), length.get())
}

/// SOCKET_ADDRESS_LIST: the count, then a pointer and a length each; the pointers are into the list.
fn parse_list(list: &[u8], length: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let list = list.get(..length).context("a list longer than its buffer")?;
    let (count, _) = u32::read_from_prefix(list).ok().context("a list without a count")?;
    (0..count as usize)
        .map(|index| {
            let entry = list.get(8 + 16 * index..24 + 16 * index).context("an entry outside of the list")?;
            let pointer = usize::read_from_bytes(&entry[..8]).ok().context("an entry without a pointer")?;
            let length = u32::read_from_bytes(&entry[8..12]).ok().context("an entry without a length")? as usize;
            let offset = pointer.wrapping_sub(list.as_ptr().addr());
            let bytes = offset.checked_add(length).and_then(|end| list.get(offset..end));
            let bytes = bytes.context("an address outside of the list")?;
            let family = bytes.get(..2).context("an address without a family")?;
            let expected = if family == AF_INET.to_ne_bytes() { 16 } else { 28 };
            ensure!(length == expected, "an address of {length} bytes, its family's have {expected}");
            let mut address = SOCKADDR_INET::new_zeroed();
            address.as_mut_bytes()[..length].copy_from_slice(bytes);
            address.socket_addr().context("an address of an unknown family")
        })
        .collect()
}
