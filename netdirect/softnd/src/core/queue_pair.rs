//! Queue pairs.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use nd_rings::user::{RequestLimits, RequestRing};
use ndk_abi::{
    describe::ZeroInit,
    nd_ioctl::{
        IOCTL_ND_QP_CREATE, IOCTL_ND_QP_CREATE_WITH_SRQ, IOCTL_ND_QP_FLUSH, IOCTL_ND_QP_FREE, ND_CREATE_QP,
        ND_CREATE_QP_HDR, ND_CREATE_QP_WITH_SRQ, ND_IOCTL_VERSION,
    },
    ndkpi::{NdkOperationTypeBind, NdkOperationTypeInvalidate, NdkOperationTypeReceive},
    softndk_ioctl::{
        IOCTL_SOFTNDK_DOORBELL, IOCTL_SOFTNDK_POST, SOFTNDK_IOCTL_VERSION, SOFTNDK_MW_TOKEN, SOFTNDK_POST, SOFTNDK_SGE,
    },
    softndk_ring::{SOFTNDK_RING_INITIATOR, SOFTNDK_RING_RECEIVE},
    status::{NTSTATUS, STATUS_CONNECTION_INVALID},
};
use zerocopy::IntoBytes;

use super::{
    adapter::Adapter,
    completion_queue::CompletionQueue,
    lock,
    memory::{Region, Window},
    object::Object,
    ring::{self, MappedRing, Mappings},
    shared_receive_queue::SharedReceiveQueue,
};

/// The `QueuePairContext` of the next queue pair with rings.
static NEXT_NAME: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(crate) struct QueuePair {
    object: Object,
    /// The queue pair's number in completions: the `QueuePairContext` of its rings, or, without rings, its handle.
    context_number: u64,
    /// Dropped after the object: the driver uses the rings until the object is freed. `None`: requests go by
    /// IOCTL_SOFTNDK_POST.
    rings: Option<Rings>,
    adapter: Arc<Adapter>,
    inline_data: u32,
    /// A batch is open: posts send no doorbell.
    is_batch: AtomicBool,
    /// A doorbell is due.
    owes_doorbell: AtomicBool,
    _receives: Receives,
    completion_queues: CompletionQueues,
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.completion_queues.receive.forget(self.context_number);
        self.completion_queues.initiator.forget(self.context_number);
    }
}

#[derive(Debug)]
struct Rings {
    initiator: Mutex<MappedRing<RequestRing>>,
    /// `None`: the queue pair's receives come from a shared receive queue.
    receive: Option<Mutex<MappedRing<RequestRing>>>,
}

/// The completion queues of a queue pair.
#[derive(Clone, Debug)]
pub(crate) struct CompletionQueues {
    pub(crate) receive: Arc<CompletionQueue>,
    pub(crate) initiator: Arc<CompletionQueue>,
}

/// The source of a queue pair's receives.
#[derive(Clone, Debug)]
pub(crate) enum Receives {
    /// A receive queue of its own, of `depth` receives with at most `sges` SGEs.
    Own {
        depth: u32,
        sges: u32,
    },
    Shared(Arc<SharedReceiveQueue>),
}

/// The limits of an initiator queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitiatorLimits {
    pub(crate) depth: u32,
    pub(crate) sges: u32,
    pub(crate) inline_data: u32,
}

impl QueuePair {
    /// All objects have to belong to `adapter`. `context` is the program's context in completions. A queue of depth 0
    /// gets depth 1: the driver has no shorter queues.
    pub(crate) fn create(
        adapter: &Arc<Adapter>,
        completion_queues: CompletionQueues,
        receives: Receives,
        initiator: InitiatorLimits,
        context: u64,
    ) -> Result<Self, NTSTATUS> {
        let transfer_length = adapter.info().MaxTransferLength;
        let InitiatorLimits { depth, sges, inline_data } = initiator;
        let depth = depth.max(1);
        let receives = match receives {
            Receives::Own { depth, sges } => Receives::Own { depth: depth.max(1), sges },
            shared => shared,
        };
        let mut mappings = Mappings::default();
        let in_rings = NEXT_NAME.fetch_add(1, Ordering::Relaxed);
        let mut make = |kind, limits| {
            let ring = ring::requests(kind, limits, in_rings)?;
            mappings.add(&ring);
            Ok::<_, NTSTATUS>(Mutex::new(ring))
        };
        let rings = if adapter.uses_rings() {
            // The driver expects the rings in this order.
            let initiator = make(SOFTNDK_RING_INITIATOR, RequestLimits { depth, sges, inline_data, transfer_length })?;
            let receive = match receives {
                Receives::Own { depth, sges } => {
                    let limits = RequestLimits { depth, sges, inline_data: 0, transfer_length };
                    Some(make(SOFTNDK_RING_RECEIVE, limits)?)
                }
                Receives::Shared(_) => None,
            };
            Some(Rings { initiator, receive })
        } else {
            None
        };
        let header = ND_CREATE_QP_HDR {
            Version: ND_IOCTL_VERSION,
            CbMaxInlineData: inline_data,
            CeMappingCount: mappings.count(),
            CbMappingsOffset: size_of::<ND_CREATE_QP>() as u32,
            InitiatorQueueDepth: depth,
            MaxInitiatorRequestSge: sges,
            ReceiveCqHandle: completion_queues.receive.pending().handle(),
            InitiatorCqHandle: completion_queues.initiator.pending().handle(),
            PdHandle: adapter.pd(),
        };
        let passed = match &receives {
            Receives::Own { depth, sges } => {
                let input = ND_CREATE_QP { Header: header, ReceiveQueueDepth: *depth, MaxReceiveRequestSge: *sges };
                mappings.send(adapter.file(), IOCTL_ND_QP_CREATE, input.as_bytes())?
            }
            Receives::Shared(queue) => {
                let input = ND_CREATE_QP_WITH_SRQ { Header: header, SrqHandle: queue.pending().handle() };
                mappings.send(adapter.file(), IOCTL_ND_QP_CREATE_WITH_SRQ, input.as_bytes())?
            }
        };
        let object = Object::new(adapter.file(), passed.handle, IOCTL_ND_QP_FREE);
        let context_number = if rings.is_some() { in_rings } else { object.handle() };
        completion_queues.receive.serves(context_number, context);
        completion_queues.initiator.serves(context_number, context);
        Ok(Self {
            object,
            context_number,
            rings,
            adapter: adapter.clone(),
            inline_data,
            is_batch: AtomicBool::new(false),
            owes_doorbell: AtomicBool::new(false),
            _receives: receives,
            completion_queues,
        })
    }

    pub(crate) fn handle(&self) -> u64 {
        self.object.handle()
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// The most bytes of a request's inline data.
    pub(crate) fn inline_data(&self) -> usize {
        self.inline_data as usize
    }

    /// Cancels the posted requests.
    pub(crate) fn flush(&self) -> Result<(), NTSTATUS> {
        self.object.command(IOCTL_ND_QP_FLUSH)
    }

    /// Posts a receive, or an initiator request whose head [`request`] made. With NDK_OP_FLAG_INLINE there are no SGEs.
    pub(crate) fn post(&self, head: &SOFTNDK_POST, sges: &[SOFTNDK_SGE], inline: &[u8]) -> Result<(), NTSTATUS> {
        let is_receive = head.Operation == receive_request(0).Operation;
        let ring = self.rings.as_ref().and_then(|rings| match is_receive {
            true => rings.receive.as_ref(),
            false => Some(&rings.initiator),
        });
        let Some(ring) = ring else { return self.post_by_code(head, sges, inline) };
        let posted = lock(ring).post(head, sges, inline);
        if posted == Err(STATUS_CONNECTION_INVALID) && !is_receive {
            // The driver may not have marked the ring as connected yet: the peer's first message can arrive before
            // Accept ends.
            return self.post_by_code(head, sges, inline);
        }
        if !posted? {
            return Ok(());
        }
        // This thread stores `owes_doorbell`, then loads `is_batch`; `submit_batch` stores `is_batch`, then swaps
        // `owes_doorbell`. All four are in one order (SeqCst), so at least one of the two threads sends the doorbell.
        self.owes_doorbell.store(true, Ordering::SeqCst);
        if self.is_batch.load(Ordering::SeqCst) { Ok(()) } else { self.pay_doorbell() }
    }

    /// Posts by IOCTL_SOFTNDK_POST: an initiator request, or a receive if the queue pair has no receive ring. Before an
    /// initiator request the driver posts the requests that are in the initiator ring.
    fn post_by_code(&self, head: &SOFTNDK_POST, sges: &[SOFTNDK_SGE], inline: &[u8]) -> Result<(), NTSTATUS> {
        let head = SOFTNDK_POST {
            QpHandle: self.handle(),
            SgeCount: sges.len() as u32,
            InlineLength: inline.len() as u32,
            ..*head
        };
        let input = [head.as_bytes(), sges.as_bytes(), inline].concat();
        self.object.file().command(IOCTL_SOFTNDK_POST, &input)
    }

    fn pay_doorbell(&self) -> Result<(), NTSTATUS> {
        if self.owes_doorbell.swap(false, Ordering::SeqCst) {
            self.object.command(IOCTL_SOFTNDK_DOORBELL)
        } else {
            Ok(())
        }
    }

    /// Opens a batch: more requests follow, and only the last needs a doorbell.
    pub(crate) fn start_batch(&self) {
        self.is_batch.store(true, Ordering::SeqCst);
    }

    /// Closes the batch, and sends the doorbell if one is due.
    pub(crate) fn submit_batch(&self) {
        self.is_batch.store(false, Ordering::SeqCst);
        // Fails only if the device is gone.
        let _ = self.pay_doorbell();
    }

    /// Posts a bind and stores the window's new token. `flags`: NDK_OP_FLAG_*.
    pub(crate) fn bind(
        &self,
        context: u64,
        region: &Region,
        window: &Window,
        (address, length): (u64, u64),
        flags: u32,
    ) -> Result<(), NTSTATUS> {
        let head = SOFTNDK_POST {
            QpHandle: self.handle(),
            ObjectHandle: window.handle(),
            MrHandle: region.pending().handle(),
            BaseVirtualAddress: address,
            Length: length,
            ..request(NdkOperationTypeBind.0.cast_unsigned(), context, flags)
        };
        let token: SOFTNDK_MW_TOKEN = self.object.file().query(IOCTL_SOFTNDK_POST, head.as_bytes())?;
        window.set_token(token.RemoteToken);
        Ok(())
    }

    /// Posts an invalidate. `flags`: NDK_OP_FLAG_*.
    pub(crate) fn invalidate(&self, context: u64, window: &Window, flags: u32) -> Result<(), NTSTATUS> {
        let head = SOFTNDK_POST {
            ObjectHandle: window.handle(),
            ..request(NdkOperationTypeInvalidate.0.cast_unsigned(), context, flags)
        };
        // Not by the ring: the program may release the window before the driver reads the request.
        self.post_by_code(&head, &[], &[])
    }
}

/// A request without SGEs. `flags`: NDK_OP_FLAG_*.
pub(crate) fn request(operation: u32, context: u64, flags: u32) -> SOFTNDK_POST {
    SOFTNDK_POST {
        Version: SOFTNDK_IOCTL_VERSION,
        Operation: operation,
        RequestContext: context,
        Flags: flags,
        ..SOFTNDK_POST::ZERO
    }
}

/// A receive without SGEs.
pub(crate) fn receive_request(context: u64) -> SOFTNDK_POST {
    request(NdkOperationTypeReceive.0.cast_unsigned(), context, 0)
}
