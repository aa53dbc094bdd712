//! The CRC of FPDUs by the processor's own instruction, where there is one.
//!
//! It works on general registers: a driver need not save any others for it. Each instruction waits for the one before on the same
//! register, for three times as long as the processor needs to begin another; so long data is three lanes, each with a register.
#![expect(unsafe_code, reason = "calls a function for processors that have the instruction")]

use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

use iwarp::crc::Crc32c;

cpufeatures::new!(sse42, "sse4.2");

/// Bytes of a lane. Longer lanes are joined less often, and leave more to one register.
const LANE: usize = 512;

/// What a lane of zeros makes of a register, which is linear: the sum of what it makes of each byte of it.
static ZEROS: Zeros = Zeros::lane();

struct Zeros([[u32; 256]; 4]);

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
    let (lanes, rest) = bytes.as_chunks::<LANE>();
    let (triples, lanes) = lanes.as_chunks::<3>();
    let register = triples.iter().fold(register, |register, triple| update_lanes(register, triple));
    update_one(update_one(register, lanes.as_flattened()), rest)
}

/// Each lane but the first begins with an empty register; then each is moved past the next, and added to that.
#[target_feature(enable = "sse4.2")]
fn update_lanes(register: u32, [first, second, third]: &[[u8; LANE]; 3]) -> u32 {
    let words = first.as_chunks::<8>().0.iter().zip(second.as_chunks::<8>().0).zip(third.as_chunks::<8>().0);
    let mut registers = [u64::from(register), 0, 0];
    for ((first, second), third) in words {
        let [one, two, three] = registers;
        registers = [
            _mm_crc32_u64(one, u64::from_le_bytes(*first)),
            _mm_crc32_u64(two, u64::from_le_bytes(*second)),
            _mm_crc32_u64(three, u64::from_le_bytes(*third)),
        ];
    }
    let [one, two, three] = registers.map(|register| register as u32);
    ZEROS.after(ZEROS.after(one) ^ two) ^ three
}

#[target_feature(enable = "sse4.2")]
fn update_one(register: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let register =
        words.iter().fold(u64::from(register), |register, word| _mm_crc32_u64(register, u64::from_le_bytes(*word)));
    rest.iter().fold(register as u32, |register, byte| _mm_crc32_u8(register, *byte))
}

impl Zeros {
    /// The register after the zeros.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a byte is the place of one of 256")]
    const fn after(&self, register: u32) -> u32 {
        let Self([first, second, third, fourth]) = self;
        let [one, two, three, four] = register.to_le_bytes();
        first[one as usize] ^ second[two as usize] ^ third[three as usize] ^ fourth[four as usize]
    }

    /// Those of a lane, whose bits are a power of two: one, doubled.
    const fn lane() -> Self {
        let mut zeros = Self::with(None);
        let mut bits = 1;
        while bits < 8 * LANE {
            zeros = Self::with(Some(&zeros));
            bits <<= 1;
        }
        zeros
    }

    /// One zero bit, or twice those of `half`.
    #[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "only the compiler runs it")]
    const fn with(half: Option<&Self>) -> Self {
        /// CRC32c, its highest coefficient in the lowest bit (RFC 3720 section 12.1).
        const POLYNOMIAL: u32 = 0x1EDC_6F41_u32.reverse_bits();
        let mut table = [[0; 256]; 4];
        let mut place = 0;
        while place < 4 * 256 {
            let register = (place as u32 & 255) << (place / 256 * 8);
            table[place / 256][place & 255] = match half {
                Some(half) => half.after(half.after(register)),
                None => register >> 1 ^ (register & 1).wrapping_neg() & POLYNOMIAL,
            };
            place += 1;
        }
        Self(table)
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a panic fails the test")]
mod tests {
    use super::*;

    /// As the polynomial says, a bit at a time.
    fn by_bits(register: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(register, |register, byte| {
            (0..8).fold(register ^ u32::from(*byte), |register, _| {
                if register & 1 == 0 { register >> 1 } else { register >> 1 ^ 0x82F6_3B78 }
            })
        })
    }

    fn bytes<const COUNT: usize>() -> [u8; COUNT] {
        // The high bytes of a linear congruential generator (Knuth's MMIX).
        let mut state = 1_u64;
        core::array::from_fn(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
    }

    fn of(crc: Crc32c, pieces: &[&[u8]]) -> [u8; 4] {
        let mut digest = crc.digest();
        for piece in pieces {
            digest.update(piece);
        }
        digest.finish()
    }

    /// Of any length, from any address, in any pieces.
    #[test]
    fn it_is_the_portable_one() {
        let bytes = bytes::<64>();
        for start in 0..16 {
            for end in start..bytes.len() {
                for middle in [start, (start + end) / 2, end] {
                    let pieces = [&bytes[start..middle], &bytes[middle..end]];
                    assert_eq!(of(fastest(), &pieces), of(Crc32c::PORTABLE, &pieces), "{start}..{middle}..{end}");
                }
            }
        }
    }

    /// Of each length to some of two rounds of the lanes, from each address, against the definition.
    #[test]
    fn lanes_are_joined() {
        const MOST: usize = 7 * LANE;
        let bytes = bytes::<{ MOST + 8 }>();
        for start in 0..8 {
            let mut register = u32::MAX;
            for length in 0..MOST {
                let data = &bytes[start..start + length];
                assert_eq!(of(fastest(), &[data]), (!register).to_le_bytes(), "{length} bytes from {start}");
                register = by_bits(register, &bytes[start + length..=start + length]);
            }
        }
    }
}
