//! IND2Connector.
#![expect(unsafe_code, reason = "COM")]

use std::{ffi::c_void, sync::Arc};

use nd_com::{
    status::{ND_INVALID_PARAMETER, ND_INVALID_PARAMETER_1, ND_SUCCESS, from_nt},
    v2::{IND2Connector, IND2Connector_Impl},
};
use ndk_abi::nd_ioctl::ND_READ_LIMITS;
use windows_core::{ComObject, HRESULT, implement};
use windows_sys::Win32::{Networking::WinSock::SOCKADDR, System::IO::OVERLAPPED};

use super::{overlapped::overlapped, queue_pair::QueuePair};
use crate::{
    arguments::{address, copy_out, give_address, hresult, ours, private_data, with},
    core::connector,
    hold::Hold,
};

#[implement(IND2Connector, Agile = false)]
pub(crate) struct Connector {
    core: connector::Connector,
    _hold: Hold,
}

impl Connector {
    pub(super) fn new(core: connector::Connector) -> Self {
        Self { core, _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &connector::Connector {
        &self.core
    }

    /// The queue pair behind an interface pointer. ND_INVALID_PARAMETER_1: not a queue pair of this adapter.
    ///
    /// # Safety
    /// `queue_pair` is null, or a COM object that outlives the call.
    unsafe fn queue_pair(&self, queue_pair: *mut c_void) -> Result<ComObject<QueuePair>, HRESULT> {
        // SAFETY: as the caller says.
        let found = unsafe { ours::<QueuePair>(queue_pair) };
        let of_this = |found: &ComObject<QueuePair>| Arc::ptr_eq(found.core().adapter(), self.core.adapter());
        found.filter(of_this).ok_or(ND_INVALID_PARAMETER_1)
    }
}

overlapped!(Connector_Impl);

impl IND2Connector_Impl for Connector_Impl {
    unsafe fn Bind(&self, local: *const SOCKADDR, length: u32) -> HRESULT {
        // SAFETY: the caller's pointer.
        let local = unsafe { address(local, length) };
        hresult(local.and_then(|local| self.core.bind(local)))
    }

    unsafe fn Connect(
        &self,
        queue_pair: *mut c_void,
        destination: *const SOCKADDR,
        length: u32,
        inbound: u32,
        outbound: u32,
        data: *const c_void,
        data_length: u32,
        overlapped: *mut OVERLAPPED,
    ) -> HRESULT {
        // SAFETY: the caller's object.
        let queue_pair = match unsafe { self.queue_pair(queue_pair) } {
            Ok(queue_pair) => queue_pair,
            Err(status) => return status,
        };
        // SAFETY: the caller's pointer.
        let destination = match unsafe { address(destination, length) } {
            Ok(destination) => destination,
            Err(status) => return from_nt(status),
        };
        // SAFETY: the caller's pointer.
        let data = match unsafe { private_data(data, data_length, self.core.max_private_data()) } {
            Ok(data) => data,
            Err(status) => return from_nt(status),
        };
        let limits = ND_READ_LIMITS { Inbound: inbound, Outbound: outbound };
        let connect = |overlapped: &_| self.core.connect(queue_pair.core(), destination, limits, data, overlapped);
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, connect) }
    }

    unsafe fn CompleteConnect(&self, overlapped: *mut OVERLAPPED) -> HRESULT {
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, |overlapped| self.core.complete_connect(overlapped)) }
    }

    unsafe fn Accept(
        &self,
        queue_pair: *mut c_void,
        inbound: u32,
        outbound: u32,
        data: *const c_void,
        data_length: u32,
        overlapped: *mut OVERLAPPED,
    ) -> HRESULT {
        // SAFETY: the caller's object.
        let queue_pair = match unsafe { self.queue_pair(queue_pair) } {
            Ok(queue_pair) => queue_pair,
            Err(status) => return status,
        };
        // SAFETY: the caller's pointer.
        let data = match unsafe { private_data(data, data_length, self.core.max_private_data()) } {
            Ok(data) => data,
            Err(status) => return from_nt(status),
        };
        let limits = ND_READ_LIMITS { Inbound: inbound, Outbound: outbound };
        let accept = |overlapped: &_| self.core.accept(queue_pair.core(), limits, data, overlapped);
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, accept) }
    }

    unsafe fn Reject(&self, data: *const c_void, length: u32) -> HRESULT {
        // SAFETY: the caller's pointer.
        let data = unsafe { private_data(data, length, self.core.max_private_data()) };
        hresult(data.and_then(|data| self.core.reject(data)))
    }

    unsafe fn GetReadLimits(&self, inbound: *mut u32, outbound: *mut u32) -> HRESULT {
        if inbound.is_null() || outbound.is_null() {
            return ND_INVALID_PARAMETER;
        }
        match self.core.read_limits() {
            Ok(limits) => {
                // SAFETY: not null.
                unsafe { inbound.write(limits.Inbound) };
                // SAFETY: not null.
                unsafe { outbound.write(limits.Outbound) };
                ND_SUCCESS
            }
            Err(status) => from_nt(status),
        }
    }

    unsafe fn GetPrivateData(&self, data: *mut c_void, size: *mut u32) -> HRESULT {
        match self.core.private_data() {
            // SAFETY: the caller's pointers.
            Ok(received) => unsafe { copy_out(&received, data, size, true) },
            Err(status) => from_nt(status),
        }
    }

    unsafe fn GetLocalAddress(&self, out: *mut SOCKADDR, size: *mut u32) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { give_address(self.core.local_address(), out, size) }
    }

    unsafe fn GetPeerAddress(&self, out: *mut SOCKADDR, size: *mut u32) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { give_address(self.core.peer_address(), out, size) }
    }

    unsafe fn NotifyDisconnect(&self, overlapped: *mut OVERLAPPED) -> HRESULT {
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, |overlapped| self.core.notify_disconnect(overlapped)) }
    }

    unsafe fn Disconnect(&self, overlapped: *mut OVERLAPPED) -> HRESULT {
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, |overlapped| self.core.disconnect(overlapped)) }
    }
}
