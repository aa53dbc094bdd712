//! The processors for notifications.
#![expect(unsafe_code, reason = "a call into kernel32")]

use ndk_abi::wdm::GROUP_AFFINITY;
use windows_sys::Win32::System::{
    SystemInformation,
    Threading::{GetCurrentThread, GetThreadGroupAffinity},
};

/// The affinity that a program requests, or, if its mask is 0, the affinity of the calling thread (page of
/// IND2SharedReceiveQueue::GetNotifyAffinity). If the returned mask is 0, the driver chooses.
pub(crate) fn affinity(group: u16, mask: usize) -> GROUP_AFFINITY {
    if mask != 0 {
        return GROUP_AFFINITY { Mask: mask as u64, Group: group, Reserved: [0; 3] };
    }
    let mut own = SystemInformation::GROUP_AFFINITY::default();
    // SAFETY: a pseudo handle, which needs no closing.
    let thread = unsafe { GetCurrentThread() };
    // SAFETY: the thread itself, and a local.
    let known = unsafe { GetThreadGroupAffinity(thread, &raw mut own) } != 0;
    let (group, mask) = if known { (own.Group, own.Mask) } else { (0, 0) };
    GROUP_AFFINITY { Mask: mask as u64, Group: group, Reserved: [0; 3] }
}
