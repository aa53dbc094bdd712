//! How many objects of each kind a device has, against the advertised limits.

use core::sync::atomic::{AtomicU32, Ordering};

use platform::{Arc, Platform};

use crate::{Adapter, Device, Error, limits};

/// The kinds of object that a device counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Completion queues.
    Cq,
    /// Protection domains.
    Pd,
    /// Memory regions.
    Mr,
    /// Memory windows.
    Mw,
    /// Shared receive queues.
    Srq,
    /// Queue pairs.
    Qp,
    /// Connectors.
    Connector,
    /// Listeners.
    Listener,
    /// Shared endpoints.
    SharedEndpoint,
}

impl ObjectKind {
    const COUNT: usize = Self::SharedEndpoint as usize + 1;

    const fn limit(self) -> u32 {
        match self {
            Self::Cq => limits::CQS,
            Self::Pd => limits::PDS,
            Self::Mr => limits::MRS,
            Self::Mw => limits::MWS,
            Self::Srq => limits::SRQS,
            Self::Qp => limits::QPS,
            Self::Connector => limits::CONNECTORS,
            Self::Listener => limits::LISTENERS,
            Self::SharedEndpoint => limits::SHARED_ENDPOINTS,
        }
    }
}

/// The number of objects of each kind.
#[derive(Default)]
pub(crate) struct ObjectCounts([AtomicU32; ObjectKind::COUNT]);

impl ObjectCounts {
    fn of(&self, kind: ObjectKind) -> Option<&AtomicU32> {
        self.0.get(kind as usize)
    }

    pub(crate) fn get(&self, kind: ObjectKind) -> u32 {
        self.of(kind).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

/// Counts one object of `kind` until dropped.
pub(crate) struct CountedObject<P: Platform> {
    device: Arc<Device<P>, P>,
    kind: ObjectKind,
}

impl<P: Platform> CountedObject<P> {
    pub(crate) fn new(adapter: &Adapter<P>, kind: ObjectKind) -> Result<Self, Error> {
        let below_limit = |count: u32| if count < kind.limit() { count.checked_add(1) } else { None };
        let device = adapter.device();
        let count = device.object_counts().of(kind).ok_or(Error::InternalError)?;
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_limit)
            .map_err(|_| Error::InsufficientResources)?;
        Ok(Self { device: device.clone(), kind })
    }
}

impl<P: Platform> Drop for CountedObject<P> {
    fn drop(&mut self) {
        if let Some(count) = self.device.object_counts().of(self.kind) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
