//! NDK_ADAPTER, which NDIS opens and closes, NDK_PD, and logical address mappings.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::describe::ZeroInit;
use ndk_abi::ndkpi::{
    NDK_ADAPTER, NDK_ADAPTER_DISPATCH, NDK_ADAPTER_INFO, NDK_LOGICAL_ADDRESS, NDK_LOGICAL_ADDRESS_MAPPING, NDK_PD,
    NDK_VERSION,
};
use ndk_abi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER};
use ndk_abi::wdm::PAGE_SIZE;
use platform::{Arc, Charge, Event, OutOfMemory, Passive, Platform, PoolQuota, Slice, SpinLock};

use crate::{AdapterSource, Owned, Pinned, check, request};

/// The version to open. OPEN_NDK_ADAPTER_HANDLER takes the lowest minor version that the consumer accepts, with the
/// major version of the provider; the functions called here exist since 1.2 (`NdkGetCqResultsEx`,
/// `NdkSendAndInvalidate`).
const VERSION: NDK_VERSION = NDK_VERSION { Major: 2, Minor: 0 };

/// An open NDK adapter. Each of its objects, and each call to it, holds a reference.
///
/// The last reference may be dropped at DISPATCH_LEVEL, where an adapter cannot be closed: [`OpenAdapters`] closes it
/// later, at PASSIVE_LEVEL.
pub struct Adapter<P: Platform>(Arc<Open<P>, P>);

/// An open NDK adapter.
struct Open<P: Platform> {
    object: NonNull<NDK_ADAPTER>,
    /// The last reference to its [`Adapter`] was dropped.
    unused: AtomicBool,
    /// Signalled when `unused` is set.
    event: Arc<Event<P>, P>,
    charge: Charge<P>,
}

// SAFETY: NDKPI functions may be called from any thread.
unsafe impl<P: Platform> Send for Open<P> {}
// SAFETY: as for Send.
unsafe impl<P: Platform> Sync for Open<P> {}

impl<P: Platform> Adapter<P> {
    pub(crate) fn as_ptr(&self) -> *mut NDK_ADAPTER {
        self.0.object.as_ptr()
    }

    pub(crate) fn table(&self) -> &NDK_ADAPTER_DISPATCH {
        // SAFETY: the adapter is open as long as `self` lives.
        let object = unsafe { self.0.object.as_ref() };
        // SAFETY: an open adapter has a dispatch table, which outlives it.
        unsafe { &*object.Dispatch }
    }

    /// The quota that objects made through this adapter count against.
    pub fn quota(&self) -> &PoolQuota<P> {
        self.0.charge.quota()
    }

    /// NdkQueryAdapterInfo.
    pub fn info(&self, _passive: &Passive<'_>) -> Result<NDK_ADAPTER_INFO, NTSTATUS> {
        let mut info = NDK_ADAPTER_INFO::ZERO;
        let mut size = size_of::<NDK_ADAPTER_INFO>() as u32;
        // SAFETY: an open adapter; `info` has `size` bytes.
        check(unsafe { (self.table().NdkQueryAdapterInfo)(self.as_ptr(), &raw mut info, &raw mut size) })?;
        Ok(info)
    }

    /// NdkCreatePd.
    pub fn create_pd(this: &Arc<Self, P>, passive: &Passive<'_>) -> Result<Owned<NDK_PD, Self, P>, NTSTATUS> {
        let create = this.table().NdkCreatePd;
        // SAFETY: an open adapter; the arguments belong together.
        let call = |completion, context, out| unsafe { create(this.as_ptr(), completion, context, out) };
        // SAFETY: NdkCreatePd makes a PD, which has no callbacks.
        unsafe { Owned::create(this.clone(), passive, call) }
    }
}

impl<P: Platform> Drop for Adapter<P> {
    fn drop(&mut self) {
        self.0.unused.store(true, Ordering::Release);
        self.0.event.set();
    }
}

/// The most NDK adapters that one user has open.
const ADAPTERS: usize = 8;

/// The NDK adapters that one user has open, such as a file of the control device.
pub struct OpenAdapters<P: Platform>(SpinLock<Slots<P>, P>);

struct Slots<P: Platform> {
    open: [Option<Arc<Open<P>, P>>; ADAPTERS],
    closed: bool,
}

impl<P: Platform> Default for OpenAdapters<P> {
    fn default() -> Self {
        Self(SpinLock::<_, P>::new(Slots { open: [const { None }; ADAPTERS], closed: false }))
    }
}

impl<P: Platform> OpenAdapters<P> {
    /// Opens an NDK adapter: with a quota for a program, without one for a kernel consumer.
    /// STATUS_INSUFFICIENT_RESOURCES: `ADAPTERS` are open already, or there is no memory; STATUS_DEVICE_REMOVED: after
    /// `close_all`; else the error of the source.
    pub fn open<S: AdapterSource<P>>(
        &self,
        source: &S,
        quota: Option<&PoolQuota<P>>,
        passive: &Passive<'_>,
    ) -> Result<Arc<Adapter<P>, P>, NTSTATUS> {
        self.close_unused(source, passive);
        let own = Arc::<Open<P>, P>::POOL_BYTES.saturating_add(Arc::<Adapter<P>, P>::POOL_BYTES);
        let own = own.saturating_add(Arc::<Event<P>, P>::POOL_BYTES);
        let charge = quota.unwrap_or(&PoolQuota::UNLIMITED).charge(own);
        let charge = charge.map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        let event = Event::new().map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        let object = source.open_adapter(VERSION, quota, passive)?;
        match self.admit(object, event, charge) {
            Ok(adapter) => Ok(adapter),
            Err(status) => {
                // SAFETY: opened above; nothing was made on it.
                unsafe { source.close_adapter(object, passive) };
                Err(status)
            }
        }
    }

    fn admit(
        &self,
        object: NonNull<NDK_ADAPTER>,
        event: Arc<Event<P>, P>,
        charge: Charge<P>,
    ) -> Result<Arc<Adapter<P>, P>, NTSTATUS> {
        let open = Open { object, unused: AtomicBool::new(false), event, charge };
        let open = Arc::try_new(open).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        let adapter = Arc::try_new(Adapter(open.clone())).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        let mut slots = self.0.lock();
        if slots.closed {
            return Err(STATUS_DEVICE_REMOVED);
        }
        let free = slots.open.iter_mut().find(|slot| slot.is_none()).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        *free = Some(open);
        drop(slots);
        Ok(adapter)
    }

    /// Closes the adapters whose last reference was dropped.
    pub fn close_unused<S: AdapterSource<P>>(&self, source: &S, passive: &Passive<'_>) {
        while let Some(open) = self.take(|open| open.unused.load(Ordering::Acquire)) {
            // SAFETY: every object and every call held a reference, and the last one went.
            unsafe { source.close_adapter(open.object, passive) };
        }
    }

    /// Closes all adapters: waits for the last reference to each, which the caller has made sure will be dropped. Later
    /// opens fail with STATUS_DEVICE_REMOVED.
    pub fn close_all<S: AdapterSource<P>>(&self, source: &S, passive: &Passive<'_>) {
        self.0.lock().closed = true;
        while let Some(open) = self.take(|_| true) {
            open.event.wait(passive);
            // SAFETY: as in close_unused.
            unsafe { source.close_adapter(open.object, passive) };
        }
    }

    fn take(&self, wanted: impl Fn(&Open<P>) -> bool) -> Option<Arc<Open<P>, P>> {
        let mut slots = self.0.lock();
        let slot = slots.open.iter_mut().find(|slot| slot.as_ref().is_some_and(|open| wanted(open)))?;
        slot.take()
    }
}

/// A logical address mapping of locked memory.
pub struct Lam<P: Platform> {
    /// An NDK_LOGICAL_ADDRESS_MAPPING with room for all pages.
    memory: Slice<u64, P>,
    /// Offset of the first byte in the first page.
    first_byte_offset: u32,
    adapter: Arc<Adapter<P>, P>,
    _charge: Charge<P>,
}

impl<P: Platform> Lam<P> {
    /// NdkBuildLAM over the `length` bytes of `pinned`, which must outlive the mapping.
    pub fn build(
        adapter: &Arc<Adapter<P>, P>,
        pinned: &impl Pinned,
        length: usize,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        // One page more than the length fills, for a start inside a page.
        let pages = length.div_ceil(PAGE_SIZE).checked_add(1).ok_or(STATUS_INVALID_PARAMETER)?;
        let size = NDK_LOGICAL_ADDRESS_MAPPING::size_for(pages).ok_or(STATUS_INVALID_PARAMETER)?;
        let mut lam_size = u32::try_from(size).map_err(|_| STATUS_INVALID_PARAMETER)?;
        let words = size.div_ceil(size_of::<u64>());
        let charge = adapter.quota().charge(Slice::<u64, P>::pool_bytes(words));
        let charge = charge.map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        let mut memory = Slice::filled(words, 0u64).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        let lam = memory.as_mut_ptr().cast();
        let build = adapter.table().NdkBuildLAM;
        let mut offset = 0u32;
        check(request::<P>(passive, |completion, context| {
            let mdl = pinned.mdl().as_ptr();
            let (size, offset) = (&raw mut lam_size, &raw mut offset);
            // SAFETY: an open adapter, a locked MDL chain, and `lam_size` bytes aligned for a mapping; all of them
            // outlive the request, which is waited for.
            unsafe { build(adapter.as_ptr(), mdl, length, Some(completion), context, lam, size, offset) }
        }))?;
        Ok(Self { memory, first_byte_offset: offset, adapter: adapter.clone(), _charge: charge })
    }

    /// Offset of the first byte in the first page.
    pub fn first_byte_offset(&self) -> u32 {
        self.first_byte_offset
    }

    /// Pages of the mapping.
    pub fn page_count(&self) -> u32 {
        // SAFETY: the memory holds a mapping, filled in by NdkBuildLAM.
        let mapping = unsafe { &*self.memory.as_ptr().cast::<NDK_LOGICAL_ADDRESS_MAPPING>() };
        mapping.AdapterPageCount
    }

    /// The logical addresses of its pages.
    pub(crate) fn pages(&self) -> *const NDK_LOGICAL_ADDRESS {
        let array = core::mem::offset_of!(NDK_LOGICAL_ADDRESS_MAPPING, AdapterPageArray);
        self.memory.as_ptr().wrapping_byte_add(array).cast()
    }
}

impl<P: Platform> Drop for Lam<P> {
    fn drop(&mut self) {
        let release = self.adapter.table().NdkReleaseLAM;
        // SAFETY: built on this adapter and released once, after its region was closed.
        unsafe { release(self.adapter.as_ptr(), self.memory.as_mut_ptr().cast()) };
    }
}
