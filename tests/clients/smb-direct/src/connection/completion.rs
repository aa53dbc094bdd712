//! Completions, polled at DISPATCH_LEVEL in the callbacks of the two completion queues.
//!
//! A callback arms the queue, then polls until it is empty: a later completion causes another callback, which may find that the completion
//! was taken already. After a bounded number of completions a callback leaves the rest to a deferred call. A lock serialises callback and
//! deferred call: NDKPI wants one arm or poll of a queue at a time, and messages have to be reassembled in order.

use ndk_abi::describe::ZeroInit;
use ndk_abi::ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_RESULT_EX, NdkOperationTypeReceive, NdkOperationTypeReceiveAndInvalidate};
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_INTERNAL_ERROR, STATUS_SUCCESS};
use ndk_consumer::{Adapter, Notified};
use platform::{Arc, Deferred, Dispatch, Passive, RunDeferred, Weak};

use super::{Connection, Purpose, State};
use crate::report::{Failure, Step};
use crate::{BackRef, Cq, Kernel, PlatformOf, Ref, lock, shared};

/// Completions of one poll.
const BATCH: usize = 16;
/// Polls of one callback.
const BATCHES: usize = 4;

/// One value for each of the two completion queues.
#[derive(Default)]
pub(crate) struct Queues<T> {
    pub(super) receive: T,
    pub(super) initiator: T,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Receive,
    Initiator,
}

impl<T> Queues<T> {
    fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Receive => &self.receive,
            Direction::Initiator => &self.initiator,
        }
    }
}

/// The context of a completion queue, for its callback.
pub(crate) struct CqEvents<K: Kernel> {
    direction: Direction,
    /// Set before the queue is armed.
    connection: BackRef<Connection<K>, K>,
    _adapter: Ref<Adapter<PlatformOf<K>>, K>,
}

impl<K: Kernel> CqEvents<K> {
    /// Sets the connection whose completions come to this queue.
    pub(super) fn serve(&self, connection: &Ref<Connection<K>, K>) {
        *self.connection.lock() = Some(Arc::downgrade(connection));
    }
}

impl<K: Kernel> Queues<Cq<K>> {
    /// Creates the queues of one end, with the depths for receives and for initiator requests.
    pub(super) fn create(
        adapter: &Ref<Adapter<PlatformOf<K>>, K>,
        [receives, requests]: [u32; 2],
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let create = |direction, depth| {
            let connection = lock::<_, K>(None);
            let events = shared::<_, K>(CqEvents { direction, connection, _adapter: adapter.clone() })?;
            Cq::<K>::create_cq(adapter, depth, None, events, passive)
        };
        Ok(Self { receive: create(Direction::Receive, receives)?, initiator: create(Direction::Initiator, requests)? })
    }
}

impl<K: Kernel> Notified for CqEvents<K> {
    fn notified(&self, status: NTSTATUS) {
        let connection = self.connection.lock().as_ref().and_then(Weak::upgrade);
        let Some(connection) = connection else { return };
        if status == STATUS_SUCCESS {
            Connection::poll(&connection, self.direction, &mut connection.unfinished.of(self.direction).lock());
        } else {
            // The completion queue has failed, for example by an overrun, and with it the queue pair.
            connection.state.lock().fail(Failure { step: Step::Transport, status });
            connection.bell.ring();
        }
    }
}

impl<K: Kernel> Connection<K> {
    /// Arms both queues for the first time.
    pub(super) fn arm(&self) {
        for direction in [Direction::Receive, Direction::Initiator] {
            // A callback may come before the call returns.
            let _turn = self.unfinished.of(direction).lock();
            self.cqs.of(direction).arm(NDK_CQ_NOTIFY_ANY);
        }
    }

    /// Arms the queue and takes its completions. If the budget is spent first, sets `unfinished` and schedules the deferred call.
    fn poll(this: &Ref<Self, K>, direction: Direction, unfinished: &mut bool) {
        let cq = this.cqs.of(direction);
        cq.arm(NDK_CQ_NOTIFY_ANY);
        let mut results = [NDK_RESULT_EX::ZERO; BATCH];
        for _ in 0..BATCHES {
            let count = cq.results(&mut results);
            let mut state = this.state.lock();
            for result in results.iter().take(count) {
                match direction {
                    Direction::Receive => this.receive_completed(&mut state, result),
                    Direction::Initiator => this.request_completed(&mut state, result),
                }
            }
            Self::pump(this, &mut state);
            drop(state);
            this.bell.ring();
            if count < BATCH {
                return;
            }
        }
        *unfinished = true;
        Deferred::schedule(this);
    }

    fn receive_completed(&self, state: &mut State<K>, result: &NDK_RESULT_EX) {
        state.posted_receives = state.posted_receives.saturating_sub(1);
        let slot = result.RequestContext.addr() as u32;
        let token = if result.Type == NdkOperationTypeReceiveAndInvalidate {
            Some(result.TypeSpecificCompletionOutput as u32)
        } else if result.Type == NdkOperationTypeReceive {
            None
        } else {
            // A completion of another type, in the queue for receives.
            return state.fail(Failure { step: Step::Transport, status: STATUS_INTERNAL_ERROR });
        };
        match result.Status {
            STATUS_SUCCESS => self.received(state, slot, result.BytesTransferred, token),
            status => {
                state.free.give_back(slot);
                flushed(state, status);
            }
        }
    }

    fn request_completed(&self, state: &mut State<K>, result: &NDK_RESULT_EX) {
        let Some(completed) = state.initiator.retire(result.RequestContext.addr() as u64) else {
            return state.fail(Failure { step: Step::Transport, status: STATUS_INTERNAL_ERROR });
        };
        if result.Status != STATUS_SUCCESS {
            return flushed(state, result.Status);
        }
        if matches!(completed.purpose, Purpose::Read | Purpose::Write | Purpose::Invalidate)
            && state.completed.push(completed).is_err()
        {
            state.fail(Failure { step: Step::Transport, status: STATUS_INTERNAL_ERROR });
        }
    }
}

/// Called for a request that failed: ends the connection. Counts a flushed request (STATUS_CANCELLED).
fn flushed<K: Kernel>(state: &mut State<K>, status: NTSTATUS) {
    if status == STATUS_CANCELLED {
        state.figures.cancelled = state.figures.cancelled.saturating_add(1);
    }
    state.fail(Failure { step: Step::Transport, status });
}

impl<K: Kernel> RunDeferred<PlatformOf<K>> for Connection<K> {
    fn deferred(&self) -> &Deferred<PlatformOf<K>> {
        &self.deferred
    }

    fn run(this: &Arc<Self, PlatformOf<K>>, _: &Dispatch<'_>) {
        for direction in [Direction::Receive, Direction::Initiator] {
            let mut unfinished = this.unfinished.of(direction).lock();
            if core::mem::take(&mut *unfinished) {
                Self::poll(this, direction, &mut unfinished);
            }
        }
        Self::pump(this, &mut this.state.lock());
    }
}
