//! An adapter's framework device object.
#![expect(unsafe_code, reason = "calls into NDIS and KMDF")]

use core::ptr::null_mut;

use ndk_abi::{ndis::NDIS_HANDLE, status::NDIS_STATUS};
use platform::Passive;
use wdk_sys::{DEVICE_OBJECT, WDFDEVICE, WDFOBJECT, call_unsafe_wdf_function_binding};

use crate::{driver, ndis, wdfminiport};

/// The framework device object of an adapter, by which Driver Verifier's WDF checks see the adapter.
pub(crate) struct FrameworkDevice(WDFDEVICE);

// SAFETY: framework handles may be used from any thread.
unsafe impl Send for FrameworkDevice {}

impl FrameworkDevice {
    /// ddi: nf-wdfminiport-wdfdeviceminiportcreate.
    pub(crate) fn create(miniport: NDIS_HANDLE, _passive: &Passive<'_>) -> Result<Self, NDIS_STATUS> {
        let (mut pdo, mut fdo, mut next): (*mut DEVICE_OBJECT, *mut DEVICE_OBJECT, *mut DEVICE_OBJECT) =
            (null_mut(), null_mut(), null_mut());
        // SAFETY: the adapter's handle, out parameters that outlive the call; null for two that are not wanted.
        unsafe {
            ndis::NdisMGetDeviceProperty(miniport, &raw mut pdo, &raw mut fdo, &raw mut next, null_mut(), null_mut());
        }
        // SAFETY: PASSIVE_LEVEL; the framework's driver and the adapter's device objects.
        let device = unsafe { wdfminiport::device_miniport_create(driver::wdf(), fdo, next, pdo) };
        device.map(Self).map_err(ndk_abi::status::NTSTATUS)
    }
}

impl Drop for FrameworkDevice {
    fn drop(&mut self) {
        // SAFETY: created by `create`, deleted once, at PASSIVE_LEVEL, where adapters are initialised and halted.
        unsafe { call_unsafe_wdf_function_binding!(WdfObjectDelete, self.0 as WDFOBJECT) };
    }
}
