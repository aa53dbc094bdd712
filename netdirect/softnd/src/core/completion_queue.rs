//! Completion queues.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use nd_rings::user::CompletionRing;
use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_CQ_CANCEL_IO, IOCTL_ND_CQ_CREATE, IOCTL_ND_CQ_FREE, IOCTL_ND_CQ_GET_AFFINITY, IOCTL_ND_CQ_MODIFY,
        IOCTL_ND_CQ_NOTIFY, ND_CQ_MODIFY, ND_CQ_NOTIFY, ND_CQ_NOTIFY_SOLICITED, ND_CREATE_CQ, ND_IOCTL_VERSION,
    },
    ndkpi::NdkOperationTypeRead,
    softndk_ioctl::{IOCTL_SOFTNDK_DOORBELL, IOCTL_SOFTNDK_POLL, SOFTNDK_IOCTL_VERSION, SOFTNDK_POLL, SOFTNDK_RESULT},
    softndk_ring::SOFTNDK_COMPLETION,
    status::{
        NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_INVALID_PARAMETER, STATUS_REMOTE_RESOURCES,
    },
    wdm::GROUP_AFFINITY,
};
use windows_sys::Win32::Foundation::HANDLE;
use zerocopy::{FromBytes, IntoBytes};

use super::{
    adapter::Adapter,
    device, lock,
    object::{Object, Pending},
    overlapped::Overlapped,
    ring::{self, MappedRing, Mappings},
};

/// The most completions that one control code fetches.
const BURST: usize = 32;

#[derive(Debug)]
pub(crate) struct CompletionQueue {
    pending: Pending,
    /// Dropped after `pending`: the driver writes to the rings until the object is freed.
    source: Source,
    adapter: Arc<Adapter>,
}

/// The source of the queue's completions.
#[derive(Debug)]
enum Source {
    /// IOCTL_SOFTNDK_POLL, whose completions name queue pairs by their handles.
    Codes(Mutex<Contexts>),
    Rings(Mutex<Rings>),
}

/// The program's context of each queue pair, by the queue pair's number in completions. A poll drops the completions of
/// a released queue pair, whether they were in a ring or in the driver: the program may have freed what its request
/// contexts point to.
type Contexts = HashMap<u64, u64>;

#[derive(Debug)]
struct Rings {
    /// Oldest first. The driver writes to the newest ring. A ring that a resize replaced stays until a poll finds it
    /// empty.
    queue: VecDeque<MappedRing<CompletionRing>>,
    contexts: Contexts,
}

impl CompletionQueue {
    pub(crate) fn create(
        adapter: &Arc<Adapter>,
        file: HANDLE,
        depth: u32,
        affinity: GROUP_AFFINITY,
    ) -> Result<Arc<Self>, NTSTATUS> {
        let mut mappings = Mappings::default();
        let source = if adapter.uses_rings() {
            let ring = ring::completions(depth)?;
            mappings.add(&ring);
            Source::Rings(Mutex::new(Rings { queue: [ring].into(), contexts: HashMap::new() }))
        } else {
            Source::Codes(Mutex::default())
        };
        let pending = Pending::new(adapter, file, IOCTL_ND_CQ_CANCEL_IO, || {
            let input = ND_CREATE_CQ {
                Version: ND_IOCTL_VERSION,
                QueueDepth: depth,
                CeMappingCount: mappings.count(),
                CbMappingsOffset: size_of::<ND_CREATE_CQ>() as u32,
                AdapterHandle: adapter.handle(),
                Affinity: affinity,
            };
            let passed = mappings.send(adapter.file(), IOCTL_ND_CQ_CREATE, input.as_bytes())?;
            Ok(Object::new(adapter.file(), passed.handle, IOCTL_ND_CQ_FREE))
        })?;
        Ok(Arc::new(Self { pending, source, adapter: adapter.clone() }))
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// Adds a queue pair whose requests complete to this queue.
    pub(super) fn serves(&self, queue_pair: u64, context: u64) {
        self.with_contexts(|contexts| contexts.insert(queue_pair, context));
    }

    /// Removes a released queue pair.
    pub(super) fn forget(&self, queue_pair: u64) {
        self.with_contexts(|contexts| contexts.remove(&queue_pair));
    }

    fn with_contexts<R>(&self, work: impl FnOnce(&mut Contexts) -> R) -> R {
        match &self.source {
            Source::Codes(contexts) => work(&mut lock(contexts)),
            Source::Rings(rings) => work(&mut lock(rings).contexts),
        }
    }

    /// Takes out up to `most` completions, oldest first, and returns their number.
    pub(crate) fn poll(&self, most: usize, mut take: impl FnMut(SOFTNDK_COMPLETION)) -> usize {
        let mut take = |completion| take(as_documented(completion));
        match &self.source {
            Source::Codes(contexts) => {
                let mut count = 0;
                while count < most {
                    let burst = BURST.min(most - count);
                    let mut results = [0; BURST * size_of::<SOFTNDK_RESULT>()];
                    let fetched = self.fetch(&mut results[..burst * size_of::<SOFTNDK_RESULT>()]);
                    let contexts = lock(contexts);
                    for bytes in results[..fetched].chunks_exact(size_of::<SOFTNDK_RESULT>()) {
                        let Ok(result) = SOFTNDK_RESULT::read_from_bytes(bytes) else { continue };
                        let Some(context) = contexts.get(&result.QpHandle) else { continue };
                        take(completion(&result, *context));
                        count += 1;
                    }
                    if fetched < burst * size_of::<SOFTNDK_RESULT>() {
                        break;
                    }
                }
                count
            }
            Source::Rings(rings) => {
                let mut rings = lock(rings);
                let Rings { queue, contexts } = &mut *rings;
                let (mut count, mut doorbell) = (0, false);
                // Most often all completions of a poll are of one queue pair.
                let mut last = None;
                while let Some(MappedRing { ring, .. }) = queue.front_mut() {
                    let wanted = most - count;
                    let taken = ring.poll(wanted, |completion| {
                        let name = completion.QueuePairContext;
                        if last.is_none_or(|(of, _)| of != name) {
                            last = Some((name, contexts.get(&name).copied()));
                        }
                        if let Some((_, Some(context))) = last {
                            take(SOFTNDK_COMPLETION { QueuePairContext: context, ..completion });
                            count += 1;
                        }
                    });
                    doorbell |= taken > 0 && ring.needs_doorbell();
                    if count == most {
                        break;
                    }
                    if taken < wanted {
                        if queue.len() == 1 {
                            break;
                        }
                        // The oldest ring is empty, and the driver no longer writes to it.
                        queue.pop_front();
                    }
                }
                drop(rings);
                if doorbell {
                    // Fails only if the device is gone.
                    let _ = self.pending.object().command(IOCTL_SOFTNDK_DOORBELL);
                }
                count
            }
        }
    }

    /// Fetches completions by a control code, and returns their bytes: 0 if the device is gone.
    fn fetch(&self, results: &mut [u8]) -> usize {
        let input = SOFTNDK_POLL {
            Version: SOFTNDK_IOCTL_VERSION,
            MaxResults: (results.len() / size_of::<SOFTNDK_RESULT>()) as u32,
            CqHandle: self.pending.handle(),
        };
        self.pending.object().file().control(IOCTL_SOFTNDK_POLL, input.as_bytes(), results).unwrap_or(0)
    }

    /// STATUS_BUFFER_OVERFLOW: the queue holds more than `depth` completions.
    pub(crate) fn resize(&self, depth: u32) -> Result<(), NTSTATUS> {
        let Source::Rings(rings) = &self.source else { return self.modify(depth, &Mappings::default()) };
        let mut rings = lock(rings);
        // The driver counts only the completions in the newest ring.
        let waiting: u32 = rings.queue.iter().map(|shared| shared.ring.waiting()).sum();
        if waiting > depth {
            return Err(STATUS_BUFFER_OVERFLOW);
        }
        let newest = ring::completions(depth)?;
        let mut mappings = Mappings::default();
        mappings.add(&newest);
        self.modify(depth, &mappings)?;
        rings.queue.push_back(newest);
        Ok(())
    }

    fn modify(&self, depth: u32, mappings: &Mappings) -> Result<(), NTSTATUS> {
        let input = ND_CQ_MODIFY {
            Version: ND_IOCTL_VERSION,
            QueueDepth: depth,
            CeMappingCount: mappings.count(),
            CbMappingsOffset: size_of::<ND_CQ_MODIFY>() as u32,
            CqHandle: self.pending.handle(),
        };
        mappings.send(self.adapter.file(), IOCTL_ND_CQ_MODIFY, input.as_bytes()).map(|_| ())
    }

    /// Arms the queue, and pends until it notifies. STATUS_INVALID_PARAMETER: `kind` is not one of ND_CQ_NOTIFY_*.
    pub(crate) fn notify(&self, kind: u32, overlapped: &Overlapped) -> NTSTATUS {
        if kind > ND_CQ_NOTIFY_SOLICITED {
            return STATUS_INVALID_PARAMETER;
        }
        let input = ND_CQ_NOTIFY { Version: ND_IOCTL_VERSION, Type: kind, CqHandle: self.pending.handle() };
        self.pending.submit(overlapped, IOCTL_ND_CQ_NOTIFY, input.as_bytes())
    }

    pub(crate) fn affinity(&self) -> Result<GROUP_AFFINITY, NTSTATUS> {
        let input = device::handle(self.pending.handle());
        self.adapter.file().query(IOCTL_ND_CQ_GET_AFFINITY, input.as_bytes())
    }
}

/// Translates a completion of NDKPI to NDSPI. A read beyond the memory to which the peer gives access has
/// STATUS_REMOTE_RESOURCES in NDKPI, but STATUS_ACCESS_VIOLATION in NDSPI, as other refused accesses have (ndspi.md
/// section 5).
fn as_documented(completion: SOFTNDK_COMPLETION) -> SOFTNDK_COMPLETION {
    let is_read = completion.Type == NdkOperationTypeRead.0.cast_unsigned();
    match completion.Status {
        STATUS_REMOTE_RESOURCES if is_read => SOFTNDK_COMPLETION { Status: STATUS_ACCESS_VIOLATION, ..completion },
        _ => completion,
    }
}

fn completion(result: &SOFTNDK_RESULT, context: u64) -> SOFTNDK_COMPLETION {
    SOFTNDK_COMPLETION {
        Status: result.Status,
        BytesTransferred: result.BytesTransferred,
        QueuePairContext: context,
        RequestContext: result.RequestContext,
        Type: result.Type,
        // A token has 32 bits.
        Output: result.Output as u32,
    }
}
