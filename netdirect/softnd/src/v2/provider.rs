//! IND2Provider.
#![expect(unsafe_code, reason = "COM")]

use std::ffi::c_void;

use nd_com::{
    status::{ND_INVALID_PARAMETER, ND_SUCCESS, from_nt},
    v2::{IND2Provider, IND2Provider_Impl},
};
use windows_core::{GUID, HRESULT, implement};
use windows_sys::Win32::Networking::WinSock::{SOCKADDR, SOCKET_ADDRESS_LIST};

use super::adapter::Adapter;
use crate::{
    arguments::{address, give, give_addresses},
    core::adapter,
    hold::Hold,
};

#[implement(IND2Provider, Agile = false)]
pub(crate) struct Provider {
    _hold: Hold,
}

impl Provider {
    pub(crate) fn new() -> Self {
        Self { _hold: Hold::new() }
    }
}

impl IND2Provider_Impl for Provider_Impl {
    unsafe fn QueryAddressList(&self, list: *mut SOCKET_ADDRESS_LIST, size: *mut u32) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { give_addresses(adapter::provider_addresses(), list, size) }
    }

    unsafe fn ResolveAddress(&self, local: *const SOCKADDR, length: u32, id: *mut u64) -> HRESULT {
        if id.is_null() {
            return ND_INVALID_PARAMETER;
        }
        // SAFETY: the caller's pointer.
        let local = unsafe { address(local, length) };
        match local.and_then(adapter::resolve) {
            Ok(found) => {
                // SAFETY: the caller's pointer.
                unsafe { id.write(found) };
                ND_SUCCESS
            }
            Err(status) => from_nt(status),
        }
    }

    unsafe fn OpenAdapter(&self, iid: *const GUID, id: u64, out: *mut *mut c_void) -> HRESULT {
        let make = || Ok(Adapter::new(adapter::Adapter::open(id).map_err(from_nt)?).into());
        // SAFETY: the caller's pointers.
        unsafe { give(iid, out, make) }
    }
}
