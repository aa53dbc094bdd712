//! NDK calls made of bytes, with whatever parameters: the provider does what the reference model does, and keeps the
//! rules of the simulated kernel.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(mismatch) = model::run(0, &model::decode(bytes)) {
        panic!("{mismatch}");
    }
});
