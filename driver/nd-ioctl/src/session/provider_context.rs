//! Provider contexts, made by PROVIDER_INIT: the handles, pended requests and NDK adapters of a file.
//!
//! Other files of the process may join a context ([`crate::session::attach`]): then its requests come by several files. The context ends
//! with the file whose PROVIDER_INIT made it.

use ndk_abi::status::NTSTATUS;
use platform::{Arc, Charge, Passive};

use crate::device_state::DeviceState;
use crate::objects::{Handles, Object, PendedRequests};
use crate::quota::{ContextShare, Quota};
use crate::{Host, Ref};
use ndk_consumer::OpenAdapters;

/// A provider context. Files and requests in progress hold references to it, also after its end.
pub(crate) struct ProviderContext<H: Host> {
    pub(crate) device: Ref<DeviceState<H>, H>,
    /// Its identifier, for SOFTNDK_ATTACH.
    pub(crate) id: u64,
    /// The process of its files.
    pub(crate) process: u64,
    pub(crate) quota: Ref<Quota<H>, H>,
    pub(crate) handles: Ref<Handles<H>, H>,
    pub(crate) pended: Ref<PendedRequests<H>, H>,
    pub(crate) adapters: OpenAdapters<H::Platform>,
    _share: ContextShare<H>,
    _charge: Charge<H::Platform>,
}

impl<H: Host> ProviderContext<H> {
    pub(crate) fn new(
        device: Ref<DeviceState<H>, H>,
        id: u64,
        process: u64,
        quota: Ref<Quota<H>, H>,
    ) -> Result<Self, NTSTATUS> {
        Ok(Self {
            _share: ContextShare::take(&quota)?,
            _charge: quota.charge_bytes(Arc::<Self, H::Platform>::POOL_BYTES)?,
            id,
            process,
            handles: Handles::new(&quota.pool)?,
            pended: PendedRequests::new(device.clone(), &quota.pool)?,
            quota,
            adapters: OpenAdapters::default(),
            device,
        })
    }

    /// Ends the context: cancels its requests, and closes its objects and NDK adapters. Called in the cleanup of the file that made it.
    pub(super) fn end(&self, passive: &Passive<'_>) {
        self.handles.close();
        // In order of issue. A request that pends from now on ends with its object, below.
        self.pended.cancel_all();
        let close = |object: Object<H>| object.close(passive);
        // Connectors and listeners first: their connections use the queue pairs.
        self.handles.drain(|object| matches!(object, Object::Connector(_) | Object::Listener(_)), close);
        self.handles.drain(|object| matches!(object, Object::Qp(_)), close);
        // Windows before regions: the memory of a region without bound windows is unlocked at its close, here.
        self.handles.drain(|object| matches!(object, Object::Mw(_)), close);
        self.handles.drain(|_| true, close);
        self.handles.free(passive);
        self.adapters.close_all(&self.device.host, passive);
    }
}
