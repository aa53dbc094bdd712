//! Faults that the checkers have to find, in a driver that is built for that and never shipped: the negative controls of
//! the pool check, of the IRQL check, and of the check of the access to the control device.
#![expect(unsafe_code, reason = "breaks the kernel's rules on purpose")]

use core::alloc::Layout;

use ndk_abi::{
    softndk_ioctl::{SOFTNDK_TEST_PLANT_LEAK_POOL, SOFTNDK_TEST_PLANT_OPEN_NAMES, SOFTNDK_TEST_PLANT_WRONG_IRQL},
    status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
};
use platform::{Platform, SpinLock};
use wdk_sys::ntddk::KeFlushQueuedDpcs;

use crate::{control, platform::Windows};

/// Plants a fault. PASSIVE_LEVEL.
pub(crate) fn plant(kind: u32) -> NTSTATUS {
    match kind {
        SOFTNDK_TEST_PLANT_LEAK_POOL => match Windows::allocate(Layout::new::<[u64; 8]>()) {
            Some(_never_freed) => STATUS_SUCCESS,
            None => STATUS_INSUFFICIENT_RESOURCES,
        },
        SOFTNDK_TEST_PLANT_WRONG_IRQL => {
            let lock = SpinLock::<(), Windows>::new(());
            let at_dispatch_level = lock.lock();
            // SAFETY: none, on purpose: KeFlushQueuedDpcs needs PASSIVE_LEVEL (ddi: nf-wdm-keflushqueueddpcs).
            unsafe { KeFlushQueuedDpcs() };
            drop(at_dispatch_level);
            STATUS_SUCCESS
        }
        SOFTNDK_TEST_PLANT_OPEN_NAMES => {
            control::open_names();
            STATUS_SUCCESS
        }
        _ => STATUS_INVALID_PARAMETER,
    }
}
