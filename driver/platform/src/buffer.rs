//! The buffers of a stream: received bytes ([`Incoming`]) and bytes to send ([`Outgoing`]).
#![expect(unsafe_code, reason = "a kernel writes into a part of the memory while the rest of it is read")]

use core::{cell::UnsafeCell, slice};

use crate::{Charge, LARGEST_TRANSFER, OutOfMemory, Platform, PoolQuota, Slice};

/// The first size of a buffer. An idle connection has two buffers.
const FIRST: usize = 4 << 10;
/// The first size of the receive buffer of an accepted connection, until some received bytes were used: a peer that
/// connects may send nothing.
const ACCEPTED: usize = 1 << 10;

/// The receive buffer: received bytes, then room, which may be lent to the kernel.
pub(crate) struct Incoming<P: Platform> {
    memory: Slice<UnsafeCell<u8>, P>,
    /// The offset of the first unused byte.
    start: usize,
    /// The offset behind the last unused byte, where the room starts.
    end: usize,
    lent: bool,
    /// The last receive filled the room, which was at least half of the buffer: more bytes may wait in the kernel.
    pressed: bool,
    charge: Charge<P>,
}

impl<P: Platform> Incoming<P> {
    pub(crate) fn new(quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        Self::with_capacity(FIRST, quota)
    }

    pub(crate) fn of_accepted(quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        Self::with_capacity(ACCEPTED, quota)
    }

    fn with_capacity(capacity: usize, quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        let charge = quota.charge(Slice::<u8, P>::pool_bytes(capacity))?;
        let memory = Slice::from_fn(capacity, |_| UnsafeCell::new(0))?;
        Ok(Self { memory, start: 0, end: 0, lent: false, pressed: false, charge })
    }

    /// The received bytes that were not used.
    pub(crate) fn bytes(&self) -> &[u8] {
        let bytes = self.memory.get(self.start..self.end).unwrap_or_default();
        // SAFETY: the bytes are initialised, and written only through `all`, which borrows self mutably; the lent room
        // starts behind the bytes.
        unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
    }

    /// The whole buffer, if the room is not lent.
    fn all(&mut self) -> Option<&mut [u8]> {
        if self.lent {
            return None;
        }
        let (memory, length) = (self.memory.as_mut_ptr(), self.memory.len());
        // SAFETY: initialised; borrowed mutably with self, and not lent.
        Some(unsafe { slice::from_raw_parts_mut(memory.cast(), length) })
    }

    /// Marks `count` bytes as used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = self.start.saturating_add(count).min(self.end);
    }

    /// Makes the buffer large enough for `wanted` unused bytes, and larger if the last receive filled the room. Does
    /// nothing while the room is lent: the next `read` after the receive has completed calls this again.
    pub(crate) fn arrange(&mut self, wanted: usize) -> Result<(), OutOfMemory> {
        if self.lent {
            return Ok(());
        }
        let capacity = self.memory.len();
        let larger = if wanted > capacity {
            wanted.checked_next_power_of_two().filter(|larger| *larger <= LARGEST_TRANSFER).ok_or(OutOfMemory)?
        } else if self.start > 0 && capacity < FIRST {
            FIRST
        } else if self.pressed && capacity < LARGEST_TRANSFER {
            capacity.saturating_mul(2)
        } else {
            capacity
        };
        if larger > capacity {
            match Self::with_capacity(larger, self.charge.quota()) {
                Ok(mut larger) => {
                    let bytes = self.bytes();
                    if let Some(place) = larger.all().and_then(|all| all.get_mut(..bytes.len())) {
                        place.copy_from_slice(bytes);
                    }
                    larger.end = bytes.len();
                    *self = larger;
                    return Ok(());
                }
                Err(none) if wanted > capacity => return Err(none),
                // The present buffer is large enough for `wanted`.
                Err(_) => {}
            }
        }
        let room = capacity.saturating_sub(self.end);
        let is_tight = self.start == self.end || self.start.saturating_add(wanted) > capacity || room < capacity / 2;
        if self.start > 0 && is_tight {
            let (start, end) = (self.start, self.end);
            if let Some(all) = self.all() {
                all.copy_within(start..end, 0);
            }
            self.start = 0;
            self.end = end.saturating_sub(start);
        }
        Ok(())
    }

    /// Lends the room to the kernel, which may write there until [`Incoming::give_back`]. `None` if there is no room or
    /// it is lent already.
    pub(crate) fn lend(&mut self) -> Option<(*mut u8, usize)> {
        let room = self.memory.get(self.end..).filter(|room| !self.lent && !room.is_empty())?;
        self.lent = true;
        Some((room.as_ptr().cast::<u8>().cast_mut(), room.len()))
    }

    /// Takes the room back, with `received` new bytes at its start.
    pub(crate) fn give_back(&mut self, received: usize) {
        let room = self.memory.len().saturating_sub(self.end);
        self.lent = false;
        self.pressed = received >= room && room >= self.memory.len() / 2;
        self.end = self.end.saturating_add(received.min(room));
    }
}

/// A send buffer: its owner fills it, then one send takes all of its bytes.
pub(crate) struct Outgoing<P: Platform> {
    memory: Slice<u8, P>,
    filled: usize,
    /// More than half of the buffer was filled, by one write or by several while it waited to be sent.
    pressed: bool,
    charge: Charge<P>,
}

impl<P: Platform> Outgoing<P> {
    pub(crate) fn new(quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        Self::with_capacity(FIRST, quota)
    }

    fn with_capacity(capacity: usize, quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        let charge = quota.charge(Slice::<u8, P>::pool_bytes(capacity))?;
        Ok(Self { memory: Slice::filled(capacity, 0)?, filled: 0, pressed: false, charge })
    }

    /// Doubles the buffer, up to [`LARGEST_TRANSFER`], if more than half of it was filled. Without memory the buffer
    /// keeps its size.
    pub(crate) fn make_room(&mut self) {
        let capacity = self.memory.len();
        if capacity >= LARGEST_TRANSFER || !self.pressed {
            return;
        }
        let Ok(mut larger) = Self::with_capacity(capacity.saturating_mul(2), self.charge.quota()) else { return };
        let bytes = self.bytes();
        if let Some(place) = larger.memory.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
        larger.filled = bytes.len();
        *self = larger;
    }

    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.filled..).unwrap_or_default()
    }

    /// Counts the first `count` bytes of the room, or all of the room if it is shorter, as filled; returns their
    /// number.
    pub(crate) fn fill(&mut self, count: usize) -> usize {
        let count = count.min(self.memory.len().saturating_sub(self.filled));
        self.filled = self.filled.saturating_add(count);
        self.pressed |= self.filled > self.memory.len() / 2;
        count
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.get(..self.filled).unwrap_or_default()
    }

    /// The bytes were sent: empties the buffer.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }
}
