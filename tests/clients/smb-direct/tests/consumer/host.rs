//! The simulated kernel with one provider.
#![expect(unsafe_code, reason = "implements unsafe traits: adapters and memory go by pointer")]

use std::{
    net::{IpAddr, Ipv6Addr},
    ptr::NonNull,
    time::Duration,
};

use ndk_abi::{
    ndkpi::{NDK_ADAPTER, NDK_VERSION},
    status::NTSTATUS,
    wdm::MDL,
};
use ndk_consumer::{AdapterSource, Pinned};
use ndk_provider::{ObjectCounts, Provider};
use platform::{Passive, PoolQuota};
use simkernel::{Mdl, SimKernel, watchdog};
use smb_direct::{Consumer, Kernel, Report, Scenario};

/// Longer than any scenario takes.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Host {
    provider: Provider<SimKernel>,
    address: IpAddr,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::at(IpAddr::from([10, 0, 0, 1]))
    }

    pub(crate) fn ipv6() -> Self {
        Self::at(IpAddr::V6(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 1)))
    }

    pub(crate) fn at(address: IpAddr) -> Self {
        Self { provider: Provider::new(&[address]).unwrap(), address }
    }

    pub(crate) fn provider(&self) -> &Provider<SimKernel> {
        &self.provider
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether a consumer has objects.
    pub(crate) fn is_used(&self) -> bool {
        self.provider.object_counts() != ObjectCounts::default()
    }

    /// Runs a scenario; nothing may be left of it.
    #[track_caller]
    pub(crate) fn run(&self, scenario: Scenario) -> Result<Report, NTSTATUS> {
        let report = watchdog(LIMIT, || Consumer::default().run(self, scenario, &simkernel::passive()));
        assert_eq!(self.provider.object_counts(), ObjectCounts::default(), "{scenario:?}");
        report
    }
}

// SAFETY: the provider obeys NDKPI; all its callbacks come from DPCs.
unsafe impl AdapterSource<SimKernel> for Host {
    fn open_adapter(
        &self,
        version: NDK_VERSION,
        _: Option<&PoolQuota<SimKernel>>,
        _: &Passive<'_>,
    ) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
        self.provider.open(version)
    }

    unsafe fn close_adapter(&self, adapter: NonNull<NDK_ADAPTER>, passive: &Passive<'_>) {
        // SAFETY: the caller's contract is the same.
        unsafe { Provider::<SimKernel>::close(adapter, passive) };
    }
}

// SAFETY: the MDL is of the memory that was given.
unsafe impl Kernel for Host {
    type Platform = SimKernel;
    type Mdl = HostMdl;

    unsafe fn describe(memory: NonNull<u8>, length: usize) -> Option<HostMdl> {
        // SAFETY: the caller keeps the memory for longer than the MDL.
        Some(HostMdl(unsafe { Mdl::lock(memory, length) }))
    }

    fn address(&self) -> Option<IpAddr> {
        Some(self.address)
    }
}

pub(crate) struct HostMdl(Mdl);

// SAFETY: simkernel's MDLs live until they are dropped.
unsafe impl Pinned for HostMdl {
    fn mdl(&self) -> NonNull<MDL> {
        NonNull::new(self.0.as_ptr()).unwrap()
    }
}
