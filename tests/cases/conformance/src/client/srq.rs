//! Shared receive queues.

use std::sync::Arc;

use nd_rings::user::RequestLimits;
use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{
        IOCTL_ND_SRQ_CANCEL_IO, IOCTL_ND_SRQ_CREATE, IOCTL_ND_SRQ_FREE, IOCTL_ND_SRQ_MODIFY, IOCTL_ND_SRQ_NOTIFY,
        ND_CREATE_SRQ, ND_IOCTL_VERSION, ND_SRQ_MODIFY,
    },
    ndkpi::NdkOperationTypeReceive,
    softndk_ioctl::{
        IOCTL_SOFTNDK_DOORBELL, IOCTL_SOFTNDK_SRQ_POST, SOFTNDK_IOCTL_VERSION, SOFTNDK_POST, SOFTNDK_SGE,
        SOFTNDK_SRQ_POST,
    },
    softndk_ring::SOFTNDK_RING_RECEIVE,
};
use zerocopy::IntoBytes as _;

use super::{Object, Path, Pd, Request, followed_by, nd_handle, object, qp::MAX_TRANSFER, rings::Requests};
use crate::error::Result;

/// A shared receive queue.
#[derive(Clone)]
pub struct Srq {
    pub(super) object: Arc<Object>,
    /// With its limits.
    ring: Option<Arc<(Requests, RequestLimits)>>,
}
object!(Srq);

impl Srq {
    /// A new one for `depth` receives of up to `most_sges` entries. `threshold` 0: no notification.
    pub fn new(pd: &Pd, depth: u32, most_sges: u32, threshold: u32) -> Result<Self> {
        let client = &pd.object.client;
        let limits = RequestLimits { depth, sges: most_sges, inline_data: 0, transfer_length: MAX_TRANSFER };
        let made = if client.path == Path::Rings { Requests::made(SOFTNDK_RING_RECEIVE, limits, 0) } else { None };
        let mappings: Vec<_> = made.iter().map(|(_, mapping)| *mapping).collect();
        let request = ND_CREATE_SRQ {
            Version: ND_IOCTL_VERSION,
            QueueDepth: depth,
            CeMappingCount: mappings.len() as u32,
            CbMappingsOffset: size_of::<ND_CREATE_SRQ>() as u32,
            MaxRequestSge: most_sges,
            NotifyThreshold: threshold,
            PdHandle: pd.handle(),
            ..ND_CREATE_SRQ::ZERO
        };
        let (handle, _) = client.query_with_rings(IOCTL_ND_SRQ_CREATE, &request, &mappings)?;
        let object = Object::new(client, handle, IOCTL_ND_SRQ_FREE, &[&pd.object]);
        Ok(Self { object, ring: made.map(|(ring, _)| Arc::new((ring, limits))) })
    }

    /// Posts a receive.
    pub fn receive(&self, context: u64, sges: &[SOFTNDK_SGE]) -> Result<()> {
        if let Some(ring) = &self.ring {
            let head = SOFTNDK_POST {
                Version: SOFTNDK_IOCTL_VERSION,
                Operation: NdkOperationTypeReceive.0.cast_unsigned(),
                RequestContext: context,
                ..SOFTNDK_POST::ZERO
            };
            return ring.0.post(&self.object.client, self.handle(), &head, sges, &[]);
        }
        let post = SOFTNDK_SRQ_POST {
            Version: SOFTNDK_IOCTL_VERSION,
            SgeCount: sges.len() as u32,
            SrqHandle: self.handle(),
            RequestContext: context,
        };
        self.object.client.call(IOCTL_SOFTNDK_SRQ_POST, followed_by(&post, sges.as_bytes()).as_slice())
    }

    /// Changes depth and threshold; 0 leaves a value as it is.
    pub fn modify(&self, depth: u32, threshold: u32) -> Result<()> {
        let larger = self.ring.as_ref().filter(|_| depth != 0).and_then(|ring| {
            Requests::made(SOFTNDK_RING_RECEIVE, RequestLimits { depth, ..ring.1 }, 0).map(|made| (&ring.0, made))
        });
        let mappings: Vec<_> = larger.iter().map(|(_, (_, mapping))| *mapping).collect();
        let request = ND_SRQ_MODIFY {
            Version: ND_IOCTL_VERSION,
            QueueDepth: depth,
            CeMappingCount: mappings.len() as u32,
            CbMappingsOffset: size_of::<ND_SRQ_MODIFY>() as u32,
            NotifyThreshold: threshold,
            SrqHandle: self.handle(),
            ..ND_SRQ_MODIFY::ZERO
        };
        let pass =
            || self.object.client.query_with_rings(IOCTL_ND_SRQ_MODIFY, &request, &mappings).map(|(_, left)| left);
        let Some((ring, (other, _))) = larger else { return pass().map(drop) };
        if ring.replace(other, pass)? {
            self.object.client.call(IOCTL_SOFTNDK_DOORBELL, &nd_handle(self.handle()))?;
        }
        Ok(())
    }

    /// Asks to be told when fewer receives than the threshold are queued; the request ends then.
    #[must_use]
    pub fn notify(&self) -> Request {
        self.object.begin(IOCTL_ND_SRQ_NOTIFY)
    }

    /// Ends all notify requests with STATUS_CANCELLED.
    pub fn cancel_io(&self) -> Result<()> {
        self.object.call(IOCTL_ND_SRQ_CANCEL_IO)
    }
}
