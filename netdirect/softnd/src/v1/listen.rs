//! INDListen.
#![expect(unsafe_code, reason = "COM")]

use std::{ffi::c_void, sync::Arc};

use nd_com::{
    status::ND_INVALID_PARAMETER_1,
    v1::{INDListen, INDListen_Impl},
};
use windows_core::{HRESULT, implement};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::{connector::Connector, overlapped::overlapped};
use crate::{
    arguments::{ours, with},
    core::listener,
    hold::Hold,
};

#[implement(INDListen, Agile = false)]
pub(crate) struct Listen {
    core: listener::Listener,
    _hold: Hold,
}

impl Listen {
    pub(super) fn new(core: listener::Listener) -> Self {
        Self { core, _hold: Hold::new() }
    }
}

overlapped!(Listen_Impl);

impl INDListen_Impl for Listen_Impl {
    unsafe fn GetConnectionRequest(&self, connector: *mut c_void, overlapped: *mut OVERLAPPED) -> HRESULT {
        // SAFETY: null, or the caller's object.
        let connector = unsafe { ours::<Connector>(connector) };
        let of_this = connector.filter(|found| Arc::ptr_eq(found.core().adapter(), self.core.adapter()));
        let Some(connector) = of_this else { return ND_INVALID_PARAMETER_1 };
        let request = |overlapped: &_| self.core.connection_request(connector.core(), overlapped);
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, request) }
    }
}
