//! The CRC of FPDUs by the processor's own instruction, where there is one.
//!
//! It works on general registers: a driver need not save any others for it.
#![expect(unsafe_code, reason = "calls a function for processors that have the instruction")]

use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

use iwarp::crc::Crc32c;

cpufeatures::new!(sse42, "sse4.2");

/// The fastest way of this processor.
pub(crate) fn fastest() -> Crc32c {
    if sse42::get() { Crc32c::new(by_instruction) } else { Crc32c::PORTABLE }
}

/// Only for [`fastest`], which looks whether there is the instruction.
fn by_instruction(register: u32, bytes: &[u8]) -> u32 {
    // SAFETY: the processor has SSE 4.2, or this function is not given to anybody.
    unsafe { update(register, bytes) }
}

#[target_feature(enable = "sse4.2")]
fn update(register: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let register =
        words.iter().fold(u64::from(register), |register, word| _mm_crc32_u64(register, u64::from_le_bytes(*word)));
    rest.iter().fold(register as u32, |register, byte| _mm_crc32_u8(register, *byte))
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a panic fails the test")]
mod tests {
    use super::*;

    /// Of any length, from any address, in any pieces.
    #[test]
    fn it_is_the_portable_one() {
        let bytes: [u8; 64] = core::array::from_fn(|place| (place * 37 + 11) as u8);
        for start in 0..16 {
            for end in start..bytes.len() {
                for middle in [start, (start + end) / 2, end] {
                    let of = |crc: Crc32c| {
                        let mut digest = crc.digest();
                        digest.update(&bytes[start..middle]);
                        digest.update(&bytes[middle..end]);
                        digest.finish()
                    };
                    assert_eq!(of(fastest()), of(Crc32c::PORTABLE), "{start}..{middle}..{end}");
                }
            }
        }
    }
}
