//! INDConnector.
#![expect(unsafe_code, reason = "COM")]

use std::{
    ffi::c_void,
    sync::{Arc, Mutex},
};

use nd_com::{
    status::{
        ND_INVALID_PARAMETER_1, ND_INVALID_PARAMETER_2, ND_INVALID_PARAMETER_3, ND_INVALID_PARAMETER_4,
        ND_INVALID_PARAMETER_5, ND_INVALID_PARAMETER_6, ND_INVALID_PARAMETER_7, ND_INVALID_PARAMETER_8, ND_SUCCESS,
        from_nt,
    },
    v1::{INDConnector, INDConnector_Impl, INDEndpoint},
};
use ndk_abi::{
    nd_ioctl::ND_READ_LIMITS,
    status::{NTSTATUS, STATUS_ADDRESS_ALREADY_ASSOCIATED},
};
use windows_core::{ComObject, HRESULT, Interface, implement};
use windows_sys::Win32::{Networking::WinSock::SOCKADDR, System::IO::OVERLAPPED};

use super::{
    adapter::{AdapterInner, check_protocol},
    completion_queue::CompletionQueue,
    endpoint::{Endpoint, Limits},
    overlapped::overlapped,
};
use crate::{
    arguments::{address, at_most, copy_out, give, give_address, hresult, ours, private_data, with},
    core::{
        connector, lock,
        queue_pair::{CompletionQueues, InitiatorLimits, QueuePair, Receives},
    },
    hold::Hold,
};

#[implement(INDConnector, Agile = false)]
pub(crate) struct Connector {
    core: connector::Connector,
    adapter: Arc<AdapterInner>,
    /// The port to which a connect has bound the connector, in network byte order; 0: the driver chose a port. `None`:
    /// not bound.
    bound: Mutex<Option<u16>>,
    _hold: Hold,
}

impl Connector {
    pub(super) fn new(core: connector::Connector, adapter: Arc<AdapterInner>) -> Self {
        Self { core, adapter, bound: Mutex::default(), _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &connector::Connector {
        &self.core
    }

    /// The endpoint behind an interface pointer. ND_INVALID_PARAMETER_1: not an endpoint of this adapter.
    ///
    /// # Safety
    /// `endpoint` is null, or a COM object that outlives the call.
    unsafe fn endpoint(&self, endpoint: *mut c_void) -> Result<ComObject<Endpoint>, HRESULT> {
        // SAFETY: as the caller says.
        let found = unsafe { ours::<Endpoint>(endpoint) };
        let of_this = |found: &ComObject<Endpoint>| Arc::ptr_eq(found.core().adapter(), self.core.adapter());
        found.filter(of_this).ok_or(ND_INVALID_PARAMETER_1)
    }

    /// The completion queue behind an interface pointer. Error `otherwise`: not a completion queue of this adapter.
    ///
    /// # Safety
    /// `queue` is null, or a COM object that outlives the call.
    unsafe fn completion_queue(
        &self,
        queue: *mut c_void,
        otherwise: HRESULT,
    ) -> Result<ComObject<CompletionQueue>, HRESULT> {
        // SAFETY: as the caller says.
        let found = unsafe { ours::<CompletionQueue>(queue) };
        found.filter(|found| Arc::ptr_eq(found.core().adapter(), self.core.adapter())).ok_or(otherwise)
    }

    /// Private data of a connection.
    ///
    /// # Safety
    /// `data` is null, or valid for `length` bytes as long as the result is used.
    unsafe fn private_data<'a>(&self, data: *const c_void, length: usize) -> Result<&'a [u8], NTSTATUS> {
        // SAFETY: as the caller says.
        unsafe { private_data(data, length, self.core.max_private_data()) }
    }

    /// Binds the connector to a port of the adapter's address, unless an earlier connect, which failed, has already
    /// bound it to this port.
    fn bind(&self, port: u16) -> Result<(), NTSTATUS> {
        let mut bound = lock(&self.bound);
        match *bound {
            None => {
                self.core.bind(self.adapter.address_with(port))?;
                *bound = Some(port);
                Ok(())
            }
            Some(before) if before == port => Ok(()),
            Some(_) => Err(STATUS_ADDRESS_ALREADY_ASSOCIATED),
        }
    }
}

overlapped!(Connector_Impl);

impl INDConnector_Impl for Connector_Impl {
    unsafe fn CreateEndpoint(
        &self,
        inbound: *mut c_void,
        outbound: *mut c_void,
        inbound_entries: usize,
        outbound_entries: usize,
        inbound_sges: usize,
        outbound_sges: usize,
        inbound_reads: usize,
        outbound_reads: usize,
        inline_data: *mut usize,
        out: *mut *mut c_void,
    ) -> HRESULT {
        let make = || {
            // SAFETY: null, or the caller's object.
            let inbound = unsafe { self.completion_queue(inbound, ND_INVALID_PARAMETER_1) }?;
            // SAFETY: null, or the caller's object.
            let outbound = unsafe { self.completion_queue(outbound, ND_INVALID_PARAMETER_2) }?;
            let info = self.core.adapter().info();
            at_most([
                (inbound_entries, info.MaxReceiveQueueDepth, ND_INVALID_PARAMETER_3),
                (outbound_entries, info.MaxInitiatorQueueDepth, ND_INVALID_PARAMETER_4),
                (inbound_sges, info.MaxReceiveSge, ND_INVALID_PARAMETER_5),
                (outbound_sges, info.MaxInitiatorSge, ND_INVALID_PARAMETER_6),
                (inbound_reads, info.MaxInboundReadLimit, ND_INVALID_PARAMETER_7),
                (outbound_reads, info.MaxOutboundReadLimit, ND_INVALID_PARAMETER_8),
            ])?;
            // SAFETY: the caller's pointer.
            let inline_data = unsafe { inline_data.as_mut() };
            let asked = inline_data.as_deref().copied().unwrap_or(0);
            let granted = asked.min(info.MaxInlineDataSize as usize);
            // All these sizes fit: they are below limits of 32 bits.
            let receives = Receives::Own { depth: inbound_entries as u32, sges: inbound_sges as u32 };
            let initiators = InitiatorLimits {
                depth: outbound_entries as u32,
                sges: outbound_sges as u32,
                inline_data: granted as u32,
            };
            let queues = CompletionQueues { receive: inbound.core().clone(), initiator: outbound.core().clone() };
            let name = self.adapter.name_endpoint();
            let core = QueuePair::create(self.core.adapter(), queues, receives, initiators, name).map_err(from_nt)?;
            if let Some(inline_data) = inline_data {
                *inline_data = granted;
            }
            let reads = ND_READ_LIMITS { Inbound: inbound_reads as u32, Outbound: outbound_reads as u32 };
            let limits = Limits { inbound_sges, outbound_sges, reads };
            let results = [inbound.results().clone(), outbound.results().clone()];
            Ok(Endpoint::new(core, self.adapter.clone(), limits, name, results).into())
        };
        // SAFETY: the caller's pointer.
        unsafe { give(&INDEndpoint::IID, out, make) }
    }

    unsafe fn Connect(
        &self,
        endpoint: *mut c_void,
        destination: *const SOCKADDR,
        length: usize,
        protocol: i32,
        port: u16,
        data: *const c_void,
        data_length: usize,
        overlapped: *mut OVERLAPPED,
    ) -> HRESULT {
        let check = || {
            // SAFETY: the caller's object.
            let endpoint = unsafe { self.endpoint(endpoint) }?;
            // SAFETY: the caller's pointer.
            let destination = unsafe { address(destination, length) }.map_err(from_nt)?;
            check_protocol(protocol)?;
            // SAFETY: the caller's pointer.
            let data = unsafe { self.private_data(data, data_length) }.map_err(from_nt)?;
            Ok((endpoint, destination, data))
        };
        let (endpoint, destination, data) = match check() {
            Ok(checked) => checked,
            Err(status) => return status,
        };
        let connect = |overlapped: &_| match self.bind(port) {
            Ok(()) => self.core.connect(endpoint.core(), destination, endpoint.read_limits(), data, overlapped),
            Err(status) => status,
        };
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, connect) }
    }

    unsafe fn CompleteConnect(&self, overlapped: *mut OVERLAPPED) -> HRESULT {
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, |overlapped| self.core.complete_connect(overlapped)) }
    }

    unsafe fn Accept(
        &self,
        endpoint: *mut c_void,
        data: *const c_void,
        data_length: usize,
        overlapped: *mut OVERLAPPED,
    ) -> HRESULT {
        // SAFETY: the caller's object.
        let endpoint = match unsafe { self.endpoint(endpoint) } {
            Ok(endpoint) => endpoint,
            Err(status) => return status,
        };
        // SAFETY: the caller's pointer.
        let data = match unsafe { self.private_data(data, data_length) } {
            Ok(data) => data,
            Err(status) => return from_nt(status),
        };
        let accept = |overlapped: &_| self.core.accept(endpoint.core(), endpoint.read_limits(), data, overlapped);
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, accept) }
    }

    unsafe fn Reject(&self, data: *const c_void, length: usize) -> HRESULT {
        // SAFETY: the caller's pointer.
        let data = unsafe { self.private_data(data, length) };
        hresult(data.and_then(|data| self.core.reject(data)))
    }

    unsafe fn GetConnectionData(
        &self,
        inbound: *mut usize,
        outbound: *mut usize,
        data: *mut c_void,
        size: *mut usize,
    ) -> HRESULT {
        let limits = match self.core.read_limits() {
            Ok(limits) => limits,
            Err(status) => return from_nt(status),
        };
        for (place, limit) in [(inbound, limits.Inbound), (outbound, limits.Outbound)] {
            if !place.is_null() {
                // SAFETY: the caller's pointer.
                unsafe { place.write(limit as usize) };
            }
        }
        // A caller that asks for the limits only passes no size.
        if size.is_null() {
            return ND_SUCCESS;
        }
        match self.core.private_data() {
            // SAFETY: the caller's pointers.
            Ok(received) => unsafe { copy_out(&received, data, size, true) },
            Err(status) => from_nt(status),
        }
    }

    unsafe fn GetLocalAddress(&self, out: *mut SOCKADDR, size: *mut usize) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { give_address(self.core.local_address(), out, size) }
    }

    unsafe fn GetPeerAddress(&self, out: *mut SOCKADDR, size: *mut usize) -> HRESULT {
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
