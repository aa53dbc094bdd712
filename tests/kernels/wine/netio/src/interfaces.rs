//! Names of interfaces: the adapter's only.

use kernel::{PASSIVE_LEVEL, status};

use crate::protocol::{INTERFACE_INDEX, NET_LUID};

/// Its alias, as `Get-NetAdapter` would show it.
const ALIAS: &str = "SoftNDK";

/// netioapi/nf-netioapi-convertinterfaceindextoluid.
#[unsafe(no_mangle)]
unsafe extern "system" fn ConvertInterfaceIndexToLuid(index: u32, luid: *mut u64) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "ConvertInterfaceIndexToLuid");
    if index != INTERFACE_INDEX || luid.is_null() {
        return status::INVALID_PARAMETER;
    }
    // SAFETY: the caller gives a place for it.
    unsafe { luid.write(NET_LUID) };
    status::SUCCESS
}

/// netioapi/nf-netioapi-convertinterfaceluidtoalias: with room for so many characters, the NUL at the end included.
#[unsafe(no_mangle)]
unsafe extern "system" fn ConvertInterfaceLuidToAlias(luid: *const u64, alias: *mut u16, length: usize) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "ConvertInterfaceLuidToAlias");
    // SAFETY: the caller gives one, or null.
    if unsafe { luid.as_ref() } != Some(&NET_LUID) || alias.is_null() {
        return status::INVALID_PARAMETER;
    }
    let characters = ALIAS.encode_utf16().chain([0]).collect::<Vec<_>>();
    if length < characters.len() {
        return status::INSUFFICIENT_RESOURCES;
    }
    // SAFETY: the caller gives room for so many characters.
    unsafe { alias.copy_from_nonoverlapping(characters.as_ptr(), characters.len()) };
    status::SUCCESS
}
