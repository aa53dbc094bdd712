//! The task offloads of an adapter with a cable: the checksums of IPv4 headers and of TCP that are sent, large sends of TCP (LSOv2), and receive
//! segment coalescing (RSC). Crate `task-offload` does them. Keywords say which are on when the adapter starts; OID_TCP_OFFLOAD_PARAMETERS turns
//! each on and off, OID_OFFLOAD_ENCAPSULATION all of a version of IP.

use core::sync::atomic::{AtomicU8, Ordering};

use ndk_abi::{
    ndis::{
        NDIS_ENCAPSULATION_IEEE_802_3, NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_DEFAULT, NDIS_OBJECT_TYPE_OFFLOAD,
        NDIS_OBJECT_TYPE_OFFLOAD_ENCAPSULATION, NDIS_OFFLOAD, NDIS_OFFLOAD_ENCAPSULATION, NDIS_OFFLOAD_PARAMETERS,
        NDIS_OFFLOAD_PARAMETERS_LSOV2_DISABLED, NDIS_OFFLOAD_PARAMETERS_LSOV2_ENABLED,
        NDIS_OFFLOAD_PARAMETERS_NO_CHANGE, NDIS_OFFLOAD_PARAMETERS_REVISION_3, NDIS_OFFLOAD_PARAMETERS_RSC_DISABLED,
        NDIS_OFFLOAD_PARAMETERS_RSC_ENABLED, NDIS_OFFLOAD_PARAMETERS_RX_ENABLED_TX_DISABLED,
        NDIS_OFFLOAD_PARAMETERS_TX_ENABLED_RX_DISABLED, NDIS_OFFLOAD_PARAMETERS_TX_RX_DISABLED,
        NDIS_OFFLOAD_PARAMETERS_TX_RX_ENABLED, NDIS_OFFLOAD_REVISION_4, NDIS_OFFLOAD_SET_NO_CHANGE,
        NDIS_OFFLOAD_SET_OFF, NDIS_OFFLOAD_SET_ON, NDIS_OFFLOAD_SUPPORTED, NDIS_SIZEOF_NDIS_OFFLOAD_REVISION_4,
    },
    status::{NDIS_STATUS, NDIS_STATUS_INVALID_DATA, NDIS_STATUS_INVALID_PARAMETER},
};
use zerocopy::FromZeros;

/// Bytes of a large send's TCP payload, at most.
pub(crate) const MAX_OFFLOAD_SIZE: u32 = 0xFFFF;
/// The fewest segments of a large send.
const MIN_SEGMENTS: u32 = 2;

const _: () = assert!(NDIS_OFFLOAD_PARAMETERS_RSC_DISABLED == NDIS_OFFLOAD_PARAMETERS_LSOV2_DISABLED);
const _: () = assert!(NDIS_OFFLOAD_PARAMETERS_RSC_ENABLED == NDIS_OFFLOAD_PARAMETERS_LSOV2_ENABLED);

/// Offloads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Set(u8);

impl Set {
    pub(crate) const NONE: Self = Self(0);
    /// The checksum of an IPv4 header.
    pub(crate) const IPV4_CHECKSUM: Self = Self(1);
    /// The checksum of TCP over IPv4, and over IPv6.
    pub(crate) const TCP_CHECKSUM_IPV4: Self = Self(1 << 1);
    pub(crate) const TCP_CHECKSUM_IPV6: Self = Self(1 << 2);
    /// Large sends over IPv4, and over IPv6.
    pub(crate) const LARGE_SEND_IPV4: Self = Self(1 << 3);
    pub(crate) const LARGE_SEND_IPV6: Self = Self(1 << 4);
    /// Receive segment coalescing over IPv4, and over IPv6.
    pub(crate) const COALESCE_IPV4: Self = Self(1 << 5);
    pub(crate) const COALESCE_IPV6: Self = Self(1 << 6);
    /// All that the adapter can do.
    const ALL: Self = Self(0x7F);
    const IPV4: Self =
        Self(Self::IPV4_CHECKSUM.0 | Self::TCP_CHECKSUM_IPV4.0 | Self::LARGE_SEND_IPV4.0 | Self::COALESCE_IPV4.0);
    const IPV6: Self = Self(Self::TCP_CHECKSUM_IPV6.0 | Self::LARGE_SEND_IPV6.0 | Self::COALESCE_IPV6.0);

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether segments of either version of IP are coalesced.
    pub(crate) const fn coalesces(self) -> bool {
        self.has(Self(Self::COALESCE_IPV4.0 | Self::COALESCE_IPV6.0))
    }

    #[must_use]
    pub(crate) const fn with(self, other: Self, on: bool) -> Self {
        if on { Self(self.0 | other.0) } else { Self(self.0 & !other.0) }
    }

    /// The set, as NDIS describes it.
    pub(crate) fn describe(self) -> NDIS_OFFLOAD {
        // Members of two bits: IpOptionsSupported or IpExtensionHeadersSupported, TcpOptionsSupported, TcpChecksum, UdpChecksum, IpChecksum.
        let bit = |set, place: u32| if self.has(set) { NDIS_OFFLOAD_SUPPORTED << place } else { 0 };
        let options = |on: bool| if on { NDIS_OFFLOAD_SUPPORTED | NDIS_OFFLOAD_SUPPORTED << 2 } else { 0 };
        let encapsulation = |on: bool| if on { NDIS_ENCAPSULATION_IEEE_802_3 } else { 0 };
        let ipv4 = bit(Self::TCP_CHECKSUM_IPV4, 4) | bit(Self::IPV4_CHECKSUM, 8);
        let ipv6 = bit(Self::TCP_CHECKSUM_IPV6, 4);
        let large = |set| match self.has(set) {
            true => [NDIS_ENCAPSULATION_IEEE_802_3, MAX_OFFLOAD_SIZE, MIN_SEGMENTS],
            false => [0; 3],
        };
        let [kind, most, least] = large(Self::LARGE_SEND_IPV6);
        let mut offload = NDIS_OFFLOAD::new_zeroed();
        offload.Header = NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_OFFLOAD,
            NDIS_OFFLOAD_REVISION_4,
            NDIS_SIZEOF_NDIS_OFFLOAD_REVISION_4,
        );
        offload.Checksum.IPv4Transmit = [encapsulation(ipv4 != 0), ipv4 | options(ipv4 != 0)];
        offload.Checksum.IPv6Transmit = [encapsulation(ipv6 != 0), ipv6 | options(ipv6 != 0)];
        offload.LsoV2.IPv4 = large(Self::LARGE_SEND_IPV4);
        offload.LsoV2.IPv6 = [kind, most, least, options(self.has(Self::LARGE_SEND_IPV6))];
        offload.Rsc = [self.has(Self::COALESCE_IPV4).into(), self.has(Self::COALESCE_IPV6).into(), 0, 0];
        offload
    }
}

/// All that an adapter with a cable can do, as NDIS describes it.
pub(crate) fn capabilities() -> NDIS_OFFLOAD {
    Set::ALL.describe()
}

/// The offloads of an adapter. OID requests, which come one at a time, change them; sends read them.
pub(crate) struct Offloads {
    /// The offloads that keywords and OID_TCP_OFFLOAD_PARAMETERS have turned on.
    configured: AtomicU8,
    /// The offloads that OID_OFFLOAD_ENCAPSULATION has not turned off.
    active: AtomicU8,
}

impl Offloads {
    /// No offload is on until [`Self::start`].
    pub(crate) const fn new() -> Self {
        Self { configured: AtomicU8::new(0), active: AtomicU8::new(0) }
    }

    /// Turns these on, in the initialisation of an adapter with a cable.
    pub(crate) fn start(&self, configured: Set) {
        self.configured.store(configured.0, Ordering::Relaxed);
        self.active.store(Set::ALL.0, Ordering::Relaxed);
    }

    /// The offloads that are on.
    pub(crate) fn current(&self) -> Set {
        Set(self.configured.load(Ordering::Relaxed) & self.active.load(Ordering::Relaxed))
    }

    /// OID_TCP_OFFLOAD_PARAMETERS. NDIS_STATUS_INVALID_DATA: a setting is none of the documented ones; nothing has changed.
    pub(crate) fn set_parameters(&self, parameters: &NDIS_OFFLOAD_PARAMETERS) -> Result<(), NDIS_STATUS> {
        if parameters.Header.Type != NDIS_OBJECT_TYPE_DEFAULT || parameters.Header.Revision == 0 {
            return Err(NDIS_STATUS_INVALID_DATA);
        }
        let (mut on, mut off) = (Set::NONE, Set::NONE);
        for (set, setting) in [
            (Set::IPV4_CHECKSUM, parameters.IPv4Checksum),
            (Set::TCP_CHECKSUM_IPV4, parameters.TCPIPv4Checksum),
            (Set::TCP_CHECKSUM_IPV6, parameters.TCPIPv6Checksum),
        ] {
            match u32::from(setting) {
                NDIS_OFFLOAD_PARAMETERS_NO_CHANGE => {}
                // No checksum of a received frame is offloaded.
                NDIS_OFFLOAD_PARAMETERS_TX_RX_ENABLED | NDIS_OFFLOAD_PARAMETERS_TX_ENABLED_RX_DISABLED => {
                    on = on.with(set, true);
                }
                NDIS_OFFLOAD_PARAMETERS_TX_RX_DISABLED | NDIS_OFFLOAD_PARAMETERS_RX_ENABLED_TX_DISABLED => {
                    off = off.with(set, true);
                }
                _ => return Err(NDIS_STATUS_INVALID_DATA),
            }
        }
        let has_rsc = parameters.Header.Revision >= NDIS_OFFLOAD_PARAMETERS_REVISION_3;
        let [rsc_ipv4, rsc_ipv6] = if has_rsc { [parameters.RscIPv4, parameters.RscIPv6] } else { [0; 2] };
        for (set, setting) in [
            (Set::LARGE_SEND_IPV4, parameters.LsoV2IPv4),
            (Set::LARGE_SEND_IPV6, parameters.LsoV2IPv6),
            (Set::COALESCE_IPV4, rsc_ipv4),
            (Set::COALESCE_IPV6, rsc_ipv6),
        ] {
            // RSC's settings have the numbers of LSO's.
            match u32::from(setting) {
                NDIS_OFFLOAD_PARAMETERS_NO_CHANGE => {}
                NDIS_OFFLOAD_PARAMETERS_LSOV2_ENABLED => on = on.with(set, true),
                NDIS_OFFLOAD_PARAMETERS_LSOV2_DISABLED => off = off.with(set, true),
                _ => return Err(NDIS_STATUS_INVALID_DATA),
            }
        }
        let configured = Set(self.configured.load(Ordering::Relaxed)).with(off, false).with(on, true);
        self.configured.store(configured.0, Ordering::Relaxed);
        // What is turned on is active too ("OID_TCP_OFFLOAD_PARAMETERS"), even if no transport has set the encapsulation.
        self.active.fetch_or(on.0, Ordering::Relaxed);
        Ok(())
    }

    /// OID_OFFLOAD_ENCAPSULATION. NDIS_STATUS_INVALID_PARAMETER: not for Ethernet, or no documented setting; nothing has changed.
    pub(crate) fn set_encapsulation(&self, encapsulation: &NDIS_OFFLOAD_ENCAPSULATION) -> Result<(), NDIS_STATUS> {
        if encapsulation.Header.Type != NDIS_OBJECT_TYPE_OFFLOAD_ENCAPSULATION || encapsulation.Header.Revision == 0 {
            return Err(NDIS_STATUS_INVALID_PARAMETER);
        }
        let mut active = Set(self.active.load(Ordering::Relaxed));
        for (set, [enabled, kind, _]) in [(Set::IPV4, encapsulation.IPv4), (Set::IPV6, encapsulation.IPv6)] {
            match (enabled, kind) {
                (NDIS_OFFLOAD_SET_NO_CHANGE, _) => {}
                (NDIS_OFFLOAD_SET_ON, NDIS_ENCAPSULATION_IEEE_802_3) => active = active.with(set, true),
                (NDIS_OFFLOAD_SET_OFF, _) => active = active.with(set, false),
                _ => return Err(NDIS_STATUS_INVALID_PARAMETER),
            }
        }
        self.active.store(active.0, Ordering::Relaxed);
        Ok(())
    }
}
