//! Memory objects.

use std::ffi::c_void;

use kernel::{DISPATCH_LEVEL, Shared, ntoskrnl, status};

use crate::{
    loader::Globals,
    object::{self, Attributes, Handle, Kind},
};

/// A buffer from pool, given back with the object.
pub(crate) struct Memory {
    buffer: Shared<c_void>,
    size: usize,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated for this object; tag 0 fits any block.
        unsafe { ntoskrnl::ExFreePoolWithTag(self.buffer.get(), 0) };
    }
}

/// wdfmemory/nf-wdfmemory-wdfmemorycreate (192): at most DISPATCH_LEVEL, for paged pool APC_LEVEL.
pub(crate) unsafe extern "system" fn WdfMemoryCreate(
    globals: *mut Globals,
    attributes: *const Attributes,
    pool: i32,
    tag: u32,
    size: usize,
    memory: *mut Handle,
    buffer: *mut *mut c_void,
) -> i32 {
    // SAFETY: the caller gives null or attributes.
    let attributes = match unsafe { object::check_attributes(attributes) } {
        Ok(attributes) => attributes,
        Err(code) => return code,
    };
    if size == 0 {
        return status::INVALID_PARAMETER;
    }
    // SAFETY: the globals of the binding.
    let tag = if tag == 0 { unsafe { (*globals).driver_tag } } else { tag };
    // SAFETY: no preconditions beyond the IRQL, which is checked there.
    let block = unsafe { ntoskrnl::ExAllocatePoolWithTag(pool, size, tag) };
    if block.is_null() {
        return status::INSUFFICIENT_RESOURCES;
    }
    let kind = Kind::Memory(Memory { buffer: Shared(block), size });
    // SAFETY: the caller gives its globals and a place for the handle.
    unsafe { memory.write(object::create(kind, attributes, object::parent_or_driver(globals, attributes))) };
    if !buffer.is_null() {
        // SAFETY: the caller gives null or a place for the address.
        unsafe { buffer.write(block) };
    }
    status::SUCCESS
}

/// wdfmemory/nf-wdfmemory-wdfmemorygetbuffer (194): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfMemoryGetBuffer(
    _globals: *mut Globals,
    memory: Handle,
    size: *mut usize,
) -> *mut c_void {
    kernel::at_most(DISPATCH_LEVEL, "WdfMemoryGetBuffer");
    let found = object::with(memory, "WdfMemoryGetBuffer", |object| match &object.kind {
        Kind::Memory(memory) => Some((memory.buffer.get(), memory.size)),
        _ => None,
    });
    let Some((buffer, length)) = found.flatten() else { return std::ptr::null_mut() };
    if !size.is_null() {
        // SAFETY: the caller gives null or a place for the size.
        unsafe { size.write(length) };
    }
    buffer
}
