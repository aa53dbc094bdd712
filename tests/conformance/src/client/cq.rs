//! Completion queues.

use std::{sync::Arc, time::Instant};

use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{
        IOCTL_ND_CQ_CANCEL_IO, IOCTL_ND_CQ_CREATE, IOCTL_ND_CQ_FREE, IOCTL_ND_CQ_MODIFY, IOCTL_ND_CQ_NOTIFY,
        ND_CQ_MODIFY, ND_CQ_NOTIFY, ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS, ND_CQ_NOTIFY_SOLICITED, ND_CREATE_CQ,
        ND_IOCTL_VERSION, ND_RESOURCE_DESCRIPTOR,
    },
    softndk_ioctl::{
        IOCTL_SOFTNDK_CQ_MODERATE, IOCTL_SOFTNDK_POLL, SOFTNDK_CQ_MODERATE, SOFTNDK_IOCTL_VERSION, SOFTNDK_POLL,
        SOFTNDK_RESULT,
    },
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::{Adapter, Object, Request, object};
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
}
object!(Cq);

impl Cq {
    /// A new one with room for `depth` completions.
    pub fn new(adapter: &Adapter, depth: u32) -> Result<Self> {
        let client = adapter.client();
        let request = ND_CREATE_CQ {
            Version: ND_IOCTL_VERSION,
            QueueDepth: depth,
            AdapterHandle: adapter.handle(),
            ..ND_CREATE_CQ::ZERO
        };
        let created: ND_RESOURCE_DESCRIPTOR = client.query(IOCTL_ND_CQ_CREATE, &request)?;
        Ok(Self { object: Object::new(client, created.Handle, IOCTL_ND_CQ_FREE, &[&adapter.object]) })
    }

    /// Changes the room it has.
    pub fn resize(&self, depth: u32) -> Result<()> {
        let request = ND_CQ_MODIFY {
            Version: ND_IOCTL_VERSION,
            QueueDepth: depth,
            CqHandle: self.handle(),
            ..ND_CQ_MODIFY::ZERO
        };
        self.object.client.query::<ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_CQ_MODIFY, &request).map(drop)
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
        let request = ND_CQ_NOTIFY { Version: ND_IOCTL_VERSION, Type: arm.code(), CqHandle: self.handle() };
        self.object.client.begin(IOCTL_ND_CQ_NOTIFY, request.as_bytes(), 0)
    }

    /// Ends all notify requests with STATUS_CANCELLED.
    pub fn cancel_io(&self) -> Result<()> {
        self.object.call(IOCTL_ND_CQ_CANCEL_IO)
    }

    /// Takes up to `most` completions. Fewer mean that the queue is empty.
    pub fn poll(&self, most: usize) -> Result<Vec<SOFTNDK_RESULT>> {
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

    /// Takes exactly one completion.
    pub fn take_one(&self) -> Result<SOFTNDK_RESULT> {
        self.take(1).map(|results| results[0])
    }
}
