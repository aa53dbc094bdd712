//! Sends whose receiver is not ready, as it has no receive: RNR in InfiniBand.

use core::sync::atomic::Ordering;

use platform::{Arc, Deferred, Platform, RunTimer, Timer};

use super::Progress;
use crate::{
    Access, Counter, Error, Flags, QueuePair, Status,
    qp::LockedQp,
    qp::request::{Piece, SgeList},
};

/// A tick of the timer.
pub(super) const SECOND_MICROSECONDS: u32 = 1_000_000;

impl<P: Platform> QueuePair<P> {
    /// The result of a step of the current send, for which `peer` has no receive. Before the send begins to wait, its own SGEs are checked: an
    /// error in them does not depend on a receive, as with hardware.
    pub(super) fn awaits_receive(&self, peer: &Self) -> Progress {
        // No limit: a shared receive queue may be empty for as long as its consumer likes (IND2Adapter::CreateQueuePairWithSrq).
        let limited = self.receive_timeout() > 0 && !peer.shares_receives();
        if limited && self.is_out_of_time() && !peer.receive_cq.has_results() {
            return Progress::Failed(Error::TimedOut);
        }
        match self.own_data() {
            Ok(()) => Progress::NoReceive { limited },
            Err(error) => Progress::Failed(error),
        }
    }

    /// Seconds that a message waits for a receive; 0: without limit.
    pub(crate) fn receive_timeout(&self) -> u32 {
        match self.rule_timeout.load(Ordering::Relaxed) {
            0 => self.send_timeout,
            seconds => seconds,
        }
    }

    /// A fault rule sets that time for the connection that is being made; 0: none does.
    pub(crate) fn set_receive_timeout(&self, seconds: u32) {
        self.rule_timeout.store(seconds, Ordering::Relaxed);
    }

    /// Whether the time of the current send is over. The caller lets the send wait on, a second at a time, while the receiver's completion queue
    /// has results: a program's receives may be in a ring that the driver has not read yet.
    fn is_out_of_time(&self) -> bool {
        let state = self.state.lock();
        state.awaits_receive && state.wait_left == 0
    }

    /// Notes that the current send waits. If the wait is `limited`, its seconds begin with the first call, and the timer ends each.
    /// The timer is not cancelled when a receive comes, as that is usual: so the next wait may be up to a second longer.
    pub(super) fn begin_wait(this: &Arc<Self, P>, state: &mut LockedQp<P>, limited: bool) {
        let begins = !core::mem::replace(&mut state.awaits_receive, true);
        if begins {
            this.pd.adapter().device().counters().count(Counter::ReceiverNotReady);
        }
        if !limited || !state.is_open() {
            return;
        }
        if begins {
            state.wait_left = this.receive_timeout().saturating_add(state.timer_runs.into());
        } else if state.wait_left == 0 {
            state.wait_left = 1;
        }
        if !core::mem::replace(&mut state.timer_runs, true) {
            Timer::start(this, SECOND_MICROSECONDS);
        }
    }

    /// Checks that the memory of the current send may be read, unless the send waits already.
    fn own_data(&self) -> Status {
        let state = self.state.lock();
        let Some((slot, &request)) = state.current() else { return Ok(()) };
        if state.awaits_receive || request.flags.contains(Flags::INLINE) {
            return Ok(());
        }
        let sges = SgeList::copy_of(state.sges_of(slot, &request, self.sizes().sges).unwrap_or_default())?;
        drop(state);
        for sge in sges.as_slice().iter().filter(|sge| sge.length > 0) {
            let piece = Piece { address: sge.address, length: sge.length, token: sge.token };
            self.local(piece, sge.length, Access::empty())?;
        }
        Ok(())
    }
}

impl<P: Platform> RunTimer<P> for QueuePair<P> {
    fn timer(&self) -> &Timer<P> {
        &self.timer
    }

    /// A second, or a delay by a fault rule, is over: schedules the engine, which looks for a receive for the current send again, and without a
    /// receive starts the timer again.
    fn expired(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        state.timer_runs = false;
        state.wait_left = state.wait_left.saturating_sub(1);
        Self::delay_expired(this, &mut state);
        drop(state);
        Deferred::schedule(this);
    }
}
