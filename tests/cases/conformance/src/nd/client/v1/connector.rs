//! Connectors.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::{ffi::c_void, net::SocketAddr, ptr, time::Duration};

use anyhow::Context as _;
use nd_com::v1::{INDConnector, INDEndpoint};
use ndk_abi::status::NTSTATUS;
use windows_core::Interface as _;
use zerocopy::IntoBytes as _;

use super::{
    super::{
        Signal, both,
        connector::data_pointer,
        provider::{query_address, sockaddr},
    },
    Cq, Endpoint, EndpointSize, Request, accepted,
    adapter::PROTOCOL,
    ask, begin, call, create,
};
use crate::error::{Error, Result};

/// INDConnector.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) com: INDConnector,
    pub(super) patience: Duration,
}

/// What GetConnectionData says: inbound and outbound read limits, and private data.
pub(crate) struct ConnectionData {
    pub(crate) inbound: usize,
    pub(crate) outbound: usize,
    pub(crate) private: Vec<u8>,
}

impl Connector {
    pub(crate) fn endpoint(&self, inbound: &Cq, outbound: &Cq, size: EndpointSize) -> Result<Endpoint> {
        self.endpoint_of(inbound.com.as_raw(), outbound.com.as_raw(), size)
    }

    /// CreateEndpoint with objects of other kinds, or none.
    pub(crate) fn endpoint_of(
        &self,
        inbound: *mut c_void,
        outbound: *mut c_void,
        size: EndpointSize,
    ) -> Result<Endpoint> {
        let mut inline = size.inline;
        let place = &raw mut inline;
        let com = create!(
            INDEndpoint,
            INDConnector::CreateEndpoint,
            self.com,
            inbound,
            outbound,
            size.inbound,
            size.outbound,
            size.inbound_sges,
            size.outbound_sges,
            size.inbound_reads,
            size.outbound_reads,
            place
        )?;
        Ok(Endpoint { com, inline })
    }

    pub(crate) fn connect(&self, endpoint: &Endpoint, to: SocketAddr, data: &[u8]) -> Result<Request> {
        self.connect_from(endpoint.com.as_raw(), to, 0, data)
    }

    /// Connect from a port, in network byte order, for any object.
    pub(crate) fn connect_from(
        &self,
        endpoint: *mut c_void,
        to: SocketAddr,
        port: u16,
        data: &[u8],
    ) -> Result<Request> {
        let (address, length) = sockaddr(to);
        begin!(
            Signal::Event,
            self.patience,
            INDConnector::Connect,
            self.com,
            endpoint,
            address.as_bytes().as_ptr().cast(),
            length,
            PROTOCOL,
            port,
            data_pointer(data).cast(),
            data.len()
        )
    }

    /// Connect to any bytes of an address, by any protocol.
    pub(crate) fn connect_raw(&self, endpoint: &Endpoint, address: &[u8], protocol: i32) -> Result<Request> {
        let (pointer, length) = (data_pointer(address).cast(), address.len());
        let (endpoint, none) = (endpoint.com.as_raw(), ptr::null());
        begin!(
            Signal::Event,
            self.patience,
            INDConnector::Connect,
            self.com,
            endpoint,
            pointer,
            length,
            protocol,
            0,
            none,
            0
        )
    }

    pub(crate) fn accept(&self, endpoint: &Endpoint, data: &[u8]) -> Result<Request> {
        self.accept_for(endpoint.com.as_raw(), data)
    }

    /// Accept for any object.
    pub(crate) fn accept_for(&self, endpoint: *mut c_void, data: &[u8]) -> Result<Request> {
        let (pointer, length) = (data_pointer(data).cast(), data.len());
        begin!(Signal::Event, self.patience, INDConnector::Accept, self.com, endpoint, pointer, length)
    }

    /// GetConnectionData.
    pub(crate) fn data(&self) -> Result<ConnectionData> {
        let (mut data, mut length) = (vec![0xa5; 1024], 1024);
        let (mut inbound, mut outbound) = (usize::MAX, usize::MAX);
        let status = call!(
            INDConnector::GetConnectionData,
            self.com,
            &raw mut inbound,
            &raw mut outbound,
            data.as_mut_ptr().cast(),
            &raw mut length
        );
        accepted("INDConnector::GetConnectionData", status)?;
        data.truncate(length);
        Ok(ConnectionData { inbound, outbound, private: data })
    }

    /// Answers without a place for them, and private data that is nowhere.
    pub(crate) fn without_data(&self) -> [(&'static str, NTSTATUS); 3] {
        let (none, no_length) = (ptr::null_mut(), ptr::null_mut());
        [
            ("an address without a place", call!(INDConnector::GetLocalAddress, self.com, none, no_length)),
            ("the peer's, too", call!(INDConnector::GetPeerAddress, self.com, none, no_length)),
            ("private data that is nowhere", call!(INDConnector::Reject, self.com, ptr::null(), 5)),
        ]
    }

    /// GetConnectionData without places for the limits; and for them alone.
    pub(crate) fn data_in_part(&self) -> Result<()> {
        let (mut inbound, mut outbound, mut data, mut length) = (0, 0, [0_u8; 1024], 1024);
        let (none, no_data, no_length) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let place = data.as_mut_ptr().cast();
        ask!(INDConnector::GetConnectionData, self.com, none, none, place, &raw mut length)?;
        let (one, other) = (&raw mut inbound, &raw mut outbound);
        ask!(INDConnector::GetConnectionData, self.com, one, other, no_data, no_length)
    }
}

impl both::Connector for Connector {
    fn complete_connect(&self) -> Result<()> {
        let begun = begin!(Signal::Event, self.patience, INDConnector::CompleteConnect, self.com);
        match begun {
            Ok(request) => request.finish(),
            Err(Error::Refused { status: NTSTATUS(0), .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn reject(&self, data: &[u8]) -> Result<()> {
        ask!(INDConnector::Reject, self.com, data_pointer(data).cast(), data.len())
    }

    fn private_data_raw(&self, room: usize) -> (NTSTATUS, usize, Vec<u8>) {
        let (mut data, mut length) = (vec![0xa5; room], room);
        let (mut inbound, mut outbound) = (0, 0);
        let pointer = if room == 0 { ptr::null_mut() } else { data.as_mut_ptr() };
        let status = call!(
            INDConnector::GetConnectionData,
            self.com,
            &raw mut inbound,
            &raw mut outbound,
            pointer.cast(),
            &raw mut length
        );
        (status, length, data)
    }

    fn private_data(&self) -> Result<Vec<u8>> {
        Ok(self.data()?.private)
    }

    fn local_address(&self) -> anyhow::Result<SocketAddr> {
        let (status, _, address) =
            query_address(|address, length| call!(INDConnector::GetLocalAddress, self.com, address.cast(), length));
        address.with_context(|| format!("the local address: {status}"))
    }

    fn peer_address(&self) -> anyhow::Result<SocketAddr> {
        let (status, _, address) =
            query_address(|address, length| call!(INDConnector::GetPeerAddress, self.com, address.cast(), length));
        address.with_context(|| format!("the peer's address: {status}"))
    }

    fn addresses_raw(&self, room: usize) -> [(NTSTATUS, usize); 2] {
        let mut buffer = [0xa5_u8; 64];
        let mut lengths = [room; 2];
        let pointer = if room == 0 { ptr::null_mut() } else { buffer.as_mut_ptr() };
        let [own, peer] = &mut lengths;
        let own_status = call!(INDConnector::GetLocalAddress, self.com, pointer.cast(), &raw mut *own);
        let peer_status = call!(INDConnector::GetPeerAddress, self.com, pointer.cast(), &raw mut *peer);
        let untouched = own_status.is_success() || peer_status.is_success() || buffer == [0xa5; 64];
        assert!(untouched, "a buffer that is too short for an address was written to");
        [(own_status, lengths[0]), (peer_status, lengths[1])]
    }

    fn notify_disconnect(&self) -> Result<Request> {
        begin!(Signal::Event, self.patience, INDConnector::NotifyDisconnect, self.com)
    }

    fn disconnect(&self) -> Result<Request> {
        begin!(Signal::Event, self.patience, INDConnector::Disconnect, self.com)
    }

    fn cancel(&self) -> Result<()> {
        ask!(INDOverlapped::CancelOverlappedRequests, self.com)
    }
}
