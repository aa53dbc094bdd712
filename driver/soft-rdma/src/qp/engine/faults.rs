//! Fault rules for requests of queue pairs. A request passes its point once, before the engine begins to carry it out.

use fault_rules::{Passage, Point};
use platform::{Arc, Platform, Weak};

use crate::{Connector, OperationKind, QueuePair, faults::Fault};

impl<P: Platform> QueuePair<P> {
    /// Has the current request pass its point, if it has not yet. If a rule fails the request, the next step finds the error in
    /// [`LockedQp::fault`](crate::qp::LockedQp); it stays there until the request has ended, as a step may be tried again. If a rule ends the
    /// connection, the connector is told here.
    #[cold]
    pub(super) fn pass_point(this: &Arc<Self, P>) {
        let faults = this.pd.adapter().device().faults();
        let mut state = this.state.lock();
        if state.fault.is_some() || state.done > 0 || !state.is_open() || state.flushing_requests() {
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
        state.fault = Some(match fault {
            Some(Fault::Fail(error)) => Err(error),
            Some(Fault::Disconnect | Fault::Reset) | None => Ok(()),
        });
        let report = Self::unlock_and_flush(this, state);
        this.report_to_connector(report);
        match (fault, connector) {
            (Some(Fault::Disconnect), Some(connector)) => Connector::peer_finishes(&connector),
            (Some(Fault::Reset), Some(connector)) => Connector::abort(&connector),
            _ => {}
        }
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
