//! How a stream ends: with all data sent and a FIN from both sides, or by a reset.
//!
//! | why | function |
//! |---|---|
//! | the connection has ended, or this side cannot meet the Reply's terms | `end`, then `finish_close`: the written data, maybe a Terminate, then FIN |
//! | the peer was refused | `end_in`, then `finish_close`: the Reply, then FIN |
//! | the connection was not established, its time is over, or it has no slot | `close`: resets |

use iwarp::terminate::Cause;
use platform::{Arc, Deferred, Notice, Platform, Read, Stream, Taken, Timer};

use super::{
    Wire, WireState, noticed,
    transmit::{TerminateOut, WireCarrier},
};
use crate::{connect::wire_table::WireTable, limits};

impl<P: Platform> Wire<P> {
    /// The connection has ended: sends the written data, a Terminate too if the connection is `broken`, then FIN.
    pub(crate) fn end(this: &Arc<Self, P>, broken: bool) {
        this.state.lock().broken |= broken;
        Self::end_in(this, this.device.ended());
    }

    /// Ends the stream as [`Self::end`] does, with a slot of `table`. Without a slot the stream is reset.
    pub(super) fn end_in(this: &Arc<Self, P>, table: &Arc<WireTable<P>, P>) {
        if !Self::begin_closing(this) {
            return;
        }
        let slot = WireTable::take(table, this);
        let mut state = this.state.lock();
        state.displaced |= slot.is_none();
        state.ending = slot;
        drop(state);
        Deferred::schedule(this);
    }

    /// Closes the stream at once, by a reset unless both sides have finished.
    pub(crate) fn close(this: &Arc<Self, P>) {
        Self::begin_closing(this);
        // If the wire was closing before, its timer may run.
        Timer::cancel(this);
        Stream::close(this);
    }

    /// Sets the state to `Closing`. False: the wire was closing before.
    fn begin_closing(this: &Arc<Self, P>) -> bool {
        let mut state = this.state.lock();
        if matches!(state.wire_state, WireState::Closing) {
            return false;
        }
        let before = Self::change(this, &mut state, WireState::Closing);
        drop(state);
        drop(before);
        true
    }

    /// Continues the closing, if the state is `Closing`. Each run of the deferred call runs this: when the closing begins or is `late`, on each
    /// change of the stream, and after a `Wire::run` during which the connection ended.
    pub(super) fn finish_close(this: &Arc<Self, P>) {
        let state = this.state.lock();
        let (closing, must_reset) = (matches!(state.wire_state, WireState::Closing), state.must_reset());
        drop(state);
        if !closing {
            return;
        }
        if this.stream.is_closed() {
            // A run that found the stream open may have started the timer after `close` cancelled it.
            Timer::cancel(this);
            let streams = this.streams.lock().streams.take();
            let slot = this.state.lock().ending.take();
            return drop((streams, slot));
        }
        if this.streams.lock().are_out {
            // The thread in `run` reads, and schedules this call after it has put the streams back.
            return;
        }
        let read = Stream::read(this, |bytes| Taken { used: bytes.len(), wanted: 0 });
        let (ended, dead) = (matches!(read, Read::Ended(_)), matches!(read, Read::Ended(Err(_))));
        // If the send buffer has no room for the Terminate, the end of a socket's send schedules this call.
        if Self::send_terminate(this) || ended {
            Stream::finish(this);
        }
        if must_reset || dead || ended && this.stream.is_finished() {
            return Self::close(this);
        }
        // Does nothing if the timer runs.
        Timer::start(this, limits::LINGER_MICROSECONDS);
        if read == Read::Some {
            Deferred::schedule(this);
        }
    }

    /// Writes a Terminate that is due, and drops the streams. False, and the streams stay: there is no room, or `run` has the streams.
    fn send_terminate(this: &Arc<Self, P>) -> bool {
        let mut locked = this.streams.lock();
        let Some(mut streams) = locked.streams.take() else { return !locked.are_out };
        drop(locked);
        if streams.rx.terminate_received {
            // The peer has ended the stream: this side sends no Terminate.
            streams.tx.terminate = Some(TerminateOut::Sent);
        } else if this.state.lock().broken {
            streams.tx.terminate.get_or_insert(TerminateOut::new(Cause::LOCAL, &[]));
        }
        let due = streams.tx.terminate.as_ref().and_then(TerminateOut::cause);
        let tap = this.device.capture().tap(|| this.addresses());
        Stream::write(this, |room| {
            let mut carrier = WireCarrier::new(&mut streams.tx, room, tap.as_ref(), None);
            carrier.terminate();
            let used = carrier.used();
            // The notice comes before the stream sends the Terminate: else a peer on this machine may notice its arrival first.
            if used > 0
                && let Some(cause) = due
            {
                P::notice(&Notice::TerminateSent { addresses: this.addresses(), cause: noticed(cause) });
            }
            used
        });
        let sent = !matches!(streams.tx.terminate, Some(TerminateOut::Due(..)));
        if !sent {
            this.streams.lock().streams = Some(streams);
        }
        sent
    }
}
