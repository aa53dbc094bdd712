//! Rings whose user's side is hostile, made of bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(finding) = hostile::rings::run(&hostile::decode(bytes)) {
        panic!("{finding}");
    }
});
