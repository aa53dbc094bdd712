//! The control device of an adapter.

use ndk_abi::status::NTSTATUS;
use platform::{Arc, OutOfMemory, PoolQuota, SpinLock};

use crate::device_state::DeviceState;
use crate::session::contexts::Contexts;
use crate::tables::slab::Slab;
use crate::{File, Host, Ref};

/// One control device.
pub struct Device<H: Host> {
    state: Ref<DeviceState<H>, H>,
    contexts: Ref<Contexts<H>, H>,
}

impl<H: Host> Device<H> {
    /// The control device of `host`.
    pub fn new(host: H) -> Result<Self, OutOfMemory> {
        let contexts = SpinLock::<_, H::Platform>::new(Slab::new(PoolQuota::UNLIMITED.no_charge()));
        Ok(Self { state: Arc::try_new(DeviceState::new(host))?, contexts: Arc::try_new(contexts)? })
    }

    /// The control device of another adapter. The limits of a process hold for its files of both together.
    pub fn beside(&self, host: H) -> Result<Self, OutOfMemory> {
        Ok(Self { state: Arc::try_new(DeviceState::new(host))?, contexts: self.contexts.clone() })
    }

    /// Opens a file (IRP_MJ_CREATE) for the process with number `process`, the only process whose requests the file serves. A number may be
    /// used again once all files of its process are cleaned up. IRQL PASSIVE.
    pub fn open(&self, process: u64) -> Result<File<H>, NTSTATUS> {
        File::new(self.state.clone(), self.contexts.clone(), process)
    }

    /// The host that the device was made with.
    pub fn host(&self) -> &H {
        &self.state.host
    }
}
