//! The driver's version, its framework driver object, and its NDIS handle.

use core::{
    ffi::c_void,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

use ndk_abi::ndis::NDIS_HANDLE;
use wdk_sys::WDFDRIVER;

/// Major, minor, build, revision.
pub(crate) const VERSION: [u16; 4] = [0, 1, 0, 0];

/// The framework driver object, from DriverEntry to the unload.
static WDF: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The handle of NdisMRegisterMiniportDriver, from MiniportSetOptions to the unload.
static NDIS: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The framework driver object.
pub(crate) fn wdf() -> WDFDRIVER {
    WDF.load(Ordering::Acquire).cast()
}

/// Stores the framework driver object that WdfDriverCreate made.
pub(crate) fn set_wdf(driver: WDFDRIVER) {
    WDF.store(driver.cast(), Ordering::Release);
}

/// The handle of NdisMRegisterMiniportDriver.
pub(crate) fn ndis() -> NDIS_HANDLE {
    NDIS.load(Ordering::Acquire)
}

/// Stores the handle of NdisMRegisterMiniportDriver.
pub(crate) fn set_ndis(driver: NDIS_HANDLE) {
    NDIS.store(driver, Ordering::Release);
}
