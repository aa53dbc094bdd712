//! The CRC32c of FPDUs (RFC 5044 section 4.4, which takes it from RFC 3720).

use crc::{CRC_32_ISCSI, Crc, Table};

static PORTABLE: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// Code that computes the CRC: the portable code, or an instruction of the processor.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c {
    update: fn(u32, &[u8]) -> u32,
}

impl Crc32c {
    /// The code for any processor.
    pub const PORTABLE: Self = Self { update: portable };

    /// Uses `update`, which takes the register (not inverted) and returns it after the bytes, as the SSE 4.2 instruction `crc32` does.
    pub const fn new(update: fn(u32, &[u8]) -> u32) -> Self {
        Self { update }
    }

    /// Starts the CRC of bytes that come in pieces.
    pub const fn digest(self) -> Digest {
        Digest { crc: self, register: u32::MAX }
    }
}

/// A CRC that is being computed.
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    crc: Crc32c,
    register: u32,
}

impl Digest {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.register = (self.crc.update)(self.register, bytes);
    }

    /// The CRC as it is sent: least significant byte first, unlike all other numbers.
    pub const fn finish(self) -> [u8; 4] {
        (!self.register).to_le_bytes()
    }
}

fn portable(register: u32, bytes: &[u8]) -> u32 {
    let mut digest = PORTABLE.digest_with_initial(register.reverse_bits());
    digest.update(bytes);
    !digest.finalize()
}
