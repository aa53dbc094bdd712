//! A client of the COM interfaces of softnd.dll: what a NetworkDirect program calls, typed.
//!
//! Whatever a method returns is noted ([`saw`]): a run shows which of the documented return values it has seen. What the versions
//! of the interfaces have in common is here, and version 2; version 1 is in [`v1`].
#![expect(unsafe_code, reason = "objects that any thread may use")]

mod adapter;
pub(crate) mod both;
mod connector;
mod library;
mod listener;
mod memory;
mod provider;
mod queue_pair;
mod queues;
mod request;
mod thread;
pub(crate) mod v1;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

pub(crate) use adapter::{Adapter, QpSize, SrqSize};
pub(crate) use connector::{Connector, ReadLimits};
pub(crate) use library::{ClassFactory, Library};
pub(crate) use listener::Listener;
pub(crate) use memory::{Mr, Mw, Remote};
use nd_com::v2::IND2Overlapped as Overlapping;
use ndk_abi::status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS};
pub(crate) use provider::Provider;
pub(crate) use queue_pair::Qp;
pub(crate) use queues::{Completion, Cq, KINDS, Srq};
pub(crate) use request::{Handle, Port, Request, Signal, completion_modes, end_of};
pub(crate) use thread::OnFirstProcessor;

use windows_core::Interface;

use super::run::Begun;
use crate::error::{Error, Result};

/// The receives for which a queue pair of the usual size has room, in either version.
pub(crate) const RECEIVES: usize = 32;

/// An object for several threads: any thread may use the DLL's objects.
pub(crate) struct Shared<T>(T);

// SAFETY: NDSPI objects are free-threaded.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as for Send.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(object: T) -> Self {
        Self(object)
    }

    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}

/// What was returned since [`take_seen`] was called last: method, status.
static SEEN: Mutex<BTreeSet<(&'static str, u32)>> = Mutex::new(BTreeSet::new());

/// Notes what a method returned, or what its request ended with.
fn saw(method: &'static str, status: NTSTATUS) -> NTSTATUS {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert((method, status.to_u32()));
    status
}

/// What was returned since the last time.
pub(super) fn take_seen() -> BTreeSet<(&'static str, u32)> {
    std::mem::take(&mut *SEEN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// How requests began since [`take_begun`] was called last, by method.
static BEGUN: Mutex<BTreeMap<&'static str, Begun>> = Mutex::new(BTreeMap::new());

/// Whether a request may be over as soon as it is issued, as the documentation allows.
static MAY_END_AT_ONCE: AtomicBool = AtomicBool::new(false);

/// From now on a request of any method may be over as soon as it is issued. softnd.dll's must pend, as programs expect (docs/decisions.md).
pub(super) fn let_requests_end_at_once() {
    MAY_END_AT_ONCE.store(true, Relaxed);
}

/// Notes how a request began. Whether it may go on like that.
fn began(method: &'static str, status: NTSTATUS) -> bool {
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    let begun = begun.entry(method).or_default();
    match status {
        STATUS_PENDING => begun.pended += 1,
        STATUS_SUCCESS => begun.at_once += 1,
        _ => begun.refused += 1,
    }
    status == STATUS_PENDING || status == STATUS_SUCCESS && MAY_END_AT_ONCE.load(Relaxed)
}

/// How requests began since the last time.
pub(super) fn take_begun() -> BTreeMap<&'static str, Begun> {
    std::mem::take(&mut *BEGUN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Success is ND_SUCCESS; anything else is a refusal.
fn accepted(method: &'static str, status: NTSTATUS) -> Result<()> {
    if status == STATUS_SUCCESS { Ok(()) } else { Err(Error::Refused { request: method, status }) }
}

/// QueryInterface.
pub(crate) fn cast<I: Interface>(object: &impl Interface) -> Result<I> {
    object.cast().map_err(|error| Error::Refused { request: "QueryInterface", status: NTSTATUS(error.code().0) })
}

/// Calls a method that returns a status: `call!(Interface::Method, object, arguments)`.
macro_rules! call {
    ($interface:ident :: $method:ident, $object:expr $(, $argument:expr)*) => {{
        // SAFETY: the interface is held, and with it its DLL. Pointers among the arguments are those of locals that outlive
        // the call, of an OVERLAPPED that outlives its request, or wrong ones that the method is documented to refuse.
        let returned = unsafe { $object.$method($($argument),*) };
        super::saw(
            concat!(stringify!($interface), "::", stringify!($method)),
            ndk_abi::status::NTSTATUS(returned.0),
        )
    }};
}
use call;

/// As `call!`, for methods that must succeed: `ask!(...)?`.
macro_rules! ask {
    ($interface:ident :: $method:ident, $object:expr $(, $argument:expr)*) => {
        super::accepted(
            concat!(stringify!($interface), "::", stringify!($method)),
            super::call!($interface::$method, $object $(, $argument)*),
        )
    };
}
use ask;

/// Issues an overlapped request: `begin!(signal, patience, Interface::Method, object, arguments before the OVERLAPPED; those
/// behind it)`.
macro_rules! begin {
    (
        $signal:expr, $patience:expr, $interface:ident :: $method:ident, $object:expr
        $(, $argument:expr)* $(; $last:expr)?
    ) => {{
        let object = super::cast::<super::Overlapping>(&$object)?;
        super::Request::begin(
            concat!(stringify!($interface), "::", stringify!($method)),
            object.into(),
            $signal,
            $patience,
            |overlapped| {
                // SAFETY: as in `call!`; the OVERLAPPED outlives the request.
                unsafe { $object.$method($($argument,)* overlapped.cast() $(, $last)?) }
            },
        )
    }};
}
use begin;

/// A method that makes an object: `create!(Interface::Method, object, arguments before the pointer) -> Result<Made>`.
macro_rules! create {
    ($made:ident, $interface:ident :: $method:ident, $object:expr $(, $argument:expr)*) => {{
        let mut made = std::ptr::null_mut();
        super::ask!($interface::$method, $object, &$made::IID $(, $argument)*, &raw mut made)
            // SAFETY: the method succeeded, so it is an object of that interface, and the reference is ours.
            .map(|()| unsafe { $made::from_raw(made) })
    }};
}
use create;
