//! The driver's service, by the service control manager.

use std::io::{Error, Result};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{ERROR_INTERNAL_ERROR, ERROR_SERVICE_EXISTS};
use windows_sys::Win32::System::Services::{
    ChangeServiceConfigW, CloseServiceHandle, ControlService, CreateServiceW, DeleteService, OpenSCManagerW,
    OpenServiceW, QueryServiceStatus, SC_HANDLE, SC_MANAGER_ALL_ACCESS, SERVICE_ALL_ACCESS, SERVICE_CONTROL_STOP,
    SERVICE_DEMAND_START, SERVICE_ERROR_NORMAL, SERVICE_KERNEL_DRIVER, SERVICE_NO_CHANGE, SERVICE_STATUS,
    SERVICE_STOPPED, StartServiceW,
};

use crate::registry;

const NAME: &str = "softndk";
/// Wine runs the services of one group in one process: a consumer beside the driver is of it too.
const GROUP: &str = "SoftNDK";
const KEY: &str = r"System\CurrentControlSet\Services\softndk";
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// An open service; it goes on existing when this is dropped.
pub struct Service(SC_HANDLE);

impl Service {
    /// Creates the service for the driver at this Windows path, or opens it where an earlier run left it.
    pub fn create(driver: &str) -> Result<Self> {
        Self::create_named(NAME, driver)
    }

    /// The same for another driver, which runs in the same process.
    pub fn create_named(name: &str, driver: &str) -> Result<Self> {
        let (name, path, group) = (wide(name), wide(driver), wide(GROUP));
        let manager = open_manager()?;
        // SAFETY: the strings are NUL-terminated and outlive the call; every null pointer is documented as optional.
        let created = check_handle(unsafe {
            CreateServiceW(
                manager,
                name.as_ptr(),
                name.as_ptr(),
                SERVICE_ALL_ACCESS,
                SERVICE_KERNEL_DRIVER,
                SERVICE_DEMAND_START,
                SERVICE_ERROR_NORMAL,
                path.as_ptr(),
                group.as_ptr(),
                null_mut(),
                null(),
                null(),
                null(),
            )
        });
        let service = match created {
            Err(error) if error.raw_os_error() == Some(ERROR_SERVICE_EXISTS as i32) => {
                // SAFETY: the manager is open and the name NUL-terminated.
                check_handle(unsafe { OpenServiceW(manager, name.as_ptr(), SERVICE_ALL_ACCESS) })
                    .map(Self)
                    .and_then(|service| service.set_driver(&path, &group).map(|()| service))
            }
            other => other.map(Self),
        };
        // SAFETY: the manager was opened above and is not used again.
        unsafe { CloseServiceHandle(manager) };
        service
    }

    /// Opens the one that an INF has made.
    pub fn open() -> Result<Self> {
        let (manager, name) = (open_manager()?, wide(NAME));
        // SAFETY: the manager is open and the name NUL-terminated.
        let service = check_handle(unsafe { OpenServiceW(manager, name.as_ptr(), SERVICE_ALL_ACCESS) }).map(Self);
        // SAFETY: the manager was opened above and is not used again.
        unsafe { CloseServiceHandle(manager) };
        service
    }

    /// Makes the service load the driver at `path`, as one of `group`; both are NUL-terminated strings.
    fn set_driver(&self, path: &[u16], group: &[u16]) -> Result<()> {
        let same = SERVICE_NO_CHANGE;
        // SAFETY: the service is open and the strings NUL-terminated; a null pointer leaves a setting as it is.
        check(unsafe {
            ChangeServiceConfigW(
                self.0,
                same,
                same,
                same,
                path.as_ptr(),
                group.as_ptr(),
                null_mut(),
                null(),
                null(),
                null(),
                null(),
            )
        })
    }

    /// Writes a string value into the service's `Parameters` key.
    pub fn set_parameter(&self, value: &str, data: &str) -> Result<()> {
        registry::write(&format!(r"{KEY}\Parameters"), value, data)
    }

    /// The driver's file, as a Windows path.
    pub fn binary(&self) -> Result<String> {
        registry::read(KEY, "ImagePath").ok_or_else(|| Error::other("the service has no file"))
    }

    /// Loads the driver; its DriverEntry has returned when this does.
    pub fn start(&self) -> Result<()> {
        // SAFETY: the service is open; a driver takes no arguments.
        let start = || check(unsafe { StartServiceW(self.0, 0, null()) });
        match start() {
            // Wine 8 says this about once in a thousand starts, before it loads anything.
            Err(error) if error.raw_os_error() == Some(ERROR_INTERNAL_ERROR as i32) => start(),
            result => result,
        }
    }

    pub fn is_running(&self) -> Result<bool> {
        let mut status = SERVICE_STATUS::default();
        // SAFETY: the service is open and `status` is writable.
        check(unsafe { QueryServiceStatus(self.0, &mut status) })?;
        Ok(status.dwCurrentState != SERVICE_STOPPED)
    }

    /// Unloads the driver and waits until it is gone.
    pub fn stop(&self) -> Result<()> {
        let mut status = SERVICE_STATUS::default();
        // SAFETY: the service is open and `status` is writable.
        check(unsafe { ControlService(self.0, SERVICE_CONTROL_STOP, &mut status) })?;
        let start = Instant::now();
        while status.dwCurrentState != SERVICE_STOPPED {
            if start.elapsed() > STOP_LIMIT {
                return Err(Error::other(format!("the driver is in state {} long after stop", status.dwCurrentState)));
            }
            std::thread::sleep(Duration::from_millis(10));
            // SAFETY: as above.
            check(unsafe { QueryServiceStatus(self.0, &mut status) })?;
        }
        Ok(())
    }

    /// Removes the service from the manager's database.
    pub fn delete(&self) -> Result<()> {
        // SAFETY: the service is open.
        check(unsafe { DeleteService(self.0) })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // SAFETY: this handle is owned and closed only here.
        unsafe { CloseServiceHandle(self.0) };
    }
}

fn open_manager() -> Result<SC_HANDLE> {
    // SAFETY: null names mean this machine and its active database.
    check_handle(unsafe { OpenSCManagerW(null(), null(), SC_MANAGER_ALL_ACCESS) })
}

/// With the NUL that ends it.
pub fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

pub fn check(result: i32) -> Result<()> {
    if result == 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

fn check_handle(handle: SC_HANDLE) -> Result<SC_HANDLE> {
    if handle.is_null() { Err(Error::last_os_error()) } else { Ok(handle) }
}
