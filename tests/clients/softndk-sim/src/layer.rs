//! A layer between the consumer and the provider, as Windows puts one there: it replaces the tables of adapters, protection
//! domains and memory regions with its own, to see what the simulated kernel cannot: which MDLs are in use, and calls above
//! their IRQL that would work here nevertheless.
#![expect(unsafe_code, reason = "functions of a C interface")]

use std::{
    collections::BTreeMap,
    ffi::c_void,
    ptr::NonNull,
    sync::{Mutex, OnceLock},
};

use ndk_abi::{
    ndkpi::{
        NDK_ADAPTER, NDK_ADAPTER_DISPATCH, NDK_ADAPTER_INFO, NDK_FN_CLOSE_COMPLETION, NDK_FN_CREATE_COMPLETION,
        NDK_FN_REQUEST_COMPLETION, NDK_LOGICAL_ADDRESS_MAPPING, NDK_MR, NDK_MR_DISPATCH, NDK_OBJECT_HEADER, NDK_PD,
        NDK_PD_DISPATCH,
    },
    status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS},
    wdm::{BOOLEAN, MDL},
};

use crate::{
    kernel::{self, lock},
    mdls::{self, Use},
};

/// The provider's tables, and ours.
static ADAPTER: Table<NDK_ADAPTER_DISPATCH> = Table::new();
static PD: Table<NDK_PD_DISPATCH> = Table::new();
static MR: Table<NDK_MR_DISPATCH> = Table::new();

/// The MDLs of registered regions, by region.
static REGIONS: Mutex<BTreeMap<usize, Use>> = Mutex::new(BTreeMap::new());
/// The MDLs of logical address mappings, by mapping.
static MAPPINGS: Mutex<BTreeMap<usize, Use>> = Mutex::new(BTreeMap::new());

struct Table<T> {
    below: OnceLock<T>,
    above: OnceLock<T>,
}

impl<T: Copy> Table<T> {
    const fn new() -> Self {
        Self { below: OnceLock::new(), above: OnceLock::new() }
    }

    fn below(&self) -> &T {
        self.below.get().unwrap_or_else(|| kernel::fatal(format_args!("an object that was never handed out")))
    }

    /// Puts our table, the provider's with some entries changed, in the place of the provider's.
    ///
    /// # Safety
    /// `dispatch` is the dispatch member of an object that was just made.
    unsafe fn put(&'static self, dispatch: *mut *const T, change: impl FnOnce(&mut T)) {
        // SAFETY: the caller's contract.
        let below = unsafe { dispatch.read() };
        let above = self.above.get_or_init(|| {
            // SAFETY: the provider's table, which is static.
            let mut table = unsafe { *below };
            let _first = self.below.set(table);
            change(&mut table);
            table
        });
        // SAFETY: the caller's contract.
        unsafe { dispatch.write(above) };
    }
}

/// Puts the layer over an adapter that was just opened.
///
/// # Safety
/// It is live and nobody else's yet.
pub(crate) unsafe fn put_over(adapter: NonNull<NDK_ADAPTER>) {
    // SAFETY: the caller's contract.
    let dispatch = unsafe { &raw mut (*adapter.as_ptr()).Dispatch };
    let change = |table: &mut NDK_ADAPTER_DISPATCH| {
        table.NdkQueryAdapterInfo = query_adapter_info;
        table.NdkCreatePd = create_pd;
        table.NdkBuildLAM = build_lam;
        table.NdkReleaseLAM = release_lam;
    };
    // SAFETY: the caller's contract.
    unsafe { ADAPTER.put(dispatch, change) };
}

/// The layer counts on the provider to make objects and to register inline (docs/decisions.md).
fn inline(call: &str, status: NTSTATUS) -> bool {
    if status == STATUS_PENDING {
        kernel::fatal(format_args!("{call} has not finished inline: the layer of softndk_sim has to learn of that"));
    }
    status == STATUS_SUCCESS
}

unsafe extern "system" fn query_adapter_info(
    adapter: *mut NDK_ADAPTER,
    info: *mut NDK_ADAPTER_INFO,
    size: *mut u32,
) -> NTSTATUS {
    kernel::enter_passive("NdkQueryAdapterInfo");
    // SAFETY: the consumer's call.
    unsafe { (ADAPTER.below().NdkQueryAdapterInfo)(adapter, info, size) }
}

unsafe extern "system" fn create_pd(
    adapter: *mut NDK_ADAPTER,
    completion: NDK_FN_CREATE_COMPLETION,
    context: *mut c_void,
    out: *mut *mut NDK_PD,
) -> NTSTATUS {
    // SAFETY: the consumer's call.
    let status = unsafe { (ADAPTER.below().NdkCreatePd)(adapter, completion, context, out) };
    if inline("NdkCreatePd", status) {
        // SAFETY: written by the provider.
        let pd = unsafe { out.read() };
        // SAFETY: just made.
        let dispatch = unsafe { &raw mut (*pd).Dispatch };
        // SAFETY: of an object just made.
        unsafe { PD.put(dispatch, |table| table.NdkCreateMr = create_mr) };
    }
    status
}

unsafe extern "system" fn create_mr(
    pd: *mut NDK_PD,
    fast_register: BOOLEAN,
    completion: NDK_FN_CREATE_COMPLETION,
    context: *mut c_void,
    out: *mut *mut NDK_MR,
) -> NTSTATUS {
    // SAFETY: the consumer's call.
    let status = unsafe { (PD.below().NdkCreateMr)(pd, fast_register, completion, context, out) };
    if inline("NdkCreateMr", status) {
        // SAFETY: written by the provider.
        let mr = unsafe { out.read() };
        // SAFETY: just made.
        let dispatch = unsafe { &raw mut (*mr).Dispatch };
        let change = |table: &mut NDK_MR_DISPATCH| {
            table.NdkRegisterMr = register_mr;
            table.NdkDeregisterMr = deregister_mr;
            table.NdkCloseMr = close_mr;
        };
        // SAFETY: of an object just made.
        unsafe { MR.put(dispatch, change) };
    }
    status
}

unsafe extern "system" fn register_mr(
    mr: *mut NDK_MR,
    mdl: *mut MDL,
    length: usize,
    flags: u32,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    let used = mdls::begin_use("NdkRegisterMr", mdl, length);
    // SAFETY: the consumer's call.
    let status = unsafe { (MR.below().NdkRegisterMr)(mr, mdl, length, flags, completion, context) };
    if inline("NdkRegisterMr", status) {
        lock(&REGIONS).insert(mr.addr(), used);
    } else {
        mdls::end_use(used);
    }
    status
}

/// A call that ends the registration of a region, and may be pending. What the region used is taken from the table before
/// the call, as another may have its address when the call returns.
struct Ending<F> {
    region: usize,
    used: Use,
    completion: F,
    context: *mut c_void,
}

impl<F> Ending<F> {
    fn of(mr: *mut c_void, completion: F, context: *mut c_void) -> *mut Self {
        let used = lock(&REGIONS).remove(&mr.addr()).unwrap_or_default();
        Box::into_raw(Box::new(Self { region: mr.addr(), used, completion, context }))
    }

    /// # Safety
    /// `ending` came from [`Ending::of`]; this is its one end.
    unsafe fn end(ending: *mut Self, status: NTSTATUS) -> (F, *mut c_void) {
        // SAFETY: the caller's contract.
        let ending = *unsafe { Box::from_raw(ending) };
        if status == STATUS_SUCCESS {
            mdls::end_use(ending.used);
        } else if !ending.used.is_empty() {
            lock(&REGIONS).insert(ending.region, ending.used);
        }
        (ending.completion, ending.context)
    }
}

unsafe extern "system" fn deregister_mr(
    mr: *mut NDK_MR,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    let ending = Ending::of(mr.cast(), completion, context);
    // SAFETY: the consumer's call.
    let status = unsafe { (MR.below().NdkDeregisterMr)(mr, deregistered, ending.cast()) };
    if status != STATUS_PENDING {
        // SAFETY: there is no completion.
        let _completion = unsafe { Ending::end(ending, status) };
    }
    status
}

unsafe extern "system" fn deregistered(ending: *mut c_void, status: NTSTATUS) {
    // SAFETY: the one completion.
    let (completion, context) = unsafe { Ending::<NDK_FN_REQUEST_COMPLETION>::end(ending.cast(), status) };
    // SAFETY: the consumer's.
    unsafe { completion(context, status) };
}

unsafe extern "system" fn close_mr(
    mr: *mut NDK_OBJECT_HEADER,
    completion: NDK_FN_CLOSE_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    let ending = Ending::of(mr.cast(), completion, context);
    // SAFETY: the consumer's call.
    let status = unsafe { (MR.below().NdkCloseMr)(mr, closed, ending.cast()) };
    if status != STATUS_PENDING {
        // SAFETY: there is no completion.
        let _completion = unsafe { Ending::end(ending, status) };
    }
    status
}

unsafe extern "system" fn closed(ending: *mut c_void) {
    // SAFETY: the one completion.
    let (completion, context) = unsafe { Ending::<NDK_FN_CLOSE_COMPLETION>::end(ending.cast(), STATUS_SUCCESS) };
    // SAFETY: the consumer's.
    unsafe { completion(context) };
}

unsafe extern "system" fn build_lam(
    adapter: *mut NDK_ADAPTER,
    mdl: *mut MDL,
    length: usize,
    completion: Option<NDK_FN_REQUEST_COMPLETION>,
    context: *mut c_void,
    mapping: *mut NDK_LOGICAL_ADDRESS_MAPPING,
    size: *mut u32,
    first_byte_offset: *mut u32,
) -> NTSTATUS {
    let used = mdls::begin_use("NdkBuildLAM", mdl, length);
    let build = ADAPTER.below().NdkBuildLAM;
    // SAFETY: the consumer's call.
    let status = unsafe { build(adapter, mdl, length, completion, context, mapping, size, first_byte_offset) };
    let replaced =
        if inline("NdkBuildLAM", status) { lock(&MAPPINGS).insert(mapping.addr(), used) } else { Some(used) };
    mdls::end_use(replaced.unwrap_or_default());
    status
}

unsafe extern "system" fn release_lam(adapter: *mut NDK_ADAPTER, mapping: *mut NDK_LOGICAL_ADDRESS_MAPPING) {
    // SAFETY: the consumer's call.
    unsafe { (ADAPTER.below().NdkReleaseLAM)(adapter, mapping) };
    let used = lock(&MAPPINGS).remove(&mapping.addr());
    mdls::end_use(used.unwrap_or_default());
}
