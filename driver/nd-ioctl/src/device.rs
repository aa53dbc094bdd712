//! The control device: what its files share.

use core::sync::atomic::{AtomicU32, AtomicU64};

use ndk_abi::status::NTSTATUS;
use platform::{Arc, OutOfMemory, PoolQuota, SpinLock, Weak};

use crate::session::file::ProviderContext;
use crate::session::quota::Quota;
use crate::session::slab::Slab;
use crate::{File, Host, Ref};

/// One control device.
pub struct Device<H: Host> {
    shared: Ref<Shared<H>, H>,
}

/// At most 8192 provider contexts.
const CHUNK: u32 = 256;
const CHUNKS: usize = 32;

/// Provider contexts by their identifiers.
pub(crate) type Contexts<H> = Slab<Entry<H>, <H as Host>::Platform, CHUNK, CHUNKS>;

/// The entry of a provider context.
pub(crate) struct Entry<H: Host> {
    pub(crate) process: u64,
    /// All contexts of the process share it.
    pub(crate) quota: Ref<Quota<H>, H>,
    /// None: PROVIDER_INIT is making it.
    pub(crate) context: Option<Weak<ProviderContext<H>, H::Platform>>,
}

/// What a device and its files share; it lives until the last file is gone.
pub(crate) struct Shared<H: Host> {
    pub(crate) host: H,
    /// The contexts whose file is not cleaned up.
    pub(crate) contexts: SpinLock<Contexts<H>, H::Platform>,
    /// Open files.
    pub(crate) files: AtomicU32,
    /// Requests not yet completed.
    pub(crate) pended: AtomicU32,
    /// Requests ever received, and how many of them were doorbells. Those for diagnostics are not counted.
    pub(crate) requests: AtomicU64,
    pub(crate) doorbells: AtomicU64,
}

impl<H: Host> Device<H> {
    /// The device of `host`.
    pub fn new(host: H) -> Result<Self, OutOfMemory> {
        let shared = Arc::try_new(Shared {
            host,
            contexts: SpinLock::<_, H::Platform>::new(Slab::new(PoolQuota::UNLIMITED.no_charge())),
            files: AtomicU32::new(0),
            pended: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            doorbells: AtomicU64::new(0),
        })?;
        Ok(Self { shared })
    }

    /// A new open of the device (IRP_MJ_CREATE), by the process with this number, the only one whose requests it serves. Numbers
    /// may be used again when all files of their process are cleaned up. IRQL PASSIVE.
    pub fn open(&self, process: u64) -> Result<File<H>, NTSTATUS> {
        File::new(self.shared.clone(), process)
    }

    /// The host given to [`Device::new`].
    pub fn host(&self) -> &H {
        &self.shared.host
    }
}
