//! The prefetch instruction.
#![expect(unsafe_code, reason = "an instruction on an address")]

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Starts to fetch the cache line of an address that will be read or written soon. A hint that never faults, whatever
/// the address. IRQL: any.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: part of SSE, which every x86_64 processor has; the instruction changes no register and nothing
        // visible in memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _no_such_hint = address;
}
