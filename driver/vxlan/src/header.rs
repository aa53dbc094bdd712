//! The VXLAN header, eight bytes before the frame (RFC 7348 section 5).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, byteorder::network_endian::U32};

/// Bytes of a header.
pub const HEADER: usize = size_of::<Words>();
/// The port of VXLAN.
pub const PORT: u16 = 4789;

/// The I flag: the header has a VNI.
const VNI_IS_VALID: u32 = 1 << 27;

/// The number of a network (VXLAN Network Identifier): 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vni(u32);

impl Vni {
    /// `None`: `number` has more than 24 bits.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number < 1 << 24 { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Words {
    /// Eight bits of flags, 24 reserved.
    flags: U32,
    /// 24 bits of VNI, eight reserved.
    vni: U32,
}

/// The header of a frame of the network `vni`. Reserved bits are 0.
#[must_use]
pub fn emit(vni: Vni) -> [u8; HEADER] {
    let words = Words { flags: U32::new(VNI_IS_VALID), vni: U32::new(vni.0 << 8) };
    zerocopy::transmute!(words)
}

/// Reads the header of a datagram's payload, and returns the network and the frame. Reserved bits are ignored on receipt. `None`: the datagram is
/// shorter than a header, or has no VNI.
#[must_use]
pub fn parse(datagram: &[u8]) -> Option<(Vni, &[u8])> {
    let (words, frame) = Words::ref_from_prefix(datagram).ok()?;
    let vni = Vni(words.vni.get() >> 8);
    (words.flags.get() & VNI_IS_VALID != 0).then_some((vni, frame))
}
