//! The driver as a service.

use std::time::{Duration, Instant};

use windows_sys::Win32::{
    Foundation::GetLastError,
    System::{
        Registry::{HKEY_LOCAL_MACHINE, REG_DWORD, REG_SZ, RegSetKeyValueW},
        Services::{
            CloseServiceHandle, ControlService, CreateServiceW, DeleteService, OpenSCManagerW, OpenServiceW,
            QueryServiceStatus, SC_HANDLE, SC_MANAGER_ALL_ACCESS, SERVICE_ALL_ACCESS, SERVICE_CONTROL_STOP,
            SERVICE_DEMAND_START, SERVICE_ERROR_NORMAL, SERVICE_KERNEL_DRIVER, SERVICE_STATUS, SERVICE_STOPPED,
            StartServiceW,
        },
    },
};

const NAME: &str = "SoftNdkSelfTest";

/// A kernel driver service.
pub(crate) struct Service(SC_HANDLE);

impl Drop for Service {
    fn drop(&mut self) {
        // SAFETY: opened by `create`, closed once.
        unsafe { CloseServiceHandle(self.0) };
    }
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn last_error(what: &str) -> String {
    // SAFETY: no preconditions.
    format!("{what}: error {}", unsafe { GetLastError() })
}

/// Sets a value in the service's `Parameters` key.
fn set(name: &str, kind: u32, data: &[u8]) -> Result<(), String> {
    let key = wide(&format!(r"System\CurrentControlSet\Services\{NAME}\Parameters"));
    let name = wide(name);
    // SAFETY: NUL-terminated strings, and as many bytes of data.
    let result = unsafe {
        RegSetKeyValueW(HKEY_LOCAL_MACHINE, key.as_ptr(), name.as_ptr(), kind, data.as_ptr().cast(), data.len() as u32)
    };
    if result == 0 { Ok(()) } else { Err(format!("RegSetKeyValue: error {result}")) }
}

impl Service {
    /// Creates the service, or opens what an earlier run has left.
    pub(crate) fn create(driver: &str) -> Result<Self, String> {
        let (name, path) = (wide(NAME), wide(driver));
        // SAFETY: NUL-terminated strings and nulls where they are allowed.
        let service = unsafe {
            let manager = OpenSCManagerW(std::ptr::null(), std::ptr::null(), SC_MANAGER_ALL_ACCESS);
            let created = CreateServiceW(
                manager,
                name.as_ptr(),
                name.as_ptr(),
                SERVICE_ALL_ACCESS,
                SERVICE_KERNEL_DRIVER,
                SERVICE_DEMAND_START,
                SERVICE_ERROR_NORMAL,
                path.as_ptr(),
                std::ptr::null(),
                std::ptr::null_mut(),
                std::ptr::null(),
                std::ptr::null(),
                std::ptr::null(),
            );
            let service =
                if created.is_null() { OpenServiceW(manager, name.as_ptr(), SERVICE_ALL_ACCESS) } else { created };
            CloseServiceHandle(manager);
            service
        };
        if service.is_null() { Err(last_error("CreateService")) } else { Ok(Self(service)) }
    }

    /// Sets a number in the service's `Parameters` key.
    pub(crate) fn set_parameter(&self, name: &str, value: u32) -> Result<(), String> {
        set(name, REG_DWORD, &value.to_le_bytes())
    }

    /// Sets a string there.
    pub(crate) fn set_text(&self, name: &str, value: &str) -> Result<(), String> {
        set(name, REG_SZ, &wide(value).into_iter().flat_map(u16::to_le_bytes).collect::<Vec<_>>())
    }

    pub(crate) fn start(&self) -> Result<(), String> {
        // SAFETY: a service without arguments.
        if unsafe { StartServiceW(self.0, 0, std::ptr::null()) } == 0 {
            Err(last_error("StartService"))
        } else {
            Ok(())
        }
    }

    /// Stops the service and waits until its process has ended.
    pub(crate) fn stop(&self) -> Result<(), String> {
        let mut status = SERVICE_STATUS::default();
        // SAFETY: a place for the status.
        if unsafe { ControlService(self.0, SERVICE_CONTROL_STOP, &mut status) } == 0 {
            return Err(last_error("ControlService"));
        }
        let limit = Instant::now() + Duration::from_secs(30);
        while Instant::now() < limit {
            // SAFETY: as above.
            if unsafe { QueryServiceStatus(self.0, &mut status) } == 0 {
                return Err(last_error("QueryServiceStatus"));
            }
            if status.dwCurrentState == SERVICE_STOPPED {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err("the service did not stop".into())
    }

    pub(crate) fn delete(&self) -> Result<(), String> {
        // SAFETY: an open service.
        if unsafe { DeleteService(self.0) } == 0 { Err(last_error("DeleteService")) } else { Ok(()) }
    }
}
