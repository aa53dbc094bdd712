//! Asks a driver that was built to be caught to break a rule.

use std::fs::OpenOptions;
use std::io::{Error, Result};
use std::os::windows::io::AsRawHandle;
use std::ptr::null_mut;

use ndk_abi::softndk_ioctl::{
    IOCTL_SOFTNDK_TEST_PLANT, SOFTNDK_DEVICE_PATH, SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_PLANT,
};
use windows_sys::Win32::System::IO::DeviceIoControl;

/// Plants a fault of this kind; a driver as it is shipped refuses.
pub fn plant(kind: u32) -> Result<()> {
    let device = OpenOptions::new().read(true).write(true).open(SOFTNDK_DEVICE_PATH)?;
    let request = SOFTNDK_TEST_PLANT { Version: SOFTNDK_IOCTL_VERSION, Kind: kind };
    let mut returned = 0;
    // SAFETY: the device is open, the input is a structure of the size given, and there is no output.
    let done = unsafe {
        DeviceIoControl(
            device.as_raw_handle(),
            IOCTL_SOFTNDK_TEST_PLANT,
            (&raw const request).cast(),
            size_of_val(&request) as u32,
            null_mut(),
            0,
            &mut returned,
            null_mut(),
        )
    };
    if done == 0 { Err(Error::last_os_error()) } else { Ok(()) }
}
