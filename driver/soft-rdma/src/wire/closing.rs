//! How a stream ends: what is to be sent goes out, then both sides finish, or it is reset.
//!
//! | why | by |
//! |---|---|
//! | the connection has ended, or the peer was refused | `end`: what was written, maybe a Terminate, then FIN; `finish_close` sees to it |
//! | there never was one, it takes too long, or there is no slot for it | `close`: a reset |

use iwarp::terminate::Cause;
use platform::{Arc, Deferred, Notice, Platform, Read, Stream, Taken, Timer};

use super::{
    Step, Wire, noticed,
    transmit::{Frames, TerminateOut},
};
use crate::{connect::wire_table::WireTable, limits};

impl<P: Platform> Wire<P> {
    /// The connection has ended: sends what is still to be sent, a Terminate among it if it is `broken`, and finishes.
    pub(crate) fn end(this: &Arc<Self, P>, broken: bool) {
        this.state.lock().broken |= broken;
        Self::end_in(this, this.device.ended());
    }

    /// Ends it, with a slot of `table`.
    pub(super) fn end_in(this: &Arc<Self, P>, table: &Arc<WireTable<P>, P>) {
        if !Self::begin_closing(this) {
            return;
        }
        let slot = WireTable::take(table, this);
        let mut state = this.state.lock();
        state.late |= slot.is_none();
        state.ending = slot;
        drop(state);
        Deferred::schedule(this);
    }

    /// Closes at once.
    pub(crate) fn close(this: &Arc<Self, P>) {
        Self::begin_closing(this);
        // That of an end that had begun before.
        Timer::cancel(this);
        Stream::close(this);
    }

    /// False: it was closing before.
    fn begin_closing(this: &Arc<Self, P>) -> bool {
        let mut state = this.state.lock();
        if matches!(state.step, Step::Closing) {
            return false;
        }
        let before = Self::change(this, &mut state, Step::Closing);
        drop(state);
        drop(before);
        true
    }

    /// Goes on with the end.
    pub(super) fn finish_close(this: &Arc<Self, P>) {
        let state = this.state.lock();
        let (closing, late) = (matches!(state.step, Step::Closing), state.late);
        drop(state);
        if !closing {
            return;
        }
        if this.stream.is_closed() {
            // Whoever began to wait may have been late.
            Timer::cancel(this);
            let streams = this.streams.lock().streams.take();
            let slot = this.state.lock().ending.take();
            return drop((streams, slot));
        }
        if this.streams.lock().are_out {
            // Who has them out reads, and schedules this when they are back.
            return;
        }
        let read = Stream::read(this, |bytes| Taken { used: bytes.len(), wanted: 0 });
        let (ended, dead) = (matches!(read, Read::Ended(_)), matches!(read, Read::Ended(Err(_))));
        // What is being sent makes room for it.
        if Self::send_terminate(this) || ended || late {
            Stream::finish(this);
        }
        if late || dead || ended && this.stream.is_finished() {
            return Self::close(this);
        }
        // Unless it is set.
        Timer::start(this, limits::LINGER_MICROSECONDS);
        if read == Read::Some {
            Deferred::schedule(this);
        }
    }

    /// Writes a Terminate that is due. False: there is no room.
    fn send_terminate(this: &Arc<Self, P>) -> bool {
        let mut place = this.streams.lock();
        let Some(mut streams) = place.streams.take() else { return !place.are_out };
        drop(place);
        if streams.rx.terminated {
            // The peer knows.
            streams.tx.terminate = Some(TerminateOut::Sent);
        } else if this.state.lock().broken {
            streams.tx.terminate.get_or_insert(TerminateOut::new(Cause::LOCAL, &[]));
        }
        let due = streams.tx.terminate.as_ref().and_then(TerminateOut::cause);
        Stream::write(this, |room| {
            let mut frames = Frames::new(&mut streams.tx, room);
            frames.terminate();
            let used = frames.used();
            // Before it goes: the peer's notice of it comes after.
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
