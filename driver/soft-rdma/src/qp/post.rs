//! Posts to a queue pair. `engine` carries the requests out.

use core::mem::offset_of;

use platform::{Arc, CACHE_LINE, Deferred, Notice, Platform, prefetch};

use super::{LockedQp, QpState, QueuePair, status_of, wake};
use crate::{
    Error, Flags, MemoryWindow, OperationKind, Post, ProtectionDomain, Sge, limits,
    qp::engine::SMALL_SEND_BYTES,
    qp::request::{InitiatorRequest, Operation, SgeList, total},
};

impl<P: Platform> QueuePair<P> {
    /// Posts an initiator request. An error means that the request was not accepted: it gets no completion, the queue
    /// pair stays usable, and the requests deferred before it are started. After the end of the connection a request is
    /// accepted, and cancelled at the latest by the next flush; if a completion queue has failed, it is refused. IRQL <= DISPATCH.
    // Inlined: the caller's `post` is a known variant, so the compiler drops the code for the others.
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

    /// Posts any request but a small send. A function of its own, so that a small send does not pay for its stack and registers.
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

    /// Schedules the engine: the post itself carries out no request, as a completion or a dropped reference may call a consumer, and the
    /// poster may hold locks. In a process a poster at PASSIVE_LEVEL, which holds no spin lock, may run the engine here.
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
        // The list of an inline request is not copied: the data it names is readable at DISPATCH_LEVEL, so the list is not pageable either.
        let (one, list);
        let sges = match sges {
            _ if inline => sges,
            // The usual case, without a list.
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
        // Declared before the lock is taken, so that a refused operation is dropped after the unlock: it may hold the last reference to a region.
        let mut operation = Some(self.stage(post)?);
        let mut state = self.state.lock();
        if state.qp_state != QpState::Connected {
            return self.enqueue_without_connection(&mut state, sges, request, &mut operation);
        }
        state.may_post(operation.as_ref().map_or(OperationKind::Send, Operation::kind))?;
        state.enqueue(&self.sizes, sges, request, &mut operation)
    }

    /// Queues a request after the end of its connection. The next flush cancels the request; if the queue pair is dead, it is cancelled at once, or
    /// behind those before it. The caller drops what is left in `operation` without the lock.
    #[cold]
    #[inline(never)]
    fn enqueue_without_connection(
        &self,
        state: &mut LockedQp<P>,
        sges: &[Sge],
        request: InitiatorRequest,
        operation: &mut Option<Operation<P>>,
    ) -> Result<(), Error> {
        if matches!(state.qp_state, QpState::Idle | QpState::Connecting) {
            return Err(Error::ConnectionInvalid);
        }
        if state.initiator_queue.is_full() {
            return Err(Error::QueueFull);
        }
        state.enqueue(&self.sizes, sges, request, operation)?;
        if state.qp_state == QpState::Error {
            *operation = self.cancel_newest_request(state);
        }
        Ok(())
    }

    /// Whether a send without invalidation is small: one for a batch (`engine/batch.rs`).
    #[inline]
    fn is_small(&self, length: u32, flags: Flags) -> bool {
        length <= SMALL_SEND_BYTES && Flags::SEND.contains(flags) && self.sizes.sges > 0
    }

    /// Posts a small send, the usual case.
    #[inline]
    fn enqueue_small(&self, context: usize, sge: Sge, flags: Flags) -> Result<(), Error> {
        if self.has_failed_queue() {
            return Err(Error::ConnectionInvalid);
        }
        let request = InitiatorRequest { context, data: sge, flags, sges: 1, small: true, _unused: 0 };
        let mut state = self.state.lock();
        if state.qp_state != QpState::Connected {
            return self.enqueue_without_connection(&mut state, &[], request, &mut None);
        }
        state.may_post(OperationKind::Send)?;
        if state.initiator_queue.len() == 0 {
            self.prefetch();
        }
        state.initiator_queue.push(request)
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
            Post::Bind(window, region, bind_range) => {
                Operation::Bind(MemoryWindow::stage(window, &self.pd, region, bind_range)?)
            }
            Post::FastRegister(region, registration) => {
                self.owns(region.pd())?;
                Operation::FastRegister(region.clone(), Some(region.stage(&registration)?))
            }
        })
    }

    /// Checks that the object of a request is of the queue pair's own domain.
    fn owns(&self, pd: &Arc<ProtectionDomain<P>, P>) -> Result<(), Error> {
        if Arc::ptr_eq(pd, &self.pd) { Ok(()) } else { Err(Error::AccessViolation) }
    }

    /// Posts a receive. Allowed before the queue pair is connected; after the end of its connection the receive is
    /// cancelled at the latest by the next flush. IRQL <= DISPATCH.
    #[inline]
    pub fn post_receive(&self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        let result = match sges {
            // The usual case, without a list.
            [sge] => self.enqueue_receive(context, &[sge.read()]),
            _ => self.enqueue_receive_of_list(context, sges),
        };
        if P::notices_data() {
            self.notice_post(OperationKind::Receive, result);
        }
        result
    }

    /// Traces a post, for a platform that asks for it ([`Platform::notices_data`]).
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
        let receives = state.receive_queue.as_mut().ok_or(Error::InvalidDeviceRequest)?;
        if receives.len() == 0 {
            self.prefetch();
        }
        receives.post(context, sges)?;
        if state.qp_state == QpState::Error {
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

    /// Prefetches the lines that a batch of small sends uses, at the first request of an empty queue: a queue pair that
    /// was idle is in no cache, and the lines that the post itself does not touch are needed only when the batch runs.
    #[inline]
    fn prefetch(&self) {
        const { assert!(offset_of!(LockedQp<P>, receive) <= 3 * CACHE_LINE, "the state is used beyond") };
        let state = (&raw const self.state).cast::<u8>();
        for offset in [CACHE_LINE, 2 * CACHE_LINE, 3 * CACHE_LINE] {
            prefetch(state.wrapping_add(offset));
        }
        prefetch(&raw const self.deferred);
        prefetch(&raw const self.shared);
        // The reference counts lie before the object.
        prefetch((&raw const *self).wrapping_byte_sub(1));
    }
}
