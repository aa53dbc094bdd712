//! Local addresses and connections in use. The port space of the device is its own (IND2Connector::Bind).

mod free;
mod list;

use free::Free;
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
/// Candidates that are looked at in one go, where each port is in use at some address.
const TRIED: u16 = 64;
/// Chains of entries, so that looking for a free port does not take the square of their number.
const CHAINS: usize = 4_096;
/// A connector has an address and a connection, a listener an address and that it listens there.
const _: () = assert!((2 * limits::CONNECTORS + 2 * limits::LISTENERS + limits::SHARED_ENDPOINTS) as usize <= CAPACITY);

/// What an address is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Connector,
    SharedEndpoint,
    /// The unspecified address stands for all of the device's.
    Listener,
}

/// What is in use.
enum Claim<P: Platform> {
    Address {
        local: SocketAddr,
        process: Option<u32>,
        purpose: Purpose,
    },
    /// `listens`: not any more, once it is being closed.
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

struct Entry<P: Platform> {
    claim: Claim<P>,
    /// The next one of the same chain.
    next: Option<usize>,
}

struct Table<P: Platform> {
    /// The first entry of each.
    chains: Slice<Option<usize>, P>,
    entries: SlotMap<Entry<P>, P>,
    free: Free<P>,
}

/// The table of a device. Its lock comes last: no other is taken while it is held.
pub(crate) struct Ports<P: Platform> {
    table: SpinLock<Table<P>, P>,
    next: AtomicU16,
}

/// A place in the table; free again when dropped.
struct Place<P: Platform> {
    device: Arc<Device<P>, P>,
    number: usize,
}

impl<P: Platform> Drop for Place<P> {
    fn drop(&mut self) {
        let claim = self.device.ports().table.lock().remove(self.number);
        drop(claim);
    }
}

/// A local address in use.
pub(crate) struct Endpoint<P: Platform> {
    _place: Place<P>,
    local: SocketAddr,
}

impl<P: Platform> Endpoint<P> {
    /// Takes a local address; port 0 picks an ephemeral one.
    pub(crate) fn bind(adapter: &Adapter<P>, local: SocketAddr, purpose: Purpose) -> Result<Self, Error> {
        Self::check(adapter, local, purpose)?;
        let mut bound = local;
        let start = adapter.device().ports().next.load(Ordering::Relaxed);
        // The lock is held for one go only.
        for go in 0..EPHEMERAL_PORTS / TRIED {
            let taken = Place::take(adapter.device(), |ports, table| {
                bound = ports.choose_port(table, local, start, go)?;
                Ok(Claim::Address { local: bound, process: adapter.process(), purpose })
            });
            match taken {
                Ok(place) => return Ok(Self { _place: place, local: bound }),
                Err(Error::TooManyAddresses) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::TooManyAddresses)
    }

    /// Whether the address is the device's.
    pub(crate) fn check(adapter: &Adapter<P>, local: SocketAddr, purpose: Purpose) -> Result<(), Error> {
        let unspecified = local.ip().is_unspecified() && purpose == Purpose::Listener;
        let own = unspecified || adapter.device().has_address(local.ip());
        if own { Ok(()) } else { Err(Error::InvalidAddress) }
    }

    /// Takes what TCP has picked for a listener. Whoever has the same here is no listener.
    pub(crate) fn of_tcp(adapter: &Adapter<P>, local: SocketAddr) -> Result<Self, Error> {
        let (process, purpose) = (adapter.process(), Purpose::Listener);
        let place = Place::take(adapter.device(), |_, _| Ok(Claim::Address { local, process, purpose }))?;
        Ok(Self { _place: place, local })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }
}

/// Connects to an address go to a listener. Until this is dropped it is found there, also when it does not listen any more.
pub(crate) struct Listening<P: Platform>(Place<P>);

impl<P: Platform> Listening<P> {
    pub(crate) fn enter(listener: &Arc<Listener<P>, P>, local: SocketAddr) -> Result<Self, Error> {
        let (adapter, listener) = (listener.adapter(), Arc::downgrade(listener));
        let process = adapter.process();
        let claim = || Claim::Listener { local, process, listener: listener.clone(), listens: true };
        Place::take(adapter.device(), |_, _| Ok(claim())).map(Self)
    }

    /// It listens no more: another listener of the same address is found first, and it is not listed.
    pub(crate) fn end(&self) {
        let mut table = self.0.device.ports().table.lock();
        if let Some(Claim::Listener { listens, .. }) = table.claim_mut(self.0.number) {
            *listens = false;
        }
    }
}

/// One side of a connection, or of an attempt at one. Counted as active from when it is established until it is dropped.
pub(crate) struct Connection<P: Platform> {
    place: Place<P>,
    local: SocketAddr,
    active: bool,
    established: bool,
}

impl<P: Platform> Connection<P> {
    /// Enters an active side, of which there is one for each pair of addresses: [`Error::AddressAlreadyExists`]. Without a port it
    /// has no pair yet.
    pub(crate) fn active(
        adapter: &Adapter<P>,
        (local, remote): (SocketAddr, SocketAddr),
        over_tcp: bool,
    ) -> Result<Self, Error> {
        let side = ConnectionSide { local, remote, process: adapter.process(), over_tcp };
        let place = Place::take(adapter.device(), |_, table| {
            let exists = table.chain(chain_of_connection(local, remote)).any(|claim| match claim {
                Claim::Connection { side, active: true, .. } => (side.local, side.remote) == (local, remote),
                _ => false,
            });
            if exists && local.port() != 0 {
                return Err(Error::AddressAlreadyExists);
            }
            Ok(Claim::Connection { side, active: true, established: false })
        })?;
        Ok(Self { place, local, active: true, established: false })
    }

    /// Enters a passive side. It may outlive its active one, so it stands in the way of no other.
    pub(crate) fn passive(
        adapter: &Adapter<P>,
        (local, remote): (SocketAddr, SocketAddr),
        over_tcp: bool,
    ) -> Result<Self, Error> {
        let side = ConnectionSide { local, remote, process: adapter.process(), over_tcp };
        let claim = |_: &Ports<P>, _: &Table<P>| Ok(Claim::Connection { side, active: false, established: false });
        let place = Place::take(adapter.device(), claim)?;
        Ok(Self { place, local, active: false, established: false })
    }

    /// Its own address, as it was entered.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn establish(&mut self) {
        self.established = true;
        let mut table = self.place.device.ports().table.lock();
        if let Some(Claim::Connection { established, .. }) = table.claim_mut(self.place.number) {
            *established = true;
        }
        drop(table);
        self.place.device.counters().connected(self.active);
    }
}

impl<P: Platform> Drop for Connection<P> {
    fn drop(&mut self) {
        if self.established {
            self.place.device.counters().disconnected();
        }
    }
}

/// Whether two addresses of one family, of which either may stand for all, meet.
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
        // The upper bits depend on all of the word, the lower ones do not.
        mixed ^ mixed >> 32
    });
    hash as usize % CHAINS
}

impl<P: Platform> Claim<P> {
    /// The port that it keeps others from.
    fn port(&self) -> Option<u16> {
        match self {
            Self::Address { local, .. } => Some(local.port()),
            Self::Listener { .. } | Self::Connection { .. } => None,
        }
    }

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

    /// Enters a claim, if there is a place.
    fn insert(&mut self, claim: Claim<P>) -> Option<usize> {
        let taken = claim.port();
        let first = self.chains.get_mut(claim.chain())?;
        let number = self.entries.insert(Entry { claim, next: *first }).ok()?;
        *first = Some(number);
        if let Some(port) = taken {
            self.free.set(port, false);
        }
        Some(number)
    }

    fn remove(&mut self, number: usize) -> Option<Claim<P>> {
        let claim = self.unchain(number)?;
        if let Some(port) = claim.port() {
            let is_free = self.chain(chain_of_port(port)).all(|other| other.port() != Some(port));
            self.free.set(port, is_free);
        }
        Some(claim)
    }

    fn unchain(&mut self, number: usize) -> Option<Claim<P>> {
        let Entry { claim, next } = self.entries.remove(number)?;
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

impl<P: Platform> Place<P> {
    /// Enters what `claim` makes of the table.
    fn take(
        device: &Arc<Device<P>, P>,
        mut claim: impl FnMut(&Ports<P>, &Table<P>) -> Result<Claim<P>, Error>,
    ) -> Result<Self, Error> {
        let ports = device.ports();
        let mut chunk = None;
        loop {
            let mut table = ports.table.lock();
            // Who was faster has made room too.
            let surplus = chunk.take().and_then(|chunk| table.entries.grow(chunk));
            let entered = claim(ports, &table).map(|claim| table.insert(claim));
            let places = table.entries.places();
            drop(table);
            drop(surplus);
            if let Some(number) = entered? {
                return Ok(Self { device: device.clone(), number });
            }
            chunk = Some(SlotMap::chunk(places, &PoolQuota::UNLIMITED)?);
        }
    }
}

impl<P: Platform> Ports<P> {
    /// An empty table. IRQL <= DISPATCH.
    pub(crate) fn new() -> Result<Self, Error> {
        let entries = SlotMap::new(PoolQuota::UNLIMITED.no_charge());
        let table = Table { chains: Slice::filled(CHAINS, None)?, entries, free: Free::new()? };
        Ok(Self { table: SpinLock::<_, P>::new(table), next: AtomicU16::new(0) })
    }

    /// Port 0 becomes one that is in use at no address; when there is none, one of the candidates of this `go` that is free at `local`.
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
        let unused = table.free.next(ephemeral(start)).map(|port| SocketAddr::new(local.ip(), port));
        let chosen = unused.or_else(|| {
            let first = go.saturating_mul(TRIED);
            let mut candidates = (first..first.saturating_add(TRIED))
                .map(|distance| SocketAddr::new(local.ip(), ephemeral(start.wrapping_add(distance))));
            candidates.find(|&candidate| !in_use(candidate))
        });
        let chosen = chosen.ok_or(Error::TooManyAddresses)?;
        // The next bind gets another one, also if this one is free again by then.
        self.next.store(chosen.port().wrapping_sub(FIRST_EPHEMERAL).wrapping_add(1), Ordering::Relaxed);
        Ok(chosen)
    }

    /// Who listens on `remote`; if nobody does, who has just stopped to.
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
