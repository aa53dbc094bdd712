//! Chance that can be had again.

use simkernel::pause;

/// A small generator (xorshift64*), for different schedules that can be had again.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    /// Spins and pauses up to `most` times.
    pub(crate) fn delay(&mut self, most: usize) {
        for spin in 0..self.below(most) {
            if spin % 64 == 0 { pause() } else { std::hint::spin_loop() }
        }
    }
}
