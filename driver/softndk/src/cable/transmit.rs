//! Datagrams on their way out: a fixed number of slots, each with a buffer for the longest datagram and a request for Winsock Kernel.
//!
//! MiniportSend copies a frame into a slot and queues it; the cable's run sends it. So WskSendTo is not called on the stack of a protocol that
//! sends, nor for a whole chain at once.
#![expect(unsafe_code, reason = "slots that Winsock Kernel has by pointer, and frames of NDIS")]

use core::{
    cell::{Cell, UnsafeCell},
    ffi::c_void,
    ptr,
};

use ndk_abi::{ndis::NET_BUFFER, sockaddr::SOCKADDR_INET, softndk_ioctl::SOFTNDK_CABLE_ERROR_SEND};
use platform::{Arc, Completion, Event, OutOfMemory, Passive, Slice, SocketError, SpinLock};
use vxlan::header::HEADER;

use super::counters::{Counters, Lost};
use crate::{
    ndis,
    platform::Windows,
    wsk::{datagram::DatagramSocket, request::Request},
};

/// Datagrams that are queued or with WSK at a time. A frame that finds no slot is dropped, as a card whose ring is full does.
const SLOTS: usize = 256;

/// A datagram, or the room for one.
struct Slot {
    request: UnsafeCell<Request>,
    bytes: UnsafeCell<Slice<u8, Windows>>,
    place: usize,
    /// Set while the slot is in use: the bytes of the datagram, and the place of its peer in the list.
    datagram: Cell<Option<(usize, usize)>>,
    /// Set while the datagram is with WSK.
    transmit: Cell<*const Transmit>,
}

// SAFETY: one thread at a time uses a slot: the one that has taken the slot out of `free` or `queued`, then the routine of its request.
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
    counters: Arc<Counters, Windows>,
    drained: Arc<Event<Windows>, Windows>,
}

struct State {
    free: Places,
    queued: Places,
    /// A thread waits for `drained`, which is signalled when all slots are free.
    draining: bool,
}

/// A datagram that was taken out of the queue.
pub(super) struct Queued<'a> {
    transmit: &'a Transmit,
    slot: &'a Slot,
    length: usize,
    /// The peer's place in the list.
    pub(super) to: usize,
}

impl Transmit {
    /// Slots for datagrams of `length` bytes at most.
    pub(super) fn new(
        length: usize,
        header: [u8; HEADER],
        counters: Arc<Counters, Windows>,
    ) -> Result<Self, OutOfMemory> {
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
                bytes: UnsafeCell::new(bytes),
                place,
                datagram: Cell::new(None),
                transmit: Cell::new(ptr::null()),
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let mut state = State { free: Places::none()?, queued: Places::none()?, draining: false };
        (0..SLOTS).for_each(|place| state.free.push(place));
        Ok(Self { slots, state: SpinLock::<_, Windows>::new(state), counters, drained: Event::new()? })
    }

    /// Queues a frame of `length` bytes for a peer, unless no slot is free, or NDIS could not map the frame's data. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `frame` is valid, and this driver owns it.
    pub(super) unsafe fn queue(&self, frame: *mut NET_BUFFER, length: usize, to: usize) -> Result<(), Lost> {
        let place = self.state.lock().free.pop();
        let Some(slot) = place.and_then(|place| self.slots.get(place)) else { return Err(Lost::NoRoom) };
        // SAFETY: taken, so no other thread uses the slot.
        let bytes = unsafe { &mut *slot.bytes.get() };
        let end = length.saturating_add(HEADER);
        // SAFETY: the frame is valid, by contract.
        let copied = bytes.get_mut(HEADER..end).is_some_and(|room| unsafe { copy(frame, room) });
        if copied {
            slot.datagram.set(Some((end, to)));
            self.state.lock().queued.push(slot.place);
            Ok(())
        } else {
            self.put_back(slot);
            Err(Lost::NotMapped)
        }
    }

    /// Takes the oldest datagram out of the queue.
    pub(super) fn next(&self) -> Option<Queued<'_>> {
        let place = self.state.lock().queued.pop()?;
        let slot = self.slots.get(place)?;
        let (length, to) = slot.datagram.get()?;
        Some(Queued { transmit: self, slot, length, to })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().queued.count == 0
    }

    fn put_back(&self, slot: &Slot) {
        slot.datagram.set(None);
        let mut state = self.state.lock();
        state.free.push(slot.place);
        let drained = (state.draining && state.free.count == SLOTS).then(|| self.drained.clone());
        drop(state);
        // The thread that waits may free `self` now.
        if let Some(drained) = drained {
            drained.set();
        }
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

impl Queued<'_> {
    /// Sends the datagram.
    ///
    /// # Safety
    /// The socket is not closed before the return. The slots do not move or go before [`Transmit::drain`] has returned.
    pub(super) unsafe fn send(self, socket: &DatagramSocket, to: &SOCKADDR_INET) {
        self.slot.transmit.set(self.transmit);
        // SAFETY: taken, so no other thread uses the slot.
        let bytes = unsafe { &*self.slot.bytes.get() };
        let done = Completion::new(sent, (&raw const *self.slot).cast_mut().cast());
        // SAFETY: the slot keeps the request and the bytes until `sent` puts it back; the socket by contract.
        unsafe { socket.send_to(self.slot.request.get(), done, (bytes.as_ptr(), self.length), to) };
    }

    /// Drops the datagram.
    pub(super) fn discard(self) {
        self.transmit.put_back(self.slot);
    }
}

/// The routine of a datagram's request. Whether the network has delivered the datagram is unknown, and no frame waits for it.
unsafe fn sent(context: *mut c_void, result: Result<usize, SocketError>) {
    // SAFETY: the slot of the request, which `drain` waits for.
    let slot = unsafe { &*context.cast_const().cast::<Slot>() };
    // SAFETY: set by `send`; `drain` waits for the slot.
    let transmit = unsafe { &*slot.transmit.get() };
    let counters = &transmit.counters;
    if result.is_ok() {
        let peer = slot.datagram.get().and_then(|(_, to)| counters.peers.get(to));
        if let Some(peer) = peer {
            peer.sent.add(1);
        }
    } else {
        counters.lost_out.count(Lost::NotSent);
        // SAFETY: the slot keeps the request, which has ended.
        let request = unsafe { &*slot.request.get() };
        // SAFETY: the slot is not used for another request yet.
        counters.failed(SOFTNDK_CABLE_ERROR_SEND, unsafe { request.failure() });
    }
    transmit.put_back(slot);
}

/// Copies a frame into `room`, which is as long. False: NDIS could not map its data.
///
/// # Safety
/// `frame` is valid, and this driver owns it.
unsafe fn copy(frame: *mut NET_BUFFER, room: &mut [u8]) -> bool {
    let length = room.len();
    let storage = room.as_mut_ptr();
    // SAFETY: a valid frame; `storage` has room for `length` bytes, in case they are not contiguous.
    let bytes = unsafe { ndis::NdisGetDataBuffer(frame, length as u32, storage.cast(), 1, 0) };
    if bytes.is_null() {
        return false;
    }
    if bytes.cast_const() != storage.cast_const().cast() {
        // SAFETY: `length` bytes of the frame, which do not overlap `room`.
        unsafe { ptr::copy_nonoverlapping(bytes.cast_const().cast(), storage, length) };
    }
    true
}
