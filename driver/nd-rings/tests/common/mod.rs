//! Memory for rings.
#![allow(clippy::expect_used, unsafe_code, reason = "a test may panic, and gives rings their memory")]

use std::ptr::NonNull;

use nd_rings::{Geometry, Invalid, Mapped};

/// A cache line, on which a ring starts.
#[repr(align(64))]
#[derive(Clone)]
struct Line([u8; 64]);

/// Memory for a ring, zeroed.
pub(crate) struct Arena(Vec<Line>);

impl Arena {
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self(vec![Line([0; 64]); geometry.bytes().expect("a small ring").div_ceil(64)])
    }

    pub(crate) fn base(&mut self) -> NonNull<u8> {
        NonNull::from(self.0.as_mut_slice()).cast()
    }

    /// A byte of the arena.
    #[allow(dead_code, reason = "for one of the programs")]
    pub(crate) fn byte(&mut self, offset: usize) -> &mut u8 {
        &mut self.0[offset / 64].0[offset % 64]
    }

    /// The program's end. The ring must not be used after the arena is dropped.
    pub(crate) fn created(&mut self, geometry: Geometry) -> Mapped {
        // SAFETY: zeroed, large enough and aligned; the tests keep the arena for longer.
        unsafe { Mapped::create(self.base(), geometry, 7) }
    }

    /// The driver's end.
    pub(crate) fn opened(&mut self, kind: u32, entry_size: u32, depth: u32) -> Result<(Mapped, u64), Invalid> {
        let bytes = self.0.len() * 64;
        // SAFETY: as above.
        unsafe { Mapped::open(self.base(), bytes, kind, entry_size, depth) }
    }
}
