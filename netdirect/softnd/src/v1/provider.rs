//! INDProvider.
#![expect(unsafe_code, reason = "COM")]

use std::ffi::c_void;

use nd_com::{
    status::from_nt,
    v1::{INDAdapter, INDProvider, INDProvider_Impl},
};
use windows_core::{HRESULT, Interface, implement};
use windows_sys::Win32::Networking::WinSock::{SOCKADDR, SOCKET_ADDRESS_LIST};

use super::adapter::Adapter;
use crate::{
    arguments::{address, give, give_addresses},
    core::adapter,
    hold::Hold,
};

#[implement(INDProvider, Agile = false)]
pub(crate) struct Provider {
    _hold: Hold,
}

impl Provider {
    pub(crate) fn new() -> Self {
        Self { _hold: Hold::new() }
    }
}

impl INDProvider_Impl for Provider_Impl {
    unsafe fn QueryAddressList(&self, list: *mut SOCKET_ADDRESS_LIST, size: *mut usize) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { give_addresses(adapter::provider_addresses(), list, size) }
    }

    unsafe fn OpenAdapter(&self, local: *const SOCKADDR, length: usize, out: *mut *mut c_void) -> HRESULT {
        let make = || {
            // SAFETY: the caller's pointer.
            let local = unsafe { address(local, length) }.map_err(from_nt)?;
            let core = adapter::resolve(local).and_then(adapter::Adapter::open).map_err(from_nt)?;
            Ok(Adapter::open(core, local)?.into())
        };
        // SAFETY: the caller's pointer.
        unsafe { give(&INDAdapter::IID, out, make) }
    }
}
