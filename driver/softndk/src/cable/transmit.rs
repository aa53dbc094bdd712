//! Datagrams on their way out: a fixed number of slots, each with a buffer for the longest datagram and a request for Winsock Kernel.

#![expect(unsafe_code, reason = "slots that Winsock Kernel has by pointer, and frames of NDIS")]

use core::{
    cell::{Cell, UnsafeCell},
    ffi::c_void,
    ptr,
};

use ndk_abi::{ndis::NET_BUFFER, sockaddr::SOCKADDR_INET};
use platform::{Arc, Completion, Event, OutOfMemory, Passive, Slice, SocketError, SpinLock};
use vxlan::header::HEADER;

use crate::{
    ndis,
    platform::Windows,
    wsk::{datagram::DatagramSocket, request::Request},
};

/// Datagrams with WSK at a time. A frame that finds no slot is dropped, as a card whose ring is full does.
const SLOTS: usize = 256;

/// A datagram, or the room for one.
struct Slot {
    request: UnsafeCell<Request>,
    bytes: UnsafeCell<Slice<u8, Windows>>,
    place: usize,
    /// Set while the datagram is with WSK.
    transmit: Cell<*const Transmit>,
}

// SAFETY: the thread that has taken the slot out of the free ones uses the slot, then the routine of its request.
unsafe impl Send for Slot {}
// SAFETY: as for Send.
unsafe impl Sync for Slot {}

/// The slots.
pub(super) struct Transmit {
    slots: Slice<Slot, Windows>,
    free: SpinLock<Free, Windows>,
    drained: Arc<Event<Windows>, Windows>,
}

struct Free {
    /// The places of the free slots: the first `count`.
    places: Slice<usize, Windows>,
    count: usize,
    /// A thread waits for `drained`, which is signalled when all slots are free.
    draining: bool,
}

/// The datagram could not be sent.
pub(super) enum NotSent {
    /// No slot is free.
    Full,
    /// NDIS could not map the frame's data.
    NotMapped,
}

impl Transmit {
    /// Slots for datagrams of `length` bytes at most.
    pub(super) fn new(length: usize, header: [u8; HEADER]) -> Result<Self, OutOfMemory> {
        let mut failed = None;
        let slots = Slice::from_fn(SLOTS, |place| {
            let bytes = Slice::filled(length, 0).unwrap_or_else(|error| {
                failed = Some(error);
                Slice::empty()
            });
            let mut slot = Slot {
                request: UnsafeCell::new(Request::new()),
                bytes: UnsafeCell::new(bytes),
                place,
                transmit: Cell::new(ptr::null()),
            };
            if let Some(start) = slot.bytes.get_mut().get_mut(..HEADER) {
                start.copy_from_slice(&header);
            }
            slot
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let places = Slice::from_fn(SLOTS, |place| place)?;
        let free = SpinLock::<_, Windows>::new(Free { places, count: SLOTS, draining: false });
        Ok(Self { slots, free, drained: Event::new()? })
    }

    /// Sends a frame of `length` bytes to a peer. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `frame` is valid, and this driver owns it. The socket is not closed before the return. `self` does not move or go before
    /// [`Transmit::drain`] has returned.
    pub(super) unsafe fn send(
        &self,
        socket: DatagramSocket,
        frame: *mut NET_BUFFER,
        length: usize,
        to: &SOCKADDR_INET,
    ) -> Result<(), NotSent> {
        let slot = self.take().ok_or(NotSent::Full)?;
        // SAFETY: taken, so no other thread uses the slot.
        let bytes = unsafe { &mut *slot.bytes.get() };
        let end = length.saturating_add(HEADER);
        // SAFETY: the frame is valid, by contract.
        let copied = bytes.get_mut(HEADER..end).is_some_and(|room| unsafe { copy(frame, room) });
        if !copied {
            self.put_back(slot);
            return Err(NotSent::NotMapped);
        }
        slot.transmit.set(self);
        let done = Completion::new(sent, (&raw const *slot).cast_mut().cast());
        // SAFETY: the slot keeps the request and the bytes until `sent` puts it back; the socket by contract.
        unsafe { socket.send_to(slot.request.get(), done, (bytes.as_ptr(), end), to) };
        Ok(())
    }

    fn take(&self) -> Option<&Slot> {
        let mut free = self.free.lock();
        let left = free.count.checked_sub(1)?;
        let place = *free.places.get(left)?;
        free.count = left;
        self.slots.get(place)
    }

    fn put_back(&self, slot: &Slot) {
        let mut free = self.free.lock();
        let count = free.count;
        if let Some(place) = free.places.get_mut(count) {
            *place = slot.place;
            free.count = count.saturating_add(1);
        }
        let drained = (free.draining && free.count == SLOTS).then(|| self.drained.clone());
        drop(free);
        // The thread that waits may free `self` now.
        if let Some(drained) = drained {
            drained.set();
        }
    }

    /// Waits until all datagrams have left WSK, after the socket was closed.
    pub(super) fn drain(&self, passive: &Passive<'_>) {
        let mut free = self.free.lock();
        free.draining = true;
        let is_drained = free.count == SLOTS;
        drop(free);
        if !is_drained {
            self.drained.wait(passive);
        }
    }
}

/// The routine of a datagram's request. Whether the network has delivered the datagram is unknown, and no frame waits for it.
unsafe fn sent(context: *mut c_void, _result: Result<usize, SocketError>) {
    // SAFETY: the slot of the request, which `drain` waits for.
    let slot = unsafe { &*context.cast_const().cast::<Slot>() };
    // SAFETY: set by `send`; `drain` waits for the slot.
    let transmit = unsafe { &*slot.transmit.get() };
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
