//! Patch cables: each joins two adapters of this machine, whose parameter `CablePeers` is `local` and whose `CableVni` is equal.
//!
//! The ends are joined and parted at PASSIVE_LEVEL, under a mutex for all adapters. A run of one end's deferred call gives its datagrams to the
//! other end, as Winsock Kernel would.
#![expect(unsafe_code, reason = "a kernel mutex in a static")]

use core::net::{IpAddr, Ipv6Addr};

use platform::{Arc, Deferred, OutOfMemory, Passive};

use super::{Cable, Link, opener::Opener};
use crate::{
    mutex::{self, Mutex},
    platform::Windows,
    registry::Registry,
};

/// The address of both ends.
pub(crate) const END: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// The ends that are plugged in.
static PANEL: Mutex<Registry<Cable>> = Mutex::new(Registry::new());

/// Initialises the mutex. DriverEntry calls this once, before any other function of this module.
pub(crate) fn initialize() {
    // SAFETY: a static; DriverEntry calls this once, first.
    unsafe { mutex::initialize(&PANEL) };
}

/// Plugs an end in, and joins it with an end of the same number that no other end is joined with. `false`: there is none.
pub(super) fn join(cable: &Arc<Cable, Windows>, _passive: &Passive<'_>) -> Result<bool, OutOfMemory> {
    let mut panel = PANEL.lock();
    if cable.is_open() {
        return Ok(true);
    }
    if !panel.iter().any(|end| Arc::ptr_eq(end, cable)) {
        panel.insert(cable.clone())?;
    }
    let is_free = |end: &&Arc<Cable, Windows>| !Arc::ptr_eq(end, cable) && end.vni == cable.vni && !end.is_open();
    let Some(other) = panel.iter().find(is_free).cloned() else { return Ok(false) };
    cable.state.lock().link = Some(Link::Patch(other.clone()));
    other.state.lock().link = Some(Link::Patch(cable.clone()));
    drop(panel);
    // The other adapter's work item tells NDIS.
    Opener::queue(&other);
    Ok(true)
}

/// Takes an end out. The end that was joined with it looks for another.
pub(super) fn part(cable: &Arc<Cable, Windows>, _passive: &Passive<'_>) {
    let mut panel = PANEL.lock();
    panel.remove(cable);
    panel.shrink();
    let link = cable.state.lock().link.take();
    let Some(Link::Patch(other)) = link else { return };
    let back = other.state.lock().link.take();
    other.opener.has_parted();
    drop(panel);
    drop(back);
    // Lists that wait end now.
    Deferred::schedule(&other);
    Opener::queue(&other);
}
