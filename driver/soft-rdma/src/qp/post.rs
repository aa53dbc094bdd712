//! Posting to a queue pair.

use core::mem::offset_of;

use platform::{Arc, CACHE_LINE, Deferred, Notice, Platform, prefetch};

use super::{Phase, QueuePair, State, status_of, wake};
use crate::{
    Error, Flags, MemoryWindow, OperationKind, Post, ProtectionDomain, Sge, limits,
    qp::engine::SMALL_SEND_BYTES,
    qp::request::{InitiatorRequest, Operation, SgeList, total},
};

impl<P: Platform> QueuePair<P> {
    /// Posts an initiator request. An error means that it was not accepted: no completion follows, the queue pair stays
    /// usable, and the requests deferred before it are started. When the connection has ended, the request is accepted, and is
    /// cancelled. IRQL <= DISPATCH.
    // What is posted is known where this is called: most of it falls away there.
    #[inline(always)]
    pub fn post(
        this: &Arc<Self, P>,
        context: usize,
        sges: &[Sge],
        flags: Flags,
        post: Post<'_, P>,
    ) -> Result<(), Error> {
        if let (Post::Send(None), [sge]) = (&post, sges)
            && let sge = sge.read()
            && this.is_small(sge.length, flags)
        {
            let result = this.enqueue_small(context, sge, flags);
            if P::notices_data() {
                this.notice_post(OperationKind::Send, result);
            }
            return if result.is_ok() && flags.contains(Flags::DEFER) { result } else { Self::start(this, result) };
        }
        Self::post_other(this, context, sges, flags, post)
    }

    /// Posts what is not a small send. Apart, so that a small one does not pay for what this needs.
    #[inline(never)]
    fn post_other(
        this: &Arc<Self, P>,
        context: usize,
        sges: &[Sge],
        flags: Flags,
        post: Post<'_, P>,
    ) -> Result<(), Error> {
        let noticed = P::notices_data().then(|| post.kind());
        let result = this.enqueue_other(context, sges, flags, post);
        if let Some(kind) = noticed {
            this.notice_post(kind, result);
        }
        if result.is_ok() && flags.contains(Flags::DEFER) { result } else { Self::start(this, result) }
    }

    /// Has what is posted carried out. Not here: what it completes or releases may call other consumers back, and the poster may
    /// hold locks.
    #[inline(never)]
    fn start(this: &Arc<Self, P>, posted: Result<(), Error>) -> Result<(), Error> {
        Deferred::schedule(this);
        posted
    }

    fn enqueue_other(&self, context: usize, sges: &[Sge], flags: Flags, post: Post<'_, P>) -> Result<(), Error> {
        if !post.allowed_flags().contains(flags) {
            return Err(Error::InvalidFlags);
        }
        let inline = flags.contains(Flags::INLINE);
        if !inline && sges.len() > self.sizes.sges as usize {
            return Err(Error::TooManySges);
        }
        let length = total(sges);
        if inline && length > u64::from(self.sizes.inline_data) {
            return Err(Error::InvalidFlags);
        }
        // Of inline requests the list stays where it is: what it names is readable at DISPATCH_LEVEL, so it is not pageable.
        let (one, list);
        let sges = match sges {
            _ if inline => sges,
            // The usual case: not worth a list.
            [sge] => {
                one = [*sge];
                &one
            }
            _ => {
                list = SgeList::copy_of(sges)?;
                list.as_slice()
            }
        };
        if self.has_failed_queue() {
            return Err(Error::ConnectionInvalid);
        }
        let length = u32::try_from(length).ok().filter(|&length| length <= limits::TRANSFER_LENGTH);
        let data = Sge { length: length.ok_or(Error::BufferOverflow)?, ..Sge::default() };
        let request = InitiatorRequest {
            context,
            data,
            flags,
            sges: u16::try_from(sges.len()).unwrap_or_default(),
            small: false,
            _unused: 0,
        };
        // Declared before the lock is taken: a refused one is given up after it, as it may hold the last reference to a region.
        let mut operation = Some(self.stage(post)?);
        let mut state = self.state.lock();
        if state.phase != Phase::Connected {
            return self.enqueue_without_connection(&mut state, sges, request, &mut operation);
        }
        state.may_post(operation.as_ref().map_or(OperationKind::Send, Operation::kind))?;
        state.enqueue(&self.sizes, sges, request, &mut operation)
    }

    /// Takes a request whose connection has ended: it is cancelled with the others, or now if the queue pair is dead. `operation` is
    /// what the caller gives up without the lock.
    #[cold]
    #[inline(never)]
    fn enqueue_without_connection(
        &self,
        state: &mut State<P>,
        sges: &[Sge],
        request: InitiatorRequest,
        operation: &mut Option<Operation<P>>,
    ) -> Result<(), Error> {
        if matches!(state.phase, Phase::Idle | Phase::Connecting) {
            return Err(Error::ConnectionInvalid);
        }
        if state.requests.is_full() {
            return Err(Error::QueueFull);
        }
        state.enqueue(&self.sizes, sges, request, operation)?;
        if state.phase == Phase::Dead {
            *operation = self.cancel_newest_request(state);
        }
        Ok(())
    }

    /// Whether a send without invalidation is one for a row (see `engine/batch.rs`).
    #[inline]
    fn is_small(&self, length: u32, flags: Flags) -> bool {
        length <= SMALL_SEND_BYTES && Flags::SEND.contains(flags) && self.sizes.sges > 0
    }

    /// Posts a small send: the usual case, which needs none of what others do.
    #[inline]
    fn enqueue_small(&self, context: usize, sge: Sge, flags: Flags) -> Result<(), Error> {
        if self.has_failed_queue() {
            return Err(Error::ConnectionInvalid);
        }
        let request = InitiatorRequest { context, data: sge, flags, sges: 1, small: true, _unused: 0 };
        let mut state = self.state.lock();
        if state.phase != Phase::Connected {
            return self.enqueue_without_connection(&mut state, &[], request, &mut None);
        }
        state.may_post(OperationKind::Send)?;
        if state.requests.len() == 0 {
            self.prefetch();
        }
        state.requests.push(request)
    }

    fn stage(&self, post: Post<'_, P>) -> Result<Operation<P>, Error> {
        Ok(match post {
            Post::Send(invalidate) => Operation::Send(invalidate),
            Post::Read(remote) => Operation::Read(remote),
            Post::Write(remote) => Operation::Write(remote),
            Post::Invalidate(region) => {
                self.owns(region.pd())?;
                Operation::Invalidate(region.clone())
            }
            Post::InvalidateWindow(window) => {
                self.owns(window.pd())?;
                Operation::InvalidateWindow(window.clone())
            }
            Post::Bind(window, region, part) => Operation::Bind(MemoryWindow::stage(window, &self.pd, region, part)?),
            Post::FastRegister(region, registration) => {
                self.owns(region.pd())?;
                Operation::FastRegister(region.clone(), Some(region.stage(&registration)?))
            }
        })
    }

    /// What a request works on is of the queue pair's own domain.
    fn owns(&self, pd: &Arc<ProtectionDomain<P>, P>) -> Result<(), Error> {
        if Arc::ptr_eq(pd, &self.pd) { Ok(()) } else { Err(Error::AccessViolation) }
    }

    /// Posts a receive; allowed before the queue pair is connected, and when its connection has ended: then it is cancelled.
    /// IRQL <= DISPATCH.
    #[inline]
    pub fn post_receive(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        let result = match sges {
            // The usual case: not worth a list.
            [sge] => self.enqueue_receive(context, &[sge.read()]),
            _ => self.enqueue_receive_of_list(context, sges),
        };
        if P::notices_data() {
            self.notice_post(OperationKind::Receive, result);
        }
        result
    }

    /// Somebody wants to know of each.
    #[cold]
    #[inline(never)]
    fn notice_post(&self, kind: OperationKind, result: Result<(), Error>) {
        P::notice(&Notice::Posted { queue_pair: self.number, operation: kind as u16, status: status_of(result) });
    }

    #[inline(never)]
    fn enqueue_receive_of_list(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        self.enqueue_receive(context, SgeList::copy_of(sges)?.as_slice())
    }

    #[inline]
    fn enqueue_receive(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        let mut state = self.state.lock();
        if self.receive_cq.has_failed() {
            return Err(Error::ConnectionInvalid);
        }
        let receives = state.own_receives.as_mut().ok_or(Error::InvalidDeviceRequest)?;
        if receives.len() == 0 {
            self.prefetch();
        }
        receives.post(context, sges)?;
        if state.phase == Phase::Dead {
            self.cancel_newest_receive(&mut state);
            return Ok(());
        }
        let sender = state.take_waiting_sender();
        drop(state);
        if sender.is_some() {
            wake(sender);
        }
        Ok(())
    }

    /// Has the rest of what rows of small sends use fetched: for the first request of an empty queue. The queue pair may have
    /// been left alone for long then, and what a post does not use by itself is needed only when the row runs.
    #[inline]
    fn prefetch(&self) {
        const { assert!(offset_of!(State<P>, receive) <= 3 * CACHE_LINE, "the state is used beyond") };
        let state = (&raw const self.state).cast::<u8>();
        for offset in [CACHE_LINE, 2 * CACHE_LINE, 3 * CACHE_LINE] {
            prefetch(state.wrapping_add(offset));
        }
        prefetch(&raw const self.deferred);
        prefetch(&raw const self.shared);
        // The counts of its references lie before it.
        prefetch((&raw const *self).wrapping_byte_sub(1));
    }
}
