//! The CRC of FPDUs by the processor's `crc32` instruction, if it has SSE 4.2.
//!
//! The instruction works on general registers, so a driver saves no vector registers for it. Its latency is three times the interval at which the
//! processor starts such instructions on different registers: so long data is processed as three lanes, each in a register.
//! A MiB in FPDUs of 32 KiB takes 42 us by three lanes, 106 by one (docs/performance.md).
#![expect(unsafe_code, reason = "calls a function for processors that have the instruction")]

use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

use iwarp::crc::Crc32c;

cpufeatures::new!(sse42, "sse4.2");

/// Bytes of a lane. Longer lanes are joined less often, but leave more bytes to a single register.
const LANE: usize = 512;

/// Maps a register to the register after a lane of zeros. The map is linear: the XOR of a table entry for each byte of the register.
static ZEROS: Zeros = Zeros::lane();

struct Zeros([[u32; 256]; 4]);

/// The instruction if the processor has it, else the portable code.
pub(crate) fn fastest() -> Crc32c {
    if sse42::get() { Crc32c::new(by_instruction) } else { Crc32c::PORTABLE }
}

/// Only [`fastest`] may return this function, as it checks for the instruction.
fn by_instruction(register: u32, bytes: &[u8]) -> u32 {
    // SAFETY: `fastest` returns this function only if the processor has SSE 4.2.
    unsafe { update(register, bytes) }
}

#[target_feature(enable = "sse4.2")]
fn update(register: u32, bytes: &[u8]) -> u32 {
    let (lanes, rest) = bytes.as_chunks::<LANE>();
    let (triples, lanes) = lanes.as_chunks::<3>();
    let register = triples.iter().fold(register, |register, triple| update_lanes(register, triple));
    update_one(update_one(register, lanes.as_flattened()), rest)
}

/// The second and third lane begin with a register of 0. `ZEROS` moves a lane's result over the next lane; the XOR of both is their result.
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

    /// The table for a lane. A lane's number of bits is a power of two, so the table for one bit is doubled until it covers the lane.
    const fn lane() -> Self {
        let mut zeros = Self::with(None);
        let mut bits = 1;
        while bits < 8 * LANE {
            zeros = Self::with(Some(&zeros));
            bits <<= 1;
        }
        zeros
    }

    /// The table for one zero bit, or for twice the bits of `half`.
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

    /// By the definition, a bit at a time.
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

    /// The instruction gives the portable code's result: for any length, from any address, in any pieces.
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

    /// The lanes give the definition's result: for each length up to two rounds of lanes and a rest, from each address.
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
