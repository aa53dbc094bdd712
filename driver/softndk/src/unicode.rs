//! Counted UTF-16 strings from constant texts.

use ndk_abi::wdm::UNICODE_STRING;

/// The UTF-16 form of an ASCII text of `N` characters.
pub(crate) const fn utf16<const N: usize>(text: &str) -> [u16; N] {
    let mut units = [0; N];
    let mut from = text.as_bytes();
    let mut to = units.as_mut_slice();
    assert!(from.len() == to.len(), "evaluated at compile time");
    while let (Some((byte, from_rest)), Some((unit, to_rest))) = (from.split_first(), to.split_first_mut()) {
        *unit = *byte as u16;
        (from, to) = (from_rest, to_rest);
    }
    units
}

/// A string of `units`, valid as long as they live. The kernel does not write to it.
pub(crate) const fn unicode_string(units: &[u16]) -> UNICODE_STRING {
    let bytes = size_of_val(units) as u16;
    UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: units.as_ptr().cast_mut() }
}

/// A constant `[u16; N]` with the UTF-16 form of a constant ASCII text.
macro_rules! wide {
    ($text:expr) => {
        const { &$crate::unicode::utf16::<{ $text.len() }>($text) }
    };
}
pub(crate) use wide;
