//! IND2Listener.
#![expect(unsafe_code, reason = "COM")]

use std::{ffi::c_void, sync::Arc};

use nd_com::{
    status::ND_INVALID_PARAMETER_1,
    v2::{IND2Listener, IND2Listener_Impl},
};
use windows_core::{HRESULT, implement};
use windows_sys::Win32::{Networking::WinSock::SOCKADDR, System::IO::OVERLAPPED};

use super::{connector::Connector, overlapped::overlapped};
use crate::{
    arguments::{address, give_address, hresult, ours, with},
    core::listener,
    hold::Hold,
};

#[implement(IND2Listener, Agile = false)]
pub(crate) struct Listener {
    core: listener::Listener,
    _hold: Hold,
}

impl Listener {
    pub(super) fn new(core: listener::Listener) -> Self {
        Self { core, _hold: Hold::new() }
    }
}

overlapped!(Listener_Impl);

impl IND2Listener_Impl for Listener_Impl {
    unsafe fn Bind(&self, local: *const SOCKADDR, length: u32) -> HRESULT {
        // SAFETY: the caller's pointer.
        let local = unsafe { address(local, length) };
        hresult(local.and_then(|local| self.core.bind(local)))
    }

    unsafe fn Listen(&self, backlog: u32) -> HRESULT {
        hresult(self.core.listen(backlog))
    }

    unsafe fn GetLocalAddress(&self, out: *mut SOCKADDR, size: *mut u32) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { give_address(self.core.local_address(), out, size) }
    }

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
