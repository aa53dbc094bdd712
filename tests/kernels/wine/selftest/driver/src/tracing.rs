//! What a driver must not do with trace providers.

use core::{ffi::c_void, ptr::null};

use crate::imports::*;

static ID: [u8; 16] = *b"selftest tracing";
/// Descriptions of a provider, and of an event with a field of four bytes.
static TRAITS: [u8; 7] = *b"\x07\0Self\0";
static METADATA: [u8; 8] = *b"\x08\0\0E\0F\0\x08";

/// Registers the provider, and does something with it.
fn with_provider(work: impl FnOnce(u64)) {
    let mut handle = 0;
    // SAFETY: a GUID, no callback, and a place for the handle.
    unsafe { EtwRegister(&ID, None, 0, &mut handle) };
    work(handle);
    // SAFETY: registered above.
    unsafe { EtwUnregister(handle) };
}

/// Writes an event whose data has `bytes` bytes.
fn write(handle: u64, bytes: u32) {
    let number = [0_u8; 4];
    let part = |address: *const u8, bytes, kind| EventDataDescriptor { address: address.addr() as u64, bytes, kind };
    let parts = [part(TRAITS.as_ptr(), 7, 2), part(METADATA.as_ptr(), 8, 1), part(number.as_ptr(), bytes, 0)];
    let event = EventDescriptor { id: 0, version: 0, channel: 11, level: 4, opcode: 0, task: 0, keywords: 1 };
    // SAFETY: an event of three parts.
    unsafe { EtwWriteTransfer(handle, &event, null::<c_void>(), null::<c_void>(), 3, parts.as_ptr()) };
}

pub(crate) fn register_twice() {
    with_provider(|_| {
        let mut second = 0;
        // SAFETY: wrong on purpose.
        unsafe { EtwRegister(&ID, None, 0, &mut second) };
    });
}

pub(crate) fn register_at_apc_level() {
    let mut handle = 0;
    // SAFETY: wrong on purpose; what was registered is unregistered.
    unsafe {
        KfRaiseIrql(1);
        EtwRegister(&ID, None, 0, &mut handle);
        KeLowerIrql(0);
        EtwUnregister(handle);
    }
}

pub(crate) fn write_cut_off() {
    with_provider(|handle| write(handle, 3));
}

pub(crate) fn write_late() {
    let mut late = 0;
    with_provider(|handle| late = handle);
    write(late, 4);
}
