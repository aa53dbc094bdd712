//! The provider.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::{net::SocketAddr, time::Duration};

use nd_com::v1::{INDAdapter, INDProvider};
use windows_core::Interface as _;
use zerocopy::IntoBytes as _;

use super::{super::provider::query_addresses, super::provider::sockaddr, Adapter, ask, call, create};
use crate::error::Result;

/// INDProvider.
pub(crate) struct Provider {
    pub(crate) com: INDProvider,
    pub(crate) patience: Duration,
}

impl Provider {
    /// QueryAddressList: asks for the length, then for the list.
    pub(crate) fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        query_addresses(|list, length| call!(INDProvider::QueryAddressList, self.com, list.cast(), length))
    }

    /// The adapter that has an address.
    pub(crate) fn open(&self, address: SocketAddr) -> Result<Adapter> {
        let (address, length) = sockaddr(address);
        self.open_raw(&address.as_bytes()[..length])
    }

    /// OpenAdapter without a place for the adapter.
    pub(crate) fn open_nowhere(&self, address: SocketAddr) -> Result<()> {
        let (address, length) = sockaddr(address);
        ask!(INDProvider::OpenAdapter, self.com, address.as_bytes().as_ptr().cast(), length, std::ptr::null_mut())
    }

    /// OpenAdapter for any bytes.
    pub(crate) fn open_raw(&self, address: &[u8]) -> Result<Adapter> {
        let (pointer, length) = (address.as_ptr().cast(), address.len());
        let com = create!(INDAdapter, INDProvider::OpenAdapter, self.com, pointer, length)?;
        Ok(Adapter { com, patience: self.patience })
    }
}
