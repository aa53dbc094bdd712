//! Configuration of an adapter: values in the registry.

use std::{ffi::c_void, sync::Mutex};

use kernel::{PASSIVE_LEVEL, UNICODE_STRING, violation};
use ndk_abi::{ndis::*, status::*, wdm};
use windows_sys::Win32::System::Registry::{REG_DWORD, REG_SZ};

use crate::{adapter, check_header, driver, lock, registry};

const HANDLE: &str = "NDIS configuration handle";
/// Keywords that an INF gives a value (network/inf-requirements-for-ndkpi): 1 unless the registry says otherwise.
const NETWORK_DIRECT: &str = "*NetworkDirect";

/// An open configuration. Values that were read live as long as it does.
struct Configuration {
    service: String,
    /// The adapter's number; 0 for the driver's own.
    adapter: u32,
    values: Mutex<Vec<Value>>,
}

/// A value handed to the driver, and the characters it points to.
struct Value {
    parameter: Box<NDIS_CONFIGURATION_PARAMETER>,
    _storage: Vec<u16>,
}

/// ndis/nf-ndis-ndisopenconfigurationex: PASSIVE_LEVEL; the handle in the object is that of the driver or an adapter.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisOpenConfigurationEx(
    object: *const NDIS_CONFIGURATION_OBJECT,
    configuration: *mut NDIS_HANDLE,
) -> NDIS_STATUS {
    const WHAT: &str = "NDIS_CONFIGURATION_OBJECT";
    kernel::at_most(PASSIVE_LEVEL, "NdisOpenConfigurationEx");
    let sizes = [NDIS_SIZEOF_CONFIGURATION_OBJECT_REVISION_1];
    // SAFETY: the caller gives an object.
    if let Err(status) = unsafe { check_header(object.cast(), WHAT, NDIS_OBJECT_TYPE_CONFIGURATION_OBJECT, &sizes) } {
        return status;
    }
    // SAFETY: the size has been checked.
    let (handle, flags) = unsafe { ((*object).NdisHandle, (*object).Flags) };
    if flags != 0 {
        violation(&format!("{WHAT}: flags {flags:#x}"));
    }
    let opened = driver::from_handle(handle).map(|driver| (driver.service.clone(), 0)).or_else(|| {
        let adapter = adapter::from_handle(handle, "NdisOpenConfigurationEx")?;
        Some((adapter.driver.service.clone(), adapter.number))
    });
    let Some((service, adapter)) = opened else { return NDIS_STATUS_INVALID_PARAMETER };
    let opened = Box::new(Configuration { service, adapter, values: Mutex::default() });
    // SAFETY: the caller gives a place for the handle.
    unsafe { configuration.write(Box::into_raw(opened).cast()) };
    kernel::object(HANDLE, 1);
    NDIS_STATUS_SUCCESS
}

/// ndis/nf-ndis-ndiscloseconfiguration: PASSIVE_LEVEL; values that were read are gone then.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisCloseConfiguration(configuration: NDIS_HANDLE) {
    kernel::at_most(PASSIVE_LEVEL, "NdisCloseConfiguration");
    kernel::object(HANDLE, -1);
    // SAFETY: the caller gives a handle of NdisOpenConfigurationEx, once.
    drop(unsafe { Box::from_raw(configuration.cast::<Configuration>()) });
}

fn characters(data: &[u8]) -> Vec<u16> {
    let mut text: Vec<u16> = data.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    while text.last() == Some(&0) {
        text.pop();
    }
    text
}

/// A registry value as the type that the driver asked for.
fn convert(wanted: NDIS_PARAMETER_TYPE, kind: u32, data: &[u8]) -> Option<Value> {
    let mut storage = Vec::new();
    let parameter = match (wanted, kind) {
        (NdisParameterInteger | NdisParameterHexInteger, REG_DWORD) => {
            let value = u32::from_le_bytes(data.get(..4)?.try_into().ok()?);
            NDIS_CONFIGURATION_PARAMETER_DATA { IntegerData: value }
        }
        (NdisParameterInteger | NdisParameterHexInteger, REG_SZ) => {
            let radix = if wanted == NdisParameterInteger { 10 } else { 16 };
            let value = u32::from_str_radix(&String::from_utf16_lossy(&characters(data)), radix).ok()?;
            NDIS_CONFIGURATION_PARAMETER_DATA { IntegerData: value }
        }
        (NdisParameterString | NdisParameterMultiString, _) => {
            storage = characters(data);
            let length = u16::try_from(storage.len() * 2).ok()?;
            let string = wdm::UNICODE_STRING { Length: length, MaximumLength: length, Buffer: storage.as_mut_ptr() };
            NDIS_CONFIGURATION_PARAMETER_DATA { StringData: string }
        }
        (NdisParameterBinary, _) => {
            storage = data.chunks(2).map(|pair| u16::from_le_bytes([pair[0], *pair.get(1).unwrap_or(&0)])).collect();
            let binary = BINARY_DATA { Length: u16::try_from(data.len()).ok()?, Buffer: storage.as_mut_ptr().cast() };
            NDIS_CONFIGURATION_PARAMETER_DATA { BinaryData: binary }
        }
        _ => return None,
    };
    let parameter = Box::new(NDIS_CONFIGURATION_PARAMETER { ParameterType: wanted, ParameterData: parameter });
    Some(Value { parameter, _storage: storage })
}

/// ndis/nf-ndis-ndisreadconfiguration: PASSIVE_LEVEL; NDIS_STATUS_FAILURE if the value is not there or not of that type.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisReadConfiguration(
    result: *mut NDIS_STATUS,
    value: *mut *mut NDIS_CONFIGURATION_PARAMETER,
    configuration: NDIS_HANDLE,
    keyword: *const UNICODE_STRING,
    wanted: NDIS_PARAMETER_TYPE,
) {
    kernel::at_most(PASSIVE_LEVEL, "NdisReadConfiguration");
    // SAFETY: the caller gives a handle of NdisOpenConfigurationEx.
    let configuration = unsafe { &*configuration.cast::<Configuration>() };
    // SAFETY: the caller gives a counted string.
    let keyword = unsafe { kernel::unicode(keyword) };
    let stored = registry::parameter(&configuration.service, configuration.adapter, &keyword)
        .or_else(|| (keyword == NETWORK_DIRECT).then(|| (REG_DWORD, vec![1, 0, 0, 0])));
    let converted = stored.and_then(|(kind, data)| convert(wanted, kind, &data));
    let (status, pointer) = match converted {
        Some(mut found) => {
            let pointer = &raw mut *found.parameter;
            lock(&configuration.values).push(found);
            (NDIS_STATUS_SUCCESS, pointer)
        }
        None => (NDIS_STATUS_FAILURE, std::ptr::null_mut()),
    };
    // SAFETY: the caller gives places for both.
    unsafe {
        result.write(status);
        value.write(pointer);
    }
}

/// ndis/nf-ndis-ndisreadnetworkaddress: PASSIVE_LEVEL; the value `NetworkAddress`, in hexadecimal digits.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisReadNetworkAddress(
    result: *mut NDIS_STATUS,
    address: *mut *mut c_void,
    length: *mut u32,
    configuration: NDIS_HANDLE,
) {
    kernel::at_most(PASSIVE_LEVEL, "NdisReadNetworkAddress");
    // SAFETY: the caller gives a handle of NdisOpenConfigurationEx.
    let configuration = unsafe { &*configuration.cast::<Configuration>() };
    let digits: String = registry::parameter(&configuration.service, configuration.adapter, "NetworkAddress")
        .map(|(_, data)| String::from_utf16_lossy(&characters(&data)))
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_hexdigit)
        .collect();
    let bytes: Vec<u8> = digits.as_bytes().chunks_exact(2).filter_map(hexadecimal).collect();
    let found = convert(NdisParameterBinary, REG_SZ, &bytes).filter(|_| !bytes.is_empty());
    let (status, pointer) = match found {
        Some(found) => {
            // SAFETY: a binary value.
            let pointer = unsafe { found.parameter.ParameterData.BinaryData.Buffer };
            lock(&configuration.values).push(found);
            (NDIS_STATUS_SUCCESS, pointer)
        }
        None => (NDIS_STATUS_FAILURE, std::ptr::null_mut()),
    };
    // SAFETY: the caller gives places for all.
    unsafe {
        result.write(status);
        address.write(pointer);
        length.write(bytes.len() as u32);
    }
}

fn hexadecimal(pair: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
}
