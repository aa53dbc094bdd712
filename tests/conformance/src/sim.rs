//! The simulated kernel's front end: the control device and the NDK provider in this process, over [`simkernel`].
//!
//! Requests are dispatched at PASSIVE_LEVEL on a thread of their own, as the I/O manager would in the caller's context;
//! the caller waits until the dispatch routine has returned.
#![expect(unsafe_code, reason = "implements nd-ioctl's unsafe traits: adapters and pinned memory go by pointer")]

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use nd_ioctl::{AdapterSource, Device, Host, Pinned};
use ndk_abi::{
    ndis::{NDIS_NDK_CAPABILITIES, NDIS_NDK_PERFORMANCE_COUNTERS},
    ndkpi::{NDK_ADAPTER, NDK_ADAPTER_INFO, NDK_VERSION},
    softndk_ioctl::{SOFTNDK_DIAGNOSTICS, SOFTNDK_ENDPOINT, SOFTNDK_TEST_SMB_DIRECT_RESULT},
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INVALID_HANDLE, STATUS_NOT_SUPPORTED},
    wdm::MDL,
};
use ndk_provider::{MAX_VERSION_2, Provider};
use platform::Passive;
use simkernel::{Mdl, Session, SimKernel};
use smb_direct::{Consumer, Kernel};

use crate::{
    Transport,
    complaints::Complaints,
    memory::Region,
    transport::{self, Completion, Pending},
};

mod request;

use request::{Call, SimRequest};

/// The addresses of a simulated adapter, of the documentation prefixes (RFC 5737, RFC 3849).
const fn addresses(machine: u8) -> [IpAddr; 2] {
    let last = machine as u16;
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, machine)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last))]
}

/// The NET_LUID of the simulated network interface.
const ADAPTER_ID: u64 = 0x0006_0080_0000_0000;

/// How long a dispatch or cleanup routine may block before the front end stops waiting for it.
const STALLED: Duration = Duration::from_secs(20);

/// A booted simulated kernel with one SoftNDK device. There is one at a time in a process.
pub struct Simulated {
    device: Device<SimHost>,
    complaints: Complaints,
    /// Ends last, and then looks for what was left. Of two machines the first has it.
    session: Option<Session>,
}

impl Simulated {
    /// Boots; waits until another one in the process is gone.
    ///
    /// # Panics
    /// When the device cannot be made.
    #[must_use]
    pub fn boot() -> Self {
        Self::boot_with(true)
    }

    /// As [`Simulated::boot`], with or without the test consumer: what the parameter `TestConsumer` of softndk.sys says.
    ///
    /// # Panics
    /// When the device cannot be made.
    #[must_use]
    pub fn boot_with(test_consumer: bool) -> Self {
        Self::machine(1, test_consumer, Some(simkernel::boot()))
    }

    /// Boots two machines, each with one device, in one kernel: TCP of its network is between them. The first has to be closed last.
    ///
    /// # Panics
    /// When a device cannot be made.
    #[must_use]
    pub fn boot_apart() -> [Self; 2] {
        let session = Some(simkernel::boot());
        [Self::machine(1, true, session), Self::machine(2, true, None)]
    }

    fn machine(number: u8, test_consumer: bool, session: Option<Session>) -> Self {
        let addresses = addresses(number);
        let provider = Provider::new(&addresses).expect("memory for a simulated adapter");
        let consumer = test_consumer.then(Consumer::default);
        let pinned = Arc::new(AtomicU64::new(0));
        let host = SimHost { provider, addresses, pinned, consumer, handles: Mutex::default() };
        let device = Device::new(host).expect("memory for a control device");
        Self { device, complaints: Complaints::default(), session }
    }

    /// The simulated kernel, to plant faults in.
    ///
    /// # Panics
    /// The second of two machines does not have it.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.session.as_ref().expect("the first machine")
    }

    /// Takes away what the open files have, as softndk.sys does when RDMA is turned off. Those that are opened later are served.
    pub fn clean_up_files(&self) {
        let files: Vec<_> = self.device.host().handles().values().filter_map(Weak::upgrade).collect();
        files.iter().for_each(|file| file.cleanup(&simkernel::passive()));
    }
}

impl Transport for Simulated {
    fn front_end(&self) -> String {
        "simulated kernel, in process".to_owned()
    }

    fn open(&self) -> Result<Box<dyn transport::File>, NTSTATUS> {
        let file = Arc::new(self.device.open(process())?);
        let mut handles = self.device.host().handles();
        let handle = handles.last_key_value().map_or(0, |(last, _)| *last) + 4;
        handles.insert(handle, Arc::downgrade(&file));
        drop(handles);
        Ok(Box::new(SimFile { file, handle, complaints: self.complaints.clone() }))
    }

    fn close(self: Box<Self>) -> Vec<String> {
        let Self { device, complaints, session } = *self;
        drop(device);
        let mut complaints = complaints.take();
        if let Some(ledger) = session.map(Session::finish)
            && !ledger.is_clean()
        {
            complaints.push(format!("the simulated kernel is not clean:\n{ledger}"));
        }
        complaints
    }
}

/// What the control device needs of the simulated kernel.
struct SimHost {
    provider: Provider<SimKernel>,
    addresses: [IpAddr; 2],
    /// Bytes.
    pinned: Arc<AtomicU64>,
    consumer: Option<Consumer<Self>>,
    handles: Mutex<Handles>,
}

/// The handles of the process, which has open files only.
type Handles = BTreeMap<u64, Weak<nd_ioctl::File<SimHost>>>;

/// The number of this process.
fn process() -> u64 {
    std::process::id().into()
}

impl SimHost {
    fn handles(&self) -> MutexGuard<'_, Handles> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: the provider obeys NDKPI; all its callbacks come from DPCs.
unsafe impl AdapterSource for SimHost {
    fn open_adapter(&self, version: NDK_VERSION, _: &Passive<'_>) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
        // Any number does: there is one process.
        self.provider.open_for(version, Some(1))
    }

    unsafe fn close_adapter(&self, adapter: NonNull<NDK_ADAPTER>, passive: &Passive<'_>) {
        // SAFETY: the caller's contract is the same.
        unsafe { Provider::<SimKernel>::close(adapter, passive) };
    }
}

// SAFETY: a pin describes the range that was asked for.
unsafe impl Host for SimHost {
    type Platform = SimKernel;
    type Request = SimRequest;
    type Pinned = SimPinned;

    const MAX_PINNED_BYTES: u64 = 8 << 30;

    fn adapter_id(&self) -> u64 {
        ADAPTER_ID
    }

    fn address(&self, index: usize) -> Option<IpAddr> {
        self.addresses.get(index).copied()
    }

    fn processors(&self) -> u64 {
        1
    }

    fn pin(
        &self,
        _: &SimRequest,
        address: u64,
        length: usize,
        _write: bool,
        _: &Passive<'_>,
    ) -> Result<SimPinned, NTSTATUS> {
        // Test buffers are all the user memory there is. All of them can be written.
        let (region, bytes) = Region::find(address, length).ok_or(STATUS_ACCESS_VIOLATION)?;
        // SAFETY: the pin keeps the region, which is readable and writable, for longer than the MDL.
        let mdl = unsafe { Mdl::lock(bytes, length) };
        self.pinned.fetch_add(length as u64, Ordering::Relaxed);
        Ok(SimPinned { mdl, length, total: self.pinned.clone(), _region: region })
    }

    fn file_of_handle<R>(
        &self,
        _: &SimRequest,
        handle: u64,
        _: &Passive<'_>,
        share: impl FnOnce(&nd_ioctl::File<Self>) -> R,
    ) -> Result<R, NTSTATUS> {
        let file = self.handles().get(&handle).and_then(Weak::upgrade);
        Ok(share(&*file.ok_or(STATUS_INVALID_HANDLE)?))
    }

    fn test_smb_direct(
        &self,
        scenario: u32,
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_SMB_DIRECT_RESULT, NTSTATUS> {
        self.consumer.as_ref().ok_or(STATUS_NOT_SUPPORTED)?.serve(self, scenario, passive)
    }

    fn diagnose(&self, diagnostics: &mut SOFTNDK_DIAGNOSTICS) {
        let counts = self.provider.object_counts();
        diagnostics.Adapters = counts.adapters;
        diagnostics.Pds = counts.pds;
        diagnostics.Cqs = counts.cqs;
        diagnostics.Mrs = counts.mrs;
        diagnostics.Mws = counts.mws;
        diagnostics.Srqs = counts.srqs;
        diagnostics.Qps = counts.qps;
        diagnostics.Connectors = counts.connectors;
        diagnostics.Listeners = counts.listeners;
        diagnostics.SharedEndpoints = counts.shared_endpoints;
        diagnostics.PinnedBytes = self.pinned.load(Ordering::Relaxed);
        diagnostics.PoolBytes = simkernel::Ledger::now().pool_bytes() as u64;
    }

    fn counters(&self) -> NDIS_NDK_PERFORMANCE_COUNTERS {
        self.provider.counters()
    }

    fn limits(&self) -> (NDK_ADAPTER_INFO, NDIS_NDK_CAPABILITIES) {
        (Provider::<SimKernel>::adapter_info(MAX_VERSION_2), Provider::<SimKernel>::capabilities())
    }

    fn endpoint(&self, place: usize) -> Option<Option<SOFTNDK_ENDPOINT>> {
        self.provider.endpoint(place)
    }
}

// SAFETY: the MDL is of the memory that was given.
unsafe impl Kernel for SimHost {
    type Platform = SimKernel;
    type Mdl = PoolMdl;

    unsafe fn describe(memory: NonNull<u8>, length: usize) -> Option<PoolMdl> {
        // SAFETY: the caller keeps the memory for longer than the MDL.
        Some(PoolMdl(unsafe { Mdl::lock(memory, length) }))
    }

    fn address(&self) -> Option<IpAddr> {
        self.addresses.first().copied()
    }
}

/// An MDL of the test consumer.
struct PoolMdl(Mdl);

// SAFETY: the MDL lives as long as this.
unsafe impl Pinned for PoolMdl {
    fn mdl(&self) -> NonNull<MDL> {
        NonNull::new(self.0.as_ptr()).expect("an MDL has an address")
    }
}

/// Locked memory of a test.
struct SimPinned {
    mdl: Mdl,
    length: usize,
    total: Arc<AtomicU64>,
    _region: Arc<Region>,
}

// SAFETY: the MDL lives as long as this, and its pages as long as the region.
unsafe impl Pinned for SimPinned {
    fn mdl(&self) -> NonNull<MDL> {
        NonNull::new(self.mdl.as_ptr()).expect("an MDL has an address")
    }
}

impl Drop for SimPinned {
    fn drop(&mut self) {
        self.total.fetch_sub(self.length as u64, Ordering::Relaxed);
    }
}

/// An open file. Requests in flight hold the inner one, as they hold a FILE_OBJECT.
struct SimFile {
    file: Arc<nd_ioctl::File<SimHost>>,
    handle: u64,
    complaints: Complaints,
}

impl transport::File for SimFile {
    fn submit(&self, code: u32, input: &[u8], output_length: usize) -> Box<dyn Pending> {
        let (request, call) = Call::new(code, input, output_length);
        let file = self.file.clone();
        let dispatched = call.clone();
        thread::spawn(move || {
            let status = file.dispatch(request, process(), &simkernel::passive());
            // Before the caller goes on, as it may look for what is left of the file.
            drop(file);
            dispatched.dispatched(status);
        });
        if !call.wait_for_dispatch(STALLED) {
            self.complaints.note(format!("the dispatch routine did not return for code {code:#x}"));
        }
        Box::new(InFlight { call, file: self.file.clone() })
    }

    fn handle(&self) -> Option<u64> {
        Some(self.handle)
    }

    fn send_from_another_process(&self, code: u32, input: &[u8]) -> Result<NTSTATUS, String> {
        let (request, call) = Call::new(code, input, 0);
        let file = self.file.clone();
        thread::spawn(move || file.dispatch(request, process() ^ 1, &simkernel::passive()));
        call.wait(STALLED).map(|completion| completion.status).ok_or_else(|| "it did not end".to_owned())
    }
}

impl Drop for SimFile {
    /// The last handle is closed: IRP_MJ_CLEANUP, waited for as the I/O manager does.
    fn drop(&mut self) {
        let file = self.file.clone();
        let (done, ended) = std::sync::mpsc::channel();
        thread::spawn(move || {
            file.cleanup(&simkernel::passive());
            drop(file);
            let _ended = done.send(());
        });
        if ended.recv_timeout(STALLED).is_err() {
            self.complaints.note(format!("closing a file did not end:\n{}", simkernel::Ledger::now()));
        }
    }
}

/// A request that was submitted.
struct InFlight {
    call: Arc<Call>,
    file: Arc<nd_ioctl::File<SimHost>>,
}

impl Pending for InFlight {
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        self.call.wait(timeout)
    }

    fn pended(&self) -> bool {
        self.call.pended()
    }

    fn cancel(&self) {
        if let Some(id) = self.call.begin_cancel() {
            self.file.cancel(id);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.cancel();
    }
}
