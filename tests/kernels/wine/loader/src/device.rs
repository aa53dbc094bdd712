//! The driver's control devices.

use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::windows::io::AsRawHandle;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use ndk_abi::softndk_ioctl::{
    IOCTL_SOFTNDK_TEST_PLANT, SOFTNDK_DEVICE_PATHS, SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_PLANT,
};
use windows_sys::Win32::Foundation::ERROR_FILE_NOT_FOUND;
use windows_sys::Win32::System::IO::DeviceIoControl;

use crate::protocol::OPEN_BELOW;

const START_LIMIT: Duration = Duration::from_secs(20);

/// Waits for the device: the adapter that makes it starts some time after DriverEntry has returned.
pub fn wait() -> Result<()> {
    let start = Instant::now();
    loop {
        match open() {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() > START_LIMIT => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Opens the first device that is there: the stand-in's own codes are served by each.
fn open() -> Result<File> {
    let open = |path| OpenOptions::new().read(true).write(true).open(path);
    let none = open(SOFTNDK_DEVICE_PATHS[0]);
    SOFTNDK_DEVICE_PATHS[1..].iter().fold(none, |opened, path| opened.or_else(|error| open(path).map_err(|_| error)))
}

/// Asks a driver that was built to be caught to break a rule; one as it is shipped refuses.
pub fn plant(kind: u32) -> Result<()> {
    control(IOCTL_SOFTNDK_TEST_PLANT, Some(&SOFTNDK_TEST_PLANT { Version: SOFTNDK_IOCTL_VERSION, Kind: kind }))
}

/// Has the driver asked to open a name below its device, which it must refuse as one that is not there.
pub fn below() -> Result<()> {
    match control::<()>(OPEN_BELOW, None) {
        Err(error) if error.raw_os_error() == Some(ERROR_FILE_NOT_FOUND as i32) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err(Error::other("the driver has opened a name below its device")),
    }
}

/// Sends a request without output.
pub fn control<T>(code: u32, input: Option<&T>) -> Result<()> {
    let device = open()?;
    let (address, bytes) = input.map_or((null(), 0), |input| (std::ptr::from_ref(input).cast(), size_of::<T>() as u32));
    let mut returned = 0;
    // SAFETY: the device is open, the input is a structure of the size given or absent, and there is no output.
    let done = unsafe {
        DeviceIoControl(device.as_raw_handle(), code, address, bytes, null_mut(), 0, &mut returned, null_mut())
    };
    if done == 0 { Err(Error::last_os_error()) } else { Ok(()) }
}
