//! Fault rules for requests of queue pairs. A request passes its point once, before the engine begins to carry it out; a rule may fail it or have it
//! wait. If a rule ends the connection, the connector is told.

use fault_rules::{Passage, Point};
use platform::{Arc, Platform, Timer, Weak};

use crate::{
    Connector, OperationKind, QueuePair,
    faults::Fault,
    qp::{LockedQp, PointState},
};

impl<P: Platform> QueuePair<P> {
    /// Has the current request pass its point, if it has not yet. [`LockedQp::point`](crate::qp::LockedQp) says what comes of it until the request has
    /// ended, as a step may be tried again.
    #[cold]
    pub(super) fn pass_point(this: &Arc<Self, P>) {
        let faults = this.pd.adapter().device().faults();
        let mut state = this.state.lock();
        if state.point != PointState::Before || state.done > 0 || !state.is_open() || state.flushing_requests() {
            return;
        }
        let Some((slot, request)) = state.current() else { return };
        let bytes = u64::from(request.data.length);
        let kind = state.kind_of(slot);
        let Some(point) = point_of(kind).filter(|&point| faults.has_rule_for(point)) else { return };
        let connector = state.connector.as_ref().and_then(Weak::upgrade);
        // Until this thread has the lock again, a flush leaves the request in the queue.
        state.executing = true;
        drop(state);

        let (addresses, role) = connector.as_ref().map(|connector| connector.addresses_and_role()).unzip();
        let addresses = addresses.unwrap_or_default();
        let passage = Passage {
            point,
            local: addresses.local,
            remote: addresses.remote,
            role,
            process: this.pd.adapter().process(),
            queue_pair: Some(this.number),
            bytes: Some(bytes),
        };
        let fault = faults.fault(this.pd.adapter().device().counters(), &passage);

        let mut state = this.state.lock();
        state.executing = false;
        state.point = match fault {
            Some(Fault::Fail(error)) => PointState::Fails(error),
            Some(Fault::Delay(microseconds)) => Self::begin_delay(this, &mut state, microseconds),
            Some(Fault::Stall) => PointState::Stalled,
            Some(Fault::Disconnect | Fault::Reset) | None => PointState::Passed,
        };
        let report = Self::unlock_and_flush(this, state);
        this.report_to_connector(report);
        match (fault, connector) {
            (Some(Fault::Disconnect), Some(connector)) => Connector::peer_finishes(&connector),
            (Some(Fault::Reset), Some(connector)) => Connector::abort(&connector),
            _ => {}
        }
    }
}

impl<P: Platform> QueuePair<P> {
    /// Starts the timer for a delay, unless the timer runs for an earlier wait.
    fn begin_delay(this: &Arc<Self, P>, state: &mut LockedQp<P>, microseconds: u32) -> PointState {
        if !state.is_open() || core::mem::replace(&mut state.timer_runs, true) {
            return PointState::Delayed(microseconds);
        }
        Timer::start(this, microseconds);
        PointState::Delayed(0)
    }

    /// The timer has expired: ends the delay of the current request, or starts the timer for it.
    pub(super) fn delay_expired(this: &Arc<Self, P>, state: &mut LockedQp<P>) {
        state.point = match state.point {
            PointState::Delayed(0) => PointState::Passed,
            PointState::Delayed(microseconds) => Self::begin_delay(this, state, microseconds),
            point => point,
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
