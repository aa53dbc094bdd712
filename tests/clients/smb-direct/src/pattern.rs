//! The test data, and the checksum by which both ends verify the data.

use ndk_abi::status::NTSTATUS;

use crate::Kernel;
use kernel_consumer::Buffer;

/// Bytes filled or summed at a time; a multiple of a word's 8 bytes.
const CHUNK: usize = 1024;

/// The `index`th word of the data with this seed: the finaliser of SplitMix64, so that any two words differ.
fn word(seed: u64, index: u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(index);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Fills `bytes` with the data from byte `start` on, which is a multiple of 8.
pub(crate) fn fill(bytes: &mut [u8], seed: u64, start: u64) {
    for (index, word_bytes) in (start / 8..).zip(bytes.chunks_mut(8)) {
        for (byte, value) in word_bytes.iter_mut().zip(word(seed, index).to_le_bytes()) {
            *byte = value;
        }
    }
}

/// A checksum that depends on the order of the words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checksum(u64);

impl Checksum {
    pub(crate) const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x2545_F491_4F6C_DD1D);
    }

    /// Adds bytes; only the last call may add a number of bytes that is not a multiple of 8.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

/// Calls `each` with the offset and the length of each part of a range.
fn parts(
    offset: usize,
    length: usize,
    mut each: impl FnMut(usize, usize) -> Result<(), NTSTATUS>,
) -> Result<(), NTSTATUS> {
    let mut done = 0usize;
    while done < length {
        let part = length.saturating_sub(done).min(CHUNK);
        each(offset.saturating_add(done), part)?;
        done = done.saturating_add(part);
    }
    Ok(())
}

/// Fills the first `length` bytes of a buffer with the data from `start` on.
pub(crate) fn fill_buffer<K: Kernel>(buffer: &Buffer<K>, length: usize, seed: u64, start: u64) -> Result<(), NTSTATUS> {
    let mut chunk = [0; CHUNK];
    parts(0, length, |at, part| {
        let Some(bytes) = chunk.get_mut(..part) else { return Ok(()) };
        fill(bytes, seed, start.wrapping_add(at as u64));
        buffer.write(at, bytes)
    })
}

/// Adds `length` bytes at `offset` of a buffer to a checksum. `length` is not bounded: PASSIVE_LEVEL.
pub(crate) fn sum_buffer<K: Kernel>(
    checksum: &mut Checksum,
    buffer: &Buffer<K>,
    offset: usize,
    length: usize,
) -> Result<(), NTSTATUS> {
    let mut chunk = [0; CHUNK];
    parts(offset, length, |at, part| {
        let Some(bytes) = chunk.get_mut(..part) else { return Ok(()) };
        buffer.read(at, bytes)?;
        checksum.update(bytes);
        Ok(())
    })
}

/// The checksum of `length` bytes of the data with this seed.
pub(crate) fn expected(seed: u64, length: usize) -> Checksum {
    let mut chunk = [0; CHUNK];
    let mut checksum = Checksum::new();
    let _never_fails = parts(0, length, |at, part| {
        if let Some(bytes) = chunk.get_mut(..part) {
            fill(bytes, seed, at as u64);
            checksum.update(bytes);
        }
        Ok(())
    });
    checksum
}
