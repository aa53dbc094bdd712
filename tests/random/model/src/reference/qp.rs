//! Queue pairs: posting and carrying out (4.4, 4.6). `end.rs` flushes them.

use std::collections::VecDeque;

use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
        NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE, NDK_OP_FLAG_RDMA_READ_SINK,
        NDK_OP_FLAG_READ_FENCE, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS,
        NdkOperationTypeReceive, NdkOperationTypeReceiveAndInvalidate,
    },
    status::*,
};

use super::{
    FastRegistration, Fault, FaultPoint, Life, Model, Object, Result,
    cq::Entry,
    memory::{Extent, Right, overlap},
    work::{Request, Sge, Work, total},
};

/// The longest transfer, in bytes.
pub(super) const LONGEST: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub(super) struct Receive {
    pub(super) context: usize,
    pub(super) sges: Vec<Sge>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Connecting,
    Connected,
    /// The peer has disconnected.
    PeerGone,
    Dead,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct QpSizes {
    pub(crate) receives: u32,
    pub(crate) requests: u32,
    pub(crate) receive_sges: u32,
    pub(crate) request_sges: u32,
    pub(crate) inline: u32,
}

#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) life: Life,
    pub(crate) domain: usize,
    pub(crate) receive_cq: usize,
    pub(crate) initiator_cq: usize,
    pub(crate) srq: Option<usize>,
    sizes: QpSizes,
    pub(crate) phase: Phase,
    pub(super) peer: Option<usize>,
    pub(super) connector: Option<usize>,
    pub(super) may_read: bool,
    pub(super) requests: VecDeque<Request>,
    pub(super) receives: VecDeque<Receive>,
    /// The oldest request is a send for which the peer had no receive.
    pub(super) awaits_receive: bool,
    /// The oldest request has passed its point for fault rules.
    pub(super) has_passed: bool,
}

/// Whether flags are set that the request does not have. Remote write is two bits, and one of them alone is none; a fast
/// registration has both.
fn unknown_flags(work: &Work, flags: u32) -> bool {
    let write =
        matches!(work, Work::Bind(_)) && flags & NDK_OP_FLAG_ALLOW_REMOTE_WRITE == NDK_OP_FLAG_ALLOW_REMOTE_WRITE;
    let flags = if write { flags & !NDK_OP_FLAG_ALLOW_REMOTE_WRITE } else { flags };
    flags & !work.flags() != 0
}

/// The flags of all initiator requests, but for NDK_OP_FLAG_DEFER: the executor sets that.
pub const COMMON_FLAGS: [u32; 2] = [NDK_OP_FLAG_SILENT_SUCCESS, NDK_OP_FLAG_READ_FENCE];
/// The flags of NdkSend.
pub const SEND_FLAGS: &[u32] =
    &[COMMON_FLAGS[0], COMMON_FLAGS[1], NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_INLINE];
/// The flags of NdkWrite.
pub const WRITE_FLAGS: &[u32] = &[COMMON_FLAGS[0], COMMON_FLAGS[1], NDK_OP_FLAG_INLINE];
/// The flags of NdkFastRegister. Remote write is two bits: local write, and one that is nothing alone.
pub const FAST_REGISTER_FLAGS: &[u32] = &[
    COMMON_FLAGS[0],
    COMMON_FLAGS[1],
    NDK_OP_FLAG_ALLOW_REMOTE_READ,
    NDK_OP_FLAG_ALLOW_REMOTE_WRITE & !NDK_OP_FLAG_ALLOW_LOCAL_WRITE,
    NDK_OP_FLAG_ALLOW_LOCAL_WRITE,
    NDK_OP_FLAG_RDMA_READ_SINK,
];

fn all(flags: &[u32]) -> u32 {
    flags.iter().fold(0, |all, flag| all | flag)
}

impl Work {
    fn flags(&self) -> u32 {
        let own = match self {
            Self::Send { .. } => all(SEND_FLAGS),
            Self::Write { .. } => all(WRITE_FLAGS),
            Self::Read { .. } => NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE,
            Self::FastRegister { .. } => all(FAST_REGISTER_FLAGS),
            Self::Bind(_) => NDK_OP_FLAG_ALLOW_REMOTE_READ,
            Self::Invalidate { .. } | Self::InvalidateWindow { .. } => 0,
        };
        own | all(&COMMON_FLAGS) | NDK_OP_FLAG_DEFER
    }
}

/// How a request ended: one of these statuses. `None`: it waits.
type Outcome = Option<std::result::Result<(), Vec<NTSTATUS>>>;

impl Qp {
    /// The context that the consumer gives a queue pair.
    pub(crate) fn context(index: usize) -> usize {
        0x5150_0000 + index
    }

    /// Whether a request that has not ended names the region or window.
    pub(super) fn uses(&self, object: Object) -> bool {
        self.requests.iter().any(|request| match &request.work {
            Work::FastRegister { region, .. } | Work::Invalidate { region } => object == Object::Mr(*region),
            Work::Bind(bind) => object == Object::Mr(bind.region) || object == Object::Mw(bind.window),
            Work::InvalidateWindow { window } => object == Object::Mw(*window),
            _ => false,
        })
    }

    /// Whether there are requests that wait, as only sends do.
    pub(super) fn waits(&self) -> bool {
        self.phase == Phase::Connected && !self.requests.is_empty()
    }

    pub(crate) fn peer(&self) -> Option<usize> {
        self.peer
    }
}

impl Model {
    pub(crate) fn create_qp(
        &mut self,
        domain: usize,
        cqs: (usize, usize),
        srq: Option<usize>,
        sizes: QpSizes,
    ) -> usize {
        self.qps.push(Qp {
            life: Life::Open,
            domain,
            receive_cq: cqs.0,
            initiator_cq: cqs.1,
            srq,
            sizes,
            phase: Phase::Idle,
            peer: None,
            connector: None,
            may_read: false,
            awaits_receive: false,
            has_passed: false,
            requests: VecDeque::new(),
            receives: VecDeque::new(),
        });
        self.qps.len() - 1
    }

    /// A post to the initiator queue.
    pub(crate) fn post(&mut self, qp: usize, request: &Request, actual: NTSTATUS) -> Result<()> {
        let Request { work, sges, flags, .. } = request;
        if let Some(Fault::Fail(status)) = self.pass(FaultPoint::Post, total(sges)) {
            self.judge(work.name(), &[(true, status)], actual)?;
            self.run();
            return Ok(());
        }
        let (queue, is_inline) = (&self.qps[qp], flags & NDK_OP_FLAG_INLINE != 0);
        let read = matches!(work, Work::Read { .. });
        let too_long = is_inline && total(sges) > queue.sizes.inline.into();
        let mut broken = vec![
            (unknown_flags(work, *flags) || too_long, STATUS_INVALID_PARAMETER_4),
            (!is_inline && sges.len() > queue.sizes.request_sges as usize, STATUS_DATA_OVERRUN),
            (total(sges) > LONGEST, STATUS_BUFFER_OVERFLOW),
            (!queue.was_connected() || self.has_failed_queue(qp), STATUS_CONNECTION_INVALID),
            (read && queue.phase == Phase::Connected && !queue.may_read, STATUS_INVALID_DEVICE_REQUEST),
            (queue.requests.len() >= queue.sizes.requests as usize, STATUS_NO_MORE_ENTRIES),
        ];
        if let Work::FastRegister { region, registration } = work {
            broken.extend(registration.broken(&self.regions[*region]));
        }
        if let Work::Bind(bind) = work {
            broken.extend(self.broken_by(qp, bind));
        }
        let strange = match work {
            Work::FastRegister { region, .. } | Work::Invalidate { region } => {
                self.regions[*region].domain != queue.domain
            }
            Work::InvalidateWindow { window } => self.windows[*window].domain != queue.domain,
            _ => false,
        };
        broken.push((strange, STATUS_ACCESS_VIOLATION));
        let accepted = self.judge(work.name(), &broken, actual)?;
        if accepted {
            if let Work::Bind(bind) = work {
                self.announce(bind)?;
            }
            self.qps[qp].requests.push_back(request.clone());
            if self.qps[qp].phase == Phase::Dead {
                self.flush(qp);
            }
        }
        if !accepted || flags & NDK_OP_FLAG_DEFER == 0 {
            self.run();
        }
        Ok(())
    }

    /// NdkReceive.
    pub(crate) fn receive(&mut self, qp: usize, context: usize, sges: &[Sge], actual: NTSTATUS) -> Result<()> {
        if let Some(Fault::Fail(status)) = self.pass(FaultPoint::Post, total(sges)) {
            self.judge("NdkReceive", &[(true, status)], actual)?;
            return Ok(());
        }
        let queue = &self.qps[qp];
        let broken = [
            (queue.srq.is_some(), STATUS_INVALID_DEVICE_REQUEST),
            (sges.len() > queue.sizes.receive_sges as usize, STATUS_DATA_OVERRUN),
            (total(sges) > LONGEST, STATUS_BUFFER_OVERFLOW),
            (self.cqs[queue.receive_cq].is_dead(), STATUS_CONNECTION_INVALID),
            (queue.receives.len() >= queue.sizes.receives as usize, STATUS_NO_MORE_ENTRIES),
        ];
        if self.judge("NdkReceive", &broken, actual)? {
            self.qps[qp].receives.push_back(Receive { context, sges: sges.to_vec() });
            if self.qps[qp].phase == Phase::Dead {
                self.flush(qp);
            }
            self.run();
        }
        Ok(())
    }

    /// Carries out what can be carried out.
    pub(super) fn run(&mut self) {
        loop {
            while (0..self.qps.len()).any(|qp| self.step(qp)) {}
            let dead = self.qps_to_end();
            if dead.is_empty() {
                return;
            }
            dead.into_iter().for_each(|qp| self.queue_failed(qp));
        }
    }

    /// The oldest request of a queue pair; false if there is none, or it waits.
    pub(super) fn step(&mut self, qp: usize) -> bool {
        let queue = &self.qps[qp];
        let (Phase::Connected, Some(peer), Some(request)) = (queue.phase, queue.peer, queue.requests.front()) else {
            return false;
        };
        let request = request.clone();
        if !queue.awaits_receive && !std::mem::replace(&mut self.qps[qp].has_passed, true) {
            match self.pass_request(&request.work, total(&request.sges)) {
                None | Some(Fault::Overrun) => {}
                Some(Fault::Fail(status)) => {
                    self.qps[qp].requests.pop_front();
                    self.complete_request(qp, &request, Some(vec![status]));
                    self.abort(qp);
                    return true;
                }
                Some(Fault::Disconnect) => {
                    self.finish(qp);
                    return true;
                }
                Some(Fault::Reset) => {
                    self.abort(qp);
                    return true;
                }
            }
        }
        let outcome = match &request.work {
            Work::Send { invalidate } => self.send(qp, peer, &request, *invalidate),
            Work::Read { address, token } => self.read(qp, peer, &request, (*token, *address)),
            Work::Write { address, token } => self.write(qp, peer, &request, (*token, *address)),
            Work::FastRegister { region, registration } => self.fast_register(*region, registration),
            Work::Bind(bind) => Some(self.bind(qp, bind)),
            Work::Invalidate { region } => Some(self.invalidate(*region)),
            Work::InvalidateWindow { window } => Some(self.unbind(*window)),
        };
        let Some(outcome) = outcome else { return false };
        self.qps[qp].requests.pop_front();
        (self.qps[qp].awaits_receive, self.qps[qp].has_passed) = (false, false);
        self.complete_request(qp, &request, outcome.clone().err());
        if outcome.is_err() || self.has_failed_queue(qp) || self.has_failed_queue(peer) {
            self.abort(qp);
        }
        true
    }

    fn send(&mut self, qp: usize, peer: usize, request: &Request, invalidate: Option<u32>) -> Outcome {
        if self.qps[peer].phase != Phase::Connected {
            return None;
        }
        let receive = match self.qps[peer].srq {
            Some(srq) => self.take_from_srq(srq),
            None => self.qps[peer].receives.pop_front(),
        };
        let Some(receive) = receive else {
            // A send's own entries are looked at when it begins to wait.
            let (_, readable) = self.source(qp, request);
            let begins = !std::mem::replace(&mut self.qps[qp].awaits_receive, true);
            return (begins && !readable).then(|| Err(vec![STATUS_ACCESS_VIOLATION]));
        };
        let length = total(&request.sges);
        if total(&receive.sges) < length {
            self.complete_receive(peer, &receive, vec![STATUS_BUFFER_OVERFLOW], 0, None, true);
            return Some(Err(vec![STATUS_DATA_ERROR]));
        }
        let (source, readable) = self.source(qp, request);
        let (target, writable) = self.local(self.qps[peer].domain, &receive.sges, length, Right::LocalWrite);
        let (sent, received) = match (readable, writable) {
            (true, true) => {
                self.copy(&target, &source, request);
                let invalidated = invalidate.is_none_or(|token| self.invalidate_remotely(peer, token));
                if invalidated {
                    let solicited = request.flags & NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT != 0;
                    self.complete_receive(peer, &receive, vec![STATUS_SUCCESS], length as u32, invalidate, solicited);
                    return Some(Ok(()));
                }
                (vec![STATUS_DATA_ERROR], vec![STATUS_CANCELLED])
            }
            (false, true) => (vec![STATUS_ACCESS_VIOLATION], vec![STATUS_CANCELLED]),
            (true, false) => (vec![STATUS_DATA_ERROR], vec![STATUS_ACCESS_VIOLATION]),
            (false, false) => {
                (vec![STATUS_ACCESS_VIOLATION, STATUS_DATA_ERROR], vec![STATUS_CANCELLED, STATUS_ACCESS_VIOLATION])
            }
        };
        self.spoil(&target);
        self.complete_receive(peer, &receive, received, 0, None, true);
        Some(Err(sent))
    }

    fn invalidate_remotely(&mut self, receiver: usize, token: u32) -> bool {
        if let Some(window) = self.window_of(receiver, token) {
            return self.unbind(window).is_ok();
        }
        let region = self.region_of(self.qps[receiver].domain, token);
        region.is_some_and(|region| self.regions[region].remote_access && self.invalidate(region).is_ok())
    }

    /// The place of a request's data, and whether all of it may be read. Inline data has no place.
    fn source(&self, qp: usize, request: &Request) -> (Vec<Extent>, bool) {
        if request.inline.is_some() {
            return (Vec::new(), true);
        }
        self.local(self.qps[qp].domain, &request.sges, total(&request.sges), Right::LocalRead)
    }

    fn copy(&mut self, target: &[Extent], source: &[Extent], request: &Request) {
        let data = request.inline.clone().unwrap_or_else(|| self.gather(source));
        self.place(target, &data);
        // The content of the target is unknown if the content of the source is.
        let unknown = overlap(source, &self.undefined);
        if unknown
            || overlap(target, source)
            || target.iter().enumerate().any(|(n, one)| overlap(&[*one], &target[n + 1..]))
        {
            self.spoil(target);
        }
    }

    fn write(&mut self, qp: usize, peer: usize, request: &Request, (token, address): (u32, u64)) -> Outcome {
        let length = total(&request.sges);
        if length == 0 {
            return Some(Ok(()));
        }
        let target = match self.remote_access(peer, (token, address, length), Right::RemoteWrite) {
            Ok(target) => target,
            Err(status) => return Some(Err(vec![status])),
        };
        let (source, readable) = self.source(qp, request);
        if !readable {
            self.spoil(&target);
            return Some(Err(vec![STATUS_ACCESS_VIOLATION]));
        }
        self.copy(&target, &source, request);
        Some(Ok(()))
    }

    fn read(&mut self, qp: usize, peer: usize, request: &Request, (token, address): (u32, u64)) -> Outcome {
        let length = total(&request.sges);
        if length == 0 {
            return Some(self.invalidate_locally(qp, request));
        }
        let source = self.remote_access(peer, (token, address, length), Right::RemoteRead);
        let (target, writable) = self.local(self.qps[qp].domain, &request.sges, length, Right::LocalWrite);
        // To be compared also if nothing was to be read.
        target.iter().for_each(|extent| self.buffers[extent.buffer].dirty = true);
        match source {
            Ok(source) if writable => {
                self.copy(&target, &source, request);
                Some(self.invalidate_locally(qp, request))
            }
            Ok(_) => {
                self.spoil(&target);
                Some(Err(vec![STATUS_ACCESS_VIOLATION]))
            }
            Err(status) if writable => Some(Err(vec![status])),
            Err(status) => Some(Err(vec![status, STATUS_ACCESS_VIOLATION])),
        }
    }

    /// What a read does when all is read, if it was asked to (4.6).
    fn invalidate_locally(&mut self, qp: usize, request: &Request) -> std::result::Result<(), Vec<NTSTATUS>> {
        match request.sges.first().filter(|_| request.flags & NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE != 0) {
            None => Ok(()),
            Some(first) => match self.region_of(self.qps[qp].domain, first.token) {
                Some(region) => self.invalidate(region),
                None => Err(vec![STATUS_INVALID_DEVICE_REQUEST]),
            },
        }
    }

    fn fast_register(&mut self, region: usize, registration: &FastRegistration) -> Outcome {
        let region = &mut self.regions[region];
        if region.mapping.is_some() {
            return Some(Err(vec![STATUS_INVALID_DEVICE_REQUEST]));
        }
        region.mapping = Some(registration.mapping());
        Some(Ok(()))
    }

    fn invalidate(&mut self, region: usize) -> std::result::Result<(), Vec<NTSTATUS>> {
        let bound = self.is_bound(region);
        let region = &mut self.regions[region];
        if bound || !region.fast || region.mapping.take().is_none() {
            return Err(vec![STATUS_INVALID_DEVICE_REQUEST]);
        }
        Ok(())
    }

    pub(super) fn complete_request(&mut self, qp: usize, request: &Request, failure: Option<Vec<NTSTATUS>>) {
        if failure.is_none() && request.flags & NDK_OP_FLAG_SILENT_SUCCESS != 0 {
            return;
        }
        let entry = Entry {
            qp,
            solicited: failure.is_some(),
            status: failure.unwrap_or(vec![STATUS_SUCCESS]),
            context: request.context,
            kind: request.work.kind(),
            bytes: 0,
            token: 0,
        };
        self.complete(self.qps[qp].initiator_cq, entry);
    }

    pub(super) fn complete_receive(
        &mut self,
        qp: usize,
        receive: &Receive,
        status: Vec<NTSTATUS>,
        bytes: u32,
        invalidated: Option<u32>,
        solicited: bool,
    ) {
        let kind = if invalidated.is_some() { NdkOperationTypeReceiveAndInvalidate } else { NdkOperationTypeReceive };
        let token = invalidated.unwrap_or(0);
        let entry = Entry { qp, status, context: receive.context, kind, bytes, token, solicited };
        self.complete(self.qps[qp].receive_cq, entry);
    }
}
