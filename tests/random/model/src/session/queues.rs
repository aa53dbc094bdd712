//! Queue operations of a session.

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE},
    status::NTSTATUS,
};

use super::{
    BUFFER_PAGES, CQ_DEPTH, CQ_NOTIFIED, CQS, FAST, OWN_RECEIVES, SHALLOW_CQ_DEPTH, SIZES, SRQ_DEPTH, SRQ_NOTIFIED,
    Session, context, nth,
};
use crate::{
    consumer::Named,
    operation::{self, Place, Post},
    reference::{Arm, Bind, FastRegistration, FaultPoint, Life, Qp, Region, Request, Result, Sge, Work},
};

impl Session {
    pub(super) fn create_cq(&mut self, slot: usize) {
        let depth = if slot + 1 == CQS { SHALLOW_CQ_DEPTH } else { CQ_DEPTH };
        let index = self.model.create_cq(depth);
        self.handles.cqs.push(self.adapter.create_cq(depth, context(CQ_NOTIFIED, index)));
        self.slots.cqs[slot] = index;
    }

    pub(super) fn create_srq(&mut self, slot: usize) {
        let index = self.model.create_srq(SRQ_DEPTH, SIZES.receive_sges, 3);
        let context = context(SRQ_NOTIFIED, index);
        self.handles.srqs.push(self.domains[slot % 2].create_srq(SRQ_DEPTH, SIZES.receive_sges, 3, context));
        self.slots.srqs[slot] = index;
    }

    /// Makes a queue pair, unless what it needs is closed. Queue pairs share completion queues.
    pub(super) fn create_qp(&mut self, slot: usize) {
        let cqs = (self.slots.cqs[slot % CQS], self.slots.cqs[(slot + slot / 3) % CQS]);
        let srq = (slot >= OWN_RECEIVES).then_some(self.slots.srqs[slot % 2]);
        let domain = slot % 2;
        let cqs_open = [cqs.0, cqs.1].iter().all(|&cq| self.model.cqs[cq].life == Life::Open);
        if !cqs_open || srq.is_some_and(|srq| self.model.srqs[srq].life != Life::Open) {
            return;
        }
        let index = self.model.create_qp(domain, cqs, srq, SIZES);
        let cqs = (self.handles.cqs[cqs.0], self.handles.cqs[cqs.1]);
        let srq = srq.map(|srq| self.handles.srqs[srq]);
        self.handles.qps.push(self.domains[domain].create_qp(cqs, srq, SIZES, Qp::context(index)));
        self.slots.qps[slot] = index;
    }

    /// An open queue pair, one that fits if there is one and the number is not large.
    pub(super) fn qp(&self, number: u8, fits: impl Fn(&Qp) -> bool) -> Option<usize> {
        let open = || self.slots.qps.iter().copied().filter(|&qp| self.model.qps[qp].life == Life::Open);
        let fitting = if number < 240 { nth(number, open().filter(|&qp| fits(&self.model.qps[qp]))) } else { None };
        fitting.or_else(|| nth(number, open()))
    }

    fn cq(&self, number: u8) -> Option<usize> {
        nth(number, self.slots.cqs.iter().copied().filter(|&cq| self.model.cqs[cq].life == Life::Open))
    }

    fn srq(&self, number: u8) -> Option<usize> {
        nth(number, self.slots.srqs.iter().copied().filter(|&srq| self.model.srqs[srq].life == Life::Open))
    }

    /// An open window, of the domain unless the number is large; one that is `bound`, if there is one.
    fn window(&self, domain: usize, number: u8, bound: bool) -> Option<usize> {
        let open = self.slots.mws.iter().copied().filter(|&mw| self.model.windows[mw].life == Life::Open);
        let fits = |&mw: &usize| number >= 240 || self.model.windows[mw].domain == domain;
        let open: Vec<_> = open.filter(fits).collect();
        let is_bound = |&mw: &usize| self.model.windows[mw].range().is_some();
        let fitting = if bound { nth(number, open.iter().copied().filter(is_bound)) } else { None };
        fitting.or_else(|| nth(number, open.iter().copied()))
    }

    fn sges(&self, domain: usize, places: &[Place]) -> Vec<Sge> {
        places.iter().map(|place| self.place(domain, *place)).collect()
    }

    pub(super) fn post(&mut self, qp: u8, posts: &[Post]) -> Result<()> {
        let Some(qp) = self.qp(qp, Qp::was_connected) else { return Ok(()) };
        let mut prepared: Vec<_> = posts.iter().filter_map(|post| self.prepare(qp, post)).collect();
        let deferred = prepared.len().saturating_sub(1);
        prepared[..deferred].iter_mut().for_each(|request| request.flags |= NDK_OP_FLAG_DEFER);
        if prepared.is_empty() {
            return Ok(());
        }
        let calls = prepared.clone();
        self.step(
            |session| session.call_posts(qp, &calls),
            |session, answers| {
                session.operations += answers.len() as u64 - 1;
                // Only the one that was refused, or the last one, starts the chain.
                for (request, (actual, token)) in prepared.iter_mut().zip(answers) {
                    if let Work::Bind(bind) = &mut request.work {
                        bind.token = token;
                    }
                    session.model.post(qp, request, actual)?;
                }
                Ok(())
            },
        )
    }

    /// Posts until one is refused: that starts those before it, and what is free then depends on their progress. The answers,
    /// and the tokens of windows after binds.
    fn call_posts(&mut self, qp: usize, prepared: &[Request]) -> Vec<(NTSTATUS, u32)> {
        let mut answers = Vec::new();
        for request in prepared {
            let Request { context, work, sges, flags, .. } = request;
            let mut pages = Vec::new();
            if let Work::FastRegister { registration, .. } = work {
                pages.extend(registration.pages.iter().map(|&(buffer, page)| self.memory[buffer].logical[page]));
            }
            let handles = &self.handles;
            let named = match work {
                Work::FastRegister { region, .. } | Work::Invalidate { region } => {
                    Named::Region(handles.mrs[*region], &pages)
                }
                Work::Bind(bind) => Named::Window(handles.mws[bind.window], Some(handles.mrs[bind.region])),
                Work::InvalidateWindow { window } => Named::Window(handles.mws[*window], None),
                _ => Named::Nothing,
            };
            let status = handles.qps[qp].post(*context, work, sges, *flags, named);
            let token = if let Work::Bind(bind) = work { handles.mws[bind.window].token() } else { 0 };
            answers.push((status, token));
            if status != ndk_abi::status::STATUS_SUCCESS {
                break;
            }
        }
        answers
    }

    fn prepare(&mut self, qp: usize, post: &Post) -> Option<Request> {
        let queue = &self.model.qps[qp];
        let domain = queue.domain;
        let remote = queue.peer().map_or(domain, |peer| self.model.qps[peer].domain);
        let flags = post.flags & !NDK_OP_FLAG_DEFER;
        let mut sges = match post.request {
            operation::Request::Send
            | operation::Request::SendAndInvalidate(_)
            | operation::Request::Read(_)
            | operation::Request::Write(_) => self.sges(domain, &post.sges),
            _ => Vec::new(),
        };
        let mut inline = None;
        if flags & NDK_OP_FLAG_INLINE != 0 {
            // Inline data must be readable, with any length.
            let data = inline.get_or_insert(Vec::new());
            for sge in &mut sges {
                let start = sge.address as usize % 64;
                let length = sge.length as usize % 64;
                data.extend_from_slice(&self.scratch[start..][..length]);
                let address = self.scratch[start..].as_ptr().expose_provenance() as u64;
                *sge = Sge { address, length: length as u32, token: sge.token };
            }
        }
        let length = sges.iter().map(|sge| u64::from(sge.length)).sum();
        let work = match &post.request {
            operation::Request::Send => Work::Send { invalidate: None },
            operation::Request::SendAndInvalidate(place) => {
                Work::Send { invalidate: Some(self.invalidated(remote, *place)) }
            }
            operation::Request::Read(place) => {
                let (address, token) = self.target(remote, *place, length);
                Work::Read { address, token }
            }
            operation::Request::Write(place) => {
                let (address, token) = self.target(remote, *place, length);
                Work::Write { address, token }
            }
            operation::Request::FastRegister { region, pages, base, first_byte_offset, length } => {
                let region = self.fast_region(domain, *region, |region| region.range().is_none())?;
                let buffer = self.slots.mrs.iter().position(|&mr| mr == region)?;
                let base = (u64::from(*base) << 56 | 0x00AB_0000_0000_0000) + u64::from(*first_byte_offset);
                let pages = pages.iter().map(|&page| (buffer, usize::from(page) % BUFFER_PAGES[buffer])).collect();
                let (first_byte_offset, length) = (*first_byte_offset, u64::from(*length));
                let registration = FastRegistration { pages, first_byte_offset, length, base, flags };
                Work::FastRegister { region, registration }
            }
            operation::Request::Bind { window, part } => {
                let window = self.window(domain, *window, false)?;
                let region = self.region(domain, part.token % 32)?;
                let Sge { address, length, .. } = self.place(domain, *part);
                Work::Bind(Bind { window, region, address, length: length.into(), flags, token: 0 })
            }
            operation::Request::InvalidateWindow { window } => {
                let window = self.window(domain, *window, true)?;
                Work::InvalidateWindow { window }
            }
            operation::Request::Invalidate { region } => {
                let region = self.fast_region(domain, *region, |region| region.range().is_some())?;
                Work::Invalidate { region }
            }
        };
        Some(Request { context: self.number(), work, sges, inline, flags })
    }

    /// A region for a fast registration or an invalidation: a fast one that fits, or with a large number any one, with a larger
    /// one of any domain.
    fn fast_region(&self, domain: usize, number: u8, fits: impl Fn(&Region) -> bool) -> Option<usize> {
        let ours = |mr: usize| number >= 250 || self.model.regions[mr].domain == domain;
        let open = |&mr: &usize| ours(mr) && self.model.regions[mr].life == Life::Open;
        let fitting = self.slots.mrs[FAST..].iter().copied().filter(open).filter(|&mr| fits(&self.model.regions[mr]));
        let fitting = if number < 240 { nth(number, fitting) } else { None };
        fitting.or_else(|| nth(number, self.slots.mrs.iter().copied().filter(open)))
    }

    /// The token that a send invalidates: mostly of a fast region.
    fn invalidated(&self, domain: usize, place: Place) -> u32 {
        let fast = self.slots.mrs[FAST..].iter().map(|&mr| &self.model.regions[mr]);
        let fast = fast.filter(|region| region.domain == domain && region.range().is_some());
        match nth(place.token, fast) {
            Some(region) if place.token < 128 => region.token,
            _ => self.target(domain, place, 0).1,
        }
    }

    pub(super) fn receive(&mut self, qp: u8, places: &[Place]) -> Result<()> {
        let Some(qp) = self.qp(qp, |qp| qp.srq.is_none()) else { return Ok(()) };
        let sges = self.sges(self.model.qps[qp].domain, places);
        let number = self.number();
        self.step(
            |session| session.handles.qps[qp].receive(number, &sges),
            |session, actual| session.model.receive(qp, number, &sges, actual),
        )
    }

    pub(super) fn srq_receive(&mut self, srq: u8, places: &[Place]) -> Result<()> {
        let Some(srq) = self.srq(srq) else { return Ok(()) };
        let slot = self.slots.srqs.iter().position(|&found| found == srq).unwrap_or(0);
        let sges = self.sges(slot % 2, places);
        let number = self.number();
        // If several sends wait for the receive, the provider may choose one: the completion names its queue pair.
        let waiting = self.model.waiting_for(srq);
        let mut cqs: Vec<_> = waiting.iter().map(|&qp| self.model.qps[qp].receive_cq).collect();
        cqs.sort_unstable();
        cqs.dedup();
        let ambiguous = waiting.len() > 1;
        // A rule may have that completion overrun its queue.
        let is_seen = cqs.iter().all(|&cq| self.model.cqs[cq].life == Life::Open)
            && self.model.rules.iter().all(|rule| rule.point != FaultPoint::Complete);
        if ambiguous && !is_seen {
            return Ok(());
        }
        let mut polled = Vec::new();
        self.step(
            |session| session.handles.srqs[srq].receive(number, &sges),
            |session, actual| {
                if ambiguous {
                    polled.extend(cqs.iter().map(|&cq| (cq, session.handles.cqs[cq].poll(CQ_DEPTH as usize))));
                }
                let taken = polled.iter().flat_map(|(_, seen)| seen).find(|seen| seen.context == number);
                let taker = taken.and_then(|seen| waiting.iter().find(|&&qp| Qp::context(qp) == seen.qp_context));
                session.model.srq_receive(srq, number, &sges, taker.copied(), actual)
            },
        )?;
        polled.iter().try_for_each(|(cq, seen)| self.model.poll(*cq, usize::MAX, seen))
    }

    pub(super) fn poll(&mut self, cq: u8, count: u8, plain: bool) -> Result<()> {
        let Some(cq) = self.cq(cq) else { return Ok(()) };
        let count = usize::from(count) % 48;
        self.step(
            |session| {
                let handle = session.handles.cqs[cq];
                if plain { handle.poll_plain(count) } else { handle.poll(count) }
            },
            |session, seen| session.model.poll(cq, count, &seen),
        )
    }

    pub(super) fn arm(&mut self, cq: u8, notify: u8) -> Result<()> {
        let Some(cq) = self.cq(cq) else { return Ok(()) };
        let (notify, arm) = [(0, Arm::Errors), (1, Arm::Any), (2, Arm::Solicited)][usize::from(notify) % 3];
        self.step(
            |session| session.handles.cqs[cq].arm(notify),
            |session, ()| {
                session.model.arm(cq, arm);
                Ok(())
            },
        )
    }

    pub(super) fn resize_cq(&mut self, cq: u8, depth: u32) -> Result<()> {
        let Some(cq) = self.cq(cq) else { return Ok(()) };
        if self.model.cqs[cq].is_dead() {
            return Ok(());
        }
        let fill = self.model.cqs[cq].len() as u32;
        let depth = match depth % 8 {
            0 => 0,
            1 => 65_537 + depth / 8,
            2 => fill + depth / 8 % 8,
            3 | 4 => fill.saturating_sub(1),
            _ => CQ_DEPTH + depth % 1_000,
        };
        let number = self.number();
        self.step(
            |session| session.handles.cqs[cq].resize(depth, context(super::COMPLETED, number)),
            |session, actual| session.model.resize_cq(cq, depth, actual),
        )
    }

    pub(super) fn modify_srq(&mut self, srq: u8, depth: u32, threshold: u32) -> Result<()> {
        let Some(srq) = self.srq(srq) else { return Ok(()) };
        let number = self.number();
        self.step(
            |session| session.handles.srqs[srq].modify(depth, threshold, context(super::COMPLETED, number)),
            |session, actual| session.model.modify_srq(srq, depth, threshold, actual),
        )
    }

    pub(super) fn flush(&mut self, qp: u8) -> Result<()> {
        let Some(qp) = self.qp(qp, |_| true) else { return Ok(()) };
        self.step(
            |session| session.handles.qps[qp].flush(),
            |session, ()| {
                session.model.flush(qp);
                Ok(())
            },
        )
    }
}
