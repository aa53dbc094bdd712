//! The wire of an established connection, run by its queue pair's engine: `receive.rs` takes FPDUs, `transmit.rs` makes them.

use fault_rules::Point;
use iwarp::{
    negotiate::{RtrKind, Terms},
    terminate::Cause,
};
use platform::{Arc, Deferred, Notice, OutOfMemory, Platform, Read, Stream, Taken, Timer};

use super::{
    Wire, WireState, crc,
    faults::{Delay, SegmentPoint},
    inbound_reads::InboundReads,
    noticed,
    receive::{FpduOutcome, RxStream},
    timeouts::WireTimer,
    transmit::{ReadSourceRefused, TerminateOut, TxStream, WireCarrier},
};
use crate::{Counter, QueuePair, qp::PeerQp};

/// FPDUs that one run receives at most, and rounds in which it transmits at most: see [`WireCarrier::fill`].
const BURST_FPDUS: u32 = 64;

/// The state of both directions of an established connection.
pub(super) struct Streams<P: Platform> {
    pub(super) rx: RxStream,
    pub(super) tx: TxStream<P>,
    /// This side may send: it is the initiator, or the initiator's first message has arrived.
    may_send: bool,
    pub(super) timer: WireTimer,
    /// The wire's timer runs for the end of a delay by a fault rule. Until then `timer` stands still.
    pub(super) is_delayed: bool,
    /// The RTR message that is due is the second.
    pub(super) sends_rtr_again: bool,
    /// A message of the peer waits for its receive, so the FPDUs behind it are not handled.
    message_awaits_receive: bool,
}

impl<P: Platform> Streams<P> {
    pub(super) fn new(terms: &Terms, may_send: bool, initiator: bool) -> Result<Self, OutOfMemory> {
        let crc = terms.crc.then(crc::fastest);
        let rtr = terms.rtr;
        // The RTR message may be a read, even if the agreed IRD is 0.
        let served = terms.inbound_reads.max(u16::from(rtr == Some(RtrKind::Read)));
        let tx = TxStream {
            crc,
            rtr: rtr.filter(|_| initiator),
            next_send: 1,
            next_read: 1,
            reads: terms.outbound_reads,
            inbound_reads: InboundReads::new(served)?,
            awaits_rtr_response: initiator && rtr == Some(RtrKind::Read),
            confirmation: None,
            terminate: None,
            has_passed_point: [false; 3],
            delay: None,
        };
        Ok(Self {
            rx: RxStream::new(crc, rtr, initiator),
            tx,
            may_send,
            timer: WireTimer::Off,
            is_delayed: false,
            sends_rtr_again: false,
            message_awaits_receive: false,
        })
    }
}

impl<P: Platform> Wire<P> {
    /// Attaches a queue pair to the wire; `None`: no memory, or the connection has ended.
    pub(super) fn attach(
        this: &Arc<Self, P>,
        terms: &Terms,
        queue_pair: &Arc<QueuePair<P>, P>,
        may_send: bool,
    ) -> Option<PeerQp<P>> {
        let initiator = this.is_initiator;
        let streams = Streams::new(terms, may_send, initiator).ok()?;
        this.streams.lock().streams = Some(streams);
        queue_pair.state.lock().confirms = queue_pair.send_timeout > 0 && terms.outbound_reads > 0;
        let own = Arc::downgrade(queue_pair);
        Self::end_change(this, WireState::RdmaMode(own.clone())).then(|| PeerQp::Remote(this.clone(), own))
    }

    /// One run of the queue pair's engine over this wire: receives, then transmits. Takes the streams out; if another
    /// thread has them, returns.
    pub(crate) fn run(this: &Arc<Self, P>, queue_pair: &Arc<QueuePair<P>, P>) {
        let mut locked = this.streams.lock();
        let Some(mut streams) = locked.streams.take() else { return };
        locked.are_out = true;
        drop(locked);
        // Checked with the streams out: if the connection ends after this check, `finish_close` returns, and the end of this run schedules it.
        let Some(late) = this.take_late() else {
            this.put_back(streams);
            return Deferred::schedule(this);
        };
        let timer_before = streams.timer;
        if late && !streams.is_delayed {
            streams.tick(queue_pair);
        }
        let sends_rtr = !streams.sends_rtr_again && streams.tx.rtr == Some(RtrKind::Write);
        let received = Self::receive(this, queue_pair, &mut streams);
        let sent = match received {
            RunOutcome::Ended(_) => RunOutcome::Idle,
            RunOutcome::Idle | RunOutcome::AwaitsReceive | RunOutcome::More => {
                Self::transmit(this, queue_pair, &mut streams)
            }
        };
        let rtr_sent = sends_rtr && streams.tx.rtr.is_none();
        streams.timer =
            streams.timer.next(matches!(received, RunOutcome::AwaitsReceive), streams.rx.awaits_first_fpdu, rtr_sent);
        Self::set_timer(this, &mut streams, timer_before, late);
        if streams.message_awaits_receive {
            // Until the message has its receive, the peer's confirmation is stuck behind it. The consumer may post that receive only when its own
            // sends have completed, so they complete now.
            QueuePair::confirm(queue_pair, |state| !state.oldest_is_read());
        }
        this.put_back(streams);
        match (received, sent) {
            (RunOutcome::Ended(gracefully), _) | (_, RunOutcome::Ended(gracefully)) => {
                QueuePair::peer_ended(queue_pair, gracefully);
            }
            (RunOutcome::Idle | RunOutcome::AwaitsReceive, RunOutcome::Idle) => {}
            _ => Deferred::schedule(queue_pair),
        }
        let mut state = this.state.lock();
        if !matches!(state.wire_state, WireState::RdmaMode(_)) {
            // The connection ended during this run, and `finish_close` found the streams out. From now on the timer is for the closing.
            Timer::cancel(this);
            state.late = false;
            drop(state);
            Deferred::schedule(this);
        }
    }

    /// Whether the timer has expired since the last call; `None` if the connection has ended.
    fn take_late(&self) -> Option<bool> {
        let mut state = self.state.lock();
        matches!(state.wire_state, WireState::RdmaMode(_)).then(|| core::mem::take(&mut state.late))
    }

    fn put_back(&self, streams: Streams<P>) {
        let mut locked = self.streams.lock();
        (locked.streams, locked.are_out) = (Some(streams), false);
    }

    /// Takes FPDUs from the stream's buffer.
    fn receive(this: &Arc<Self, P>, queue_pair: &Arc<QueuePair<P>, P>, streams: &mut Streams<P>) -> RunOutcome {
        let mut outcome = None;
        // Bytes in the buffer behind the last FPDU that was taken.
        let mut rest_bytes = 0;
        let tap = this.device.capture().tap(|| this.addresses());
        let point = SegmentPoint::new(Point::SegmentIn, this, queue_pair);
        if Delay::goes_on(&mut streams.rx.delay, point.as_ref()) {
            // The stream receives on, and a reset of the peer is noticed.
            return match Stream::read(this, |_| Taken { used: 0, wanted: 0 }) {
                Read::Ended(Err(_)) => RunOutcome::Ended(false),
                Read::Ended(Ok(())) | Read::Some | Read::Nothing => RunOutcome::Idle,
            };
        }
        let read = Stream::read(this, |bytes| {
            let mut used = 0usize;
            let mut wanted = 0;
            for _ in 0..BURST_FPDUS {
                let rest = bytes.get(used..).unwrap_or_default();
                let received = streams.rx.receive(queue_pair, &mut streams.tx, rest, point.as_ref());
                if let Some(tap) = tap.as_ref().filter(|_| received.as_ref().map_or(true, FpduOutcome::is_last)) {
                    tap.fpdu(tap.received, rest);
                }
                match received {
                    Ok(FpduOutcome::Used(size)) => {
                        used = used.saturating_add(size);
                        streams.may_send = true;
                        continue;
                    }
                    Ok(FpduOutcome::Incomplete(size)) => wanted = size.unwrap_or(0),
                    Ok(FpduOutcome::AwaitsReceive(ulpdu))
                        if streams.timer.receive_is_overdue(queue_pair.receive_timeout()) =>
                    {
                        if let Some(tap) = &tap {
                            tap.fpdu(tap.received, rest);
                        }
                        streams.tx.terminate.get_or_insert(TerminateOut::new(Cause::NO_BUFFER, ulpdu));
                        outcome = Some(RunOutcome::Ended(false));
                    }
                    Ok(FpduOutcome::AwaitsReceive(_)) => outcome = Some(RunOutcome::AwaitsReceive),
                    Ok(FpduOutcome::Busy) => outcome = Some(RunOutcome::More),
                    Ok(FpduOutcome::Delayed) => outcome = Some(RunOutcome::Idle),
                    Ok(FpduOutcome::Failed) => outcome = Some(RunOutcome::Ended(false)),
                    Err(error) => {
                        streams.tx.terminate.get_or_insert(TerminateOut::new(error.cause, error.ulpdu));
                        outcome = Some(RunOutcome::Ended(false));
                    }
                }
                break;
            }
            rest_bytes = bytes.len().saturating_sub(used);
            Taken { used, wanted }
        });
        let waits = matches!(outcome, Some(RunOutcome::AwaitsReceive));
        if !core::mem::replace(&mut streams.message_awaits_receive, waits) && waits {
            this.device.counters().count(Counter::ReceiverNotReady);
            if let Some(tap) = &tap {
                tap.not_ready(tap.received);
            }
        }
        if let Some(cause) = streams.rx.terminate_cause.take() {
            P::notice(&Notice::TerminateReceived { addresses: this.addresses(), cause: noticed(cause) });
        }
        match (outcome, read) {
            // A message waits for its receive, or by a rule, only while the connection is alive.
            (Some(RunOutcome::AwaitsReceive | RunOutcome::Idle), Read::Ended(Err(_))) => RunOutcome::Ended(false),
            (Some(RunOutcome::AwaitsReceive), Read::Some) => RunOutcome::More,
            // A shared receive queue may be empty for as long as its consumer likes: no timer. A post to it schedules the queue pair. When the peer
            // has sent FIN, the timer runs in this case too.
            (Some(RunOutcome::AwaitsReceive), Read::Nothing) if queue_pair.shares_receives() => RunOutcome::Idle,
            (Some(outcome), _) => outcome,
            // The stream may have received more, or ended, during the read: reads again until no byte is used.
            (None, Read::Some) => RunOutcome::More,
            (None, Read::Nothing) => RunOutcome::Idle,
            (None, Read::Ended(result)) => {
                let whole = rest_bytes == 0 && streams.rx.is_between_messages() && queue_pair.is_between_messages();
                // The peer ended the stream without a Terminate. Sends and writes handed to TCP count as placed: the last one may be why the peer
                // ended the stream.
                QueuePair::confirm(queue_pair, |state| !state.oldest_is_read());
                RunOutcome::Ended(result.is_ok() && whole)
            }
        }
    }

    /// Makes FPDUs in the stream's send buffer, as far as it has room.
    fn transmit(this: &Arc<Self, P>, queue_pair: &Arc<QueuePair<P>, P>, streams: &mut Streams<P>) -> RunOutcome {
        let mut outcome = RunOutcome::Idle;
        if streams.may_send && (streams.tx.has_own_work() || queue_pair.state.lock().has_to_send()) {
            let tap = this.device.capture().tap(|| this.addresses());
            let point = SegmentPoint::new(Point::SegmentOut, this, queue_pair);
            if Delay::goes_on(&mut streams.tx.delay, point.as_ref()) {
                return RunOutcome::Idle;
            }
            Stream::write(this, |room| {
                let mut carrier = WireCarrier::new(&mut streams.tx, room, tap.as_ref(), point.as_ref());
                outcome = match carrier.fill(queue_pair, BURST_FPDUS) {
                    Ok(true) => RunOutcome::More,
                    // The stream sends these FPDUs now. It may have another buffer for more FPDUs, which are then sent at the same time.
                    Ok(false) if carrier.is_full() && carrier.used() > 0 => RunOutcome::More,
                    Ok(false) => RunOutcome::Idle,
                    Err(ReadSourceRefused) => RunOutcome::Ended(false),
                };
                let (bytes, messages) = carrier.data();
                queue_pair.pd.adapter().device().counters().sent(queue_pair.counter_shard, bytes, messages);
                carrier.used()
            });
        }
        outcome
    }
}

/// The outcome of a run in one direction.
#[derive(Clone, Copy)]
enum RunOutcome {
    /// Nothing more to do until the engine is scheduled.
    Idle,
    /// As `Idle`: a message of the peer waits for its receive.
    AwaitsReceive,
    More,
    /// The connection ends. True: the peer ended it gracefully.
    Ended(bool),
}
