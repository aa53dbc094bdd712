//! Errors of NDK as errors of the program.

use anyhow::{Result, anyhow};
use hosted::Hosted;
use ndk_abi::status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS};

use crate::device::Ref;

/// Says what failed.
pub(crate) trait Named<T> {
    /// With the name of the call.
    fn named(self, call: &str) -> Result<T>;
}

impl<T> Named<T> for Result<T, NTSTATUS> {
    fn named(self, call: &str) -> Result<T> {
        self.map_err(|status| anyhow!("{call}: {status}"))
    }
}

impl Named<()> for NTSTATUS {
    /// STATUS_PENDING is no failure yet.
    fn named(self, call: &str) -> Result<()> {
        if matches!(self, STATUS_SUCCESS | STATUS_PENDING) { Ok(()) } else { Err(anyhow!("{call}: {self}")) }
    }
}

/// A value with counted references.
pub(crate) fn shared<T: Send + Sync>(value: T) -> Result<Ref<T>> {
    platform::Arc::<T, Hosted>::try_new(value).map_err(|platform::OutOfMemory| anyhow!("out of memory"))
}
