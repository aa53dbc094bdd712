//! Shared receive queues.

use std::sync::{Arc, Mutex};

use nd_rings::user::{RequestLimits, RequestRing};
use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_SRQ_CANCEL_IO, IOCTL_ND_SRQ_CREATE, IOCTL_ND_SRQ_FREE, IOCTL_ND_SRQ_GET_AFFINITY, IOCTL_ND_SRQ_MODIFY,
        IOCTL_ND_SRQ_NOTIFY, ND_CREATE_SRQ, ND_IOCTL_VERSION, ND_SRQ_MODIFY,
    },
    softndk_ioctl::{
        IOCTL_SOFTNDK_DOORBELL, IOCTL_SOFTNDK_SRQ_POST, SOFTNDK_IOCTL_VERSION, SOFTNDK_SGE, SOFTNDK_SRQ_POST,
    },
    softndk_ring::SOFTNDK_RING_RECEIVE,
    status::{NTSTATUS, STATUS_CONNECTION_INVALID},
    wdm::GROUP_AFFINITY,
};
use windows_sys::Win32::Foundation::HANDLE;
use zerocopy::IntoBytes;

use super::{
    adapter::Adapter,
    device, lock,
    object::{Object, Pending},
    overlapped::Overlapped,
    queue_pair::receive_request,
    ring::{self, MappedRing, Mappings},
};

#[derive(Debug)]
pub(crate) struct SharedReceiveQueue {
    pending: Pending,
    /// Dropped after `pending`: the driver uses the ring until the object is freed. `None`: receives go by
    /// IOCTL_SOFTNDK_SRQ_POST.
    ring: Option<Mutex<MappedRing<RequestRing>>>,
    adapter: Arc<Adapter>,
    limits: RequestLimits,
}

impl SharedReceiveQueue {
    pub(crate) fn create(
        adapter: &Arc<Adapter>,
        file: HANDLE,
        (depth, sges): (u32, u32),
        threshold: u32,
        affinity: GROUP_AFFINITY,
    ) -> Result<Arc<Self>, NTSTATUS> {
        let limits = RequestLimits { depth, sges, inline_data: 0, transfer_length: adapter.info().MaxTransferLength };
        let mut mappings = Mappings::default();
        let ring = match adapter.uses_rings() {
            true => {
                let ring = ring::requests(SOFTNDK_RING_RECEIVE, limits, 0)?;
                mappings.add(&ring);
                Some(Mutex::new(ring))
            }
            false => None,
        };
        let pending = Pending::new(adapter, file, IOCTL_ND_SRQ_CANCEL_IO, || {
            let input = ND_CREATE_SRQ {
                Version: ND_IOCTL_VERSION,
                QueueDepth: depth,
                CeMappingCount: mappings.count(),
                CbMappingsOffset: size_of::<ND_CREATE_SRQ>() as u32,
                MaxRequestSge: sges,
                NotifyThreshold: threshold,
                PdHandle: adapter.pd(),
                Affinity: affinity,
            };
            let passed = mappings.send(adapter.file(), IOCTL_ND_SRQ_CREATE, input.as_bytes())?;
            Ok(Object::new(adapter.file(), passed.handle, IOCTL_ND_SRQ_FREE))
        })?;
        Ok(Arc::new(Self { pending, ring, adapter: adapter.clone(), limits }))
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// Posts a receive.
    pub(crate) fn receive(&self, context: u64, sges: &[SOFTNDK_SGE]) -> Result<(), NTSTATUS> {
        let Some(ring) = &self.ring else {
            let head = SOFTNDK_SRQ_POST {
                Version: SOFTNDK_IOCTL_VERSION,
                SgeCount: sges.len() as u32,
                SrqHandle: self.pending.handle(),
                RequestContext: context,
            };
            let input = [head.as_bytes(), sges.as_bytes()].concat();
            return self.adapter.file().command(IOCTL_SOFTNDK_SRQ_POST, &input);
        };
        let mut ring = lock(ring);
        if ring.ring.has_ended() {
            // An SRQ has no CQ for cancelled receives, so the post fails.
            return Err(STATUS_CONNECTION_INVALID);
        }
        let doorbell = ring.post(&receive_request(context), sges, &[])?;
        drop(ring);
        if doorbell { self.pending.object().command(IOCTL_SOFTNDK_DOORBELL) } else { Ok(()) }
    }

    /// Changes the depth and the notification threshold; 0 leaves a value as it is.
    pub(crate) fn modify(&self, depth: u32, threshold: u32) -> Result<(), NTSTATUS> {
        let send = |mappings: &Mappings| {
            let input = ND_SRQ_MODIFY {
                Version: ND_IOCTL_VERSION,
                QueueDepth: depth,
                CeMappingCount: mappings.count(),
                CbMappingsOffset: size_of::<ND_SRQ_MODIFY>() as u32,
                NotifyThreshold: threshold,
                Reserved: 0,
                SrqHandle: self.pending.handle(),
            };
            mappings.send(self.adapter.file(), IOCTL_ND_SRQ_MODIFY, input.as_bytes())
        };
        let mut mappings = Mappings::default();
        let Some(ring) = self.ring.as_ref().filter(|_| depth != 0) else { return send(&mappings).map(|_| ()) };
        let mut newest = ring::requests(SOFTNDK_RING_RECEIVE, RequestLimits { depth, ..self.limits }, 0)?;
        mappings.add(&newest);
        let mut ring = lock(ring);
        ring.ring.prepare(&mut newest.ring);
        let passed = send(&mappings)?;
        ring.ring.move_to(&mut newest.ring, passed.unread)?;
        let doorbell = newest.ring.needs_doorbell();
        *ring = newest;
        drop(ring);
        if doorbell { self.pending.object().command(IOCTL_SOFTNDK_DOORBELL) } else { Ok(()) }
    }

    /// Pends until fewer receives than the threshold are left.
    pub(crate) fn notify(&self, overlapped: &Overlapped) -> NTSTATUS {
        self.pending.submit_handle(overlapped, IOCTL_ND_SRQ_NOTIFY)
    }

    pub(crate) fn affinity(&self) -> Result<GROUP_AFFINITY, NTSTATUS> {
        let input = device::handle(self.pending.handle());
        self.adapter.file().query(IOCTL_ND_SRQ_GET_AFFINITY, input.as_bytes())
    }
}
