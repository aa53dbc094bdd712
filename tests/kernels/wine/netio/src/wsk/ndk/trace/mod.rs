//! What a consumer calls of NDKPI, for the debug channel: each object gets a table that notes a call and passes it on.
//!
//! A line says the function, its sizes, depths and flags, the IRQL and the status, and no pointer, so calls that repeat are the same
//! line: it is printed the first time, and counted after that.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{Mutex, OnceLock},
};

use ndk_abi::{
    ndkpi::*,
    status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS},
};

use crate::lock;

/// How often each line has come.
static LINES: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn note(line: String) {
    let line = format!("{line}, at IRQL {}", kernel::irql());
    let mut lines = lock(&LINES);
    let count = lines.entry(line.clone()).or_default();
    *count += 1;
    let is_new = *count == 1;
    drop(lines);
    if is_new {
        kernel::trace(&format!("ndk: {line}"));
    }
}

/// What a call has returned, which is noted if it is not success.
fn returned(name: &str, status: NTSTATUS) -> NTSTATUS {
    if status != STATUS_SUCCESS {
        note(format!("{name} returns {status}"));
    }
    status
}

/// A consumer has closed its adapter: prints how often what repeats has come.
pub(super) fn end() {
    for (line, count) in std::mem::take(&mut *lock(&LINES)) {
        if count > 1 {
            kernel::trace(&format!("ndk: {count} times: {line}"));
        }
    }
}

/// The objects that have a dispatch table.
trait Traced {
    type Table: Copy + 'static;
    fn dispatch(object: *mut Self) -> *mut *const Self::Table;
    fn original() -> &'static OnceLock<Originals<Self::Table>>;
    /// The provider's table, with the functions that are noted.
    fn traced(original: Self::Table) -> Self::Table;
}

/// The provider's table of a kind of object, and what its objects get instead.
struct Originals<T> {
    provider: T,
    traced: T,
}

/// Gives an object of the provider its noting table.
///
/// # Safety
/// The object is new: nobody uses its table yet.
unsafe fn attach<O: Traced>(object: *mut O) {
    if object.is_null() {
        return;
    }
    let place = O::dispatch(object);
    let tables = O::original().get_or_init(|| {
        // SAFETY: the table of a live object.
        let provider = unsafe { **place };
        Originals { provider, traced: O::traced(provider) }
    });
    // SAFETY: the head of the object, which belongs to the consumer.
    unsafe { place.write(&raw const tables.traced) };
}

/// What the provider's functions of an object are.
fn provider<O: Traced>() -> &'static O::Table {
    &O::original().get().expect("only objects with a noting table call it").provider
}

/// A completion that the consumer waits for.
struct Wait<F> {
    name: &'static str,
    completion: F,
    context: *mut c_void,
}

impl<F> Wait<F> {
    fn begin(name: &'static str, completion: F, context: *mut c_void) -> *mut c_void {
        Box::into_raw(Box::new(Self { name, completion, context })).cast()
    }

    /// Takes it back.
    ///
    /// # Safety
    /// `wait` is of `begin`, once.
    unsafe fn end(wait: *mut c_void) -> Self {
        // SAFETY: passed on to the caller.
        *unsafe { Box::from_raw(wait.cast::<Self>()) }
    }
}

unsafe extern "system" fn created<O: Traced>(wait: *mut c_void, status: NTSTATUS, object: *mut NDK_OBJECT_HEADER) {
    // SAFETY: the context of the request, which is completed once.
    let wait = unsafe { Wait::<NDK_FN_CREATE_COMPLETION>::end(wait) };
    note(format!("completion of {}: {status}", wait.name));
    if status == STATUS_SUCCESS {
        // SAFETY: the consumer has not seen it yet.
        unsafe { attach(object.cast::<O>()) };
    }
    // SAFETY: the consumer's own.
    unsafe { (wait.completion)(wait.context, status, object) };
}

unsafe extern "system" fn requested(wait: *mut c_void, status: NTSTATUS) {
    // SAFETY: the context of the request, which is completed once.
    let wait = unsafe { Wait::<NDK_FN_REQUEST_COMPLETION>::end(wait) };
    note(format!("completion of {}: {status}", wait.name));
    // SAFETY: the consumer's own.
    unsafe { (wait.completion)(wait.context, status) };
}

unsafe extern "system" fn closed(wait: *mut c_void) {
    // SAFETY: the context of the request, which is completed once.
    let wait = unsafe { Wait::<NDK_FN_CLOSE_COMPLETION>::end(wait) };
    note(format!("completion of {}", wait.name));
    // SAFETY: the consumer's own.
    unsafe { (wait.completion)(wait.context) };
}

/// Has an object made: `make` gets the completion and its context.
unsafe fn create<O: Traced>(
    name: &'static str,
    asked: &str,
    completion: NDK_FN_CREATE_COMPLETION,
    context: *mut c_void,
    place: *mut *mut O,
    make: impl FnOnce(NDK_FN_CREATE_COMPLETION, *mut c_void) -> NTSTATUS,
) -> NTSTATUS {
    note(format!("{name}{asked}"));
    let wait = Wait::begin(name, completion, context);
    let status = make(created::<O>, wait);
    if status != STATUS_PENDING {
        // SAFETY: it is not completed otherwise.
        let _ended = unsafe { Wait::<NDK_FN_CREATE_COMPLETION>::end(wait) };
        returned(name, status);
    }
    if status == STATUS_SUCCESS {
        // SAFETY: the provider has put it there, and the consumer has not seen it yet.
        unsafe { attach(*place) };
    }
    status
}

/// Has something done that may pend.
unsafe fn request(
    name: &'static str,
    asked: &str,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
    make: impl FnOnce(NDK_FN_REQUEST_COMPLETION, *mut c_void) -> NTSTATUS,
) -> NTSTATUS {
    note(format!("{name}{asked}"));
    let wait = Wait::begin(name, completion, context);
    let status = make(requested, wait);
    if status != STATUS_PENDING {
        // SAFETY: it is not completed otherwise.
        let _ended = unsafe { Wait::<NDK_FN_REQUEST_COMPLETION>::end(wait) };
        returned(name, status);
    }
    status
}

/// Has an object closed.
unsafe fn close(
    name: &'static str,
    completion: NDK_FN_CLOSE_COMPLETION,
    context: *mut c_void,
    make: impl FnOnce(NDK_FN_CLOSE_COMPLETION, *mut c_void) -> NTSTATUS,
) -> NTSTATUS {
    note(name.to_owned());
    let wait = Wait::begin(name, completion, context);
    let status = make(closed, wait);
    if status != STATUS_PENDING {
        // SAFETY: it is not completed otherwise.
        let _ended = unsafe { Wait::<NDK_FN_CLOSE_COMPLETION>::end(wait) };
        returned(name, status);
    }
    status
}

/// The lengths of a list of SGEs, added up.
///
/// # Safety
/// `list` has so many.
unsafe fn lengths(list: *const NDK_SGE, count: u32) -> String {
    let lengths = (0..count as usize).map(|index| {
        // SAFETY: passed on to the caller.
        unsafe { (*list.add(index)).Length }.to_string()
    });
    format!("{} bytes", lengths.collect::<Vec<_>>().join(" + "))
}

/// A noting table: functions that take an object and its other parameters, and what they do with the provider's one, `call`; and the
/// function that closes it, if the object has one, which takes its header.
macro_rules! traced {
    ($object:ident, $table:ident, [$($close:ident)?]: $(
        fn $name:ident($this:ident $(, $parameter:ident: $kind:ty)* $(,)?) $(-> $result:ty)? |$call:ident| $body:block
    )*) => {
        const _: () = {
            impl Traced for $object {
                type Table = $table;

                fn dispatch(object: *mut Self) -> *mut *const $table {
                    // SAFETY: a field of a live object.
                    unsafe { &raw mut (*object).Dispatch }
                }

                fn original() -> &'static OnceLock<Originals<$table>> {
                    static TABLES: OnceLock<Originals<$table>> = OnceLock::new();
                    &TABLES
                }

                fn traced(original: $table) -> $table {
                    $table { $($close,)? $($name,)* ..original }
                }
            }

            $(unsafe extern "system" fn $close(
                this: *mut NDK_OBJECT_HEADER,
                completion: NDK_FN_CLOSE_COMPLETION,
                context: *mut c_void,
            ) -> NTSTATUS {
                let call = provider::<$object>().$close;
                // SAFETY: the consumer keeps the contract of the function.
                unsafe { close(stringify!($close), completion, context, |done, wait| call(this, done, wait)) }
            })?

            $(unsafe extern "system" fn $name($this: *mut $object $(, $parameter: $kind)*) $(-> $result)? {
                let $call = provider::<$object>().$name;
                // SAFETY: the consumer keeps the contract of the function.
                unsafe { $body }
            })*
        };
    };
}

mod connections;
mod objects;

/// Notes what a consumer calls of the adapter that it has just opened.
///
/// # Safety
/// The consumer has not seen it.
pub(super) unsafe fn begin(adapter: *mut NDK_ADAPTER, version: NDK_VERSION) {
    note(format!("WskOpenNdkAdapter, version {}.{}", version.Major, version.Minor));
    // SAFETY: passed on to the caller.
    unsafe { attach(adapter) };
}
