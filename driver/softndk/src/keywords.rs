//! The keywords that the driver reads from an adapter's software key, and their defaults. `cargo xtask lint-inf` includes this file, and
//! checks that inf/softndk.inx has these keywords with these defaults.

/// A keyword whose value is 0 or 1. Any other value counts as the default.
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) default: bool,
}

/// A keyword whose value is a number from 0 to `max`. Any other value counts as the default.
pub(crate) struct Number {
    pub(crate) name: &'static str,
    pub(crate) default: u32,
    pub(crate) max: u32,
}

/// Whether the adapter offers RDMA.
pub(crate) const NETWORK_DIRECT: Flag = Flag { name: "*NetworkDirect", default: true };
/// Whether connections with other machines use CRCs even if the peer asks for none.
pub(crate) const CRC: Flag = Flag { name: "Crc", default: false };
/// The seconds that a program's send waits for a receive of its peer. 0: no limit within the device, and 5 s over TCP.
pub(crate) const SEND_TIMEOUT: Number = Number { name: "SendTimeout", default: 4, max: 3600 };
/// The IP addresses that consumers may bind to, with commas between them. An empty list: the addresses that TCP/IP has on the interface.
pub(crate) const ADDRESSES: &str = "Addresses";
/// Groups that may open the control device, besides SYSTEM and administrators: their SIDs, with commas between them.
pub(crate) const GROUPS: &str = "Groups";
