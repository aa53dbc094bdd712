//! The driver: its version, and its handles at the framework and at NDIS.

use core::{
    ffi::c_void,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

use ndk_abi::ndis::NDIS_HANDLE;
use wdk_sys::WDFDRIVER;

/// Major, minor, build, revision.
pub(crate) const VERSION: [u16; 4] = [0, 1, 0, 0];

/// The framework's driver object, from DriverEntry to unload.
static WDF: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// What NDIS calls this driver, from MiniportSetOptions to unload.
static NDIS: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The framework's driver object.
pub(crate) fn wdf() -> WDFDRIVER {
    WDF.load(Ordering::Acquire).cast()
}

/// Keeps the driver object that WdfDriverCreate gave.
pub(crate) fn set_wdf(driver: WDFDRIVER) {
    WDF.store(driver.cast(), Ordering::Release);
}

/// The handle of NdisMRegisterMiniportDriver.
pub(crate) fn ndis() -> NDIS_HANDLE {
    NDIS.load(Ordering::Acquire)
}

/// Keeps the handle of NdisMRegisterMiniportDriver.
pub(crate) fn set_ndis(driver: NDIS_HANDLE) {
    NDIS.store(driver, Ordering::Release);
}
