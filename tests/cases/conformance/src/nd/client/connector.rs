//! Connectors.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::{net::SocketAddr, ptr, time::Duration};

use anyhow::Context as _;
use nd_com::v2::IND2Connector;
use ndk_abi::status::{NTSTATUS, STATUS_SUCCESS};
use windows_core::Interface as _;
use zerocopy::IntoBytes as _;

use super::{
    Qp, Request, Signal, ask, begin, both, call,
    provider::{query_address, sockaddr},
};
use crate::error::{Error, Result};

/// IND2Connector.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) com: IND2Connector,
    pub(super) patience: Duration,
}

/// Reads that a side serves at a time, and reads that it has under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadLimits {
    pub(crate) inbound: u32,
    pub(crate) outbound: u32,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { inbound: 16, outbound: 16 }
    }
}

/// No pointer for no bytes.
pub(super) fn data_pointer(data: &[u8]) -> *const u8 {
    if data.is_empty() { ptr::null() } else { data.as_ptr() }
}

impl Connector {
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<()> {
        let (address, length) = sockaddr(address);
        ask!(IND2Connector::Bind, self.com, address.as_bytes().as_ptr().cast(), length as u32)
    }

    pub(crate) fn connect(&self, qp: &Qp, to: SocketAddr, limits: ReadLimits, data: &[u8]) -> Result<Request> {
        let (address, length) = sockaddr(to);
        begin!(
            Signal::Event,
            self.patience,
            IND2Connector::Connect,
            self.com,
            qp.com.as_raw(),
            address.as_bytes().as_ptr().cast(),
            length as u32,
            limits.inbound,
            limits.outbound,
            data_pointer(data).cast(),
            data.len() as u32
        )
    }

    /// None: it was over at once, as only this method may be.
    pub(crate) fn begin_complete_connect(&self) -> Result<Option<Request>> {
        match begin!(Signal::Event, self.patience, IND2Connector::CompleteConnect, self.com) {
            Err(Error::Refused { status: STATUS_SUCCESS, .. }) => Ok(None),
            begun => begun.map(Some),
        }
    }

    pub(crate) fn accept(&self, qp: &Qp, limits: ReadLimits, data: &[u8]) -> Result<Request> {
        begin!(
            Signal::Event,
            self.patience,
            IND2Connector::Accept,
            self.com,
            qp.com.as_raw(),
            limits.inbound,
            limits.outbound,
            data_pointer(data).cast(),
            data.len() as u32
        )
    }

    pub(crate) fn read_limits(&self) -> Result<ReadLimits> {
        let mut limits = ReadLimits { inbound: u32::MAX, outbound: u32::MAX };
        ask!(IND2Connector::GetReadLimits, self.com, &raw mut limits.inbound, &raw mut limits.outbound)?;
        Ok(limits)
    }
}

impl both::Connector for Connector {
    fn complete_connect(&self) -> Result<()> {
        self.begin_complete_connect()?.map_or(Ok(()), Request::finish)
    }

    fn reject(&self, data: &[u8]) -> Result<()> {
        ask!(IND2Connector::Reject, self.com, data_pointer(data).cast(), data.len() as u32)
    }

    fn private_data_raw(&self, room: usize) -> (NTSTATUS, usize, Vec<u8>) {
        let mut data = vec![0xa5; room];
        let mut length = room as u32;
        let pointer = if room == 0 { ptr::null_mut() } else { data.as_mut_ptr() };
        let status = call!(IND2Connector::GetPrivateData, self.com, pointer.cast(), &raw mut length);
        (status, length as usize, data)
    }

    fn private_data(&self) -> Result<Vec<u8>> {
        let (status, length, mut data) = self.private_data_raw(1024);
        super::accepted("IND2Connector::GetPrivateData", status)?;
        data.truncate(length);
        Ok(data)
    }

    fn local_address(&self) -> anyhow::Result<SocketAddr> {
        let (status, _, address) =
            query_address(|address, length| call!(IND2Connector::GetLocalAddress, self.com, address.cast(), length));
        address.with_context(|| format!("the local address: {status}"))
    }

    fn peer_address(&self) -> anyhow::Result<SocketAddr> {
        let (status, _, address) =
            query_address(|address, length| call!(IND2Connector::GetPeerAddress, self.com, address.cast(), length));
        address.with_context(|| format!("the peer's address: {status}"))
    }

    fn addresses_raw(&self, room: usize) -> [(NTSTATUS, usize); 2] {
        let mut buffer = [0xa5_u8; 64];
        let mut lengths = [room as u32; 2];
        let pointer = if room == 0 { ptr::null_mut() } else { buffer.as_mut_ptr() };
        let [own, peer] = &mut lengths;
        let own_status = call!(IND2Connector::GetLocalAddress, self.com, pointer.cast(), &raw mut *own);
        let peer_status = call!(IND2Connector::GetPeerAddress, self.com, pointer.cast(), &raw mut *peer);
        let untouched = own_status.is_success() || peer_status.is_success() || buffer == [0xa5; 64];
        assert!(untouched, "a buffer that is too short for an address was written to");
        [(own_status, lengths[0] as usize), (peer_status, lengths[1] as usize)]
    }

    fn notify_disconnect(&self) -> Result<Request> {
        begin!(Signal::Event, self.patience, IND2Connector::NotifyDisconnect, self.com)
    }

    fn disconnect(&self) -> Result<Request> {
        begin!(Signal::Event, self.patience, IND2Connector::Disconnect, self.com)
    }

    fn cancel(&self) -> Result<()> {
        ask!(IND2Overlapped::CancelOverlappedRequests, self.com)
    }
}
