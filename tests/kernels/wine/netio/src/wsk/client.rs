//! Registrations.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use kernel::{DISPATCH_LEVEL, PASSIVE_LEVEL, object, status, violation};
use ndk_abi::{
    status::STATUS_DEVICE_NOT_READY,
    wsk::{WSK_CLIENT_NPI, WSK_NO_WAIT, WSK_PROVIDER_NPI, WSK_REGISTRATION, WSK_VERSION_1_0},
};

use super::{datagrams, entries, port, sends};
use crate::{lock, parameter};

/// How long what a client has left may take to go before it counts as left behind.
const PATIENCE: Duration = Duration::from_secs(10);
const REGISTRATION: &str = "WSK registration";
const CAPTURE: &str = "captured WSK provider";

/// What a registration waits for.
#[derive(Clone, Copy, Default)]
struct Client {
    captures: u32,
    sockets: u32,
    /// Calls of functions of the provider that have not ended: with an IRP, until it is completed.
    calls: u32,
}

/// By the address of the registration, which is what a client is called.
static CLIENTS: Mutex<BTreeMap<usize, Client>> = Mutex::new(BTreeMap::new());
static LESS: Condvar = Condvar::new();

/// Changes what a client has. False: there is no such client, or it has captured nothing.
fn change(client: usize, change: impl FnOnce(&mut Client)) -> bool {
    let mut clients = lock(&CLIENTS);
    let found = clients.get_mut(&client).map(change).is_some();
    LESS.notify_all();
    found
}

/// A call of a function of the provider, until its IRP is completed.
pub(super) struct Call(usize);

impl Call {
    /// `None`: the client may call nothing.
    pub(super) fn begin(client: usize) -> Option<Self> {
        let mut captured = false;
        change(client, |client| {
            captured = client.captures > 0;
            client.calls += u32::from(captured);
        });
        captured.then_some(Self(client))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        change(self.0, |client| client.calls -= 1);
    }
}

/// This client is about to get a socket.
pub(super) fn gets_socket(client: usize) {
    change(client, |client| client.sockets += 1);
}

/// A socket of this client is closed.
pub(super) fn closed(client: usize) {
    change(client, |client| client.sockets -= 1);
}

/// wsk/nf-wsk-wskregister: PASSIVE_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn WskRegister(npi: *mut WSK_CLIENT_NPI, registration: *mut WSK_REGISTRATION) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "WskRegister");
    // SAFETY: the caller gives its NPI, which names its dispatch.
    let dispatch = unsafe { *(*npi).Dispatch };
    if dispatch.Version != WSK_VERSION_1_0 || dispatch.Reserved != 0 || !dispatch.WskClientEvent.is_null() {
        violation("WskRegister: only version 1.0 is served here, which has no events");
        return status::INVALID_PARAMETER;
    }
    port::prepare();
    if lock(&CLIENTS).insert(registration as usize, Client::default()).is_some() {
        violation("WskRegister: registered already");
        return status::INVALID_PARAMETER;
    }
    object(REGISTRATION, 1);
    status::SUCCESS
}

/// wsk/nf-wsk-wskderegister: PASSIVE_LEVEL; waits until all is given back.
#[unsafe(no_mangle)]
unsafe extern "system" fn WskDeregister(registration: *mut WSK_REGISTRATION) {
    kernel::at_most(PASSIVE_LEVEL, "WskDeregister");
    let name = registration as usize;
    let clients = lock(&CLIENTS);
    let waits = |clients: &mut BTreeMap<usize, Client>| {
        clients.get(&name).is_some_and(|client| client.captures > 0 || client.sockets > 0 || client.calls > 0)
    };
    let (mut clients, _) = LESS.wait_timeout_while(clients, PATIENCE, waits).unwrap_or_else(PoisonError::into_inner);
    let Some(client) = clients.remove(&name) else {
        drop(clients);
        return violation("WskDeregister: not registered");
    };
    drop(clients);
    sends::check();
    datagrams::check();
    object(REGISTRATION, -1);
    let Client { captures, sockets, calls } = client;
    if captures > 0 || sockets > 0 || calls > 0 {
        violation(&format!("WskDeregister: {captures} captures, {sockets} sockets, {calls} calls are left"));
    }
}

/// wsk/nf-wsk-wskcaptureprovidernpi: PASSIVE_LEVEL, or at most DISPATCH_LEVEL without a wait.
#[unsafe(no_mangle)]
unsafe extern "system" fn WskCaptureProviderNPI(
    registration: *mut WSK_REGISTRATION,
    wait: u32,
    npi: *mut WSK_PROVIDER_NPI,
) -> i32 {
    kernel::at_most(if wait == WSK_NO_WAIT { DISPATCH_LEVEL } else { PASSIVE_LEVEL }, "WskCaptureProviderNPI");
    if parameter("WithoutWsk").is_some_and(|value| value == "1") {
        return STATUS_DEVICE_NOT_READY.0;
    }
    if !change(registration as usize, |client| client.captures += 1) {
        violation("WskCaptureProviderNPI: not registered");
        return STATUS_DEVICE_NOT_READY.0;
    }
    object(CAPTURE, 1);
    // SAFETY: the caller gives a place for it.
    unsafe { npi.write(WSK_PROVIDER_NPI { Client: registration.cast(), Dispatch: entries::provider() }) };
    status::SUCCESS
}

/// wsk/nf-wsk-wskreleaseprovidernpi: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn WskReleaseProviderNPI(registration: *mut WSK_REGISTRATION) {
    kernel::at_most(DISPATCH_LEVEL, "WskReleaseProviderNPI");
    let mut had = false;
    change(registration as usize, |client| {
        had = client.captures > 0;
        client.captures = client.captures.saturating_sub(1);
    });
    if had {
        object(CAPTURE, -1);
    } else {
        violation("WskReleaseProviderNPI: not captured");
    }
}
