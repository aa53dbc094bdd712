//! Framework objects: handles, references, parents, contexts, cleanup.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{Mutex, MutexGuard, PoisonError},
};

use kernel::{DISPATCH_LEVEL, Shared, status, violation};

use crate::loader::Globals;

pub(crate) type Handle = *mut c_void;
pub(crate) type Callback = unsafe extern "system" fn(Handle);

/// `WDF_OBJECT_ATTRIBUTES` (wdfobject.h), 0x38 bytes.
#[repr(C)]
pub(crate) struct Attributes {
    size: u32,
    cleanup: Option<Callback>,
    destroy: Option<Callback>,
    execution_level: i32,
    synchronization_scope: i32,
    pub(crate) parent: Handle,
    pub(crate) context_size_override: usize,
    pub(crate) context_type: *const ContextType,
}

const _: () = assert!(size_of::<Attributes>() == 0x38);

/// `WDF_OBJECT_CONTEXT_TYPE_INFO` (wdfobject.h), 0x28 bytes.
#[repr(C)]
pub(crate) struct ContextType {
    size: u32,
    name: *const u8,
    pub(crate) context_size: usize,
    pub(crate) unique_type: *const ContextType,
    get_unique: *const c_void,
}

const _: () = assert!(size_of::<ContextType>() == 0x28);

/// What an object is, with what only that kind has.
pub(crate) enum Kind {
    Driver { object: Shared<kernel::DRIVER_OBJECT> },
    Device { fdo: Shared<c_void>, attached: Shared<c_void>, pdo: Shared<c_void> },
    General,
    SpinLock(Box<crate::lock::SpinLock>),
    WaitLock(std::sync::Arc<crate::lock::WaitLock>),
    Timer(Box<crate::timer::Timer>),
    Dpc(Box<crate::timer::Dpc>),
    WorkItem(std::sync::Arc<crate::work::WorkItem>),
    Memory(crate::memory::Memory),
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Driver { .. } => "WDFDRIVER",
            Self::Device { .. } => "WDFDEVICE",
            Self::General => "WDFOBJECT",
            Self::SpinLock(_) => "WDFSPINLOCK",
            Self::WaitLock(_) => "WDFWAITLOCK",
            Self::Timer(_) => "WDFTIMER",
            Self::Dpc(_) => "WDFDPC",
            Self::WorkItem(_) => "WDFWORKITEM",
            Self::Memory(_) => "WDFMEMORY",
        }
    }
}

pub(crate) struct Object {
    pub(crate) kind: Kind,
    parent: usize,
    children: Vec<usize>,
    references: usize,
    deleted: bool,
    cleanup: Option<Callback>,
    destroy: Option<Callback>,
    /// By type: the context's bytes, 16-aligned.
    pub(crate) contexts: Vec<(usize, Box<[u128]>)>,
}

static OBJECTS: Mutex<BTreeMap<usize, Object>> = Mutex::new(BTreeMap::new());
/// Handles are never used again, so that a stale one is seen. KMDF's are multiples of 8 as well.
static NEXT_HANDLE: Mutex<usize> = Mutex::new(0x5DF0_0000_0000);

pub(crate) fn objects() -> MutexGuard<'static, BTreeMap<usize, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks a structure's first field, its size (wdf: a wrong one is STATUS_INFO_LENGTH_MISMATCH).
///
/// # Safety
/// `structure` is null or begins with its size.
pub(crate) unsafe fn check_size<T>(structure: *const T, what: &str) -> Result<(), i32> {
    // SAFETY: passed on to the caller.
    let size = if structure.is_null() { 0 } else { unsafe { structure.cast::<u32>().read() } };
    if size as usize == size_of::<T>() {
        return Ok(());
    }
    violation(&format!("{what} of size {size:#x} instead of {:#x}", size_of::<T>()));
    Err(status::INFO_LENGTH_MISMATCH)
}

/// Validates attributes: null, or right in size and with scopes set (a zeroed structure is invalid).
///
/// # Safety
/// `attributes` is null or points to a WDF_OBJECT_ATTRIBUTES.
pub(crate) unsafe fn check_attributes<'a>(attributes: *const Attributes) -> Result<Option<&'a Attributes>, i32> {
    if attributes.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on to the caller.
    unsafe { check_size(attributes, "WDF_OBJECT_ATTRIBUTES") }?;
    // SAFETY: passed on to the caller.
    let attributes = unsafe { &*attributes };
    if attributes.execution_level == 0 || attributes.synchronization_scope == 0 {
        violation("WDF_OBJECT_ATTRIBUTES with an invalid execution level or synchronization scope");
        return Err(status::INVALID_PARAMETER);
    }
    Ok(Some(attributes))
}

/// Makes an object, child of `parent` if not null, with the first context the attributes ask for.
pub(crate) fn create(kind: Kind, attributes: Option<&Attributes>, parent: Handle) -> Handle {
    let handle = {
        let mut next = NEXT_HANDLE.lock().unwrap_or_else(PoisonError::into_inner);
        *next += 0x10;
        *next
    };
    kernel::object(kind.name(), 1);
    let mut objects = objects();
    if let Some(parent) = objects.get_mut(&(parent as usize)) {
        parent.children.push(handle);
    }
    objects.insert(
        handle,
        Object {
            kind,
            parent: parent as usize,
            children: Vec::new(),
            references: 1,
            deleted: false,
            cleanup: attributes.and_then(|a| a.cleanup),
            destroy: attributes.and_then(|a| a.destroy),
            contexts: attributes.and_then(crate::context::first).into_iter().collect(),
        },
    );
    handle as Handle
}

/// Runs `work` on a live object; an unknown handle is a violation (on Windows bug check WDF_VIOLATION) and gives None.
pub(crate) fn with<T>(handle: Handle, function: &str, work: impl FnOnce(&mut Object) -> T) -> Option<T> {
    let result = objects().get_mut(&(handle as usize)).map(work);
    if result.is_none() {
        violation(&format!("{function}: {handle:p} is not a live object"));
    }
    result
}

/// Whether the object or one of its ancestors is a device.
pub(crate) fn device_above(mut handle: Handle) -> Option<Handle> {
    let objects = objects();
    loop {
        let object = objects.get(&(handle as usize))?;
        if matches!(object.kind, Kind::Device { .. }) {
            return Some(handle);
        }
        handle = object.parent as Handle;
    }
}

/// The parent of an object.
pub(crate) fn parent(handle: Handle) -> Handle {
    with(handle, "Wdf...GetParentObject", |object| object.parent).unwrap_or(0) as Handle
}

/// Deletes an object: children first, then what the kind needs, EvtCleanup, and at the last reference EvtDestroy.
pub(crate) fn delete(handle: Handle) {
    let children = {
        let mut objects = objects();
        let Some(object) = objects.get_mut(&(handle as usize)) else {
            drop(objects);
            violation(&format!("WdfObjectDelete: {handle:p} is not a live object"));
            return;
        };
        if object.deleted {
            drop(objects);
            violation("WdfObjectDelete: deleted already");
            return;
        }
        object.deleted = true;
        std::mem::take(&mut object.children)
    };
    for child in children.into_iter().rev() {
        delete(child as Handle);
    }
    crate::timer::stop_for_delete(handle);
    crate::work::flush_for_delete(handle);
    let cleanup = objects().get(&(handle as usize)).and_then(|object| object.cleanup);
    if let Some(cleanup) = cleanup {
        // SAFETY: the driver gave this routine for this object, which is still there.
        kernel::balanced("EvtCleanupCallback", || unsafe { cleanup(handle) });
    }
    dereference(handle);
}

fn dereference(handle: Handle) {
    let last = with(handle, "WdfObjectDereference", |object| {
        object.references -= 1;
        (object.references == 0).then_some(object.destroy)
    });
    let Some(Some(destroy)) = last else { return };
    if let Some(destroy) = destroy {
        // SAFETY: the driver gave this routine for this object; its contexts are still there.
        kernel::balanced("EvtDestroyCallback", || unsafe { destroy(handle) });
    }
    let mut objects = objects();
    if let Some(object) = objects.remove(&(handle as usize)) {
        if let Some(parent) = objects.get_mut(&object.parent) {
            parent.children.retain(|child| *child != handle as usize);
        }
        drop(objects);
        kernel::object(object.kind.name(), -1);
    }
}

/// wdfobject/nf-wdfobject-wdfobjectcreate (207): at most DISPATCH_LEVEL. Without a parent it hangs under the driver.
pub(crate) unsafe extern "system" fn WdfObjectCreate(
    globals: *mut Globals,
    attributes: *const Attributes,
    object: *mut Handle,
) -> i32 {
    kernel::at_most(DISPATCH_LEVEL, "WdfObjectCreate");
    // SAFETY: the caller gives null or attributes.
    let attributes = match unsafe { check_attributes(attributes) } {
        Ok(attributes) => attributes,
        Err(code) => return code,
    };
    // SAFETY: the caller gives its globals and a place for the handle.
    unsafe { object.write(create(Kind::General, attributes, parent_or_driver(globals, attributes))) };
    status::SUCCESS
}

/// The parent in the attributes, or the framework's driver object.
///
/// # Safety
/// `globals` are those of the binding.
pub(crate) unsafe fn parent_or_driver(globals: *mut Globals, attributes: Option<&Attributes>) -> Handle {
    match attributes {
        Some(attributes) if !attributes.parent.is_null() => attributes.parent,
        // SAFETY: passed on to the caller.
        _ => unsafe { (*globals).driver },
    }
}

/// wdfobject/nf-wdfobject-wdfobjectdelete (208): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfObjectDelete(_globals: *mut Globals, object: Handle) {
    kernel::at_most(DISPATCH_LEVEL, "WdfObjectDelete");
    delete(object);
}

/// wdfobject/nf-wdfobject-wdfobjectreferenceactual (205): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfObjectReferenceActual(
    _globals: *mut Globals,
    object: Handle,
    _tag: *const c_void,
    _line: i32,
    _file: *const c_void,
) {
    kernel::at_most(DISPATCH_LEVEL, "WdfObjectReference");
    with(object, "WdfObjectReference", |object| object.references += 1);
}

/// wdfobject/nf-wdfobject-wdfobjectdereferenceactual (206): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfObjectDereferenceActual(
    _globals: *mut Globals,
    object: Handle,
    _tag: *const c_void,
    _line: i32,
    _file: *const c_void,
) {
    kernel::at_most(DISPATCH_LEVEL, "WdfObjectDereference");
    dereference(object);
}
