//! IND2SharedReceiveQueue.
#![expect(unsafe_code, reason = "COM")]

use std::{ffi::c_void, sync::Arc};

use nd_com::{
    status::{ND_INVALID_PARAMETER, from_nt},
    v2::{IND2SharedReceiveQueue, IND2SharedReceiveQueue_Impl, ND2_SGE},
};
use windows_core::{HRESULT, implement};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::{completion_queue::give_affinity, overlapped::overlapped, queue_pair::sges};
use crate::{
    arguments::{hresult, with},
    core::shared_receive_queue,
    hold::Hold,
};

#[implement(IND2SharedReceiveQueue, Agile = false)]
pub(crate) struct SharedReceiveQueue {
    core: Arc<shared_receive_queue::SharedReceiveQueue>,
    _hold: Hold,
}

impl SharedReceiveQueue {
    pub(super) fn new(core: Arc<shared_receive_queue::SharedReceiveQueue>) -> Self {
        Self { core, _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &Arc<shared_receive_queue::SharedReceiveQueue> {
        &self.core
    }
}

overlapped!(SharedReceiveQueue_Impl);

impl IND2SharedReceiveQueue_Impl for SharedReceiveQueue_Impl {
    unsafe fn GetNotifyAffinity(&self, group: *mut u16, affinity: *mut usize) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { give_affinity(|| self.core.affinity(), group, affinity) }
    }

    unsafe fn Modify(&self, depth: u32, threshold: u32) -> HRESULT {
        if depth > self.core.adapter().info().MaxSharedReceiveQueueDepth {
            return ND_INVALID_PARAMETER;
        }
        hresult(self.core.modify(depth, threshold))
    }

    unsafe fn Notify(&self, overlapped: *mut OVERLAPPED) -> HRESULT {
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, |overlapped| self.core.notify(overlapped)) }
    }

    unsafe fn Receive(&self, context: *mut c_void, list: *const ND2_SGE, count: u32) -> HRESULT {
        // SAFETY: the caller's array.
        match unsafe { sges(list, count) } {
            Ok(sges) => hresult(self.core.receive(context.addr() as u64, sges)),
            Err(status) => from_nt(status),
        }
    }
}
