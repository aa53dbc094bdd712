//! Peers that are not this device: bytes and frames by hand, over the network of the simulated kernel, to and from a device of which
//! everything is observed. Right peers, wrong ones and hostile ones are made of these.
//!
//! | module | what |
//! |---|---|
//! | [`raw`] | a peer: a TCP connection whose bytes a test writes and reads itself |
//! | [`frames`] | what it sends, made of the frames of crate `iwarp`, or of bytes where these cannot be wrong |
//! | [`device`] | a device, a side of one of its connections, and what callbacks told |
//! | [`establish`] | both, connected: by either of them |
//! | [`hostile`], [`mpa`] | the bodies of the fuzz targets `receive` and `mpa` |

pub mod device;
pub mod establish;
pub mod frames;
pub mod hostile;
pub mod mpa;
pub mod raw;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding(pub String);

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a [`Finding`] unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::Finding(format!($($what)+)));
        }
    };
}
pub(crate) use ensure;

/// A reference to an object of the driver.
pub type Arc<T> = platform::Arc<T, simkernel::SimKernel>;

/// Waits until another thread or a deferred call has made `is` true.
///
/// # Panics
/// If that takes too long.
#[track_caller]
pub fn wait(what: &str, is: impl Fn() -> bool) {
    let mut pauses = 0;
    while !is() {
        simkernel::pause();
        pauses += 1;
        assert!(pauses < 200_000, "{what} does not come");
    }
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
