//! How files get a provider context: one of their own, or that of another file of the same process.
//!
//! A second file is for notifications: what is pended by it is told to the event or completion port of its own.

use ndk_abi::nd_ioctl::ND_HANDLE;
use ndk_abi::softndk_ioctl::SOFTNDK_FILE_ID;
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_HANDLE};
use platform::{Arc, Passive, Weak};

use crate::decode::{Reply, input, output};
use crate::file::{Opened, Space};
use crate::pd::shared;
use crate::{Host, Ref};

/// PROVIDER_INIT: a context of its own.
pub(crate) fn init<H: Host>(opened: &Opened<H>, request: &H::Request) -> Reply {
    input::<ND_HANDLE>(request)?;
    let contexts = &opened.device.contexts;
    let id = contexts.lock().reserve()?;
    let make = || {
        let space = shared(Space::new(opened.device.clone(), id, opened.process))?;
        opened.join(&space, true)?;
        Ok::<_, NTSTATUS>(space)
    };
    match make() {
        Ok(space) => {
            // Not found if the file was cleaned up meanwhile.
            contexts.lock().fill(id, Arc::downgrade(&space));
            Ok(0)
        }
        Err(status) => {
            // Reserved only.
            contexts.lock().remove(id);
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
pub(crate) fn attach<H: Host>(opened: &Opened<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let space = opened.device.contexts.lock().get(input.Handle).and_then(|context| Weak::upgrade(context));
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
