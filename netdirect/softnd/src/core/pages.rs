//! Memory of whole pages, for rings.
//!
//! The driver locks the pages of a ring, and may use them a little longer than the DLL does. A device in the process
//! cannot lock pages: it shares their ownership instead ([`find`]).
#![expect(unsafe_code, reason = "memory of its own from VirtualAlloc")]

use std::{
    collections::HashMap,
    ptr::{self, NonNull},
    sync::{Arc, LazyLock, Mutex, Weak},
};

use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};

use super::lock;

/// All [`Pages`], by their base addresses.
static ALL: LazyLock<Mutex<HashMap<usize, Weak<Pages>>>> = LazyLock::new(Mutex::default);

/// Memory of whole pages, zeroed at first.
#[derive(Debug)]
pub(crate) struct Pages {
    base: NonNull<u8>,
    length: u32,
}

// SAFETY: owned memory; only a ring uses it, and the ring's type says what threads may do.
unsafe impl Send for Pages {}
// SAFETY: shared access gives the address only.
unsafe impl Sync for Pages {}

impl Pages {
    pub(super) fn new(bytes: usize) -> Result<Arc<Self>, NTSTATUS> {
        let length = u32::try_from(bytes).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        // SAFETY: new memory, anywhere.
        let base = unsafe { VirtualAlloc(ptr::null(), bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
        let base = NonNull::new(base.cast()).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let pages = Arc::new(Self { base, length });
        lock(&ALL).insert(base.addr().get(), Arc::downgrade(&pages));
        Ok(pages)
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn length(&self) -> u32 {
        self.length
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Removed before another allocation can get the address.
        lock(&ALL).remove(&self.base.addr().get());
        // SAFETY: allocated by `new`; the program's ring is gone, and a device in the process would hold a reference.
        unsafe { VirtualFree(self.base.as_ptr().cast(), 0, MEM_RELEASE) };
    }
}

/// The pages that begin at an address.
pub(super) fn find(address: usize) -> Option<Arc<Pages>> {
    lock(&ALL).get(&address).and_then(Weak::upgrade)
}
