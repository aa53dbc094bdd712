//! The device, the adapters that are open, and what is left of both.
#![expect(unsafe_code, reason = "opens and closes adapters as NDIS does")]

use std::{
    collections::BTreeSet,
    env,
    net::IpAddr,
    ptr::NonNull,
    sync::{
        Mutex,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use ndk_abi::{
    ndkpi::{NDK_ADAPTER, NDK_VERSION},
    status::{NTSTATUS, STATUS_INVALID_DEVICE_STATE, STATUS_INVALID_PARAMETER},
};
use ndk_provider::{ObjectCounts, Provider};
use simkernel::{Ledger, SimKernel};

use crate::{
    kernel::{self, lock},
    layer,
};

/// The environment variable for the fault rules that a device begins with.
const FAULTS: &str = "SOFTND_FAULTS";

/// How long a close waits while nothing moves.
const STALL: Duration = Duration::from_secs(5);

static DEVICE: Mutex<Device> =
    Mutex::new(Device { addresses: Vec::new(), provider: None, open: BTreeSet::new(), living: 0 });

struct Device {
    /// All that were added.
    addresses: Vec<IpAddr>,
    /// Lives as long as an adapter does: what is allocated without it has leaked.
    provider: Option<Provider<SimKernel>>,
    /// The adapters that the program may close.
    open: BTreeSet<usize>,
    /// The adapters whose close has not come to its end.
    living: usize,
}

/// An adapter on its way to the thread that closes it.
struct Closing(NonNull<NDK_ADAPTER>);

// SAFETY: an NDK object may be used on any thread.
unsafe impl Send for Closing {}

/// Gives the device an address. Errors: those of [`Provider::add_address`].
pub(crate) fn add_address(address: IpAddr) -> Result<(), NTSTATUS> {
    let mut device = lock(&DEVICE);
    if device.addresses.contains(&address) {
        return Ok(());
    }
    let mut addresses = device.addresses.clone();
    addresses.push(address);
    match &device.provider {
        Some(provider) => provider.add_address(address)?,
        // The rules for addresses are the provider's.
        None => drop(Provider::<SimKernel>::new(&addresses)?),
    }
    device.addresses = addresses;
    Ok(())
}

/// Replaces the device's fault rules. STATUS_INVALID_DEVICE_STATE: no adapter is open. STATUS_INVALID_PARAMETER: a rule is wrong, which is reported.
pub(crate) fn set_fault_rules(rules: &str) -> Result<(), NTSTATUS> {
    let device = lock(&DEVICE);
    let provider = device.provider.as_ref().ok_or(STATUS_INVALID_DEVICE_STATE)?;
    set_rules(provider, rules, "softndk_sim_set_fault_rules")
}

/// Sets rules of `source`, which is named if one is wrong.
fn set_rules(provider: &Provider<SimKernel>, rules: &str, source: &str) -> Result<(), NTSTATUS> {
    provider.set_fault_rules(rules).map_err(|error| {
        kernel::report(format_args!("{source}: {error}"));
        STATUS_INVALID_PARAMETER
    })
}

/// A device with the addresses, and with the fault rules of the environment, whose firings are told.
fn new_provider(addresses: &[IpAddr]) -> Result<Provider<SimKernel>, NTSTATUS> {
    let provider = Provider::new(addresses)?;
    provider.pass_posts();
    if let Some(rules) = env::var_os(FAULTS) {
        set_rules(&provider, rules.to_str().ok_or(STATUS_INVALID_PARAMETER)?, FAULTS)?;
        simkernel::tell_faults();
    }
    Ok(provider)
}

/// How often a rule has fired; 0 if there is none with this index.
pub(crate) fn faults(index: usize) -> u64 {
    let device = lock(&DEVICE);
    device.provider.as_ref().and_then(|provider| provider.fault_rule(index)).map_or(0, |rule| rule.Fired)
}

/// Opens an adapter. Errors: those of [`Provider::open`].
pub(crate) fn open(version: NDK_VERSION) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
    let mut device = lock(&DEVICE);
    let provider = match &device.provider {
        Some(provider) => provider.clone(),
        None => new_provider(&device.addresses)?,
    };
    let adapter = provider.open(version)?;
    // SAFETY: just opened.
    unsafe { layer::put_over(adapter) };
    device.provider = Some(provider);
    device.open.insert(adapter.addr().get());
    device.living += 1;
    Ok(adapter)
}

/// Closes an adapter: waits until all of its objects are gone, or nothing has moved for long.
pub(crate) fn close(adapter: NonNull<NDK_ADAPTER>) {
    if !lock(&DEVICE).open.remove(&adapter.addr().get()) {
        kernel::fatal(format_args!("softndk_sim_close_adapter: {adapter:p} is no adapter, or was closed before"));
    }
    let (done, closed) = mpsc::channel::<()>();
    let adapter = Closing(adapter);
    // On a thread of its own, which is the one to wait for ever if the program keeps an object.
    thread::spawn(move || {
        let Closing(adapter) = { adapter };
        // SAFETY: opened by `open`; taken from the table, so that nobody else closes it.
        unsafe { Provider::<SimKernel>::close(adapter, &simkernel::passive()) };
        gone();
        drop(done);
    });
    let mut before = state();
    while closed.recv_timeout(STALL) == Err(RecvTimeoutError::Timeout) {
        let now = state();
        if now == before {
            let counts = now.0.unwrap_or_default();
            kernel::report(format_args!("softndk_sim_close_adapter gives up: {counts:?} are not closed"));
            return;
        }
        before = now;
    }
}

/// The close of an adapter has come to its end. With the last one goes the device.
fn gone() {
    let mut device = lock(&DEVICE);
    device.living -= 1;
    if device.living > 0 {
        return;
    }
    device.provider = None;
    drop(device);
    // The deferred calls that let go of the last objects have memory to free yet.
    kernel::run_idle();
}

/// What changes as long as something happens.
fn state() -> (Option<ObjectCounts>, u64, u64) {
    let counts = lock(&DEVICE).provider.as_ref().map(Provider::object_counts);
    let ledger = Ledger::now();
    (counts, ledger.allocation_count, ledger.dpc_runs)
}

/// Objects that live, or bytes if there is no adapter that they could belong to.
pub(crate) fn outstanding() -> u64 {
    kernel::wait_for_dpcs();
    let device = lock(&DEVICE);
    let Some(provider) = &device.provider else { return Ledger::now().pool_bytes() as u64 };
    let ObjectCounts { adapters, pds, cqs, mrs, mws, srqs, qps, connectors, listeners, shared_endpoints } =
        provider.object_counts();
    [adapters, pds, cqs, mrs, mws, srqs, qps, connectors, listeners, shared_endpoints].map(u64::from).iter().sum()
}
