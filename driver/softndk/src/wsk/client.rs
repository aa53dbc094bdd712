//! This driver as a client of Winsock Kernel.
//!
//! WSK may come later than this driver, and may not come at all: it is asked for when a socket is made, without waiting. As long as it
//! is not there no socket can be made, which leaves connections within the device.

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

// Bound by name to the module, as that of NDIS.
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

/// What WSK keeps of this driver.
struct Client {
    dispatch: WSK_CLIENT_DISPATCH,
    registration: UnsafeCell<WSK_REGISTRATION>,
    registered: AtomicBool,
}

// SAFETY: the dispatch is constant; the registration is used by WSK's functions only.
unsafe impl Sync for Client {}

static CLIENT: Client = Client {
    dispatch: WSK_CLIENT_DISPATCH { Version: WSK_VERSION_1_0, Reserved: 0, WskClientEvent: null_mut() },
    registration: UnsafeCell::new(WSK_REGISTRATION::ZERO),
    registered: AtomicBool::new(false),
};

/// Registers this driver, in DriverEntry. Should that fail, there is no network for it.
pub(crate) fn register(_passive: &Passive<'_>) {
    let mut npi = WSK_CLIENT_NPI { ClientContext: null_mut(), Dispatch: &raw const CLIENT.dispatch };
    // SAFETY: static memory, which is not paged; registered once.
    let status = unsafe { WskRegister(&raw mut npi, CLIENT.registration.get()) };
    CLIENT.registered.store(status == STATUS_SUCCESS, Ordering::Release);
}

/// Ends that, in the unload routine: waits until all sockets are closed.
pub(crate) fn deregister(_passive: &Passive<'_>) {
    if CLIENT.registered.swap(false, Ordering::AcqRel) {
        // SAFETY: registered, and not used any more.
        unsafe { WskDeregister(CLIENT.registration.get()) };
    }
}

/// The provider of WSK, for as long as this lives. <= DISPATCH_LEVEL.
pub(super) struct Provider(WSK_PROVIDER_NPI);

impl Provider {
    /// `None`: there is none, now.
    pub(super) fn capture() -> Option<Self> {
        if !CLIENT.registered.load(Ordering::Acquire) {
            return None;
        }
        let mut npi = WSK_PROVIDER_NPI::ZERO;
        // SAFETY: registered; an out parameter that outlives the call.
        let status = unsafe { WskCaptureProviderNPI(CLIENT.registration.get(), WSK_NO_WAIT, &raw mut npi) };
        // Not `then_some`: one that was not captured must not be dropped.
        (status == STATUS_SUCCESS).then(|| Self(npi))
    }

    /// What it is told who asks.
    pub(super) fn client(&self) -> *mut core::ffi::c_void {
        self.0.Client
    }

    pub(super) fn functions(&self) -> *const WSK_PROVIDER_DISPATCH {
        self.0.Dispatch
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // SAFETY: captured once for each of these.
        unsafe { WskReleaseProviderNPI(CLIENT.registration.get()) };
    }
}
