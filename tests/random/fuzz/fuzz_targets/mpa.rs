//! Requests and Replies of MPA made of bytes: what is read of them, and what two sides agree on.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(finding) = peer::mpa::run(bytes) {
        panic!("{finding}");
    }
});
