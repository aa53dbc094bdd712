//! Event tracing: providers can register and write; nothing is recorded.

use std::{
    ffi::c_void,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    base::status,
    irql::{self, PASSIVE_LEVEL},
    report::{self, violation},
};

const PROVIDER: &str = "trace provider";
static LAST_HANDLE: AtomicU64 = AtomicU64::new(0);
static LIVE: std::sync::Mutex<Vec<u64>> = std::sync::Mutex::new(Vec::new());

/// wdm/nf-wdm-etwregister: at most APC_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn EtwRegister(
    _provider: *const c_void,
    _callback: *const c_void,
    _context: *mut c_void,
    handle: *mut u64,
) -> i32 {
    irql::at_most(irql::APC_LEVEL, "EtwRegister");
    let value = LAST_HANDLE.fetch_add(1, Ordering::Relaxed) + 1;
    report::lock(&LIVE).push(value);
    report::object(PROVIDER, 1);
    // SAFETY: the caller gives a place for the handle.
    unsafe { handle.write(value) };
    status::SUCCESS
}

/// wdm/nf-wdm-etwunregister: PASSIVE_LEVEL.
#[unsafe(no_mangle)]
extern "system" fn EtwUnregister(handle: u64) -> i32 {
    irql::at_most(PASSIVE_LEVEL, "EtwUnregister");
    let mut live = report::lock(&LIVE);
    let Some(index) = live.iter().position(|h| *h == handle) else {
        drop(live);
        violation("EtwUnregister: not a registered provider");
        return status::INVALID_PARAMETER;
    };
    live.swap_remove(index);
    drop(live);
    report::object(PROVIDER, -1);
    status::SUCCESS
}

/// wdm/nf-wdm-etwsetinformation: PASSIVE_LEVEL.
#[unsafe(no_mangle)]
extern "system" fn EtwSetInformation(_handle: u64, _class: i32, _information: *const c_void, _length: u32) -> i32 {
    irql::at_most(PASSIVE_LEVEL, "EtwSetInformation");
    status::SUCCESS
}

/// wdm/nf-wdm-etwwrite: any IRQL.
#[unsafe(no_mangle)]
extern "system" fn EtwWrite(
    _handle: u64,
    _event: *const c_void,
    _activity: *const c_void,
    _count: u32,
    _data: *const c_void,
) -> i32 {
    status::SUCCESS
}

/// wdm/nf-wdm-etwwritetransfer: any IRQL.
#[unsafe(no_mangle)]
extern "system" fn EtwWriteTransfer(
    _handle: u64,
    _event: *const c_void,
    _activity: *const c_void,
    _related: *const c_void,
    _count: u32,
    _data: *const c_void,
) -> i32 {
    status::SUCCESS
}

/// wdm/nf-wdm-etweventenabled: any IRQL; no one listens.
#[unsafe(no_mangle)]
extern "system" fn EtwEventEnabled(_handle: u64, _event: *const c_void) -> u8 {
    0
}

/// wdm/nf-wdm-etwproviderenabled: any IRQL; no one listens.
#[unsafe(no_mangle)]
extern "system" fn EtwProviderEnabled(_handle: u64, _level: u8, _keyword: u64) -> u8 {
    0
}
