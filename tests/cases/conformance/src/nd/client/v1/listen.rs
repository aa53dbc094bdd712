//! What takes connection requests.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::time::Duration;

use nd_com::v1::INDListen;
use windows_core::Interface as _;

use super::{super::Signal, Connector, Request, ask, begin};
use crate::error::Result;

/// INDListen.
pub(crate) struct Listen {
    pub(crate) com: INDListen,
    pub(super) patience: Duration,
}

impl Listen {
    pub(crate) fn connection_request(&self, connector: &Connector) -> Result<Request> {
        let connector = connector.com.as_raw();
        begin!(Signal::Event, self.patience, INDListen::GetConnectionRequest, self.com, connector)
    }

    /// GetConnectionRequest for an object that is no connector, or none.
    pub(crate) fn connection_request_for(&self, object: *mut std::ffi::c_void) -> Result<Request> {
        begin!(Signal::Event, self.patience, INDListen::GetConnectionRequest, self.com, object)
    }

    pub(crate) fn cancel(&self) -> Result<()> {
        ask!(INDOverlapped::CancelOverlappedRequests, self.com)
    }
}
