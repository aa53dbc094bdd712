//! Objects of the control device, by their handles.

use std::sync::Arc;

use ndk_abi::status::NTSTATUS;
use windows_sys::Win32::Foundation::HANDLE;
use zerocopy::IntoBytes;

use super::{
    adapter::Adapter,
    device::{Channel, File, handle},
    overlapped::Overlapped,
};

/// An object of the control device. The drop frees it.
#[derive(Debug)]
pub(crate) struct Object {
    file: Arc<File>,
    handle: u64,
    /// The control code that frees the object.
    free: u32,
}

impl Object {
    pub(crate) fn new(file: &Arc<File>, handle: u64, free: u32) -> Self {
        Self { file: file.clone(), handle, free }
    }

    /// Creates an object by a control code that takes only the handle of another object, `of`.
    pub(crate) fn create(file: &Arc<File>, create: u32, of: u64, free: u32) -> Result<Self, NTSTATUS> {
        Ok(Self::new(file, file.query(create, handle(of).as_bytes())?, free))
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// Sends a request that names the object only.
    pub(crate) fn command(&self, code: u32) -> Result<(), NTSTATUS> {
        self.file.command(code, handle(self.handle).as_bytes())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // Fails only if the device is gone, and then the object is gone too.
        let _ = self.command(self.free);
    }
}

/// An object whose requests pend.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Dropped before the file: freeing the object cancels its pending requests.
    object: Object,
    /// The overlapped file on which the object's pending requests are sent.
    file: Channel,
    /// The control code that cancels the object's pending requests.
    cancel: u32,
}

impl Pending {
    /// Creates an object whose requests pend on `file`, an overlapped file of the adapter. Errors: also those of
    /// [`File::channel`].
    pub(crate) fn new(
        adapter: &Adapter,
        file: HANDLE,
        cancel: u32,
        create: impl FnOnce() -> Result<Object, NTSTATUS>,
    ) -> Result<Self, NTSTATUS> {
        // The object is created first: if the device is gone, the call returns the error of the create, not of the
        // file.
        let object = create()?;
        Ok(Self { object, file: adapter.file().channel(file)?, cancel })
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    pub(crate) fn handle(&self) -> u64 {
        self.object.handle
    }

    /// Sends a request that may pend.
    pub(crate) fn submit(&self, overlapped: &Overlapped, code: u32, input: &[u8]) -> NTSTATUS {
        self.file.submit(overlapped, code, input)
    }

    /// Sends a request that may pend and that names the object only.
    pub(crate) fn submit_handle(&self, overlapped: &Overlapped, code: u32) -> NTSTATUS {
        self.submit(overlapped, code, handle(self.handle()).as_bytes())
    }

    /// Cancels the pending requests, which end with STATUS_CANCELLED.
    pub(crate) fn cancel(&self) -> Result<(), NTSTATUS> {
        self.object.command(self.cancel)
    }
}
