//! A bit for each ephemeral port, set if the port is in use at no address. A search reads at most 257 words.

use platform::{OutOfMemory, Platform, Slice};

use super::{EPHEMERAL_PORTS, FIRST_EPHEMERAL};

const WORDS: usize = EPHEMERAL_PORTS as usize / u64::BITS as usize;

pub(super) struct FreePorts<P: Platform>(Slice<u64, P>);

/// The word and the bit of a port.
fn position(port: u16) -> Option<(usize, u64)> {
    let index = port.checked_sub(FIRST_EPHEMERAL)?;
    Some((usize::from(index / 64), 1 << (index % 64)))
}

impl<P: Platform> FreePorts<P> {
    pub(super) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self(Slice::filled(WORDS, u64::MAX)?))
    }

    pub(super) fn set(&mut self, port: u16, free: bool) {
        if let Some((word, bit)) = position(port)
            && let Some(word) = self.0.get_mut(word)
        {
            *word = if free { *word | bit } else { *word & !bit };
        }
    }

    /// The first free port from `port` on; behind the last port the search goes on at the first.
    pub(super) fn next(&self, port: u16) -> Option<u16> {
        let (first, bit) = position(port)?;
        // In the word of `port` only the bits from `port` on count. The search comes to that word again at its end, for the other bits.
        let mut wanted = !bit.wrapping_sub(1);
        for word in (first..WORDS).chain(0..=first) {
            let free = self.0.get(word).copied().unwrap_or(0) & wanted;
            wanted = u64::MAX;
            if free != 0 {
                let index = u32::try_from(word).ok()?.checked_mul(u64::BITS)?.checked_add(free.trailing_zeros())?;
                return FIRST_EPHEMERAL.checked_add(u16::try_from(index).ok()?);
            }
        }
        None
    }
}
