//! Listeners.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use nd_com::v2::IND2Listener;
use ndk_abi::status::NTSTATUS;
use windows_core::Interface as _;
use zerocopy::IntoBytes as _;

use super::{
    Connector, Request, Signal, ask, begin, call,
    provider::{query_address, sockaddr},
};
use crate::error::Result;

/// IND2Listener.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) com: IND2Listener,
    pub(super) patience: Duration,
}

impl Listener {
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<()> {
        let (address, length) = sockaddr(address);
        ask!(IND2Listener::Bind, self.com, address.as_bytes().as_ptr().cast(), length as u32)
    }

    pub(crate) fn listen(&self, backlog: u32) -> Result<()> {
        ask!(IND2Listener::Listen, self.com, backlog)
    }

    pub(crate) fn local_address(&self) -> anyhow::Result<SocketAddr> {
        let (status, _, address) = self.query_address();
        address.with_context(|| format!("the listener's address: {status}"))
    }

    pub(crate) fn query_address(&self) -> (NTSTATUS, u32, Option<SocketAddr>) {
        query_address(|address, length| call!(IND2Listener::GetLocalAddress, self.com, address.cast(), length))
    }

    pub(crate) fn connection_request(&self, connector: &Connector) -> Result<Request> {
        self.connection_request_by(connector, Signal::Event)
    }

    pub(crate) fn connection_request_by(&self, connector: &Connector, signal: Signal) -> Result<Request> {
        let connector = connector.com.as_raw();
        begin!(signal, self.patience, IND2Listener::GetConnectionRequest, self.com, connector)
    }

    pub(crate) fn cancel(&self) -> Result<()> {
        ask!(IND2Overlapped::CancelOverlappedRequests, self.com)
    }
}
