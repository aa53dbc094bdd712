//! Control requests made of bytes, of users who break all rules.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(finding) = hostile::ioctls::run(&hostile::decode(bytes)) {
        panic!("{finding}");
    }
});
