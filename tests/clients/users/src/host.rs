//! The host: the provider's device, requests with a cancel routine, locked user memory.
#![allow(unsafe_code, reason = "implements the unsafe traits of the host, and closes NDK adapters")]

use std::{
    collections::BTreeMap,
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nd_ioctl::{AdapterSource, Device, File, Host, Pinned, Request};
use ndk_abi::{
    nd_ioctl::IOCTL_ND_MR_REGISTER,
    ndis::NDIS_NDK_CAPABILITIES,
    ndkpi::{NDK_ADAPTER, NDK_ADAPTER_INFO, NDK_VERSION},
    softndk_ioctl::{SOFTNDK_DIAGNOSTICS, SOFTNDK_ENDPOINT},
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_INVALID_HANDLE, STATUS_PENDING},
    wdm::MDL,
};
use ndk_provider::{MAX_VERSION_2, Provider};
use platform::{PASSIVE_LEVEL, Passive, Platform as _, PoolQuota};
use simkernel::{Mdl, Pages, SimKernel};

pub const ADAPTER_ID: u64 = 0x0600_0000_0000_0007;
pub const ADDRESSES: [IpAddr; 3] =
    [IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)), IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(10, 1, 2, 4))];

/// The processors of group 0.
pub const PROCESSORS: u64 = 0xff;

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// The handles of files, of all processes.
    files: Mutex<BTreeMap<u64, Weak<File<Self>>>>,
}

/// A device with the real provider behind it.
pub fn start() -> Device<TestHost> {
    let provider = Provider::new(&ADDRESSES).unwrap();
    // A simulated clock moves on whenever nothing else happens.
    provider.set_send_timeout(0);
    let host = TestHost {
        provider,
        pages: Mutex::default(),
        read_only: Mutex::default(),
        pinned: Arc::default(),
        quota: Mutex::new(PoolQuota::UNLIMITED),
        files: Mutex::default(),
    };
    Device::new(host).unwrap_or_else(|_| panic!("out of memory"))
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
        let mut files = locked(&self.files);
        let handle = 4 * (files.len() as u64 + 1);
        files.insert(handle, Arc::downgrade(file));
        handle
    }

    pub fn provider(&self) -> &Provider<SimKernel> {
        &self.provider
    }

    /// What the last adapter that was opened counts against; it is not kept here then.
    pub fn take_quota(&self) -> PoolQuota<SimKernel> {
        mem::replace(&mut *locked(&self.quota), PoolQuota::UNLIMITED)
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
        self.provider.open_for(version, Some(1), quota)
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
                let plain = request.code == IOCTL_ND_MR_REGISTER;
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
        let file = locked(&self.files).get(&handle).and_then(Weak::upgrade);
        Ok(share(&*file.ok_or(STATUS_INVALID_HANDLE)?))
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

/// What the user's side and the kernel's side of a request share.
#[derive(Default)]
pub struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    /// The output buffer is one that cannot be written.
    unwritable: bool,
    /// The identifier the cancel routine is to be called with, while there is a cancel routine.
    routine: Option<u64>,
    cancelled: bool,
    marked_pending: bool,
    result: Option<(NTSTATUS, usize, Vec<u8>)>,
    /// Which of all completions this was.
    order: usize,
}

static ORDER: AtomicUsize = AtomicUsize::new(0);

impl Shared {
    /// CancelIoEx.
    pub fn cancel(&self, file: &File<TestHost>) {
        let mut state = locked(&self.0);
        state.cancelled = true;
        let routine = state.routine.take();
        drop(state);
        if let Some(id) = routine {
            file.cancel(id);
        }
    }

    /// The cancel routine of the I/O manager begins, but does not get on: gives what it will call `cancel` with.
    pub fn begin_cancel(&self) -> Option<u64> {
        let mut state = locked(&self.0);
        state.cancelled = true;
        state.routine.take()
    }

    pub fn cancel_before_it_is_sent(&self) {
        locked(&self.0).cancelled = true;
    }

    /// The user's output buffer is freed before the request is completed.
    pub fn lose_its_output(&self) {
        locked(&self.0).unwritable = true;
    }

    pub fn result(&self) -> Option<(NTSTATUS, usize, Vec<u8>)> {
        locked(&self.0).result.clone()
    }

    pub fn order(&self) -> usize {
        locked(&self.0).order
    }

    pub fn was_marked_pending(&self) -> bool {
        locked(&self.0).marked_pending
    }

    pub fn wait(&self, limit: Duration) -> Option<(NTSTATUS, usize, Vec<u8>)> {
        let end = Instant::now() + limit;
        while self.result().is_none() && Instant::now() < end {
            simkernel::pause();
        }
        self.result()
    }
}

pub struct TestRequest {
    code: u32,
    input: usize,
    output: usize,
    /// Input and output share it, as with METHOD_BUFFERED.
    buffer: Vec<u8>,
    shared: Arc<Shared>,
    completed: bool,
}

impl TestRequest {
    pub fn new(code: u32, input: &[u8], output: usize, shared: Arc<Shared>) -> Self {
        let mut buffer = input.to_vec();
        buffer.resize(input.len().max(output), 0);
        Self { code, input: input.len(), output, buffer, shared, completed: false }
    }
}

impl Request for TestRequest {
    fn code(&self) -> u32 {
        self.code
    }

    fn input(&self) -> &[u8] {
        &self.buffer[..self.input]
    }

    fn output(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.output]
    }

    fn output_length(&self) -> usize {
        self.output
    }

    fn complete(mut self, mut status: NTSTATUS, mut information: usize) -> NTSTATUS {
        assert_eq!(simkernel::held_locks(), [0usize; 0], "completed with a lock held");
        assert!(information <= self.output || status == STATUS_BUFFER_OVERFLOW, "{information} of {}", self.output);
        let mut state = locked(&self.shared.0);
        if state.unwritable && information > 0 && status.to_u32() >> 30 != 3 {
            // As softndk.sys does it.
            (status, information) = (STATUS_ACCESS_VIOLATION, 0);
        }
        let returned = self.buffer[..information.min(self.output)].to_vec();
        assert!(state.routine.is_none(), "completed with its cancel routine set");
        assert!(state.result.is_none(), "completed twice");
        state.result = Some((status, information, returned));
        state.order = ORDER.fetch_add(1, Ordering::SeqCst);
        drop(state);
        self.completed = true;
        status
    }

    fn complete_pending(self, status: NTSTATUS, information: usize) -> NTSTATUS {
        locked(&self.shared.0).marked_pending = true;
        self.complete(status, information);
        STATUS_PENDING
    }

    fn pend(&mut self, id: u64) -> bool {
        let mut state = locked(&self.shared.0);
        if state.cancelled {
            return false;
        }
        state.marked_pending = true;
        state.routine = Some(id);
        true
    }

    fn unpend(&mut self) -> bool {
        locked(&self.shared.0).routine.take().is_some()
    }
}

impl Drop for TestRequest {
    fn drop(&mut self) {
        if !self.completed && !std::thread::panicking() {
            eprintln!("a request was lost");
            std::process::abort();
        }
    }
}
