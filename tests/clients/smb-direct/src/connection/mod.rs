//! One end of an SMB Direct connection: credits, messages and fragments, and the calls of the runner.
//!
//! One lock guards the state, and is held over posts too: NDKPI wants the posts to each queue serialised, and a provider calls no callback
//! in a post. Completions are in [`completion`], received messages in [`incoming`], sent messages in [`outgoing`].

mod completion;
mod incoming;
mod initiator;
mod negotiation;
mod outgoing;
mod pool;
mod watch;

pub(crate) use completion::CqEvents;
pub(crate) use initiator::{Completed, Purpose};
pub(crate) use pool::Pool;

use ndk_abi::ndkpi::{NDK_OP_FLAG_SILENT_SUCCESS, NDK_SGE};
use ndk_abi::status::{NTSTATUS, STATUS_CONNECTION_INVALID, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS};
use ndk_consumer::{Adapter, Data, QpDepths, Work};
use platform::{Deferred, Passive, Slice};

use crate::credits::Credits;
use crate::region::{Region, RegionMemory};
use crate::report::{Failure, Figures, Step};
use crate::settings::Settings;
use crate::{Cq, Fifo, Kernel, Lock, Pd, PlatformOf, Qp, Ref, lock, no_memory, shared};
use completion::Queues;
use incoming::Assembly;
use initiator::Initiator;
use kernel_consumer::Bell;
use kernel_consumer::Queue;
use negotiation::Terms;
use outgoing::Outgoing;
use pool::FreeSlots;
use watch::Watch;

/// The most upper messages that wait in each direction, and their most bytes. Both ends of a scenario stay below; a foreign peer that sends
/// more is disconnected.
const MESSAGES: usize = 256;
const MESSAGE_BYTES: usize = 16 << 20;
/// The most completions that wait for the runner.
const COMPLETIONS: usize = 64;

/// One end of a connection. A drop closes its objects in the order of the fields.
pub(crate) struct Connection<K: Kernel> {
    qp: Qp<K>,
    cqs: Queues<Cq<K>>,
    /// Set for a queue in which a callback left completions, as its budget was spent. A thread that arms and polls a queue holds the
    /// queue's lock, which is taken before the lock of the state.
    unfinished: Queues<Lock<bool, K>>,
    deferred: Deferred<PlatformOf<K>>,
    state: Lock<State<K>, K>,
    bell: Ref<Bell<PlatformOf<K>>, K>,
    watch: Ref<Watch<K>, K>,
    settings: Settings,
}

/// The phase of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The active side waits for the response.
    Active,
    /// The passive side waits for the request.
    Passive,
    Established,
    /// No message is sent or handled; the posted requests complete.
    Over,
}

/// KeepaliveRequested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keepalive {
    None,
    Pending,
    Sent,
}

/// A received upper message.
pub struct Message<K: Kernel> {
    /// All its bytes.
    pub bytes: Slice<u8, PlatformOf<K>>,
    /// The token of this end that one of its fragments invalidated.
    pub invalidated: Option<u32>,
}

struct State<K: Kernel> {
    phase: Phase,
    /// [`Connection::connected`] was called.
    up: bool,
    /// The slot and the length of a negotiate request that came before the call of [`Connection::connected`].
    held: Option<(u32, u32)>,
    failure: Option<Failure>,
    terms: Terms,
    credits: Credits,
    free: FreeSlots<K>,
    /// Posted receives that have not completed.
    posted_receives: u32,
    initiator: Initiator<PlatformOf<K>>,
    outgoing: Fifo<Outgoing<K>, K>,
    /// Bytes of the messages in `outgoing`.
    outgoing_bytes: usize,
    assembly: Assembly<K>,
    inbox: Fifo<Message<K>, K>,
    /// Bytes of the messages in `inbox`.
    inbox_bytes: usize,
    completed: Fifo<Completed, K>,
    keepalive: Keepalive,
    /// The peer has requested a message.
    answer_due: bool,
    figures: Figures,
}

impl<K: Kernel> State<K> {
    /// Stores the first failure, which ends the connection.
    fn fail(&mut self, failure: Failure) {
        if self.phase != Phase::Over {
            self.phase = Phase::Over;
            self.failure = Some(failure);
        }
    }
}

impl<K: Kernel> Connection<K> {
    /// Makes the queues of one end, posts the receive for the negotiation, and arms the queues.
    pub(crate) fn new(
        adapter: &Ref<Adapter<PlatformOf<K>>, K>,
        pd: &Ref<Pd<K>, K>,
        bell: &Ref<Bell<PlatformOf<K>>, K>,
        settings: Settings,
        is_active: bool,
        passive: &Passive<'_>,
    ) -> Result<Ref<Self, K>, NTSTATUS> {
        let pool = shared::<_, K>(Pool::new(pd, &settings, passive)?)?;
        let depths = [pool.receive_slots(), settings.initiator_depth];
        let cqs = Queues::create(adapter, depths, passive)?;
        let sizes = QpDepths { initiator_depth: settings.initiator_depth, initiator_sges: 1, inline_bytes: 0 };
        let receives = (pool.receive_slots(), 1);
        let free = FreeSlots::new(pool.receive_slots())?;
        let qp = Qp::<K>::create_qp(pd, &cqs.receive, &cqs.initiator, 0, receives, &sizes, pool, passive)?;
        let state = State {
            phase: if is_active { Phase::Active } else { Phase::Passive },
            up: false,
            held: None,
            failure: None,
            terms: Terms::default(),
            credits: Credits::new(settings.credits),
            free,
            posted_receives: 0,
            initiator: Initiator::new(settings.initiator_depth, settings.send_slots).map_err(no_memory)?,
            outgoing: Queue::new(MESSAGES).map_err(no_memory)?,
            outgoing_bytes: 0,
            assembly: Assembly::default(),
            inbox: Queue::new(MESSAGES).map_err(no_memory)?,
            inbox_bytes: 0,
            completed: Queue::new(COMPLETIONS).map_err(no_memory)?,
            keepalive: Keepalive::None,
            answer_due: false,
            figures: Figures::default(),
        };
        let connection = shared::<_, K>(Self {
            qp,
            cqs,
            unfinished: Queues::default(),
            deferred: Deferred::default(),
            state: lock::<_, K>(state),
            bell: bell.clone(),
            watch: Watch::new()?,
            settings,
        })?;
        Deferred::initialize(&connection);
        connection.watch.serve(&connection);
        connection.cqs.receive.context().serve(&connection);
        connection.cqs.initiator.context().serve(&connection);
        connection.post_receive(&mut connection.state.lock())?;
        connection.arm();
        Ok(connection)
    }

    pub(crate) fn qp(&self) -> &Qp<K> {
        &self.qp
    }

    /// Called after NdkCompleteConnect or NdkAccept has completed: begins the negotiation, or continues it with the request in `held`.
    pub(crate) fn connected(&self) {
        let mut state = self.state.lock();
        state.up = true;
        let (active, passive) = self.settings.negotiation;
        match state.phase {
            Phase::Active => Watch::start(&self.watch, active),
            Phase::Passive => Watch::start(&self.watch, passive),
            Phase::Established | Phase::Over => {}
        }
        let result = match (state.phase, state.held.take()) {
            (Phase::Active, _) => self.request(&mut state),
            (Phase::Passive, Some((slot, length))) => self.negotiate(&mut state, slot, length),
            _ => Ok(()),
        };
        if let Err(status) = result {
            state.fail(Failure { step: Step::Negotiate, status });
        }
    }

    /// The failure that ended the connection.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state.lock().failure
    }

    pub(crate) fn is_established(&self) -> bool {
        self.state.lock().phase == Phase::Established
    }

    /// Bytes of one RDMA transfer that the server allows.
    pub(crate) fn read_write_size(&self) -> u32 {
        self.state.lock().terms.read_write_size
    }

    /// Stops sending and handling messages. False: initiator requests are outstanding.
    pub(crate) fn quiesce(&self) -> bool {
        let mut state = self.state.lock();
        state.phase = Phase::Over;
        state.initiator.is_idle()
    }

    /// Whether all posted receives and all signalled initiator requests have completed.
    pub(crate) fn is_drained(&self) -> bool {
        let state = self.state.lock();
        state.posted_receives == 0 && state.initiator.is_drained()
    }

    /// Bytes of the message that [`Self::take_message`] returns next, if there is one.
    pub(crate) fn message_length(&self) -> Option<usize> {
        self.state.lock().inbox.front().map(|message| message.bytes.len())
    }

    /// Takes the oldest received message.
    pub(crate) fn take_message(&self) -> Option<Message<K>> {
        let mut state = self.state.lock();
        let message = state.inbox.pop()?;
        state.inbox_bytes = state.inbox_bytes.saturating_sub(message.bytes.len());
        Some(message)
    }

    /// Takes a completion of [`Self::read`], [`Self::write`] or [`Self::invalidate`].
    pub(crate) fn take_completed(&self) -> Option<Completed> {
        self.state.lock().completed.pop()
    }

    /// Takes the counts.
    pub(crate) fn take_figures(&self) -> Figures {
        core::mem::take(&mut self.state.lock().figures)
    }

    /// Deregisters the message buffers. No request is outstanding.
    pub(crate) fn release(&self, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        self.qp.context().region.deregister(passive)
    }

    /// Sends a keepalive; [`Self::keepalive_answered`] is true when the peer has answered.
    pub(crate) fn keepalive(this: &Ref<Self, K>) {
        let mut state = this.state.lock();
        state.keepalive = Keepalive::Pending;
        Self::pump(this, &mut state);
    }

    pub(crate) fn keepalive_answered(&self) -> bool {
        self.state.lock().keepalive == Keepalive::None
    }

    /// Gives the peer access to `length` bytes of a region until one of the ends invalidates the token. The registration is ordered before
    /// later sends.
    pub(crate) fn register(&self, region: &Region<K>, length: usize, flags: u32) -> Result<(), NTSTATUS> {
        let work = Work::FastRegister { mr: region.mr(), lam: region.lam(), base: region.base(), length };
        self.post(Purpose::Register, 0, &work, flags | NDK_OP_FLAG_SILENT_SUCCESS)
    }

    /// Ends the peer's access to a region from this end. The completion has the id.
    pub(crate) fn invalidate(&self, region: &Region<K>, id: u32) -> Result<(), NTSTATUS> {
        self.post(Purpose::Invalidate, id, &Work::Invalidate(region.mr()), 0)
    }

    /// Reads memory of the peer. The completion has the id.
    pub(crate) fn read(&self, sge: NDK_SGE, address: u64, token: u32, id: u32) -> Result<(), NTSTATUS> {
        self.post(Purpose::Read, id, &Work::Read { sges: &[sge], address, token }, 0)
    }

    /// Writes memory of the peer. The completion has the id; without an id the write is silent, as the send of the answer follows it.
    pub(crate) fn write(&self, sge: NDK_SGE, address: u64, token: u32, id: Option<u32>) -> Result<(), NTSTATUS> {
        let (work, flags) = (Work::Write { data: Data::Regions(&[sge]), address, token }, NDK_OP_FLAG_SILENT_SUCCESS);
        self.post(Purpose::Write, id.unwrap_or(0), &work, if id.is_some() { 0 } else { flags })
    }

    /// Posts an initiator request. STATUS_NO_MORE_ENTRIES: the queue is full, for now.
    fn post(
        &self,
        purpose: Purpose,
        id: u32,
        work: &Work<'_, RegionMemory<K>, PlatformOf<K>>,
        flags: u32,
    ) -> Result<(), NTSTATUS> {
        let mut state = self.state.lock();
        if state.phase != Phase::Established {
            return Err(STATUS_CONNECTION_INVALID);
        }
        if !state.initiator.has_room() {
            return Err(STATUS_NO_MORE_ENTRIES);
        }
        let (context, _) = state.initiator.take(purpose, id);
        match self.qp.post(context, work, flags) {
            STATUS_SUCCESS => {
                if flags & NDK_OP_FLAG_SILENT_SUCCESS == 0 {
                    state.initiator.signalled(context);
                }
                Ok(())
            }
            status => {
                state.fail(Failure { step: Step::Transport, status });
                Err(status)
            }
        }
    }

    /// Posts a free receive slot.
    fn post_receive(&self, state: &mut State<K>) -> Result<(), NTSTATUS> {
        let slot = state.free.take().ok_or(STATUS_NO_MORE_ENTRIES)?;
        let sge = self.qp.context().receive_sge(slot, self.settings.receive_size);
        match self.qp.receive(slot.into(), &[sge]) {
            STATUS_SUCCESS => {
                state.posted_receives = state.posted_receives.saturating_add(1);
                Ok(())
            }
            status => {
                state.free.give_back(slot);
                Err(status)
            }
        }
    }
}
