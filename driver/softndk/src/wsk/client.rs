//! This driver as a client of Winsock Kernel.
//!
//! WSK may start after this driver, or never: the driver captures its provider when it makes a socket, without waiting. Until WSK has
//! started no socket can be made, and connections work only within the device.

use core::{
    cell::UnsafeCell,
    ptr::null_mut,
    sync::atomic::{AtomicBool, Ordering},
};

use ndk_abi::{
    describe::ZeroInit,
    status::{NTSTATUS, STATUS_SUCCESS},
    wsk::{
        WSK_CLIENT_DISPATCH, WSK_CLIENT_NPI, WSK_NO_WAIT, WSK_PROVIDER_DISPATCH, WSK_PROVIDER_NPI, WSK_REGISTRATION,
        WSK_VERSION_1_0,
    },
};
use platform::Passive;

// Imported by the module's name, as in `ndis`.
#[link(name = "netio.sys", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    // PASSIVE_LEVEL
    fn WskRegister(npi: *mut WSK_CLIENT_NPI, registration: *mut WSK_REGISTRATION) -> NTSTATUS;
    // Waits until no provider is captured, all sockets are closed and all calls of the provider's functions are over.
    fn WskDeregister(registration: *mut WSK_REGISTRATION);

    // <= DISPATCH_LEVEL, without a wait
    fn WskCaptureProviderNPI(
        registration: *mut WSK_REGISTRATION,
        wait_milliseconds: u32,
        npi: *mut WSK_PROVIDER_NPI,
    ) -> NTSTATUS;
    fn WskReleaseProviderNPI(registration: *mut WSK_REGISTRATION);
}

/// This driver's registration with WSK.
struct Client {
    dispatch: WSK_CLIENT_DISPATCH,
    registration: UnsafeCell<WSK_REGISTRATION>,
    registered: AtomicBool,
}

// SAFETY: the dispatch is constant; only WSK's functions use the registration.
unsafe impl Sync for Client {}

static CLIENT: Client = Client {
    dispatch: WSK_CLIENT_DISPATCH { Version: WSK_VERSION_1_0, Reserved: 0, WskClientEvent: null_mut() },
    registration: UnsafeCell::new(WSK_REGISTRATION::ZERO),
    registered: AtomicBool::new(false),
};

/// Registers this driver, in DriverEntry. If that fails, no socket can be made.
pub(crate) fn register(_passive: &Passive<'_>) {
    let mut npi = WSK_CLIENT_NPI { ClientContext: null_mut(), Dispatch: &raw const CLIENT.dispatch };
    // SAFETY: static memory, which is not paged; registered once.
    let status = unsafe { WskRegister(&raw mut npi, CLIENT.registration.get()) };
    CLIENT.registered.store(status == STATUS_SUCCESS, Ordering::Release);
}

/// Deregisters this driver, in the unload. Waits until all sockets are closed.
pub(crate) fn deregister(_passive: &Passive<'_>) {
    if CLIENT.registered.swap(false, Ordering::AcqRel) {
        // SAFETY: registered, and out of use.
        unsafe { WskDeregister(CLIENT.registration.get()) };
    }
}

/// WSK's provider, captured until this is dropped. <= DISPATCH_LEVEL.
pub(super) struct Provider(WSK_PROVIDER_NPI);

impl Provider {
    /// `None`: WSK is not ready, or refused the registration of this driver.
    pub(super) fn capture() -> Option<Self> {
        if !CLIENT.registered.load(Ordering::Acquire) {
            return None;
        }
        let mut npi = WSK_PROVIDER_NPI::ZERO;
        // SAFETY: registered; an out parameter that outlives the call.
        let status = unsafe { WskCaptureProviderNPI(CLIENT.registration.get(), WSK_NO_WAIT, &raw mut npi) };
        // Not `then_some`, which would drop a `Provider` that was not captured.
        (status == STATUS_SUCCESS).then(|| Self(npi))
    }

    /// The client handle that the provider's functions take.
    pub(super) fn client(&self) -> *mut core::ffi::c_void {
        self.0.Client
    }

    pub(super) fn functions(&self) -> *const WSK_PROVIDER_DISPATCH {
        self.0.Dispatch
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // SAFETY: captured once for each `Provider`.
        unsafe { WskReleaseProviderNPI(CLIENT.registration.get()) };
    }
}
