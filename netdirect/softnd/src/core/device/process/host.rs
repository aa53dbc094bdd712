//! [`ProcessHost`]: the process as the host of the control device.
//!
//! It shares no code with the hosts of the tests: it is shipped, locks no memory, and has no handles of files.
#![expect(unsafe_code, reason = "a trait that promises memory validity, and NDK adapters by pointer")]

use std::{
    env,
    net::IpAddr,
    process,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use hosted::Hosted;
use nd_ioctl::{AdapterSource, File, Host};
use ndk_abi::{
    ndis::NDIS_NDK_CAPABILITIES,
    ndkpi::{NDK_ADAPTER, NDK_ADAPTER_INFO, NDK_VERSION},
    softndk_ioctl::{SOFTNDK_DIAGNOSTICS, SOFTNDK_ENDPOINT, SOFTNDK_FAULT_RULE},
    status::{NTSTATUS, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER},
};
use ndk_provider::{MAX_VERSION_2, Provider};
use platform::{Passive, PoolQuota};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessAffinityMask};

use super::{capture::Capture, memory::ProcessMemory, request::ProcessRequest};

/// A NET_LUID that no interface has: type "other" (1), highest index.
const ADAPTER_ID: u64 = 0x0001_ffff_ff00_0000;

/// The environment variable for CRCs on TCP connections. 1: always. 0, or not set: only if the peer asks for CRCs.
const CRC: &str = "SOFTND_CRC";

/// The environment variable for connections with other processes of the user on this machine. 1, or not set: they go by shared memory; 0: by
/// TCP.
const SHARED_MEMORY: &str = "SOFTND_SHARED_MEMORY";

/// The environment variable for the seconds that a send waits for a receive of its peer, at most [`SEND_TIMEOUT_MAX`];
/// 0: without limit.
const SEND_TIMEOUT: &str = "SOFTND_SEND_TIMEOUT";
const SEND_TIMEOUT_MAX: u32 = 3600;

/// The environment variable for the fault rules of the process's device.
const FAULTS: &str = "SOFTND_FAULTS";

/// The environment variable for the file that gets a capture of the process's connections.
const CAPTURE: &str = "SOFTND_CAPTURE";

/// An environment variable that is 0 or 1, or not set.
fn is_on(variable: &str, unset: bool) -> Result<bool, NTSTATUS> {
    match env::var_os(variable) {
        None => Ok(unset),
        Some(value) if value == "0" => Ok(false),
        Some(value) if value == "1" => Ok(true),
        Some(value) => {
            eprintln!("softnd.dll: {variable} is {value:?}: it may be 0 or 1");
            Err(STATUS_INVALID_PARAMETER)
        }
    }
}

/// The process, with one adapter.
pub(super) struct ProcessHost {
    provider: Provider<Hosted>,
    /// The number of registered bytes.
    registered: Arc<AtomicU64>,
    capture: Option<Arc<Capture>>,
}

impl ProcessHost {
    /// STATUS_INVALID_PARAMETER: an environment variable has an invalid value, which is reported on standard error.
    pub(super) fn new() -> Result<Self, NTSTATUS> {
        let provider = Provider::new(&[])?;
        // The driver's parameter `Crc`.
        provider.want_crc(is_on(CRC, false)?);
        hosted::share_memory(is_on(SHARED_MEMORY, true)?);
        // The driver's parameter `SendTimeout`.
        if let Some(timeout) = env::var_os(SEND_TIMEOUT) {
            let seconds = timeout.to_str().and_then(|seconds| seconds.parse().ok());
            let Some(seconds) = seconds.filter(|seconds| *seconds <= SEND_TIMEOUT_MAX) else {
                eprintln!("softnd.dll: {SEND_TIMEOUT} is {timeout:?}: it may be 0 to {SEND_TIMEOUT_MAX}");
                return Err(STATUS_INVALID_PARAMETER);
            };
            provider.set_send_timeout(seconds);
        }
        // The driver's parameter `FaultRules`.
        if let Some(rules) = env::var_os(FAULTS) {
            let set = rules.to_str().ok_or("not Unicode".to_owned());
            let set = set.and_then(|rules| provider.set_fault_rules(rules).map_err(|error| error.to_string()));
            if let Err(error) = set {
                eprintln!("softnd.dll: {FAULTS}: {error}");
                return Err(STATUS_INVALID_PARAMETER);
            }
        }
        let capture = match env::var_os(CAPTURE) {
            Some(name) => Some(Capture::start(&provider, &name).map_err(|error| {
                eprintln!("softnd.dll: {CAPTURE} is {name:?}: {error}");
                STATUS_INVALID_PARAMETER
            })?),
            None => None,
        };
        Ok(Self { provider, registered: Arc::default(), capture })
    }

    /// Gives the adapter the machine's usable addresses, and removes all others. Without memory the adapter keeps its
    /// old addresses.
    pub(super) fn look_for_addresses(&self) {
        let Ok(interfaces) = if_addrs::get_if_addrs() else { return };
        // A link-local address needs an interface, which an address of an adapter cannot name. Windows binds no socket
        // to an address of an interface that is down, for example without a cable.
        let usable = interfaces.iter().filter(|interface| interface.is_oper_up() && !interface.is_link_local());
        let usable = usable.map(if_addrs::Interface::ip);
        // Programs use the first address as the machine's.
        let (loopback, others): (Vec<_>, Vec<_>) = usable.partition(IpAddr::is_loopback);
        let found = [others, loopback].concat();
        let _without_memory_they_stay = self.provider.retain_addresses(|address| found.contains(&address));
        for address in found {
            // If the adapter's list of addresses is full, or there is no memory, the adapter works without this
            // address.
            let _added = self.provider.add_address(address);
        }
    }
}

// SAFETY: the provider obeys NDKPI. All of its callbacks come from DPCs, which do not run during a post, poll or arm
// above PASSIVE_LEVEL.
unsafe impl AdapterSource<Hosted> for ProcessHost {
    fn open_adapter(
        &self,
        version: NDK_VERSION,
        quota: Option<&PoolQuota<Hosted>>,
        _: &Passive<'_>,
    ) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
        match quota {
            Some(quota) => self.provider.open_for(version, Some(process::id()), quota),
            None => self.provider.open(version),
        }
    }

    unsafe fn close_adapter(&self, adapter: NonNull<NDK_ADAPTER>, passive: &Passive<'_>) {
        // SAFETY: the caller's contract is the same.
        let lingering = unsafe { Provider::<Hosted>::close(adapter, passive) };
        // If the process exited now, its connections would be reset and could lose sent data: wait until both sides
        // have closed them, or the time for that has passed (`LINGER_MICROSECONDS` of soft-rdma).
        lingering.wait(passive);
        // The process may end without another chance to write the last records.
        if let Some(capture) = &self.capture {
            capture.write();
        }
    }
}

// SAFETY: the MDL of ProcessMemory describes the requested memory, at its own address. The memory is not locked: the
// program keeps it.
unsafe impl Host for ProcessHost {
    type Platform = Hosted;
    type Request = ProcessRequest;
    type Pinned = ProcessMemory;

    /// No memory is locked: this is only a bound. A program may register half of it, more than the memory of most
    /// machines.
    const MAX_PINNED_BYTES: u64 = 64 << 30;
    /// No limit: the memory is the program's own.
    const MAX_POOL_BYTES: u64 = u64::MAX;

    fn adapter_id(&self) -> u64 {
        ADAPTER_ID
    }

    fn address(&self, index: usize) -> Option<IpAddr> {
        self.provider.address(index)
    }

    fn processors(&self) -> u64 {
        let (mut own, mut all) = (0, 0);
        // SAFETY: a pseudo handle, which needs no closing.
        let process = unsafe { GetCurrentProcess() };
        // SAFETY: locals.
        let known = unsafe { GetProcessAffinityMask(process, &raw mut own, &raw mut all) } != 0;
        if known { all as u64 } else { 1 }
    }

    fn pin(
        &self,
        _request: &ProcessRequest,
        address: u64,
        length: usize,
        write: bool,
        _passive: &Passive<'_>,
    ) -> Result<ProcessMemory, NTSTATUS> {
        ProcessMemory::describe(address, length, write, &self.registered)
    }

    /// No handle names a file of this device, and the DLL does not send PROVIDER_BIND_FILE to it.
    fn file_of_handle<R>(
        &self,
        _request: &ProcessRequest,
        _handle: u64,
        _passive: &Passive<'_>,
        _share: impl FnOnce(&File<Self>) -> R,
    ) -> Result<R, NTSTATUS> {
        Err(STATUS_INVALID_HANDLE)
    }

    fn diagnose(&self, diagnostics: &mut SOFTNDK_DIAGNOSTICS) {
        self.provider.object_counts().fill(diagnostics);
        diagnostics.PinnedBytes = self.registered.load(Ordering::Relaxed);
    }

    fn counter(&self, place: usize) -> Option<(&'static str, u64)> {
        self.provider.counter(place)
    }

    fn limits(&self) -> (NDK_ADAPTER_INFO, NDIS_NDK_CAPABILITIES) {
        (Provider::<Hosted>::adapter_info(MAX_VERSION_2), Provider::<Hosted>::capabilities())
    }

    fn fault_rule(&self, place: usize) -> Option<SOFTNDK_FAULT_RULE> {
        self.provider.fault_rule(place)
    }

    fn endpoint(&self, place: usize) -> Option<Option<SOFTNDK_ENDPOINT>> {
        self.provider.endpoint(place)
    }
}
