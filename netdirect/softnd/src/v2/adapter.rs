//! IND2Adapter.
#![expect(unsafe_code, reason = "COM")]

use std::{ffi::c_void, ptr, sync::Arc};

use nd_com::{
    status::{
        E_POINTER, ND_BUFFER_OVERFLOW, ND_INVALID_PARAMETER, ND_INVALID_PARAMETER_2, ND_INVALID_PARAMETER_3,
        ND_INVALID_PARAMETER_4, ND_INVALID_PARAMETER_5, ND_INVALID_PARAMETER_6, ND_INVALID_PARAMETER_7,
        ND_INVALID_PARAMETER_8, ND_INVALID_PARAMETER_9, ND_NOT_SUPPORTED, ND_SUCCESS, from_nt,
    },
    v2::{IND2Adapter, IND2Adapter_Impl},
};
use ndk_abi::nd_ioctl::{ND_VERSION_2, ND2_ADAPTER_INFO};
use windows_core::{GUID, HRESULT, implement};
use windows_sys::Win32::{Foundation::HANDLE, Networking::WinSock::SOCKET_ADDRESS_LIST};

use super::{
    completion_queue::CompletionQueue,
    connector::Connector,
    listener::Listener,
    memory::{MemoryRegion, MemoryWindow},
    queue_pair::QueuePair,
    shared_receive_queue::SharedReceiveQueue,
};
use crate::{
    arguments::{at_most, give, give_addresses, ours},
    core::{
        adapter, affinity, completion_queue, connector, listener, memory,
        queue_pair::{self, CompletionQueues, InitiatorLimits, Receives},
        shared_receive_queue,
    },
    hold::Hold,
};

/// The fewest SGEs that initiator requests may have, whatever the program requests. Microsoft's ndmw requests 1 and
/// posts 2, which hardware accepts: the smallest entry of its queues has room for more.
const GRANTED_SGES: u32 = 4;

#[implement(IND2Adapter, Agile = false)]
pub(crate) struct Adapter {
    core: Arc<adapter::Adapter>,
    _hold: Hold,
}

impl Adapter {
    pub(super) fn new(core: Arc<adapter::Adapter>) -> Self {
        Self { core, _hold: Hold::new() }
    }

    /// The completion queue behind an interface pointer. Error `otherwise`: not a completion queue of this adapter.
    ///
    /// # Safety
    /// `queue` is null, or a COM object that outlives the call.
    unsafe fn completion_queue(
        &self,
        queue: *mut c_void,
        otherwise: HRESULT,
    ) -> Result<Arc<completion_queue::CompletionQueue>, HRESULT> {
        // SAFETY: as the caller says.
        let queue = unsafe { ours::<CompletionQueue>(queue) }.ok_or(otherwise)?;
        let core = queue.core();
        if Arc::ptr_eq(core.adapter(), &self.core) { Ok(core.clone()) } else { Err(otherwise) }
    }

    /// Both completion queues of a queue pair: parameters 2 and 3.
    ///
    /// # Safety
    /// Each pointer is null, or a COM object that outlives the call.
    unsafe fn completion_queues(
        &self,
        receive: *mut c_void,
        initiator: *mut c_void,
    ) -> Result<CompletionQueues, HRESULT> {
        // SAFETY: as the caller says.
        let receive = unsafe { self.completion_queue(receive, ND_INVALID_PARAMETER_2) }?;
        // SAFETY: as the caller says.
        let initiator = unsafe { self.completion_queue(initiator, ND_INVALID_PARAMETER_3) }?;
        Ok(CompletionQueues { receive, initiator })
    }
}

impl IND2Adapter_Impl for Adapter_Impl {
    unsafe fn CreateOverlappedFile(&self, out: *mut HANDLE) -> HRESULT {
        if out.is_null() {
            return E_POINTER;
        }
        // SAFETY: the caller's pointer.
        unsafe { out.write(ptr::null_mut()) };
        match self.core.open_overlapped() {
            Ok(file) => {
                // SAFETY: the caller's pointer.
                unsafe { out.write(file.into_raw()) };
                ND_SUCCESS
            }
            Err(status) => from_nt(status),
        }
    }

    unsafe fn Query(&self, info: *mut ND2_ADAPTER_INFO, size: *mut u32) -> HRESULT {
        const LENGTH: u32 = size_of::<ND2_ADAPTER_INFO>() as u32;
        // SAFETY: the caller's pointer.
        let Some(size) = (unsafe { size.as_mut() }) else { return ND_INVALID_PARAMETER };
        let given = std::mem::replace(size, LENGTH);
        if info.is_null() || given < LENGTH {
            return ND_BUFFER_OVERFLOW;
        }
        // SAFETY: the caller's pointer, to as many bytes.
        let version = unsafe { (*info).InfoVersion };
        if version != ND_VERSION_2 {
            return ND_INVALID_PARAMETER;
        }
        // SAFETY: as before.
        unsafe { info.write(*self.core.info()) };
        ND_SUCCESS
    }

    unsafe fn QueryAddressList(&self, list: *mut SOCKET_ADDRESS_LIST, size: *mut u32) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { give_addresses(self.core.addresses(), list, size) }
    }

    unsafe fn CreateCompletionQueue(
        &self,
        iid: *const GUID,
        file: HANDLE,
        depth: u32,
        group: u16,
        affinity: usize,
        out: *mut *mut c_void,
    ) -> HRESULT {
        let make = || {
            if depth == 0 || depth > self.core.info().MaxCompletionQueueDepth {
                return Err(ND_INVALID_PARAMETER_3);
            }
            let affinity = affinity::affinity(group, affinity);
            let core = completion_queue::CompletionQueue::create(&self.core, file, depth, affinity);
            Ok(CompletionQueue::new(core.map_err(from_nt)?).into())
        };
        // SAFETY: the caller's pointers.
        unsafe { give(iid, out, make) }
    }

    unsafe fn CreateMemoryRegion(&self, iid: *const GUID, file: HANDLE, out: *mut *mut c_void) -> HRESULT {
        let make = || {
            let core = memory::Region::create(&self.core, file).map_err(from_nt)?;
            Ok(MemoryRegion::new(core).into())
        };
        // SAFETY: the caller's pointers.
        unsafe { give(iid, out, make) }
    }

    unsafe fn CreateMemoryWindow(&self, iid: *const GUID, out: *mut *mut c_void) -> HRESULT {
        let make = || Ok(MemoryWindow::new(memory::Window::create(&self.core).map_err(from_nt)?).into());
        // SAFETY: the caller's pointers.
        unsafe { give(iid, out, make) }
    }

    unsafe fn CreateSharedReceiveQueue(
        &self,
        iid: *const GUID,
        file: HANDLE,
        depth: u32,
        sges: u32,
        threshold: u32,
        group: u16,
        affinity: usize,
        out: *mut *mut c_void,
    ) -> HRESULT {
        let make = || {
            let info = self.core.info();
            if info.MaxSharedReceiveQueueDepth == 0 {
                return Err(ND_NOT_SUPPORTED);
            }
            if depth == 0 || depth > info.MaxSharedReceiveQueueDepth {
                return Err(ND_INVALID_PARAMETER_3);
            }
            at_most([(sges, info.MaxReceiveSge, ND_INVALID_PARAMETER_4)])?;
            let affinity = affinity::affinity(group, affinity);
            let core =
                shared_receive_queue::SharedReceiveQueue::create(&self.core, file, (depth, sges), threshold, affinity);
            Ok(SharedReceiveQueue::new(core.map_err(from_nt)?).into())
        };
        // SAFETY: the caller's pointers.
        unsafe { give(iid, out, make) }
    }

    unsafe fn CreateQueuePair(
        &self,
        iid: *const GUID,
        receive: *mut c_void,
        initiator: *mut c_void,
        context: *mut c_void,
        receive_depth: u32,
        initiator_depth: u32,
        receive_sges: u32,
        initiator_sges: u32,
        inline_data: u32,
        out: *mut *mut c_void,
    ) -> HRESULT {
        let make = || {
            // SAFETY: the caller's objects.
            let queues = unsafe { self.completion_queues(receive, initiator) }?;
            let info = self.core.info();
            at_most([
                (receive_depth, info.MaxReceiveQueueDepth, ND_INVALID_PARAMETER_5),
                (initiator_depth, info.MaxInitiatorQueueDepth, ND_INVALID_PARAMETER_6),
                (receive_sges, info.MaxReceiveSge, ND_INVALID_PARAMETER_7),
                (initiator_sges, info.MaxInitiatorSge, ND_INVALID_PARAMETER_8),
                (inline_data, info.MaxInlineDataSize, ND_INVALID_PARAMETER_9),
            ])?;
            let receives = Receives::Own { depth: receive_depth, sges: receive_sges };
            let sges = initiator_sges.max(GRANTED_SGES);
            let limits = InitiatorLimits { depth: initiator_depth, sges, inline_data };
            let core = queue_pair::QueuePair::create(&self.core, queues, receives, limits, context.addr() as u64);
            Ok(QueuePair::new(core.map_err(from_nt)?).into())
        };
        // SAFETY: the caller's pointers.
        unsafe { give(iid, out, make) }
    }

    unsafe fn CreateQueuePairWithSrq(
        &self,
        iid: *const GUID,
        receive: *mut c_void,
        initiator: *mut c_void,
        shared: *mut c_void,
        context: *mut c_void,
        initiator_depth: u32,
        initiator_sges: u32,
        inline_data: u32,
        out: *mut *mut c_void,
    ) -> HRESULT {
        let make = || {
            let info = self.core.info();
            if info.MaxSharedReceiveQueueDepth == 0 {
                return Err(ND_NOT_SUPPORTED);
            }
            // SAFETY: the caller's objects.
            let queues = unsafe { self.completion_queues(receive, initiator) }?;
            // SAFETY: the caller's object.
            let shared = unsafe { ours::<SharedReceiveQueue>(shared) }.ok_or(ND_INVALID_PARAMETER_4)?;
            if !Arc::ptr_eq(shared.core().adapter(), &self.core) {
                return Err(ND_INVALID_PARAMETER_4);
            }
            at_most([
                (initiator_depth, info.MaxInitiatorQueueDepth, ND_INVALID_PARAMETER_6),
                (initiator_sges, info.MaxInitiatorSge, ND_INVALID_PARAMETER_7),
                (inline_data, info.MaxInlineDataSize, ND_INVALID_PARAMETER_8),
            ])?;
            let receives = Receives::Shared(shared.core().clone());
            let sges = initiator_sges.max(GRANTED_SGES);
            let limits = InitiatorLimits { depth: initiator_depth, sges, inline_data };
            let core = queue_pair::QueuePair::create(&self.core, queues, receives, limits, context.addr() as u64);
            Ok(QueuePair::new(core.map_err(from_nt)?).into())
        };
        // SAFETY: the caller's pointers.
        unsafe { give(iid, out, make) }
    }

    unsafe fn CreateConnector(&self, iid: *const GUID, file: HANDLE, out: *mut *mut c_void) -> HRESULT {
        let make = || {
            let core = connector::Connector::create(&self.core, file).map_err(from_nt)?;
            Ok(Connector::new(core).into())
        };
        // SAFETY: the caller's pointers.
        unsafe { give(iid, out, make) }
    }

    unsafe fn CreateListener(&self, iid: *const GUID, file: HANDLE, out: *mut *mut c_void) -> HRESULT {
        let make = || Ok(Listener::new(listener::Listener::create(&self.core, file).map_err(from_nt)?).into());
        // SAFETY: the caller's pointers.
        unsafe { give(iid, out, make) }
    }
}
