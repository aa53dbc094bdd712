//! Peers that are not this device: bytes and frames by hand, over the network of the simulated kernel, to and from a device of which
//! everything is observed. Right peers, wrong ones and hostile ones are made of these.
//!
//! | module | what |
//! |---|---|
//! | [`raw`] | a peer: a TCP connection whose bytes a test writes and reads itself |
//! | [`frames`] | what it sends, made of the frames of crate `iwarp`, or of bytes where these cannot be wrong |
//! | [`device`] | a device, a side of one of its connections, and what callbacks told |
//! | [`establish`] | both, connected: by either of them |

pub mod device;
pub mod establish;
pub mod frames;
pub mod raw;

/// A reference to an object of the driver.
pub type Arc<T> = platform::Arc<T, simkernel::SimKernel>;

/// Waits for what others bring about.
///
/// # Panics
/// If it does not come.
#[track_caller]
pub fn wait(what: &str, is: impl Fn() -> bool) {
    let mut pauses = 0;
    while !is() {
        simkernel::pause();
        pauses += 1;
        assert!(pauses < 200_000, "{what} does not come");
    }
}
