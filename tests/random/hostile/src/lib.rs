//! Users of the control device that break all rules, beside users that keep them. The bodies of the fuzz targets [`ioctls`] and [`rings`]:
//! bytes become operations ([`decode`]), on the simulated kernel. The driver does not panic and breaks no rule of the kernel, each request
//! ends with a documented status, the good users are not harmed, and nothing is left.

pub mod ioctls;
mod memory;
mod neighbours;
pub mod rings;
mod statuses;

use std::{collections::BTreeMap, fmt::Debug};

use arbitrary::{Arbitrary, Unstructured};
use ndk_abi::status::NTSTATUS;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding(pub String);

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

type Result<T> = std::result::Result<T, Finding>;

/// Returns a [`Finding`] unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::Finding(format!($($what)+)));
        }
    };
}
pub(crate) use ensure;

/// How often requests with a control code ended with a status.
pub type Outcomes = BTreeMap<(u32, NTSTATUS), u64>;

/// The operations of two threads of hostile users; each thread performs its own in order, both run at once.
#[derive(Clone, Debug)]
pub struct Script<O> {
    /// Of the schedule.
    pub seed: u64,
    /// What each thread does.
    pub threads: [Vec<O>; 2],
}

/// A script out of bytes, any bytes.
#[must_use]
pub fn decode<O: for<'a> Arbitrary<'a> + Debug>(bytes: &[u8]) -> Script<O> {
    /// More does not find more, and takes longer.
    const MOST: usize = 64;
    let mut bytes = Unstructured::new(bytes);
    let seed = bytes.arbitrary::<u16>().unwrap_or_default().into();
    let mut threads = [Vec::new(), Vec::new()];
    for _ in 0..MOST {
        if bytes.is_empty() {
            break;
        }
        let (Ok(thread), Ok(operation)) = (bytes.arbitrary::<u8>(), bytes.arbitrary()) else { break };
        // Half of the scripts have one thread.
        let thread = usize::from(seed & 1 == 1 && thread < 64);
        threads[thread].push(operation);
    }
    Script { seed, threads }
}

/// `count` bytes that the seed determines.
#[must_use]
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    // xorshift64* (Vigna 2016).
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_be_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}
