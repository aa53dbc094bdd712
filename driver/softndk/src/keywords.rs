//! The keywords that the driver reads from an adapter's software key, and what holds without them. `cargo xtask lint-inf` includes
//! this file, and wants inf/softndk.inx to offer these, with these defaults.

/// A keyword that is 0 or 1. Any other value is as none.
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) default: bool,
}

/// A keyword that is a number, from 0 to `max`. Any other value is as none.
pub(crate) struct Number {
    pub(crate) name: &'static str,
    pub(crate) default: u32,
    pub(crate) max: u32,
}

/// Whether the adapter offers RDMA.
pub(crate) const NETWORK_DIRECT: Flag = Flag { name: "*NetworkDirect", default: true };
/// Whether connections with other machines have CRCs even if the peer asks for none.
pub(crate) const CRC: Flag = Flag { name: "Crc", default: false };
/// Seconds that a send of a program waits for a receive of its peer. 0: without limit; over TCP 5 s.
pub(crate) const SEND_TIMEOUT: Number = Number { name: "SendTimeout", default: 4, max: 3600 };
/// A list of IP addresses with commas between them: those that consumers may bind to. None: those that TCP/IP holds on the interface.
pub(crate) const ADDRESSES: &str = "Addresses";
/// A list of groups, by their SIDs with commas between them, that may open the control device. None: SYSTEM and administrators only.
pub(crate) const GROUPS: &str = "Groups";
