//! Local addresses in use. The port space of the device is its own (IND2Connector::Bind).

use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU16, Ordering},
};

use platform::{Arc, Platform, Slice, SpinLock, Weak};

use crate::{Device, Error, Listener};

/// The first ephemeral port; the last is 65535 (NDK_FN_LISTEN).
const FIRST_EPHEMERAL: u16 = 49_152;
const EPHEMERAL_PORTS: u16 = u16::MAX - FIRST_EPHEMERAL + 1;
const FIRST_ENTRIES: usize = 16;

struct Entry<P: Platform> {
    local: SocketAddr,
    listener: Option<Weak<Listener<P>, P>>,
}

/// The table of a device.
pub(crate) struct Ports<P: Platform> {
    table: SpinLock<Slice<Option<Entry<P>>, P>, P>,
    next: AtomicU16,
}

impl<P: Platform> Default for Ports<P> {
    fn default() -> Self {
        Self { table: SpinLock::<_, P>::new(Slice::empty()), next: AtomicU16::new(0) }
    }
}

/// Which addresses may be bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wildcard {
    /// The unspecified address stands for all of the device's (listeners).
    Allowed,
    /// Only an address of the device.
    Refused,
}

/// A local address in use; free again when the last reference goes.
pub(crate) struct Endpoint<P: Platform> {
    device: Arc<Device<P>, P>,
    slot: usize,
    local: SocketAddr,
}

impl<P: Platform> Endpoint<P> {
    /// Takes a local address; port 0 picks an ephemeral one.
    pub(crate) fn bind(
        device: &Arc<Device<P>, P>,
        local: SocketAddr,
        wildcard: Wildcard,
    ) -> Result<Arc<Self, P>, Error> {
        let unspecified = local.ip().is_unspecified() && wildcard == Wildcard::Allowed;
        if !unspecified && !device.has_address(local.ip()) {
            return Err(Error::InvalidAddress);
        }
        let (slot, local) = device.ports().take(local)?;
        // From here on `endpoint` gives the slot back, also if the allocation of its Arc fails.
        Ok(Arc::try_new(Self { device: device.clone(), slot, local })?)
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Has connects to this address go to `listener`; `None` ends that.
    pub(crate) fn set_listener(&self, listener: Option<Weak<Listener<P>, P>>) {
        let mut table = self.device.ports().table.lock();
        let entry = table.get_mut(self.slot).and_then(Option::as_mut);
        let old = entry.and_then(|entry| core::mem::replace(&mut entry.listener, listener));
        drop(table);
        drop(old);
    }
}

impl<P: Platform> Drop for Endpoint<P> {
    fn drop(&mut self) {
        let mut table = self.device.ports().table.lock();
        let entry = table.get_mut(self.slot).and_then(Option::take);
        drop(table);
        drop(entry);
    }
}

/// Whether two addresses of one family, of which either may stand for all, meet.
fn overlap(a: IpAddr, b: IpAddr) -> bool {
    a.is_ipv4() == b.is_ipv4() && (a == b || a.is_unspecified() || b.is_unspecified())
}

impl<P: Platform> Ports<P> {
    fn take(&self, local: SocketAddr) -> Result<(usize, SocketAddr), Error> {
        let mut larger = Slice::empty();
        loop {
            let mut table = self.table.lock();
            let local = self.choose_port(&table, local)?;
            if let Some((slot, place)) = table.iter_mut().enumerate().find(|(_, entry)| entry.is_none()) {
                *place = Some(Entry { local, listener: None });
                return Ok((slot, local));
            }
            let length = table.len();
            if larger.len() > length {
                for (new, old) in larger.iter_mut().zip(table.iter_mut()) {
                    core::mem::swap(new, old);
                }
                core::mem::swap(&mut *table, &mut larger);
                continue;
            }
            drop(table);
            larger = Slice::from_fn(length.saturating_mul(2).max(FIRST_ENTRIES), |_| None)?;
        }
    }

    fn choose_port(&self, table: &[Option<Entry<P>>], local: SocketAddr) -> Result<SocketAddr, Error> {
        let in_use = |candidate: SocketAddr| {
            let mut entries = table.iter().flatten();
            entries.any(|entry| entry.local.port() == candidate.port() && overlap(entry.local.ip(), candidate.ip()))
        };
        if local.port() != 0 {
            return if in_use(local) { Err(Error::SharingViolation) } else { Ok(local) };
        }
        let start = self.next.load(Ordering::Relaxed);
        let candidates = (0..EPHEMERAL_PORTS).map(|distance| {
            let port = FIRST_EPHEMERAL.saturating_add(start.wrapping_add(distance) % EPHEMERAL_PORTS);
            SocketAddr::new(local.ip(), port)
        });
        // At most one more candidate than there are entries is looked at.
        let mut candidates = candidates.take(table.len().saturating_add(1));
        let chosen = candidates.find(|&candidate| !in_use(candidate)).ok_or(Error::TooManyAddresses)?;
        // The search goes on behind it, so that a run of used ports is passed once, not at every bind.
        self.next.store(chosen.port().wrapping_sub(FIRST_EPHEMERAL).wrapping_add(1), Ordering::Relaxed);
        Ok(chosen)
    }

    /// Who listens on `remote`.
    pub(crate) fn listener(&self, remote: SocketAddr) -> Option<Arc<Listener<P>, P>> {
        let table = self.table.lock();
        let mut entries = table.iter().flatten().filter(|entry| {
            entry.listener.is_some() && entry.local.port() == remote.port() && overlap(entry.local.ip(), remote.ip())
        });
        entries.next().and_then(|entry| entry.listener.as_ref()).and_then(Weak::upgrade)
    }
}
