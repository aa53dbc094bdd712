//! How files get a provider context: one of their own, or that of another file of the same process.
//!
//! A second file is for notifications: what is pended by it is told to the event or completion port of its own.

use ndk_abi::nd_ioctl::ND_HANDLE;
use ndk_abi::softndk_ioctl::SOFTNDK_FILE_ID;
use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE};
use platform::{Arc, OutOfMemory, Passive, Weak};

use crate::decode::{Reply, input, output};
use crate::device::Context;
use crate::objects::pd::shared;
use crate::session::file::{Opened, Space};
use crate::session::quota::Quota;
use crate::{Host, Ref};

/// PROVIDER_INIT: a context of its own.
#[inline(never)]
pub(crate) fn init<H: Host>(opened: &Opened<H>, request: &H::Request) -> Reply {
    input::<ND_HANDLE>(request)?;
    let process = opened.process;
    let first_quota = shared(Quota::new().map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?)?;
    let mut contexts = opened.device.contexts.lock();
    let id = contexts.reserve()?;
    let shared_quota = contexts.first(|context| context.process == process).map(|context| context.quota.clone());
    let quota = shared_quota.unwrap_or_else(|| first_quota.clone());
    contexts.fill(id, Context { process, quota: quota.clone(), space: None });
    drop(contexts);
    let make = || {
        let space = shared(Space::new(opened.device.clone(), id, process, quota)?)?;
        opened.join(&space, true)?;
        Ok::<_, NTSTATUS>(space)
    };
    let made = make();
    let mut contexts = opened.device.contexts.lock();
    match made {
        Ok(space) => {
            // It is not there if the file was cleaned up meanwhile.
            if let Some(context) = contexts.get(id) {
                context.space = Some(Arc::downgrade(&space));
            }
            drop(contexts);
            Ok(0)
        }
        Err(status) => {
            let unused = contexts.remove(id);
            drop(contexts);
            drop(unused);
            Err(status.into())
        }
    }
}

/// SOFTNDK_FILE_ID: the name of the file's context.
pub(crate) fn file_id<H: Host>(space: &Space<H>, request: &mut H::Request) -> Reply {
    input::<ND_HANDLE>(request)?;
    output(request, &SOFTNDK_FILE_ID { Id: space.id })
}

/// SOFTNDK_ATTACH: shares the context that is named.
#[inline(never)]
pub(crate) fn attach<H: Host>(opened: &Opened<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let mut contexts = opened.device.contexts.lock();
    let space = contexts.get(input.Handle).and_then(|context| context.space.as_ref().and_then(Weak::upgrade));
    drop(contexts);
    share(&space.ok_or(STATUS_INVALID_HANDLE)?, opened)
}

/// PROVIDER_BIND_FILE: the file behind a handle of the user shares the context of this one.
pub(crate) fn bind_file<H: Host>(space: &Ref<Space<H>, H>, request: &H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_HANDLE = input(request)?;
    space.device.host.file_of_handle(request, input.Handle, passive, |file| share(space, &file.opened))?
}

fn share<H: Host>(space: &Ref<Space<H>, H>, opened: &Opened<H>) -> Reply {
    // All that is locked is memory of one process, and ends with it.
    if space.process != opened.process || !Arc::ptr_eq(&space.device, &opened.device) {
        return Err(STATUS_INVALID_HANDLE.into());
    }
    opened.join(space, false)?;
    Ok(0)
}
