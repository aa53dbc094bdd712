//! Work items, over the stand-ins' thread pool.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use kernel::{DISPATCH_LEVEL, PASSIVE_LEVEL, Shared, status};

use crate::{
    loader::Globals,
    object::{self, Attributes, Callback, Handle, Kind},
    timer::checked_parent,
};

/// `WDF_WORKITEM_CONFIG` (wdfworkitem.h), 0x18 bytes.
#[repr(C)]
pub(crate) struct WorkItemConfig {
    size: u32,
    function: Option<Callback>,
    automatic_serialization: u8,
}

const _: () = assert!(size_of::<WorkItemConfig>() == 0x18);

/// What a work item calls, and how often it still has to: queued, running.
pub(crate) struct WorkItem {
    function: Callback,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queued: bool,
    running: u32,
}

/// wdfworkitem/nf-wdfworkitem-wdfworkitemcreate (379): at most DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn WdfWorkItemCreate(
    _globals: *mut Globals,
    config: *const WorkItemConfig,
    attributes: *const Attributes,
    item: *mut Handle,
) -> i32 {
    kernel::at_most(DISPATCH_LEVEL, "WdfWorkItemCreate");
    // SAFETY: the caller gives a configuration.
    let checked =
        unsafe { object::check_size(config, "WDF_WORKITEM_CONFIG") }.and_then(|()| checked_parent(attributes));
    let (attributes, parent) = match checked {
        Ok(checked) => checked,
        Err(code) => return code,
    };
    // SAFETY: its size has been checked.
    let Some(function) = (unsafe { (*config).function }) else { return status::INVALID_PARAMETER };
    let kind = Kind::WorkItem(Arc::new(WorkItem { function, state: Mutex::default(), changed: Condvar::new() }));
    // SAFETY: the caller gives a place for the handle.
    unsafe { item.write(object::create(kind, attributes, parent)) };
    status::SUCCESS
}

fn find(item: Handle, function: &str) -> Option<Arc<WorkItem>> {
    object::with(item, function, |object| match &object.kind {
        Kind::WorkItem(item) => Some(Arc::clone(item)),
        _ => None,
    })
    .flatten()
}

/// wdfworkitem/nf-wdfworkitem-wdfworkitemenqueue (380): at most DISPATCH_LEVEL; nothing if queued already.
pub(crate) unsafe extern "system" fn WdfWorkItemEnqueue(_globals: *mut Globals, item: Handle) {
    kernel::at_most(DISPATCH_LEVEL, "WdfWorkItemEnqueue");
    let Some(work) = find(item, "WdfWorkItemEnqueue") else { return };
    if std::mem::replace(&mut work.state.lock().unwrap_or_else(PoisonError::into_inner).queued, true) {
        return;
    }
    let handle = Shared(item);
    kernel::workers::submit("EvtWorkItem", move || {
        {
            let mut state = work.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.queued = false;
            state.running += 1;
        }
        // SAFETY: the driver gave this routine for this object, whose deletion waits for it.
        unsafe { (work.function)(handle.get()) };
        work.state.lock().unwrap_or_else(PoisonError::into_inner).running -= 1;
        work.changed.notify_all();
    });
}

fn flush(work: &WorkItem) {
    let mut state = work.state.lock().unwrap_or_else(PoisonError::into_inner);
    while state.queued || state.running > 0 {
        state = work.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// wdfworkitem/nf-wdfworkitem-wdfworkitemflush (382): PASSIVE_LEVEL; not from its own routine.
pub(crate) unsafe extern "system" fn WdfWorkItemFlush(_globals: *mut Globals, item: Handle) {
    kernel::at_most(PASSIVE_LEVEL, "WdfWorkItemFlush");
    if let Some(work) = find(item, "WdfWorkItemFlush") {
        flush(&work);
    }
}

/// Deleting a work item waits for it.
pub(crate) fn flush_for_delete(handle: Handle) {
    let found = object::with(handle, "WdfObjectDelete", |object| match &object.kind {
        Kind::WorkItem(item) => Some(Arc::clone(item)),
        _ => None,
    });
    if let Some(Some(work)) = found {
        flush(&work);
    }
}
