//! The keywords that the driver reads from an adapter's software key, and their defaults. `cargo xtask lint-inf` includes this file, and
//! checks that inf/softndk.inx has these keywords with these defaults.

/// A keyword whose value is 0 or 1. Any other value counts as the default.
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) default: bool,
}

/// A keyword whose value is a number from `min` to `max`. Any other value counts as the default.
pub(crate) struct Number {
    pub(crate) name: &'static str,
    pub(crate) default: u32,
    pub(crate) min: u32,
    pub(crate) max: u32,
}

/// Whether the adapter offers RDMA.
pub(crate) const NETWORK_DIRECT: Flag = Flag { name: "*NetworkDirect", default: true };
/// Whether connections with other machines use CRCs even if the peer asks for none.
pub(crate) const CRC: Flag = Flag { name: "Crc", default: false };
/// Whether fault rules count, and may be set.
pub(crate) const FAULT_INJECTION: Flag = Flag { name: "FaultInjection", default: false };
/// The fault rules that the adapter starts with, with semicolons between them.
pub(crate) const FAULT_RULES: &str = "FaultRules";
/// Whether programs may capture the adapter's connections, with the data of all consumers.
pub(crate) const CAPTURE: Flag = Flag { name: "Capture", default: false };
/// The seconds that a program's send waits for a receive of its peer. 0: no limit within the device, and 5 s over TCP.
pub(crate) const SEND_TIMEOUT: Number = Number { name: "SendTimeout", default: 4, min: 0, max: 3600 };
/// Bytes of the largest frame, with its Ethernet header. With a cable: of the largest frame of the network that carries the cable.
pub(crate) const JUMBO_PACKET: Number = Number { name: "*JumboPacket", default: 1514, min: 1514, max: 9014 };
/// Whether an adapter with a cable writes the checksums of IPv4 headers and of TCP that are sent: 1 and 3. 0 and 2 (received frames only): it does
/// not.
pub(crate) const IP_CHECKSUM_IPV4: Number = Number { name: "*IPChecksumOffloadIPv4", default: 1, min: 0, max: 3 };
pub(crate) const TCP_CHECKSUM_IPV4: Number = Number { name: "*TCPChecksumOffloadIPv4", default: 1, min: 0, max: 3 };
pub(crate) const TCP_CHECKSUM_IPV6: Number = Number { name: "*TCPChecksumOffloadIPv6", default: 1, min: 0, max: 3 };
/// Whether an adapter with a cable divides large TCP segments.
pub(crate) const LSO_V2_IPV4: Flag = Flag { name: "*LsoV2IPv4", default: true };
pub(crate) const LSO_V2_IPV6: Flag = Flag { name: "*LsoV2IPv6", default: true };
/// Whether an adapter with a cable joins received TCP segments.
pub(crate) const RSC_IPV4: Flag = Flag { name: "*RscIPv4", default: true };
pub(crate) const RSC_IPV6: Flag = Flag { name: "*RscIPv6", default: true };
/// The adapter's Ethernet address, which NdisReadNetworkAddress reads.
#[allow(dead_code, reason = "only the INF names the keyword")]
pub(crate) const NETWORK_ADDRESS: &str = "NetworkAddress";
/// The network of the cable (VXLAN Network Identifier).
pub(crate) const CABLE_VNI: Number = Number { name: "CableVni", default: 1, min: 0, max: 0xFF_FFFF };
/// The UDP port of the cable, here and at the peers.
pub(crate) const CABLE_PORT: Number = Number { name: "CablePort", default: 4789, min: 1, max: 65_535 };
/// The IP addresses of the machines at the other end of the cable, with commas between them. An empty list: the adapter has no cable.
pub(crate) const CABLE_PEERS: &str = "CablePeers";
/// Instead of addresses: another adapter of this machine is at the other end.
#[allow(dead_code, reason = "only the driver uses it")]
pub(crate) const CABLE_PEERS_LOCAL: &str = "local";
/// This machine's IP address in the network that carries the cable.
pub(crate) const CABLE_LOCAL: &str = "CableLocal";
/// The IP addresses that consumers may bind to, with commas between them. An empty list: the addresses that TCP/IP has on the interface.
pub(crate) const ADDRESSES: &str = "Addresses";
/// Groups that may open the control device, besides SYSTEM and administrators: their SIDs, with commas between them.
pub(crate) const GROUPS: &str = "Groups";
