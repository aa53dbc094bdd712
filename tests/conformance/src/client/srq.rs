//! Shared receive queues.

use std::sync::Arc;

use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{
        IOCTL_ND_SRQ_CANCEL_IO, IOCTL_ND_SRQ_CREATE, IOCTL_ND_SRQ_FREE, IOCTL_ND_SRQ_MODIFY, IOCTL_ND_SRQ_NOTIFY,
        ND_CREATE_SRQ, ND_IOCTL_VERSION, ND_RESOURCE_DESCRIPTOR, ND_SRQ_MODIFY,
    },
    softndk_ioctl::{IOCTL_SOFTNDK_SRQ_POST, SOFTNDK_IOCTL_VERSION, SOFTNDK_SGE, SOFTNDK_SRQ_POST},
};
use zerocopy::IntoBytes as _;

use super::{Object, Pd, Request, followed_by, object};
use crate::error::Result;

/// A shared receive queue.
#[derive(Clone)]
pub struct Srq {
    pub(super) object: Arc<Object>,
}
object!(Srq);

impl Srq {
    /// A new one for `depth` receives of up to `most_sges` entries. `threshold` 0: no notification.
    pub fn new(pd: &Pd, depth: u32, most_sges: u32, threshold: u32) -> Result<Self> {
        let client = &pd.object.client;
        let request = ND_CREATE_SRQ {
            Version: ND_IOCTL_VERSION,
            QueueDepth: depth,
            MaxRequestSge: most_sges,
            NotifyThreshold: threshold,
            PdHandle: pd.handle(),
            ..ND_CREATE_SRQ::ZERO
        };
        let created: ND_RESOURCE_DESCRIPTOR = client.query(IOCTL_ND_SRQ_CREATE, &request)?;
        Ok(Self { object: Object::new(client, created.Handle, IOCTL_ND_SRQ_FREE, &[&pd.object]) })
    }

    /// Posts a receive.
    pub fn receive(&self, context: u64, sges: &[SOFTNDK_SGE]) -> Result<()> {
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
        let request = ND_SRQ_MODIFY {
            Version: ND_IOCTL_VERSION,
            QueueDepth: depth,
            NotifyThreshold: threshold,
            SrqHandle: self.handle(),
            ..ND_SRQ_MODIFY::ZERO
        };
        self.object.client.query::<ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_SRQ_MODIFY, &request).map(drop)
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
