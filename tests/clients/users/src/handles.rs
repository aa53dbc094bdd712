//! The handles of open files.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
};

use nd_ioctl::{File, Host};
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_HANDLE};

use crate::host::locked;

/// The handles of files, of all processes. A handle of a file that was dropped names nothing.
pub struct Handles<H: Host>(Mutex<BTreeMap<u64, Weak<File<H>>>>);

impl<H: Host> Default for Handles<H> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<H: Host> Handles<H> {
    /// A new handle of a file.
    pub fn add(&self, file: &Arc<File<H>>) -> u64 {
        let mut files = locked(&self.0);
        let handle = 4 * (files.len() as u64 + 1);
        files.insert(handle, Arc::downgrade(file));
        handle
    }

    /// STATUS_INVALID_HANDLE: no open file has the handle.
    pub fn file(&self, handle: u64) -> Result<Arc<File<H>>, NTSTATUS> {
        locked(&self.0).get(&handle).and_then(Weak::upgrade).ok_or(STATUS_INVALID_HANDLE)
    }

    /// The open files.
    pub fn files(&self) -> Vec<Arc<File<H>>> {
        locked(&self.0).values().filter_map(Weak::upgrade).collect()
    }
}
