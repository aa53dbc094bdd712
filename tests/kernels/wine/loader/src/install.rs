//! The device of an INF, by SetupAPI: made at the root of the device tree, given its driver, and removed again.

use std::io::{Error, Result};
use std::ptr::{null, null_mut};

use windows_sys::Win32::Devices::DeviceAndDriverInstallation::{
    DI_FUNCTION, DICD_GENERATE_ID, DIF_REGISTERDEVICE, DIF_REMOVE, GUID_DEVCLASS_NET, HDEVINFO,
    SETUP_DI_REGISTRY_PROPERTY, SP_DEVINFO_DATA, SPDRP_DRIVER, SPDRP_HARDWAREID, SPDRP_SERVICE, SPOST_PATH,
    SUOI_FORCEDELETE, SetupCopyOEMInfW, SetupDiCallClassInstaller, SetupDiCreateDeviceInfoList,
    SetupDiCreateDeviceInfoW, SetupDiDestroyDeviceInfoList, SetupDiEnumDeviceInfo, SetupDiGetClassDevsW,
    SetupDiGetDeviceRegistryPropertyW, SetupDiGetINFClassW, SetupDiSetDeviceRegistryPropertyW, SetupUninstallOEMInfW,
    UpdateDriverForPlugAndPlayDevicesW,
};
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::core::GUID;

use crate::registry::{read, write};
use crate::service::{check, wide};

const HARDWARE_ID: &str = r"Root\SoftNdk";

/// Puts the INF where Windows looks for drivers, makes a device, and has it take its driver. A device that gets none is an error,
/// and does not stay.
pub fn install(inf: &str) -> Result<()> {
    let (path, mut copy, mut name) = (wide(inf), [0_u16; 260], null_mut());
    let length = copy.len() as u32;
    // SAFETY: a NUL-terminated path, and places for the copy's path of so many characters, and for its last part.
    check(unsafe {
        let copy = copy.as_mut_ptr();
        SetupCopyOEMInfW(path.as_ptr(), null(), SPOST_PATH, 0, copy, length, null_mut(), &mut name)
    })?;
    let installed = install_device(&path);
    if installed.is_err() {
        // SAFETY: the NUL-terminated end of what was stored above.
        unsafe { SetupUninstallOEMInfW(name, SUOI_FORCEDELETE, null()) };
    }
    installed
}

fn install_device(inf: &[u16]) -> Result<()> {
    let (mut class, mut name) = (GUID::default(), [0_u16; 32]);
    let length = name.len() as u32;
    // SAFETY: a NUL-terminated path, and places for the class and its name of so many characters.
    check(unsafe { SetupDiGetINFClassW(inf.as_ptr(), &mut class, name.as_mut_ptr(), length, null_mut()) })?;
    let device = Device::create(&class, &name)?;
    device.call(DIF_REGISTERDEVICE)?;
    let id = wide(HARDWARE_ID);
    // SAFETY: NUL-terminated strings; null where nothing is wanted.
    let updated =
        check(unsafe { UpdateDriverForPlugAndPlayDevicesW(null_mut(), id.as_ptr(), inf.as_ptr(), 0, null_mut()) });
    // Wine says that it has succeeded where no device has taken the driver, too.
    let result = updated.and_then(|()| match device.property(SPDRP_SERVICE) {
        Some(_) => Ok(()),
        None => Err(Error::other("the device has got no driver")),
    });
    if result.is_err() {
        device.call(DIF_REMOVE)?;
    }
    result
}

/// Writes a value into the device's software key, as the page of advanced properties does.
pub fn set_keyword(keyword: &str, value: &str) -> Result<()> {
    write(&Device::find()?.software_key()?, keyword, value)
}

/// Removes the device and its INF.
pub fn remove() -> Result<()> {
    let device = Device::find()?;
    let inf = read(&device.software_key()?, "InfPath").ok_or_else(|| Error::other("the device has no INF"))?;
    device.call(DIF_REMOVE)?;
    let name = wide(&inf);
    // SAFETY: a NUL-terminated name.
    check(unsafe { SetupUninstallOEMInfW(name.as_ptr(), SUOI_FORCEDELETE, null()) })
}

/// A device, in a set of its own.
struct Device {
    set: HDEVINFO,
    data: SP_DEVINFO_DATA,
}

impl Device {
    fn empty(set: HDEVINFO) -> Result<Self> {
        if set == INVALID_HANDLE_VALUE as HDEVINFO {
            return Err(Error::last_os_error());
        }
        let data = SP_DEVINFO_DATA { cbSize: size_of::<SP_DEVINFO_DATA>() as u32, ..Default::default() };
        Ok(Self { set, data })
    }

    /// A new one of this class, with our hardware ID. It is nowhere yet.
    fn create(class: &GUID, name: &[u16]) -> Result<Self> {
        // SAFETY: a class; no window.
        let mut device = Self::empty(unsafe { SetupDiCreateDeviceInfoList(class, null_mut()) })?;
        let (name, flags) = (name.as_ptr(), DICD_GENERATE_ID);
        // SAFETY: an open set, a NUL-terminated name, and a place for the device.
        check(unsafe {
            SetupDiCreateDeviceInfoW(device.set, name, class, null(), null_mut(), flags, &mut device.data)
        })?;
        // A list of one, so with two ends.
        let ids = [wide(HARDWARE_ID), vec![0]].concat();
        let bytes = size_of_val(&*ids) as u32;
        // SAFETY: a device of the set, and so many bytes.
        check(unsafe {
            let ids = ids.as_ptr().cast();
            SetupDiSetDeviceRegistryPropertyW(device.set, &mut device.data, SPDRP_HARDWAREID, ids, bytes)
        })?;
        Ok(device)
    }

    /// The one that is installed.
    fn find() -> Result<Self> {
        let root = wide("ROOT");
        // SAFETY: a class and a NUL-terminated enumerator; no window.
        let set = unsafe { SetupDiGetClassDevsW(&GUID_DEVCLASS_NET, root.as_ptr(), null_mut(), 0) };
        let mut device = Self::empty(set)?;
        for index in 0.. {
            // SAFETY: an open set and a place for the device.
            check(unsafe { SetupDiEnumDeviceInfo(device.set, index, &mut device.data) })?;
            if device.property(SPDRP_HARDWAREID).is_some_and(|id| id.eq_ignore_ascii_case(HARDWARE_ID)) {
                break;
            }
        }
        Ok(device)
    }

    fn call(&self, function: DI_FUNCTION) -> Result<()> {
        // SAFETY: a device of an open set.
        check(unsafe { SetupDiCallClassInstaller(function, self.set, &self.data) })
    }

    /// The first string of a property.
    fn property(&self, property: SETUP_DI_REGISTRY_PROPERTY) -> Option<String> {
        let mut text = [0_u16; 256];
        let (bytes, place) = (size_of_val(&text) as u32, text.as_mut_ptr().cast());
        // SAFETY: a device of an open set, and a place of so many bytes.
        let found = unsafe {
            SetupDiGetDeviceRegistryPropertyW(self.set, &self.data, property, null_mut(), place, bytes, null_mut())
        };
        let text = text.split(|unit| *unit == 0).next().unwrap_or_default();
        (found != 0).then(|| String::from_utf16_lossy(text))
    }

    /// Where the device's driver has its values.
    fn software_key(&self) -> Result<String> {
        let driver = self.property(SPDRP_DRIVER).ok_or_else(Error::last_os_error)?;
        Ok(format!(r"System\CurrentControlSet\Control\Class\{driver}"))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: an open set, closed once.
        unsafe { SetupDiDestroyDeviceInfoList(self.set) };
    }
}
