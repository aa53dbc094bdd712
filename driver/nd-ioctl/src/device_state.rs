//! The host and the counts that all files of a control device share.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::Host;

/// The state of a control device, which lives until the last file is closed.
pub(crate) struct DeviceState<H: Host> {
    pub(crate) host: H,
    /// Open files, but for those that capture.
    pub(crate) files: AtomicU32,
    /// Requests that are pended now.
    pub(crate) pended: AtomicU32,
    /// Requests ever received, and the doorbells among them. Diagnostic requests are not counted.
    pub(crate) requests: AtomicU64,
    pub(crate) doorbells: AtomicU64,
}

impl<H: Host> DeviceState<H> {
    pub(crate) fn new(host: H) -> Self {
        Self {
            host,
            files: AtomicU32::new(0),
            pended: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            doorbells: AtomicU64::new(0),
        }
    }
}
