//! Control codes that the stand-in itself serves, on the driver's control device: an administrator's part, for tests. The loader
//! includes this file, and so does the stand-in for netio, for the adapter's interface.

/// NET_LUID of the adapter: of an Ethernet interface, IfType in the upper 16 bits, a 24-bit index below.
pub(crate) const NET_LUID: u64 = 6 << 48 | 1 << 24;

/// The NET_LUID of an adapter by its number, from 0: further adapters have the next indices but one, which is another card's.
pub(crate) const fn net_luid(number: u32) -> u64 {
    NET_LUID + ((2 * number as u64) << 24)
}

/// The index of its interface. Further adapters have the next ones.
pub(crate) const INTERFACE_INDEX: u32 = 77;

/// Disables RDMA (OID_NDK_SET_STATE), and ends when NetEventNDKDisable has returned.
pub(crate) const DISABLE_NDK: u32 = 0x8000_2000;
/// Enables it.
pub(crate) const ENABLE_NDK: u32 = 0x8000_2004;
/// Has the driver open a name below its device, and ends as that does.
pub(crate) const OPEN_BELOW: u32 = 0x8000_2008;
/// Has the ntoskrnl stand-in look whether its trace session has another level.
pub(crate) const TRACE: u32 = 0x8000_200C;
/// The computer sleeps and wakes up: the adapter is halted and initialised again.
pub(crate) const SLEEP: u32 = 0x8000_2010;
/// The adapter is removed by surprise.
pub(crate) const REMOVE: u32 = 0x8000_2014;
/// The protocol keeps the lists that are indicated, until the next pause.
pub(crate) const HOLD: u32 = 0x8000_2018;
/// The adapter is paused while the protocol keeps lists, and restarted.
pub(crate) const PAUSE: u32 = 0x8000_201C;
/// Has the ntoskrnl stand-in say how much pool is in use.
pub(crate) const POOL: u32 = 0x8000_2020;
