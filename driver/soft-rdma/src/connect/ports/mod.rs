//! The table of local addresses and connections in use. The device's port space is its own (IND2Connector::Bind), beside TCP's.
//! With all 16,384 ephemeral ports in use a bind of port 0 fails after 0.2 ms (docs/decisions.md).

mod list;

pub use list::{ConnectionSide, InUse, LocalEndpoint, Use};

use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU16, Ordering},
};

use platform::{Arc, Platform, PoolQuota, Slice, SpinLock, Weak};

use crate::{
    Adapter, Device, Error, Listener, limits,
    slot_map::{CAPACITY, SlotMap},
};

/// The first ephemeral port; the last is 65535 (NDK_FN_LISTEN).
const FIRST_EPHEMERAL: u16 = 49_152;
const EPHEMERAL_PORTS: u16 = u16::MAX - FIRST_EPHEMERAL + 1;
/// Ports that a bind tries in one hold of the lock.
const TRIED: u16 = 64;
/// Hash chains of the table, so that a search for a free port is not quadratic in the number of ports in use.
const CHAINS: usize = 4_096;
/// A connector has two entries, an address and a connection; a listener too, an address and its listening entry.
const _: () = assert!((2 * limits::CONNECTORS + 2 * limits::LISTENERS + limits::SHARED_ENDPOINTS) as usize <= CAPACITY);

/// What an address is bound for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Connector,
    SharedEndpoint,
    /// The unspecified address stands for all addresses of the device.
    Listener,
}

/// What an entry of the table is for.
enum Claim<P: Platform> {
    Address {
        local: SocketAddr,
        process: Option<u32>,
        purpose: Purpose,
    },
    /// The listening entry of a listener. `listens` is false when the listener is closing.
    Listener {
        local: SocketAddr,
        process: Option<u32>,
        listener: Weak<Listener<P>, P>,
        listens: bool,
    },
    Connection {
        side: ConnectionSide,
        active: bool,
        established: bool,
    },
}

struct PortEntry<P: Platform> {
    claim: Claim<P>,
    /// The next entry of the chain.
    next: Option<usize>,
}

struct Table<P: Platform> {
    /// The first entry of each chain.
    chains: Slice<Option<usize>, P>,
    entries: SlotMap<PortEntry<P>, P>,
}

/// The table of a device. No other lock is taken while its lock is held.
pub(crate) struct Ports<P: Platform> {
    table: SpinLock<Table<P>, P>,
    next: AtomicU16,
}

/// The slot of an entry in the table. The drop of the slot removes the entry.
struct PortSlot<P: Platform> {
    device: Arc<Device<P>, P>,
    number: usize,
}

impl<P: Platform> Drop for PortSlot<P> {
    fn drop(&mut self) {
        let claim = self.device.ports().table.lock().remove(self.number);
        drop(claim);
    }
}

/// A local address in use.
pub(crate) struct Endpoint<P: Platform> {
    _slot: PortSlot<P>,
    local: SocketAddr,
}

impl<P: Platform> Endpoint<P> {
    /// Takes a local address; port 0 picks an ephemeral one.
    pub(crate) fn bind(adapter: &Adapter<P>, local: SocketAddr, purpose: Purpose) -> Result<Self, Error> {
        Self::check(adapter, local, purpose)?;
        let mut bound = local;
        let start = adapter.device().ports().next.load(Ordering::Relaxed);
        // Each round holds the lock once, and again if the table has to grow.
        for go in 0..EPHEMERAL_PORTS / TRIED {
            let taken = PortSlot::take(adapter.device(), |ports, table| {
                bound = ports.choose_port(table, local, start, go)?;
                Ok(Claim::Address { local: bound, process: adapter.process(), purpose })
            });
            match taken {
                Ok(slot) => return Ok(Self { _slot: slot, local: bound }),
                Err(Error::TooManyAddresses) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::TooManyAddresses)
    }

    /// Whether an object may be bound to the address: the device has it, or it is the unspecified address of a listener.
    pub(crate) fn check(adapter: &Adapter<P>, local: SocketAddr, purpose: Purpose) -> Result<(), Error> {
        let unspecified = local.ip().is_unspecified() && purpose == Purpose::Listener;
        let own = unspecified || adapter.device().has_address(local.ip());
        if own { Ok(()) } else { Err(Error::InvalidAddress) }
    }

    /// Enters the address that TCP picked for a listener. No other listener has it; an object in the device's own port space may have an equal one.
    pub(crate) fn of_tcp(adapter: &Adapter<P>, local: SocketAddr) -> Result<Self, Error> {
        let (process, purpose) = (adapter.process(), Purpose::Listener);
        let slot = PortSlot::take(adapter.device(), |_, _| Ok(Claim::Address { local, process, purpose }))?;
        Ok(Self { _slot: slot, local })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }
}

/// The entry through which connects find a listener, also after [`Self::end`], until dropped.
pub(crate) struct Listening<P: Platform>(PortSlot<P>);

impl<P: Platform> Listening<P> {
    pub(crate) fn enter(listener: &Arc<Listener<P>, P>, local: SocketAddr) -> Result<Self, Error> {
        let (adapter, listener) = (listener.adapter(), Arc::downgrade(listener));
        let process = adapter.process();
        let claim = || Claim::Listener { local, process, listener: listener.clone(), listens: true };
        PortSlot::take(adapter.device(), |_, _| Ok(claim())).map(Self)
    }

    /// The listener is closing: connects find another listener on the address first, and [`Ports::local_endpoints`] does not list this one.
    pub(crate) fn end(&self) {
        let mut table = self.0.device.ports().table.lock();
        if let Some(Claim::Listener { listens, .. }) = table.claim_mut(self.0.number) {
            *listens = false;
        }
    }
}

/// One side of a connection, or of an attempt to connect. The counters count the side as an active connection from `establish` until it is dropped.
pub(crate) struct Connection<P: Platform> {
    slot: PortSlot<P>,
    local: SocketAddr,
    active: bool,
    established: bool,
}

impl<P: Platform> Connection<P> {
    /// Enters an active side. [`Error::AddressAlreadyExists`] if another active side has the same two addresses. A side with local port 0, which
    /// TCP will replace, is no duplicate.
    pub(crate) fn active(
        adapter: &Adapter<P>,
        (local, remote): (SocketAddr, SocketAddr),
        over_tcp: bool,
    ) -> Result<Self, Error> {
        let side = ConnectionSide { local, remote, process: adapter.process(), over_tcp };
        let slot = PortSlot::take(adapter.device(), |_, table| {
            let exists = table.chain(chain_of_connection(local, remote)).any(|claim| match claim {
                Claim::Connection { side, active: true, .. } => (side.local, side.remote) == (local, remote),
                _ => false,
            });
            if exists && local.port() != 0 {
                return Err(Error::AddressAlreadyExists);
            }
            Ok(Claim::Connection { side, active: true, established: false })
        })?;
        Ok(Self { slot, local, active: true, established: false })
    }

    /// Enters a passive side. It may outlive its active side, so it does not block a new active side with the same addresses.
    pub(crate) fn passive(
        adapter: &Adapter<P>,
        (local, remote): (SocketAddr, SocketAddr),
        over_tcp: bool,
    ) -> Result<Self, Error> {
        let side = ConnectionSide { local, remote, process: adapter.process(), over_tcp };
        let claim = |_: &Ports<P>, _: &Table<P>| Ok(Claim::Connection { side, active: false, established: false });
        let slot = PortSlot::take(adapter.device(), claim)?;
        Ok(Self { slot, local, active: false, established: false })
    }

    /// The local address that was entered.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn device(&self) -> &Device<P> {
        &self.slot.device
    }

    pub(crate) fn establish(&mut self) {
        self.established = true;
        let mut table = self.slot.device.ports().table.lock();
        if let Some(Claim::Connection { established, .. }) = table.claim_mut(self.slot.number) {
            *established = true;
        }
        drop(table);
        self.slot.device.counters().connected(self.active);
    }
}

impl<P: Platform> Drop for Connection<P> {
    fn drop(&mut self) {
        if self.established {
            self.slot.device.counters().disconnected();
        }
    }
}

/// Whether two addresses are of one family, and are equal or one of them is unspecified.
fn overlap(a: IpAddr, b: IpAddr) -> bool {
    a.is_ipv4() == b.is_ipv4() && (a == b || a.is_unspecified() || b.is_unspecified())
}

fn chain_of_port(port: u16) -> usize {
    usize::from(port) % CHAINS
}

/// FNV-1a, by words.
fn chain_of_connection(local: SocketAddr, remote: SocketAddr) -> usize {
    let words = [local, remote].map(|address| {
        let ip = match address.ip() {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        (ip >> 64) as u64 ^ ip as u64 ^ u64::from(address.port()) << 48
    });
    let hash = words.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(0x0100_0000_01B3);
        // After the product only the upper bits depend on the whole word: folds them into the lower ones.
        mixed ^ mixed >> 32
    });
    hash as usize % CHAINS
}

impl<P: Platform> Claim<P> {
    fn chain(&self) -> usize {
        match self {
            Self::Address { local, .. } | Self::Listener { local, .. } => chain_of_port(local.port()),
            Self::Connection { side, .. } => chain_of_connection(side.local, side.remote),
        }
    }
}

impl<P: Platform> Table<P> {
    fn claim_mut(&mut self, number: usize) -> Option<&mut Claim<P>> {
        Some(&mut self.entries.get_mut(number)?.claim)
    }

    /// The claims of a chain.
    fn chain(&self, chain: usize) -> impl Iterator<Item = &Claim<P>> {
        let mut next = self.chains.get(chain).copied().flatten();
        core::iter::from_fn(move || {
            let entry = self.entries.get(next?)?;
            next = entry.next;
            Some(&entry.claim)
        })
    }

    /// Enters a claim; `None`: no slot is free.
    fn insert(&mut self, claim: Claim<P>) -> Option<usize> {
        let first = self.chains.get_mut(claim.chain())?;
        let number = self.entries.insert(PortEntry { claim, next: *first }).ok()?;
        *first = Some(number);
        Some(number)
    }

    fn remove(&mut self, number: usize) -> Option<Claim<P>> {
        let PortEntry { claim, next } = self.entries.remove(number)?;
        let first = self.chains.get_mut(claim.chain())?;
        if *first == Some(number) {
            *first = next;
            return Some(claim);
        }
        let mut before = *first;
        while let Some(entry) = before.and_then(|before| self.entries.get_mut(before)) {
            if entry.next == Some(number) {
                entry.next = next;
                break;
            }
            before = entry.next;
        }
        Some(claim)
    }
}

impl<P: Platform> PortSlot<P> {
    /// Enters the claim that `claim` returns. `claim` sees the table under the lock, and may be called again after the table has grown.
    fn take(
        device: &Arc<Device<P>, P>,
        mut claim: impl FnMut(&Ports<P>, &Table<P>) -> Result<Claim<P>, Error>,
    ) -> Result<Self, Error> {
        let ports = device.ports();
        let mut chunk = None;
        loop {
            let mut table = ports.table.lock();
            // Another thread may have added a chunk first.
            let surplus = chunk.take().and_then(|chunk| table.entries.grow(chunk));
            let entered = claim(ports, &table).map(|claim| table.insert(claim));
            let slots = table.entries.slots();
            drop(table);
            drop(surplus);
            if let Some(number) = entered? {
                return Ok(Self { device: device.clone(), number });
            }
            chunk = Some(SlotMap::chunk(slots, &PoolQuota::UNLIMITED)?);
        }
    }
}

impl<P: Platform> Ports<P> {
    /// An empty table. IRQL <= DISPATCH.
    pub(crate) fn new() -> Result<Self, Error> {
        let entries = SlotMap::new(PoolQuota::UNLIMITED.no_charge());
        let table = Table { chains: Slice::filled(CHAINS, None)?, entries };
        Ok(Self { table: SpinLock::<_, P>::new(table), next: AtomicU16::new(0) })
    }

    /// The address of a bind: `local`, if its port is not 0 and free. For port 0, the first port, among those tried in round `go`, that is free at
    /// `local`'s address.
    fn choose_port(&self, table: &Table<P>, local: SocketAddr, start: u16, go: u16) -> Result<SocketAddr, Error> {
        let in_use = |candidate: SocketAddr| {
            table.chain(chain_of_port(candidate.port())).any(|claim| match claim {
                Claim::Address { local, .. } => local.port() == candidate.port() && overlap(local.ip(), candidate.ip()),
                Claim::Listener { .. } | Claim::Connection { .. } => false,
            })
        };
        if local.port() != 0 {
            return if in_use(local) { Err(Error::SharingViolation) } else { Ok(local) };
        }
        let ephemeral = |number: u16| FIRST_EPHEMERAL.saturating_add(number % EPHEMERAL_PORTS);
        let first = go.saturating_mul(TRIED);
        let mut candidates = (first..first.saturating_add(TRIED))
            .map(|distance| SocketAddr::new(local.ip(), ephemeral(start.wrapping_add(distance))));
        let chosen = candidates.find(|&candidate| !in_use(candidate)).ok_or(Error::TooManyAddresses)?;
        // The next bind starts behind this port, so that a port is not reused at once when it is freed.
        self.next.store(chosen.port().wrapping_sub(FIRST_EPHEMERAL).wrapping_add(1), Ordering::Relaxed);
        Ok(chosen)
    }

    /// The listener on `remote`; if there is none, a closing one.
    pub(crate) fn listener(&self, remote: SocketAddr) -> Option<Arc<Listener<P>, P>> {
        let table = self.table.lock();
        let find = |wanted: bool| {
            table.chain(chain_of_port(remote.port())).find_map(|claim| match claim {
                Claim::Listener { local, listener, listens, .. }
                    if *listens == wanted && local.port() == remote.port() && overlap(local.ip(), remote.ip()) =>
                {
                    listener.upgrade()
                }
                _ => None,
            })
        };
        find(true).or_else(|| find(false))
    }
}
