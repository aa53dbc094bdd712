//! How a file gets a provider context: a new one, or that of another file of the same process.
//!
//! A second file is for notifications: requests that come by a file complete to that file's own event or completion port.

use ndk_abi::nd_ioctl::ND_HANDLE;
use ndk_abi::softndk_ioctl::SOFTNDK_FILE_ID;
use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE};
use platform::{Arc, OutOfMemory, Passive, Weak};

use crate::decode::{Reply, input, output};
use crate::quota::Quota;
use crate::session::contexts::Entry;
use crate::session::provider_context::ProviderContext;
use crate::{File, Host, Ref, shared};

/// PROVIDER_INIT: makes a provider context for the file.
#[inline(never)]
pub(crate) fn init<H: Host>(file: &File<H>, request: &H::Request) -> Reply {
    input::<ND_HANDLE>(request)?;
    let process = file.process;
    let first_quota = shared(Quota::new().map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?)?;
    let mut contexts = file.contexts.lock();
    let id = contexts.reserve()?;
    let shared_quota = contexts.first(|entry| entry.process == process).map(|entry| entry.quota.clone());
    let quota = shared_quota.unwrap_or_else(|| first_quota.clone());
    contexts.fill(id, Entry { process, quota: quota.clone(), context: None });
    drop(contexts);
    let make = || {
        let context = shared(ProviderContext::new(file.device.clone(), id, process, quota)?)?;
        file.join(&context, true)?;
        Ok::<_, NTSTATUS>(context)
    };
    let made = make();
    let mut contexts = file.contexts.lock();
    match made {
        Ok(context) => {
            // If there is no entry, a cleanup of the file on another thread has removed it.
            if let Some(entry) = contexts.get(id) {
                entry.context = Some(Arc::downgrade(&context));
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

/// SOFTNDK_FILE_ID: returns the identifier of the file's context.
pub(crate) fn file_id<H: Host>(context: &ProviderContext<H>, request: &mut H::Request) -> Reply {
    input::<ND_HANDLE>(request)?;
    output(request, &SOFTNDK_FILE_ID { Id: context.id })
}

/// SOFTNDK_ATTACH: the file joins the context that an identifier names.
#[inline(never)]
pub(crate) fn attach<H: Host>(file: &File<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let mut contexts = file.contexts.lock();
    let context = contexts.get(input.Handle).and_then(|entry| entry.context.as_ref().and_then(Weak::upgrade));
    drop(contexts);
    share(&context.ok_or(STATUS_INVALID_HANDLE)?, file)
}

/// PROVIDER_BIND_FILE: the file behind a handle joins the context of the file that the request came by.
pub(crate) fn bind_file<H: Host>(
    context: &Ref<ProviderContext<H>, H>,
    request: &H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_HANDLE = input(request)?;
    context.device.host.file_of_handle(request, input.Handle, passive, |file| share(context, file))?
}

fn share<H: Host>(context: &Ref<ProviderContext<H>, H>, file: &File<H>) -> Reply {
    // The files of a context belong to one process: the context locks memory of that process, and ends with the process.
    if context.process != file.process || !Arc::ptr_eq(&context.device, &file.device) {
        return Err(STATUS_INVALID_HANDLE.into());
    }
    file.join(context, false)?;
    Ok(0)
}
