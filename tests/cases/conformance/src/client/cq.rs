//! Completion queues.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{
        IOCTL_ND_CQ_CANCEL_IO, IOCTL_ND_CQ_CREATE, IOCTL_ND_CQ_FREE, IOCTL_ND_CQ_MODIFY, IOCTL_ND_CQ_NOTIFY,
        ND_CQ_MODIFY, ND_CQ_NOTIFY, ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS, ND_CQ_NOTIFY_SOLICITED, ND_CREATE_CQ,
        ND_IOCTL_VERSION,
    },
    softndk_ioctl::{
        IOCTL_SOFTNDK_CQ_MODERATE, IOCTL_SOFTNDK_POLL, SOFTNDK_CQ_MODERATE, SOFTNDK_IOCTL_VERSION, SOFTNDK_POLL,
        SOFTNDK_RESULT,
    },
    softndk_ring::SOFTNDK_COMPLETION,
    status::STATUS_BUFFER_OVERFLOW,
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::{Adapter, Client, Object, Path, Request, object, rings::Completions};
use crate::error::{Error, Result};

/// What a notification is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Errors of the queue itself.
    Errors,
    /// The next completion.
    Any,
    /// The next completion of a receive whose send solicited it, or with an error.
    Solicited,
}

impl Arm {
    fn code(self) -> u32 {
        match self {
            Self::Errors => ND_CQ_NOTIFY_ERRORS,
            Self::Any => ND_CQ_NOTIFY_ANY,
            Self::Solicited => ND_CQ_NOTIFY_SOLICITED,
        }
    }
}

/// A completion queue.
#[derive(Clone)]
pub struct Cq {
    pub(super) object: Arc<Object>,
    ring: Option<Arc<Ring>>,
}

/// The ring of a queue, and what was left in the one before.
struct Ring {
    completions: Completions,
    left: Mutex<VecDeque<SOFTNDK_COMPLETION>>,
}
object!(Cq);

impl Ring {
    fn left(&self) -> MutexGuard<'_, VecDeque<SOFTNDK_COMPLETION>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cq {
    /// A new one with room for `depth` completions.
    pub fn new(adapter: &Adapter, depth: u32) -> Result<Self> {
        let client = adapter.client();
        let made = if client.path == Path::Rings { Completions::made(depth) } else { None };
        let mappings: Vec<_> = made.iter().map(|(_, mapping)| *mapping).collect();
        let request = ND_CREATE_CQ {
            Version: ND_IOCTL_VERSION,
            QueueDepth: depth,
            CeMappingCount: mappings.len() as u32,
            CbMappingsOffset: size_of::<ND_CREATE_CQ>() as u32,
            AdapterHandle: adapter.handle(),
            ..ND_CREATE_CQ::ZERO
        };
        let (handle, _) = client.query_with_rings(IOCTL_ND_CQ_CREATE, &request, &mappings)?;
        let object = Object::new(client, handle, IOCTL_ND_CQ_FREE, &[&adapter.object]);
        let ring = made.map(|(completions, _)| Arc::new(Ring { completions, left: Mutex::default() }));
        Ok(Self { object, ring })
    }

    /// Changes the room it has.
    pub fn resize(&self, depth: u32) -> Result<()> {
        let made = self.ring.as_ref().and_then(|ring| Completions::made(depth).map(|made| (ring, made)));
        let mappings: Vec<_> = made.iter().map(|(_, (_, mapping))| *mapping).collect();
        let request = ND_CQ_MODIFY {
            Version: ND_IOCTL_VERSION,
            QueueDepth: depth,
            CeMappingCount: mappings.len() as u32,
            CbMappingsOffset: size_of::<ND_CQ_MODIFY>() as u32,
            CqHandle: self.handle(),
        };
        // The lock keeps other threads from polling, so that the old ring is read to its end before the new one.
        let mut left = self.ring.as_ref().map(|ring| ring.left());
        if let (Some(ring), Some(left)) = (&self.ring, &left)
            && left.len() + ring.completions.waiting() > depth as usize
            && depth > 0
        {
            return Err(Error::Refused { request: "a resize", status: STATUS_BUFFER_OVERFLOW });
        }
        self.object.client.query_with_rings(IOCTL_ND_CQ_MODIFY, &request, &mappings)?;
        if let (Some((ring, (other, _))), Some(left)) = (made, &mut left) {
            ring.completions.replace(other, |completion| left.push_back(completion));
        }
        Ok(())
    }

    /// Has notifications held back until `count` completions wait or `interval` microseconds are over.
    pub fn moderate(&self, interval: u32, count: u32) -> Result<()> {
        let request = SOFTNDK_CQ_MODERATE {
            Version: SOFTNDK_IOCTL_VERSION,
            Interval: interval,
            CqHandle: self.handle(),
            Count: count,
            Reserved: 0,
        };
        self.object.client.call(IOCTL_SOFTNDK_CQ_MODERATE, &request)
    }

    /// Arms the queue; the request ends with the notification.
    #[must_use]
    pub fn notify(&self, arm: Arm) -> Request {
        self.notify_by(&self.object.client, arm)
    }

    /// As [`Cq::notify`], by another file of the provider context.
    #[must_use]
    pub fn notify_by(&self, client: &Client, arm: Arm) -> Request {
        let request = ND_CQ_NOTIFY { Version: ND_IOCTL_VERSION, Type: arm.code(), CqHandle: self.handle() };
        client.begin(IOCTL_ND_CQ_NOTIFY, request.as_bytes(), 0)
    }

    /// Ends all notify requests with STATUS_CANCELLED.
    pub fn cancel_io(&self) -> Result<()> {
        self.object.call(IOCTL_ND_CQ_CANCEL_IO)
    }

    /// Takes up to `most` completions. Fewer mean that the queue is empty.
    pub fn poll(&self, most: usize) -> Result<Vec<SOFTNDK_RESULT>> {
        if let Some(ring) = &self.ring {
            return self.poll_ring(ring, most);
        }
        let request = SOFTNDK_POLL {
            Version: SOFTNDK_IOCTL_VERSION,
            MaxResults: u32::try_from(most).unwrap_or(u32::MAX),
            CqHandle: self.handle(),
        };
        let room = most * size_of::<SOFTNDK_RESULT>();
        let completion = self.object.client.begin(IOCTL_SOFTNDK_POLL, request.as_bytes(), room).finish()?;
        let (list, rest) = completion.output.as_chunks::<{ size_of::<SOFTNDK_RESULT>() }>();
        let results: Vec<_> = list.iter().filter_map(|bytes| SOFTNDK_RESULT::read_from_bytes(bytes).ok()).collect();
        if !rest.is_empty() {
            return Err(Error::WrongLength {
                request: "IOCTL_SOFTNDK_POLL",
                returned: completion.output.len(),
                expected: results.len() * size_of::<SOFTNDK_RESULT>(),
            });
        }
        Ok(results)
    }

    fn poll_ring(&self, ring: &Ring, most: usize) -> Result<Vec<SOFTNDK_RESULT>> {
        let client = &self.object.client;
        let mut left = ring.left();
        let old = left.len().min(most);
        let mut completions: Vec<_> = left.drain(..old).collect();
        completions.extend(ring.completions.poll(client, self.handle(), most - old)?);
        let result = |completion: &SOFTNDK_COMPLETION| SOFTNDK_RESULT {
            Status: completion.Status,
            BytesTransferred: completion.BytesTransferred,
            QpHandle: client.handle_of(completion.QueuePairContext),
            RequestContext: completion.RequestContext,
            Type: completion.Type,
            ProviderErrorCode: 0,
            Output: completion.Output.into(),
        };
        Ok(completions.iter().map(result).collect())
    }

    /// Takes exactly `count` completions, waiting for them by armed notifications: poll, arm, poll, as the race rule of
    /// NDKPI's completion handling requirements allows.
    pub fn take(&self, count: usize) -> Result<Vec<SOFTNDK_RESULT>> {
        let deadline = Instant::now() + self.object.client.patience;
        let mut results = self.poll(count)?;
        while results.len() < count {
            let stalled = |state: &str| Error::Stalled {
                awaited: format!("completion {} of {count} on CQ {:#x}{state}", results.len() + 1, self.handle()),
                after: self.object.client.patience,
            };
            if Instant::now() > deadline {
                return Err(stalled(" (notifications come, completions do not)"));
            }
            match self.notify(Arm::Any).finish() {
                Ok(_) => {}
                Err(Error::Stalled { .. }) => {
                    let late = self.poll(1)?;
                    return Err(stalled(if late.is_empty() {
                        ""
                    } else {
                        " (it is there, but the pending notify request did not end)"
                    }));
                }
                Err(other) => return Err(other),
            }
            results.extend(self.poll(count - results.len())?);
        }
        Ok(results)
    }

    /// Takes the next completion, waiting for it without an arm, which would change one that is there.
    pub fn take_unarmed(&self) -> Result<SOFTNDK_RESULT> {
        let after = self.object.client.patience;
        let deadline = Instant::now() + after;
        loop {
            if let Some(result) = self.poll(1)?.pop() {
                return Ok(result);
            }
            if Instant::now() > deadline {
                return Err(Error::Stalled { awaited: format!("a completion on CQ {:#x}", self.handle()), after });
            }
            thread::yield_now();
        }
    }

    /// Takes exactly one completion.
    pub fn take_one(&self) -> Result<SOFTNDK_RESULT> {
        self.take(1).map(|results| results[0])
    }
}
