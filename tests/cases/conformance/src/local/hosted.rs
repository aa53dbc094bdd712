//! The platform of a process.
#![expect(unsafe_code, reason = "memory is described by pointer")]

use std::{fs, ops::RangeInclusive, ptr::NonNull};

use hosted::{Hosted, Mdl};
use ndk_abi::wdm::MDL;
use platform::Passive;

use super::Kernel;

impl Kernel for Hosted {
    const NAME: &str = "hosted platform";

    type Mdl = Mdl;

    unsafe fn lock(memory: NonNull<u8>, length: usize) -> Mdl {
        // SAFETY: the caller's contract is the same.
        unsafe { Mdl::lock(memory, length) }
    }

    fn address(mdl: &Mdl) -> NonNull<MDL> {
        NonNull::new(mdl.as_ptr()).expect("an MDL has an address")
    }

    fn passive() -> Passive<'static> {
        hosted::passive()
    }

    fn ephemeral_ports() -> RangeInclusive<u16> {
        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("what Linux picks ports from");
        let mut ports = range.split_whitespace().map(|port| port.parse().expect("a port"));
        let mut next = || ports.next().expect("a first and a last port");
        next()..=next()
    }

    /// The pool is the heap of the process.
    fn pool_bytes() -> u64 {
        0
    }

    fn stalled() -> String {
        "nothing is known of it".to_owned()
    }
}
