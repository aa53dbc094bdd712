//! The control device.

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
    /// The device of `host`.
    pub fn new(host: H) -> Result<Self, OutOfMemory> {
        let contexts = SpinLock::<_, H::Platform>::new(Slab::new(PoolQuota::UNLIMITED.no_charge()));
        Ok(Self { state: Arc::try_new(DeviceState::new(host))?, contexts: Arc::try_new(contexts)? })
    }

    /// A new open of the device (IRP_MJ_CREATE), by the process with this number, the only one whose requests it serves. Numbers
    /// may be used again when all files of their process are cleaned up. IRQL PASSIVE.
    pub fn open(&self, process: u64) -> Result<File<H>, NTSTATUS> {
        File::new(self.state.clone(), self.contexts.clone(), process)
    }

    /// The host given to [`Device::new`].
    pub fn host(&self) -> &H {
        &self.state.host
    }
}
