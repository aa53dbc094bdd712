//! IND2MemoryRegion and IND2MemoryWindow.
#![expect(unsafe_code, reason = "COM")]

use std::ffi::c_void;

use nd_com::v2::{IND2MemoryRegion, IND2MemoryRegion_Impl, IND2MemoryWindow, IND2MemoryWindow_Impl};
use windows_core::{HRESULT, implement};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::overlapped::overlapped;
use crate::{
    arguments::with,
    core::memory::{Region, Window},
    hold::Hold,
};

#[implement(IND2MemoryRegion, Agile = false)]
pub(crate) struct MemoryRegion {
    core: Region,
    _hold: Hold,
}

impl MemoryRegion {
    pub(super) fn new(core: Region) -> Self {
        Self { core, _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &Region {
        &self.core
    }
}

overlapped!(MemoryRegion_Impl);

impl IND2MemoryRegion_Impl for MemoryRegion_Impl {
    unsafe fn Register(
        &self,
        buffer: *const c_void,
        length: usize,
        flags: u32,
        overlapped: *mut OVERLAPPED,
    ) -> HRESULT {
        let (address, length) = (buffer.addr() as u64, length as u64);
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, |overlapped| self.core.register(address, length, flags, overlapped)) }
    }

    unsafe fn Deregister(&self, overlapped: *mut OVERLAPPED) -> HRESULT {
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, |overlapped| self.core.deregister(overlapped)) }
    }

    unsafe fn GetLocalToken(&self) -> u32 {
        self.core.tokens().LocalToken
    }

    unsafe fn GetRemoteToken(&self) -> u32 {
        self.core.tokens().RemoteToken.to_be()
    }
}

#[implement(IND2MemoryWindow, Agile = false)]
pub(crate) struct MemoryWindow {
    core: Window,
    _hold: Hold,
}

impl MemoryWindow {
    pub(super) fn new(core: Window) -> Self {
        Self { core, _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &Window {
        &self.core
    }
}

impl IND2MemoryWindow_Impl for MemoryWindow_Impl {
    unsafe fn GetRemoteToken(&self) -> u32 {
        self.core.token().to_be()
    }
}
