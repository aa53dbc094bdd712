//! Datagrams on their way out: a fixed number of slots, each with a buffer for the longest datagram and a request for Winsock Kernel.
//!
//! MiniportSend takes the slots of a frame, writes the frame or its segments into them and queues them; the cable's run sends them. So
//! WskSendMessages is not called on the stack of a protocol that sends. A list whose frame finds too few free slots waits (`waiting`). One call, with
//! the request of the first slot, sends the datagrams that follow one another in the queue and go to one peer. If TCP/IP makes datagrams of messages,
//! datagrams of the greatest length in the call, and the one behind them, are one message. All of their slots are free when the request has ended.
#![expect(unsafe_code, reason = "slots that Winsock Kernel has by pointer")]

use core::{
    cell::{Cell, UnsafeCell},
    ffi::c_void,
    mem::ManuallyDrop,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use ndk_abi::{
    describe::ZeroInit, sockaddr::SOCKADDR_INET, softndk_ioctl::SOFTNDK_CABLE_ERROR_SEND,
    status::STATUS_INSUFFICIENT_RESOURCES, wsk::WSK_BUF_LIST,
};
use ndk_provider::Fault;
use platform::{Arc, Completion, Deferred, Event, OutOfMemory, Passive, Slice, SocketError, SpinLock};
use vxlan::{header::HEADER, vtep::Dropped};

use super::{Cable, counters::Lost, faults::Turn, patch, seconds};
use crate::{
    irql::at_dispatch,
    platform::Windows,
    wsk::{
        datagram::{DatagramSocket, LONGEST_MESSAGE, MessageSize},
        request::Request,
    },
};

/// Datagrams that are queued or with WSK at a time.
const SLOTS: usize = 256;

/// A datagram, or the room for one.
struct Slot {
    request: UnsafeCell<Request>,
    list: UnsafeCell<WSK_BUF_LIST>,
    /// Of the first slot of a burst.
    size: UnsafeCell<MessageSize>,
    bytes: UnsafeCell<Slice<u8, Windows>>,
    place: usize,
    /// Set while the slot is in use: the bytes of the datagram, and the place of its peer in the list.
    datagram: Cell<Option<(usize, usize)>>,
    /// Of a slot in `delayed`: when its datagram is queued.
    due: Cell<u64>,
    /// The next slot of a burst.
    next: Cell<*const Self>,
    /// Of the first slot of a burst: how many slots the burst has, whether it is sent as messages, and whose they are, for `sent`.
    count: Cell<usize>,
    is_segmented: Cell<bool>,
    cable: Cell<*const Cable>,
}

// SAFETY: one thread at a time uses a slot: the one that has taken the slot out of `free`, `queued` or `delayed`, then the routine of its request.
unsafe impl Send for Slot {}
// SAFETY: as for Send.
unsafe impl Sync for Slot {}

/// Places of slots, first in, first out.
struct Places {
    places: Slice<usize, Windows>,
    first: usize,
    count: usize,
}

impl Places {
    fn none() -> Result<Self, OutOfMemory> {
        Ok(Self { places: Slice::filled(SLOTS, 0)?, first: 0, count: 0 })
    }

    fn push(&mut self, place: usize) {
        let end = self.first.wrapping_add(self.count) % SLOTS;
        if let Some(room) = self.places.get_mut(end) {
            *room = place;
            self.count = self.count.saturating_add(1);
        }
    }

    fn first(&self) -> Option<usize> {
        (self.count > 0).then(|| self.places.get(self.first).copied()).flatten()
    }

    fn pop(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        let place = self.places.get(self.first).copied();
        self.first = self.first.wrapping_add(1) % SLOTS;
        place
    }
}

/// The slots.
pub(super) struct Transmit {
    slots: Slice<Slot, Windows>,
    state: SpinLock<State, Windows>,
    drained: Arc<Event<Windows>, Windows>,
    /// TCP/IP makes datagrams of messages, and has refused none.
    segments: AtomicBool,
}

struct State {
    free: Places,
    queued: Places,
    /// A datagram that a fault rule has wait for the next one.
    held: Option<usize>,
    /// Datagrams that a fault rule delays.
    delayed: Places,
    /// A thread waits for `drained`, which is signalled when all slots are free.
    draining: bool,
}

impl State {
    /// Queues a datagram, and behind it the one that waits for it; or has it wait itself.
    fn queue(&mut self, slot: &Slot, turn: Turn) {
        match turn {
            Turn::BehindNext if self.held.is_none() => self.held = Some(slot.place),
            Turn::At(due) => {
                slot.due.set(due);
                self.delayed.push(slot.place);
            }
            Turn::Now | Turn::BehindNext => {
                self.queued.push(slot.place);
                self.release();
            }
        }
    }

    /// Queues the datagram that waits for the next one.
    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            self.queued.push(held);
        }
    }
}

/// Slots that MiniportSend has taken for a frame. A drop frees each slot that no datagram has used.
pub(super) struct Taken<'a> {
    transmit: &'a Transmit,
    next: *const Slot,
}

/// Datagrams to one peer that were taken out of the queue.
pub(super) struct Burst<'a> {
    transmit: &'a Transmit,
    first: &'a Slot,
    pub(super) count: usize,
    /// Bytes of the longest datagram.
    longest: usize,
    /// The peer's place in the list.
    pub(super) to: usize,
}

impl Transmit {
    /// Slots for datagrams of `length` bytes at most.
    pub(super) fn new(length: usize, header: [u8; HEADER]) -> Result<Self, OutOfMemory> {
        let mut failed = None;
        let slots = Slice::from_fn(SLOTS, |place| {
            let mut bytes = Slice::filled(length, 0).unwrap_or_else(|error| {
                failed = Some(error);
                Slice::empty()
            });
            if let Some(start) = bytes.get_mut(..HEADER) {
                start.copy_from_slice(&header);
            }
            Slot {
                request: UnsafeCell::new(Request::new()),
                list: UnsafeCell::new(WSK_BUF_LIST::ZERO),
                size: UnsafeCell::new(MessageSize::new(0)),
                bytes: UnsafeCell::new(bytes),
                place,
                datagram: Cell::new(None),
                due: Cell::new(0),
                next: Cell::new(ptr::null()),
                count: Cell::new(0),
                is_segmented: Cell::new(false),
                cable: Cell::new(ptr::null()),
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let [free, queued, delayed] = [Places::none()?, Places::none()?, Places::none()?];
        let mut state = State { free, queued, held: None, delayed, draining: false };
        (0..SLOTS).for_each(|place| state.free.push(place));
        let (state, drained) = (SpinLock::<_, Windows>::new(state), Event::new()?);
        Ok(Self { slots, state, drained, segments: AtomicBool::new(false) })
    }

    /// A new socket is going to be used.
    pub(super) fn begin(&self, socket: &DatagramSocket) {
        self.segments.store(socket.can_segment(), Ordering::Relaxed);
    }

    /// Takes `count` free slots, or all there are if the cable has not as many. `None`: not as many are free now. IRQL <= DISPATCH.
    pub(super) fn take(&self, count: usize) -> Option<Taken<'_>> {
        let count = count.min(SLOTS);
        let mut state = self.state.lock();
        if state.free.count < count {
            // Else that slot might never be free.
            state.release();
            return None;
        }
        let mut next: *const Slot = ptr::null();
        for _ in 0..count {
            if let Some(slot) = state.free.pop().and_then(|place| self.slots.get(place)) {
                slot.next.set(next);
                next = slot;
            }
        }
        Some(Taken { transmit: self, next })
    }

    /// Copies a datagram into a free slot, if there is one.
    fn copy(&self, datagram: &[u8], to: usize) -> Option<&Slot> {
        let place = self.state.lock().free.pop()?;
        let slot = self.slots.get(place)?;
        // SAFETY: taken, so no other thread uses the slot.
        let bytes = unsafe { &mut *slot.bytes.get() };
        bytes.get_mut(..datagram.len())?.copy_from_slice(datagram);
        slot.datagram.set(Some((datagram.len(), to)));
        Some(slot)
    }

    /// Takes the oldest datagram out of the queue, and those behind it, at most `most` in all, until one goes to another peer.
    pub(super) fn next(&self, most: usize) -> Option<Burst<'_>> {
        let mut state = self.state.lock();
        let first = self.slots.get(state.queued.pop()?)?;
        let (mut longest, to) = first.datagram.get()?;
        let (mut last, mut count) = (first, 1_usize);
        while count < most
            && let Some(slot) = state.queued.first().and_then(|place| self.slots.get(place))
            && let Some((length, other)) = slot.datagram.get()
            && other == to
        {
            state.queued.pop();
            last.next.set(slot);
            (last, count, longest) = (slot, count.saturating_add(1), longest.max(length));
        }
        last.next.set(ptr::null());
        Some(Burst { transmit: self, first, count, longest, to })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().queued.count == 0
    }

    /// Makes the slots of a burst free.
    fn put_back(&self, first: &Slot) {
        let mut state = self.state.lock();
        let mut next: *const Slot = first;
        // SAFETY: null, or a slot of this array, which is taken.
        while let Some(slot) = unsafe { next.as_ref() } {
            slot.datagram.set(None);
            next = slot.next.get();
            state.free.push(slot.place);
        }
        let drained = (state.draining && state.free.count == SLOTS).then(|| self.drained.clone());
        drop(state);
        // The thread that waits may free `self` now.
        if let Some(drained) = drained {
            drained.set();
        }
    }

    /// Queues the datagrams that wait by a fault rule.
    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        state.release();
        while let Some(place) = state.delayed.pop() {
            state.queued.push(place);
        }
    }

    /// Queues the oldest datagrams whose delay is over at `now`, at most `most`. Returns when the delay of the next datagram is over.
    pub(super) fn end_delays(&self, now: u64, most: usize) -> Option<u64> {
        let mut state = self.state.lock();
        for nth in 0..=most {
            let due = self.slots.get(state.delayed.first()?)?.due.get();
            if due > now || nth == most {
                return Some(due);
            }
            if let Some(place) = state.delayed.pop() {
                state.queued.push(place);
                state.release();
            }
        }
        None
    }

    /// Waits until no datagram is queued or with WSK, after the socket was closed. A run has to follow, which drops what is queued.
    pub(super) fn drain(&self, passive: &Passive<'_>) {
        let mut state = self.state.lock();
        state.draining = true;
        let is_drained = state.free.count == SLOTS;
        drop(state);
        if !is_drained {
            self.drained.wait(passive);
        }
    }
}

impl Taken<'_> {
    /// Queues a datagram of `length` bytes behind the header, which `write` writes, for a peer. The slot is free again if `write` fails, or if a
    /// fault rule drops the frame. `Lost::NoRoom` says that no slot is left.
    pub(super) fn queue(
        &mut self,
        length: usize,
        to: usize,
        write: impl FnOnce(&mut [u8]) -> Result<Option<Fault>, Lost>,
    ) -> Result<(), Lost> {
        // SAFETY: null, or a slot that was taken.
        let Some(slot) = (unsafe { self.next.as_ref() }) else { return Err(Lost::NoRoom) };
        // SAFETY: taken, so no other thread uses the slot.
        let bytes = unsafe { &mut *slot.bytes.get() };
        let end = length.saturating_add(HEADER);
        let fault = bytes.get_mut(HEADER..end).map_or(Err(Lost::Invalid(Dropped::Long)), write)?;
        if fault == Some(Fault::Drop) {
            return Ok(());
        }
        self.next = slot.next.get();
        slot.datagram.set(Some((end, to)));
        // Before the slot is queued: then it is the run's.
        let second = match fault {
            Some(Fault::Duplicate) => bytes.get(..end).and_then(|datagram| self.transmit.copy(datagram, to)),
            _ => None,
        };
        let mut state = self.transmit.state.lock();
        state.queue(slot, Turn::of(fault));
        if let Some(second) = second {
            state.queue(second, Turn::Now);
        }
        Ok(())
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // SAFETY: null, or a slot that was taken, and is not used.
        if let Some(first) = unsafe { self.next.as_ref() } {
            self.transmit.put_back(first);
        }
    }
}

impl Burst<'_> {
    /// Sends the datagrams.
    ///
    /// # Safety
    /// The socket is not closed before the return. The slots and the address do not move or go before [`Transmit::drain`] has returned. The slots are
    /// `cable`'s.
    pub(super) unsafe fn send(self, cable: &Arc<Cable, Windows>, socket: &DatagramSocket, to: &SOCKADDR_INET) {
        let segments = self.transmit.segments.load(Ordering::Relaxed);
        let first = self.first;
        // The entry of the list that is written last, and the request that it ends with, if a datagram may follow in its message.
        let (mut entry, mut open): (*mut WSK_BUF_LIST, Option<&Request>) = (ptr::null_mut(), None);
        let (mut is_segmented, mut next): (bool, *const Slot) = (false, first);
        // SAFETY: null, or a slot that is taken.
        while let Some(slot) = unsafe { next.as_ref() } {
            let length = slot.datagram.get().map_or(0, |(length, _)| length);
            next = slot.next.get();
            // SAFETY: taken, so no other thread uses the slot.
            let bytes = unsafe { &*slot.bytes.get() }.as_ptr();
            // SAFETY: as above.
            let request = unsafe { &*slot.request.get() };
            // SAFETY: the slot keeps the bytes until `sent` puts it back; WSK does not have the request.
            let buffer = unsafe { request.describe(bytes, length) };
            // SAFETY: null, or the entry of a slot that is taken.
            let before = unsafe { entry.as_mut() };
            match (before, open) {
                (Some(message), Some(open)) if message.Buffer.Length.saturating_add(length) <= LONGEST_MESSAGE => {
                    // SAFETY: both are described, and WSK has neither.
                    unsafe { open.chain(request) };
                    message.Buffer.Length = message.Buffer.Length.saturating_add(length);
                    is_segmented = true;
                }
                (before, _) => {
                    // SAFETY: taken, as above.
                    unsafe { slot.list.get().write(WSK_BUF_LIST { Next: ptr::null_mut(), Buffer: buffer }) };
                    if let Some(before) = before {
                        before.Next = slot.list.get();
                    }
                    entry = slot.list.get();
                }
            }
            open = (segments && length == self.longest).then_some(request);
        }
        first.count.set(self.count);
        first.cable.set(Arc::as_ptr(cable));
        first.is_segmented.set(is_segmented);
        // SAFETY: taken, as above.
        let size = unsafe { &mut *first.size.get() };
        *size = MessageSize::new(self.longest as u32);
        let done = Completion::new(sent, (&raw const *first).cast_mut().cast());
        // SAFETY: the slots keep requests, list, size and bytes until `sent` puts them back; socket and address by contract.
        unsafe { socket.send(first.request.get(), done, first.list.get(), to, is_segmented.then_some(&*size)) };
    }

    /// Gives the datagrams to the other end of a patch cable, which copies them.
    pub(super) fn hand_over(self, cable: &Cable, other: &Arc<Cable, Windows>) {
        let (mut next, now): (*const Slot, _) = (self.first, seconds());
        // SAFETY: null, or a slot that is taken.
        while let Some(slot) = unsafe { next.as_ref() } {
            // SAFETY: taken, so no other thread uses the slot.
            let bytes = unsafe { &*slot.bytes.get() };
            let length = slot.datagram.get().map_or(0, |(length, _)| length);
            let bytes = bytes.get(..length).unwrap_or_default();
            Cable::take(other, Some(patch::END), bytes.len(), now, |room| {
                let fits = room.len() == bytes.len();
                if fits {
                    room.copy_from_slice(bytes);
                }
                fits
            });
            next = slot.next.get();
        }
        if let Some(peer) = cable.counters.peers.get(self.to) {
            peer.sent.add(self.count as u64);
        }
        self.discard();
    }

    /// Drops the datagrams.
    pub(super) fn discard(self) {
        self.transmit.put_back(self.first);
    }
}

/// The routine of a burst's request. Whether the network has delivered the datagrams is unknown, and no frame waits for it.
unsafe fn sent(context: *mut c_void, result: Result<usize, SocketError>) {
    // SAFETY: the slot of the request, which `drain` waits for.
    let first = unsafe { &*context.cast_const().cast::<Slot>() };
    // SAFETY: set by `send`; the cable waits for the slot before it goes. Without a reference for this call.
    let cable = ManuallyDrop::new(unsafe { Arc::<Cable, Windows>::from_raw(first.cable.get()) });
    let counters = &cable.counters;
    let count = first.count.get() as u64;
    if result.is_ok() {
        let peer = first.datagram.get().and_then(|(_, to)| counters.peers.get(to));
        if let Some(peer) = peer {
            peer.sent.add(count);
        }
    } else {
        counters.lost_out.not_sent.add(count);
        // SAFETY: the slot keeps the request, which has ended.
        let request = unsafe { &*first.request.get() };
        // SAFETY: the slot is not used for another request yet.
        let status = unsafe { request.failure() };
        counters.failed(SOFTNDK_CABLE_ERROR_SEND, status);
        // Not of the network, nor for lack of memory: the message was refused. The next datagrams go one by one.
        let is_refused = result == Err(SocketError::Failed) && status != STATUS_INSUFFICIENT_RESOURCES;
        if first.is_segmented.get() && is_refused {
            cable.transmit.segments.store(false, Ordering::Relaxed);
        }
    }
    // The thread that drains may let the cable go once the slots are free.
    let kept = Arc::clone(&cable);
    cable.transmit.put_back(first);
    let is_idle = kept.waiting.is_empty();
    // As in `datapath::send`.
    at_dispatch(move || if is_idle { drop(kept) } else { Deferred::schedule_and_release(kept) });
}
