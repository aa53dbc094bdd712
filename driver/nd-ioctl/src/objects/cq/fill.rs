//! Moves completions from a CQ into its ring, and completes the requests that wait for them.

use ndk_abi::describe::ZeroInit;
use ndk_abi::nd_ioctl::{ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS, ND_CQ_NOTIFY_SOLICITED};
use ndk_abi::ndkpi::{NDK_RESULT_EX, NdkOperationTypeReceive, NdkOperationTypeReceiveAndInvalidate};
use ndk_abi::softndk_ioctl::{SOFTNDK_RESULT_SILENT, SOFTNDK_RESULT_SOLICITED};
use ndk_abi::softndk_ring::SOFTNDK_COMPLETION;
use ndk_abi::status::{STATUS_INTERNAL_ERROR, STATUS_SUCCESS};

use super::{BURST, Cq};
use crate::Host;
use crate::objects::Object;
use crate::objects::qp::Qp;
use crate::objects::srq::Srq;
use crate::rings::cq_ring::Room;
use crate::rings::user_ring::UserCqRing;
use crate::tables::handles::Chain;
use crate::tables::pended::{Event, Pended};

/// The most bursts that one run of the deferred call moves into a ring.
const BURSTS: u32 = 8;

/// The queue pair of each completion, set where it differs from the previous completion's. For a freed queue pair, its SRQ, if the SRQ
/// has a ring.
type Reporters<H> = [Option<Object<H>>; BURST];

/// The result of filling a ring once.
enum Filled {
    /// The CQ may have more completions.
    Some,
    /// The CQ is empty, or the ring has no room.
    All,
    /// The program's index is impossible.
    BadIndex,
}

impl<H: Host> Cq<H> {
    /// Moves completions into the ring, as far as there is room, at most `BURSTS` times `BURST`. True: the CQ may have more.
    pub(super) fn fill(&self, ring: &UserCqRing<H>) -> bool {
        for _ in 0..BURSTS {
            // Dropped after the turn is released: an entry may hold the last reference to a queue pair that was freed in between.
            let mut reporters = [const { None }; BURST];
            let turn = self.turn.lock();
            let filled = self.fill_once(ring, &mut reporters);
            ring.release();
            drop(turn);
            match filled {
                Filled::Some => {}
                Filled::All => return false,
                Filled::BadIndex => {
                    ring.end(STATUS_INTERNAL_ERROR);
                    self.ndk.context().end(STATUS_INTERNAL_ERROR);
                    return false;
                }
            }
        }
        true
    }

    /// Moves one burst. The caller holds the turn, so that one thread at a time polls completions and writes them into the ring, in order.
    /// `reporters` keeps the completions' queue pairs and SRQs alive.
    fn fill_once(&self, ring: &UserCqRing<H>, reporters: &mut Reporters<H>) -> Filled {
        let room = match ring.reserve(BURST as u32) {
            Room::For(room) => room as usize,
            Room::None => {
                // The completions stay in the CQ, which may overrun.
                self.ndk.arm(ND_CQ_NOTIFY_ERRORS);
                return Filled::All;
            }
            Room::BadIndex => return Filled::BadIndex,
        };
        let handles = &self.ndk.context().handles;
        let closed_before = self.closed.lock().as_ref().map(Chain::last);
        let mut results = [NDK_RESULT_EX::ZERO; BURST];
        let count = self.ndk.results(results.get_mut(..room).unwrap_or_default());
        if count == 0 {
            if let Some(last) = closed_before {
                handles.forget_freed(&mut self.closed.lock(), last);
            }
            // The CQ was empty: the next completion notifies.
            self.ndk.arm(ND_CQ_NOTIFY_ANY);
            return Filled::All;
        }
        let mut last = None;
        for (result, place) in results.iter().take(count).zip(reporters) {
            let handle = result.QPContext.addr() as u64;
            if last.is_none_or(|(of, _)| of != handle) {
                *place = handles.get_or_left(handle);
                last = Some((handle, &*place));
            }
            let receive = is_receive(result);
            match last {
                Some((_, Some(Object::Qp(qp)))) => {
                    let counted = result.ProviderErrorCode != SOFTNDK_RESULT_SILENT;
                    qp.completing(receive, counted, result.Status);
                    ring.push_reserved(completion(qp, handle, result), is_solicited(result));
                    Qp::completed(qp, receive, counted);
                }
                Some((_, Some(Object::Srq(srq)))) if receive => Srq::completed_without_qp(srq),
                _ => {}
            }
        }
        Filled::Some
    }

    /// Completes the requests that wait for the completions in the ring.
    pub(super) fn notify(&self, ring: &UserCqRing<H>) {
        let events = self.ndk.context();
        let pended = &events.pended;
        // Before the ring is read: the program may read a completion, and then ask for the next notification, which that completion must not
        // satisfy. A later request looks at the ring itself.
        let end = pended.end();
        // A request whose cancel routine has begun is not found; then no completion counts as notified.
        let told = ring.notify(|kind| {
            let event = if kind == ND_CQ_NOTIFY_SOLICITED { Event::Solicited } else { Event::Completion };
            pended.take_first(&events.waiting, &[event], end)
        });
        if let Some(first) = told {
            first.succeed();
            // One notification completes all waiting requests: if one waits for any completion, those that wait for solicited ones too.
            pended.take_until(&events.waiting, &[Event::Completion, Event::Solicited], end, Pended::succeed);
        }
    }
}

fn is_receive(result: &NDK_RESULT_EX) -> bool {
    result.Type == NdkOperationTypeReceive || result.Type == NdkOperationTypeReceiveAndInvalidate
}

/// Whether a completion satisfies a request for a solicited notification.
fn is_solicited(result: &NDK_RESULT_EX) -> bool {
    result.ProviderErrorCode == SOFTNDK_RESULT_SOLICITED || result.Status != STATUS_SUCCESS
}

/// The completion in the ring's layout.
fn completion<H: Host>(qp: &Qp<H>, handle: u64, result: &NDK_RESULT_EX) -> SOFTNDK_COMPLETION {
    SOFTNDK_COMPLETION {
        Status: result.Status,
        BytesTransferred: result.BytesTransferred,
        QueuePairContext: qp.rings.as_ref().map_or(handle, |rings| rings.queue_pair_context),
        RequestContext: result.RequestContext.addr() as u64,
        Type: result.Type.0.cast_unsigned(),
        // The token of a receive-and-invalidate, of 32 bits.
        Output: result.TypeSpecificCompletionOutput as u32,
    }
}
