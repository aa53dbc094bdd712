//! What a hostile peer sends over an established connection, made of bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(finding) = peer::hostile::run(&peer::hostile::decode(bytes)) {
        panic!("{finding}");
    }
});
