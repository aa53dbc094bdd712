//! Fault rules for requests of queue pairs. A request passes its point once, before the engine begins to carry it out; a rule may fail it or have it
//! wait. If a rule ends the connection, the connector is told.

use fault_rules::{Action, Operation, Passage, Point};
use platform::{Arc, Deferred, Platform, Timer, Weak};

use crate::{
    Connector, Error, OperationKind, QueuePair, Sge, faults,
    qp::engine::unready::SECOND_MICROSECONDS,
    qp::request::total,
    qp::{LockedQp, PointState},
};

impl<P: Platform> QueuePair<P> {
    /// Whether the current request has yet to pass its point, and a rule is for it. One that waits for a receive has begun, also if the rule is new.
    pub(super) fn has_to_pass_point(&self, state: &LockedQp<P>) -> bool {
        state.point == PointState::Before && state.done == 0 && !state.awaits_receive && self.has_rule(state)
    }

    /// Whether a rule is for the point of the current request. A request that waits by a rule goes on without one, as in a batch.
    pub(super) fn has_rule(&self, state: &LockedQp<P>) -> bool {
        let point = state.current().and_then(|(slot, _)| point_of(state.kind_of(slot)));
        point.is_some_and(|point| self.pd.adapter().device().faults().has_rule_for(point))
    }

    /// Has the current request pass its point. [`LockedQp::point`] says what comes of it until the request has ended, as a step may be tried again.
    #[cold]
    pub(super) fn pass_point(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        if !state.is_open() || state.flushing_requests() || !this.has_to_pass_point(&state) {
            return;
        }
        let Some((slot, request)) = state.current() else { return };
        let bytes = u64::from(request.data.length);
        let Some(point) = point_of(state.kind_of(slot)) else { return };
        let connector = state.connector.as_ref().and_then(Weak::upgrade);
        // Until this thread has the lock again, a flush leaves the request in the queue.
        state.executing = true;
        drop(state);

        let action = this.pass(point, connector.as_deref(), None, bytes);

        let mut state = this.state.lock();
        state.executing = false;
        state.point = match action {
            Some(Action::Fail(status)) => PointState::Fails(faults::error(status)),
            Some(Action::Delay(microseconds)) => Self::begin_delay(this, &mut state, microseconds),
            Some(Action::Stall) => PointState::Stalled,
            // The parser takes `Disconnect` and `Reset` besides.
            Some(_) | None => PointState::Passed,
        };
        let report = Self::unlock_and_flush(this, state);
        this.report_to_connector(report);
        match (action, connector) {
            (Some(Action::Disconnect), Some(connector)) => Connector::peer_finishes(&connector),
            (Some(Action::Reset), Some(connector)) => Connector::abort(&connector),
            _ => {}
        }
    }

    /// Has a post of a kernel consumer pass its point. If a rule fails it, the requests deferred before it are started. IRQL <= DISPATCH.
    pub fn pass_post(this: &Arc<Self, P>, kind: OperationKind, sges: &[Sge]) -> Result<(), Error> {
        if !this.pd.adapter().device().faults().has_rule_for(Point::Post) {
            return Ok(());
        }
        let connector = this.state.lock().connector.as_ref().and_then(Weak::upgrade);
        match this.pass(Point::Post, connector.as_deref(), operation_of(kind), total(sges)) {
            Some(Action::Fail(status)) => {
                Deferred::schedule(this);
                Err(faults::error(status))
            }
            // The parser takes no other rule.
            Some(_) | None => Ok(()),
        }
    }

    fn pass(
        &self,
        point: Point,
        connector: Option<&Connector<P>>,
        operation: Option<Operation>,
        bytes: u64,
    ) -> Option<Action> {
        let (addresses, role) = connector.map(Connector::addresses_and_role).unzip();
        let addresses = addresses.unwrap_or_default();
        let passage = Passage {
            local: addresses.local,
            remote: addresses.remote,
            role,
            process: self.pd.adapter().process(),
            queue_pair: Some(self.number),
            operation,
            bytes: Some(bytes),
            ..Passage::new(point, P::system_time())
        };
        let device = self.pd.adapter().device();
        device.faults().fault(device, &passage)
    }

    /// Starts the timer for what is left of a delay, or for a second of it, unless the timer runs for an earlier wait.
    fn begin_delay(this: &Arc<Self, P>, state: &mut LockedQp<P>, microseconds: u32) -> PointState {
        state.delay_left = microseconds;
        if !state.is_open() || core::mem::replace(&mut state.timer_runs, true) {
            return PointState::DelayedBehindTimer;
        }
        Timer::start(this, microseconds.min(SECOND_MICROSECONDS));
        PointState::Delayed
    }

    /// The timer has expired: ends the delay of the current request, or starts the timer for what is left of it.
    pub(super) fn delay_expired(this: &Arc<Self, P>, state: &mut LockedQp<P>) {
        let over = match state.point {
            PointState::Delayed => SECOND_MICROSECONDS,
            PointState::DelayedBehindTimer => 0,
            _ => return,
        };
        state.point = match state.delay_left.saturating_sub(over) {
            0 => PointState::Passed,
            left => Self::begin_delay(this, state, left),
        };
    }
}

/// The point that a request passes.
fn point_of(kind: OperationKind) -> Option<Point> {
    match kind {
        OperationKind::Send => Some(Point::Send),
        OperationKind::Read => Some(Point::Read),
        OperationKind::Write => Some(Point::Write),
        OperationKind::FastRegister => Some(Point::FastRegister),
        OperationKind::Bind => Some(Point::Bind),
        _ => None,
    }
}

/// What a post asks for.
fn operation_of(kind: OperationKind) -> Option<Operation> {
    match kind {
        OperationKind::Send => Some(Operation::Send),
        OperationKind::Receive => Some(Operation::Receive),
        OperationKind::Read => Some(Operation::Read),
        OperationKind::Write => Some(Operation::Write),
        OperationKind::FastRegister => Some(Operation::FastRegister),
        OperationKind::Bind => Some(Operation::Bind),
        OperationKind::Invalidate => Some(Operation::Invalidate),
        _ => None,
    }
}
