//! The control device: what its files share.

use core::sync::atomic::{AtomicU32, AtomicU64};

use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};
use platform::{Arc, OutOfMemory};

use crate::{File, Host, Ref};

/// One control device.
pub struct Device<H: Host> {
    shared: Ref<Shared<H>, H>,
}

/// What a device and its files share; it lives until the last file is gone.
pub(crate) struct Shared<H> {
    pub(crate) host: H,
    /// Open files.
    pub(crate) files: AtomicU32,
    /// Requests not yet completed.
    pub(crate) pended: AtomicU32,
    /// Requests ever received, and how many of them were doorbells. Those for diagnostics are not counted.
    pub(crate) requests: AtomicU64,
    pub(crate) doorbells: AtomicU64,
}

impl<H: Host> Device<H> {
    /// The device of `host`.
    pub fn new(host: H) -> Result<Self, OutOfMemory> {
        let shared = Arc::try_new(Shared {
            host,
            files: AtomicU32::new(0),
            pended: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            doorbells: AtomicU64::new(0),
        })?;
        Ok(Self { shared })
    }

    /// A new open of the device (IRP_MJ_CREATE). IRQL PASSIVE.
    pub fn open(&self) -> Result<File<H>, NTSTATUS> {
        File::new(self.shared.clone()).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)
    }

    /// The host given to [`Device::new`].
    pub fn host(&self) -> &H {
        &self.shared.host
    }
}
