//! A consumer's side of NDK: handles that close themselves, and the calls that the benchmarks make.
//!
//! It does not use `driver/ndk-consumer`: the budgets count instructions and allocations, and that crate's choice among kinds of work and its
//! counted objects would be among them.
#![expect(unsafe_code, reason = "calls functions of a C interface")]

use std::{
    ffi::c_void,
    net::{IpAddr, Ipv4Addr},
    ptr::{NonNull, null_mut, without_provenance_mut},
    sync::atomic::{AtomicUsize, Ordering},
};

use hosted::{Hosted, Mdl};
use ndk_abi::{
    describe::ZeroInit,
    ndkpi::*,
    softndk_ioctl::{SOFTNDK_CAPTURE_BYTES, SOFTNDK_IOCTL_VERSION, SOFTNDK_START_CAPTURE},
    status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS},
};
use ndk_provider::Provider;
use platform::PoolQuota;

use crate::sample::Patience;

/// One that the host has: what listens does so with its TCP too.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Calls an entry of an object's dispatch table with the object as its first argument.
macro_rules! call {
    ($object:expr, $entry:ident($($argument:expr),* $(,)?)) => {{
        let object = $object.as_ptr();
        // SAFETY: an open object.
        let dispatch = unsafe { (*object).Dispatch };
        // SAFETY: the provider's table, which is static.
        let entry = unsafe { (*dispatch).$entry };
        // SAFETY: the documented contract of the entry, kept by the methods here.
        unsafe { entry(object.cast(), $($argument),*) }
    }};
}

macro_rules! handle {
    ($(#[$meta:meta])* $name:ident($raw:ty), $close:ident) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name(NonNull<$raw>);

        // SAFETY: NDK objects may be used on any thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl Drop for $name {
            fn drop(&mut self) {
                let status = call!(self.0, $close(closed, null_mut()));
                debug_assert!(status == STATUS_SUCCESS || status == STATUS_PENDING);
            }
        }
    };
}

handle!(
    /// A completion queue.
    Cq(NDK_CQ), NdkCloseCq);
handle!(
    /// A protection domain.
    Pd(NDK_PD), NdkClosePd);
handle!(
    /// A memory region.
    Mr(NDK_MR), NdkCloseMr);
handle!(
    /// A queue pair.
    Qp(NDK_QP), NdkCloseQp);
handle!(
    /// A connector. Closing it ends its connection.
    Connector(NDK_CONNECTOR), NdkCloseConnector);

mod connection;

pub use connection::Listener;

unsafe extern "system" fn closed(_context: *mut c_void) {}
unsafe extern "system" fn created(_context: *mut c_void, _status: NTSTATUS, _object: *mut NDK_OBJECT_HEADER) {}
unsafe extern "system" fn ignored(_context: *mut c_void, _status: NTSTATUS) {}

/// Completions of requests whose context is an [`AtomicUsize`]: counts successes.
unsafe extern "system" fn succeeded(context: *mut c_void, status: NTSTATUS) {
    assert_eq!(status, STATUS_SUCCESS);
    // SAFETY: the context given to the request, which waits for this.
    unsafe { &*context.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Release);
}

fn made<T>(status: NTSTATUS, out: *mut T) -> NonNull<T> {
    assert_eq!(status, STATUS_SUCCESS, "this provider creates inline");
    NonNull::new(out).unwrap_or_else(|| unreachable!("no object in spite of success"))
}

/// Runs a request and waits for its success.
fn complete(request: impl FnOnce(*mut c_void) -> NTSTATUS) {
    let done = AtomicUsize::new(0);
    match request((&raw const done).cast_mut().cast()) {
        STATUS_PENDING => {
            while done.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
        }
        status => assert_eq!(status, STATUS_SUCCESS),
    }
}

/// An open adapter of a provider of its own. Dropped last: its close waits for all other objects.
#[derive(Debug)]
pub struct Adapter(NonNull<NDK_ADAPTER>, IpAddr);

// SAFETY: NDK objects may be used on any thread.
unsafe impl Send for Adapter {}
// SAFETY: as above.
unsafe impl Sync for Adapter {}

impl Drop for Adapter {
    fn drop(&mut self) {
        // SAFETY: opened below; whoever has objects of it drops them.
        unsafe { Provider::<Hosted>::close(self.0, &hosted::passive()) };
    }
}

impl Default for Adapter {
    fn default() -> Self {
        Self::at(ADDRESS)
    }
}

/// The sizes of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpSizes {
    /// Receives, and as many initiator requests.
    pub depth: u32,
    /// SGEs of each.
    pub sges: u32,
    /// Bytes.
    pub inline_data: u32,
}

impl Adapter {
    /// The adapter of a device at an address that the host has. Two devices connect by the host's TCP, as two machines do.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self::open(address, false, None)
    }

    /// The same; FPDUs have CRCs.
    #[must_use]
    pub fn with_crc(address: IpAddr) -> Self {
        Self::open(address, true, None)
    }

    /// The same, opened for a program: its sends and writes end when the peer has placed them.
    #[must_use]
    pub fn of_program(address: IpAddr) -> Self {
        Self::open(address, false, Some(std::process::id()))
    }

    /// The adapter of a device that is captured, with `snap` bytes of data of each segment. No program reads the records.
    #[must_use]
    pub fn captured(snap: u32) -> Self {
        let what = SOFTNDK_START_CAPTURE {
            Version: SOFTNDK_IOCTL_VERSION,
            Snap: snap,
            Bytes: SOFTNDK_CAPTURE_BYTES,
            Port: 0,
            Reserved: 0,
        };
        Self::open_with(ADDRESS, None, |provider| assert_eq!(provider.start_capture(0, &what), STATUS_SUCCESS))
    }

    fn open(address: IpAddr, crc: bool, process: Option<u32>) -> Self {
        Self::open_with(address, process, |provider| provider.want_crc(crc))
    }

    fn open_with(address: IpAddr, process: Option<u32>, set: impl FnOnce(&Provider<Hosted>)) -> Self {
        let provider = Provider::<Hosted>::new(&[address]);
        let adapter = provider.and_then(|provider| {
            set(&provider);
            provider.open_for(NDK_VERSION { Major: 2, Minor: 0 }, process, &PoolQuota::UNLIMITED)
        });
        Self(adapter.unwrap_or_else(|status| panic!("no adapter: {status:?}")), address)
    }

    /// A completion queue without notifications.
    #[must_use]
    pub fn cq(&self, depth: u32) -> Cq {
        self.cq_with(depth, ignored, &())
    }

    /// A completion queue whose notifications get `context`.
    #[must_use]
    pub fn cq_with<T>(&self, depth: u32, notify: NDK_FN_CQ_NOTIFICATION_CALLBACK, context: &'static T) -> Cq {
        let context = (&raw const *context).cast_mut().cast();
        let mut out = null_mut();
        let status = call!(self.0, NdkCreateCq(depth, notify, context, null_mut(), created, null_mut(), &raw mut out));
        Cq(made(status, out))
    }

    /// A protection domain.
    #[must_use]
    pub fn pd(&self) -> Pd {
        let mut out = null_mut();
        let status = call!(self.0, NdkCreatePd(created, null_mut(), &raw mut out));
        Pd(made(status, out))
    }
}

impl Pd {
    /// A plain region, not registered.
    #[must_use]
    pub fn mr(&self) -> Mr {
        let mut out = null_mut();
        let status = call!(self.0, NdkCreateMr(0, created, null_mut(), &raw mut out));
        Mr(made(status, out))
    }

    /// A queue pair; `context` comes back in its results.
    #[must_use]
    pub fn qp(&self, receive: &Cq, initiator: &Cq, context: usize, sizes: QpSizes) -> Qp {
        let mut out = null_mut();
        let status = call!(
            self.0,
            NdkCreateQp(
                receive.0.as_ptr(),
                initiator.0.as_ptr(),
                without_provenance_mut(context),
                sizes.depth,
                sizes.depth,
                sizes.sges,
                sizes.sges,
                sizes.inline_data,
                created,
                null_mut(),
                &raw mut out,
            )
        );
        Qp(made(status, out))
    }
}

impl Mr {
    /// Registers with all rights; the token.
    #[must_use]
    pub fn register(&self, mdl: &Mdl, length: usize) -> u32 {
        let flags = NDK_MR_FLAG_ALLOW_LOCAL_WRITE | NDK_MR_FLAG_ALLOW_REMOTE_READ | NDK_MR_FLAG_ALLOW_REMOTE_WRITE;
        complete(|done| call!(self.0, NdkRegisterMr(mdl.as_ptr(), length, flags, succeeded, done)));
        call!(self.0, NdkGetLocalTokenFromMr())
    }
}

impl Qp {
    /// NdkSend of one SGE.
    #[inline]
    pub fn send(&self, context: usize, sge: &NDK_SGE, flags: u32) {
        let status = call!(self.0, NdkSend(without_provenance_mut(context), sge, 1, flags));
        assert_eq!(status, STATUS_SUCCESS);
    }

    /// NdkReceive into one SGE.
    #[inline]
    pub fn receive(&self, context: usize, sge: &NDK_SGE) {
        let status = call!(self.0, NdkReceive(without_provenance_mut(context), sge, 1));
        assert_eq!(status, STATUS_SUCCESS);
    }

    /// NdkWrite of one SGE.
    #[inline]
    pub fn write(&self, context: usize, sge: &NDK_SGE, remote: u64, token: u32, flags: u32) {
        let status = call!(self.0, NdkWrite(without_provenance_mut(context), sge, 1, remote, token, flags));
        assert_eq!(status, STATUS_SUCCESS);
    }
}

/// Results taken by one call.
pub const POLL: usize = 16;
/// Room for them.
pub type Results = [NDK_RESULT; POLL];
/// No results yet.
pub const NO_RESULTS: Results = [NDK_RESULT::ZERO; POLL];

impl Cq {
    /// NdkGetCqResults; panics on a failed request.
    #[inline]
    pub fn poll<'a>(&self, results: &'a mut Results) -> &'a [NDK_RESULT] {
        let count = call!(self.0, NdkGetCqResults(results.as_mut_ptr(), POLL as u32));
        let results = &results[..count as usize];
        assert!(results.iter().all(|result| result.Status == STATUS_SUCCESS), "a request failed");
        results
    }

    /// Polls until `count` results have come; hands each to `each`.
    #[inline]
    pub fn take(&self, count: usize, mut each: impl FnMut(&NDK_RESULT)) {
        let mut results = NO_RESULTS;
        let mut patience = Patience::default();
        let mut taken = 0;
        while taken < count {
            let results = self.poll(&mut results);
            patience.found(!results.is_empty());
            results.iter().for_each(&mut each);
            taken += results.len();
        }
    }

    /// NdkArmCq for any completion.
    #[inline]
    pub fn arm(&self) {
        call!(self.0, NdkArmCq(NDK_CQ_NOTIFY_ANY));
    }
}
