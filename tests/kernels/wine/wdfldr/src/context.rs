//! Context space of objects.

use kernel::{DISPATCH_LEVEL, status, violation};

use crate::{
    loader::Globals,
    object::{self, Attributes, ContextType, Handle},
};

const STATUS_OBJECT_NAME_EXISTS: i32 = 0x4000_0000;

/// The type that identifies a context: the unique one, if the linker may have made several.
fn identity(context_type: *const ContextType) -> *const ContextType {
    if context_type.is_null() {
        return context_type;
    }
    // SAFETY: a driver's type information is a constant of its image.
    let unique = unsafe { (*context_type).unique_type };
    if unique.is_null() { context_type } else { unique }
}

/// The zeroed context that attributes ask for, by type.
pub(crate) fn first(attributes: &Attributes) -> Option<(usize, Box<[u128]>)> {
    if attributes.context_type.is_null() {
        return None;
    }
    // SAFETY: as in `identity`.
    let declared = unsafe { (*attributes.context_type).context_size };
    let size = declared.max(attributes.context_size_override).max(1);
    Some((identity(attributes.context_type) as usize, vec![0; size.div_ceil(16)].into()))
}

/// wdfobject/nf-wdfobject-wdfobjectgettypedcontextworker (202): at most DISPATCH_LEVEL; null if there is none of that type.
pub(crate) unsafe extern "system" fn WdfObjectGetTypedContextWorker(
    _globals: *mut Globals,
    object: Handle,
    context_type: *const ContextType,
) -> *mut u128 {
    kernel::at_most(DISPATCH_LEVEL, "WdfObjectGetTypedContext");
    let wanted = identity(context_type) as usize;
    let found = object::with(object, "WdfObjectGetTypedContext", |object| {
        object.contexts.iter_mut().find(|(kind, _)| *kind == wanted).map(|(_, bytes)| bytes.as_mut_ptr())
    });
    found.flatten().unwrap_or(std::ptr::null_mut())
}

/// wdfobject/nf-wdfobject-wdfobjectallocatecontext (203): at most DISPATCH_LEVEL; one context per type.
pub(crate) unsafe extern "system" fn WdfObjectAllocateContext(
    _globals: *mut Globals,
    object: Handle,
    attributes: *const Attributes,
    context: *mut *mut u128,
) -> i32 {
    kernel::at_most(DISPATCH_LEVEL, "WdfObjectAllocateContext");
    // SAFETY: the caller gives attributes.
    let attributes = match unsafe { object::check_attributes(attributes) } {
        Ok(Some(attributes)) => attributes,
        Ok(None) => return status::INVALID_PARAMETER,
        Err(code) => return code,
    };
    let Some((kind, mut bytes)) = first(attributes) else { return status::INVALID_PARAMETER };
    let address = bytes.as_mut_ptr();
    let added = object::with(object, "WdfObjectAllocateContext", |object| {
        let exists = object.contexts.iter().any(|(other, _)| *other == kind);
        if !exists {
            object.contexts.push((kind, bytes));
        }
        !exists
    });
    match added {
        Some(true) => {
            if !context.is_null() {
                // SAFETY: the caller gives null or a place for the pointer.
                unsafe { context.write(address) };
            }
            status::SUCCESS
        }
        Some(false) => STATUS_OBJECT_NAME_EXISTS,
        None => status::INVALID_PARAMETER,
    }
}

/// wdfobject/nf-wdfobject-wdfobjectcontextgetobject (204): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfObjectContextGetObject(_globals: *mut Globals, context: *const u128) -> Handle {
    let found = object::objects()
        .iter()
        .find(|(_, object)| object.contexts.iter().any(|(_, bytes)| std::ptr::eq(bytes.as_ptr(), context)))
        .map(|(handle, _)| *handle);
    if found.is_none() {
        violation("WdfObjectContextGetObject: not a context");
    }
    found.unwrap_or(0) as Handle
}
