//! The host: the provider's device, locked user memory.
//!
//! Conformance's front ends in process have a host of their own, for any platform. This one is for the simulated kernel: it can unmap memory that
//! is locked, keeps the last adapter's quota, and ends the process if memory is unlocked at an IRQL, or with a lock held, where a kernel may not.
#![allow(unsafe_code, reason = "implements the unsafe traits of the host, and closes NDK adapters")]

use std::{
    cell::Cell,
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use nd_ioctl::{AdapterSource, Device, File, Host, Pinned, Request as _};
use ndk_abi::{
    nd_ioctl::IOCTL_ND_MR_REGISTER,
    ndis::NDIS_NDK_CAPABILITIES,
    ndkpi::{NDK_ADAPTER, NDK_ADAPTER_INFO, NDK_VERSION},
    softndk_ioctl::{SOFTNDK_CABLE, SOFTNDK_CABLE_PEER, SOFTNDK_DIAGNOSTICS, SOFTNDK_ENDPOINT, SOFTNDK_FDB_ENTRY},
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION},
    wdm::MDL,
};
use ndk_provider::{MAX_VERSION_2, Provider};
use platform::{PASSIVE_LEVEL, Passive, Platform as _, PoolQuota};
use simkernel::{Mdl, Pages, SimKernel};

use crate::{handles::Handles, request::TestRequest};

pub const ADAPTER_ID: u64 = 0x0600_0000_0000_0007;
pub const ADDRESSES: [IpAddr; 3] =
    [IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)), IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(10, 1, 2, 4))];

thread_local! {
    /// The process of the request that this thread dispatches.
    static PROCESS: Cell<u64> = const { Cell::new(1) };
}

/// Dispatches a request of a process.
pub(crate) fn in_process<R>(process: u64, dispatch: impl FnOnce() -> R) -> R {
    let before = PROCESS.replace(process);
    let returned = dispatch();
    PROCESS.set(before);
    returned
}

/// The processors of group 0.
pub const PROCESSORS: u64 = 0xff;

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the host says of its cable.
#[derive(Clone)]
pub struct Cable {
    pub head: SOFTNDK_CABLE,
    pub peers: Vec<SOFTNDK_CABLE_PEER>,
    /// By their places.
    pub fdb: Vec<Option<SOFTNDK_FDB_ENTRY>>,
}

pub struct TestHost {
    provider: Provider<SimKernel>,
    /// The memory of the user's process.
    pages: Mutex<Vec<Pages>>,
    /// The part of that memory that the process may only read.
    read_only: Mutex<Vec<Pages>>,
    pinned: Arc<AtomicUsize>,
    /// What the last adapter that was opened counts against.
    quota: Mutex<PoolQuota<SimKernel>>,
    files: Handles<Self>,
    cable: Mutex<Option<Cable>>,
}

/// A device with the real provider behind it.
pub fn start() -> Device<TestHost> {
    Device::new(host()).unwrap_or_else(|_| panic!("out of memory"))
}

/// The device of another adapter.
pub fn start_beside(device: &Device<TestHost>) -> Device<TestHost> {
    device.beside(host()).unwrap_or_else(|_| panic!("out of memory"))
}

fn host() -> TestHost {
    let provider = Provider::new(&ADDRESSES).unwrap();
    // A simulated clock moves on whenever nothing else happens.
    provider.set_send_timeout(0);
    TestHost {
        provider,
        pages: Mutex::default(),
        read_only: Mutex::default(),
        pinned: Arc::default(),
        quota: Mutex::new(PoolQuota::UNLIMITED),
        files: Handles::default(),
        cable: Mutex::default(),
    }
}

impl TestHost {
    /// New memory of the user's process.
    pub fn map(&self, pages: usize) -> Pages {
        let pages = Pages::new(pages);
        locked(&self.pages).push(pages.clone());
        pages
    }

    /// Makes it read-only for the user's process.
    pub fn protect(&self, pages: &Pages) {
        locked(&self.read_only).push(pages.clone());
    }

    /// Unmaps it. What is locked of it stays, for the driver.
    pub fn unmap(&self, pages: &Pages) {
        locked(&self.pages).retain(|mapped| mapped.address(0) != pages.address(0));
    }

    /// A handle of a file.
    pub fn handle(&self, file: &Arc<File<Self>>) -> u64 {
        self.files.add(file)
    }

    pub fn provider(&self) -> &Provider<SimKernel> {
        &self.provider
    }

    /// What the last adapter that was opened counts against; it is not kept here then.
    pub fn take_quota(&self) -> PoolQuota<SimKernel> {
        mem::replace(&mut *locked(&self.quota), PoolQuota::UNLIMITED)
    }

    /// The cable of the adapter from now on, which has none at first.
    pub fn set_cable(&self, cable: Cable) {
        *locked(&self.cable) = Some(cable);
    }

    /// Ranges that are locked now.
    pub fn pinned(&self) -> usize {
        self.pinned.load(Ordering::SeqCst)
    }
}

// SAFETY: the provider obeys NDKPI; all its callbacks come from DPCs.
unsafe impl AdapterSource<SimKernel> for TestHost {
    fn open_adapter(
        &self,
        version: NDK_VERSION,
        quota: Option<&PoolQuota<SimKernel>>,
        _: &Passive<'_>,
    ) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
        let Some(quota) = quota else { return self.provider.open(version) };
        *locked(&self.quota) = quota.clone();
        self.provider.open_for(version, u32::try_from(PROCESS.get()).ok(), quota)
    }

    unsafe fn close_adapter(&self, adapter: NonNull<NDK_ADAPTER>, passive: &Passive<'_>) {
        // SAFETY: the caller's promise.
        unsafe { Provider::<SimKernel>::close(adapter, passive) };
    }
}

// SAFETY: the MDLs of simkernel are what they say.
unsafe impl Host for TestHost {
    type Platform = SimKernel;
    type Request = TestRequest;
    type Pinned = Locked;

    /// As much as tests can afford to fill.
    const MAX_PINNED_BYTES: u64 = 64 << 20;
    /// As much as tests can afford to fill.
    const MAX_POOL_BYTES: u64 = 128 << 20;

    fn adapter_id(&self) -> u64 {
        ADAPTER_ID
    }

    fn address(&self, index: usize) -> Option<IpAddr> {
        ADDRESSES.get(index).copied()
    }

    fn processors(&self) -> u64 {
        PROCESSORS
    }

    fn pin(
        &self,
        request: &TestRequest,
        address: u64,
        length: usize,
        write: bool,
        _passive: &Passive<'_>,
    ) -> Result<Locked, NTSTATUS> {
        for pages in locked(&self.pages).iter() {
            let base = pages.address(0).addr().get() as u64;
            let Some(offset) = address.checked_sub(base) else { continue };
            let end = offset.checked_add(length as u64);
            if end.is_some_and(|end| end <= pages.size() as u64) {
                let is_same = |other: &Pages| other.address(0) == pages.address(0);
                if write && locked(&self.read_only).iter().any(is_same) {
                    break;
                }
                self.pinned.fetch_add(1, Ordering::SeqCst);
                let mdl = pages.mdl(offset as usize, length, base);
                let plain = request.code() == IOCTL_ND_MR_REGISTER;
                return Ok(Locked { mdl, plain, count: self.pinned.clone() });
            }
        }
        Err(STATUS_ACCESS_VIOLATION)
    }

    fn file_of_handle<R>(
        &self,
        _request: &TestRequest,
        handle: u64,
        _passive: &Passive<'_>,
        share: impl FnOnce(&File<Self>) -> R,
    ) -> Result<R, NTSTATUS> {
        self.files.file(handle).map(|file| share(&file))
    }

    fn diagnose(&self, diagnostics: &mut SOFTNDK_DIAGNOSTICS) {
        diagnostics.Qps = self.provider.object_counts().qps;
        diagnostics.PinnedBytes = self.pinned() as u64;
    }

    fn counter(&self, place: usize) -> Option<(&'static str, u64)> {
        self.provider.counter(place)
    }

    fn limits(&self) -> (NDK_ADAPTER_INFO, NDIS_NDK_CAPABILITIES) {
        (Provider::<SimKernel>::adapter_info(MAX_VERSION_2), Provider::<SimKernel>::capabilities())
    }

    fn endpoint(&self, place: usize) -> Option<Option<SOFTNDK_ENDPOINT>> {
        self.provider.endpoint(place)
    }

    fn cable(&self) -> Option<SOFTNDK_CABLE> {
        locked(&self.cable).as_ref().map(|cable| cable.head)
    }

    fn cable_peer(&self, place: usize) -> Option<SOFTNDK_CABLE_PEER> {
        locked(&self.cable).as_ref()?.peers.get(place).copied()
    }

    fn cable_fdb_entry(&self, place: usize) -> Option<SOFTNDK_FDB_ENTRY> {
        locked(&self.cable).as_ref()?.fdb.get(place).copied().flatten()
    }
}

pub struct Locked {
    mdl: Mdl,
    /// Of a registered region, which may be big.
    plain: bool,
    count: Arc<AtomicUsize>,
}

// SAFETY: simkernel's MDLs live until they are dropped.
unsafe impl Pinned for Locked {
    fn mdl(&self) -> NonNull<MDL> {
        NonNull::new(self.mdl.as_ptr()).unwrap()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.plain && SimKernel::irql() > PASSIVE_LEVEL {
            eprintln!("memory of a registered region is unlocked at IRQL {}", SimKernel::irql());
            std::process::abort();
        }
        if !simkernel::held_locks().is_empty() {
            eprintln!("memory is unlocked with a spin lock held");
            std::process::abort();
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}
