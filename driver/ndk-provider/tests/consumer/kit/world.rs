//! The world of a test: a session of the simulated kernel, a provider, an adapter opened by the consumer.
#![expect(unsafe_code, reason = "closes adapters as NDIS does")]

use std::{net::IpAddr, thread};

use ndk_abi::{ndkpi::NDK_VERSION, status::NTSTATUS};
use ndk_provider::{ObjectCounts, Provider};
use platform::PoolQuota;
use simkernel::{Session, SimKernel, watchdog};

use super::{Adapter, Cq, LIMIT, waiter};

/// A session with an open adapter. Dropping it checks that nothing is left of either.
pub(crate) struct World {
    pub(crate) adapter: Adapter,
    pub(crate) provider: Provider<SimKernel>,
    pub(crate) session: Session,
}

/// The adapter's addresses.
pub(crate) fn addresses() -> [IpAddr; 3] {
    [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]), IpAddr::from([0xFD00, 0, 0, 0, 0, 0, 0, 1])]
}

impl World {
    #[track_caller]
    pub(crate) fn new() -> Self {
        Self::of(simkernel::boot())
    }

    /// A world whose schedule a seed determines.
    #[track_caller]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::of(simkernel::boot_seeded(seed))
    }

    #[track_caller]
    fn of(session: Session) -> Self {
        drop(waiter::take_complaints());
        let provider = Provider::new(&addresses()).expect("a provider");
        let adapter = open_adapter(&provider, 2, 1).expect("an adapter");
        Self { adapter, provider, session }
    }

    /// Opens another adapter, to be closed with [`World::close_adapter`].
    pub(crate) fn open(&self, major: u16, minor: u16) -> Result<Adapter, NTSTATUS> {
        open_adapter(&self.provider, major, minor)
    }

    /// Opens another adapter on behalf of a process.
    pub(crate) fn open_for(&self, major: u16, minor: u16, process: u32) -> Result<Adapter, NTSTATUS> {
        let version = NDK_VERSION { Major: major, Minor: minor };
        self.provider.open_for(version, Some(process), &PoolQuota::UNLIMITED).map(Adapter)
    }

    /// Closes an adapter that was opened besides the world's own.
    pub(crate) fn close_adapter(&self, adapter: Adapter) {
        close_adapter(adapter);
    }

    /// Waits until nothing deferred is left to do.
    pub(crate) fn flush_dpcs(&self) {
        self.session.flush_dpcs();
    }

    /// Checks that a queue stays empty.
    #[track_caller]
    pub(crate) fn assert_empty(&self, cq: &Cq) {
        self.flush_dpcs();
        let results = cq.poll(16);
        assert!(results.is_empty(), "{results:?}");
    }
}

pub(crate) fn open_adapter(provider: &Provider<SimKernel>, major: u16, minor: u16) -> Result<Adapter, NTSTATUS> {
    provider.open(NDK_VERSION { Major: major, Minor: minor }).map(Adapter)
}

/// Closes an adapter as NDIS does: the call blocks until the last object of the adapter is freed.
pub(crate) fn close_adapter(adapter: Adapter) {
    // SAFETY: opened by the provider and closed once; a test that keeps objects stalls here, which the watchdog ends.
    watchdog(LIMIT, || unsafe { Provider::<SimKernel>::close(adapter.0, &simkernel::passive()) });
}

impl Drop for World {
    fn drop(&mut self) {
        let complaints = waiter::take_complaints();
        if thread::panicking() {
            eprintln!("complaints: {complaints:?}");
            return;
        }
        close_adapter(self.adapter);
        self.flush_dpcs();
        assert_eq!(self.provider.object_counts(), ObjectCounts::default());
        let late = waiter::take_complaints();
        assert!(complaints.is_empty() && late.is_empty(), "{complaints:?} {late:?}");
    }
}
