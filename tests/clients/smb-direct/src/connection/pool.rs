//! The buffers of messages: registered once, cut into slots.

use ndk_abi::ndkpi::{NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_SGE};
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_PARAMETER};
use platform::{Passive, Slice};

use crate::settings::Settings;
use crate::{Kernel, Pd, PlatformOf, Ref};
use kernel_consumer::Registered;

/// The context of the queue pair: memory with the receive slots, then the send slots.
pub(crate) struct Pool<K: Kernel> {
    pub(crate) region: Registered<K>,
    receive_size: u32,
    receive_slots: u32,
    send_size: u32,
}

impl<K: Kernel> Pool<K> {
    /// Allocates a receive slot for each credit and one more: for the negotiation, later for the receive beyond the target
    /// (`Credits::must_post`).
    pub(crate) fn new(pd: &Ref<Pd<K>, K>, settings: &Settings, passive: &Passive<'_>) -> Result<Self, NTSTATUS> {
        let receive_slots = u32::from(settings.credits).saturating_add(1);
        // Slots begin at multiples of 8, as payload does in them.
        let aligned = |size: u32| size.checked_next_multiple_of(8).ok_or(STATUS_INVALID_PARAMETER);
        let (receive_size, send_size) = (aligned(settings.receive_size)?, aligned(settings.send_size)?);
        let length = u64::from(receive_slots)
            .saturating_mul(receive_size.into())
            .saturating_add(u64::from(settings.send_slots).saturating_mul(send_size.into()));
        let length = usize::try_from(length).map_err(|_| STATUS_INVALID_PARAMETER)?;
        let region = Registered::new(pd, length, NDK_MR_FLAG_ALLOW_LOCAL_WRITE, passive)?;
        Ok(Self { region, receive_size, receive_slots, send_size })
    }

    pub(crate) fn receive_slots(&self) -> u32 {
        self.receive_slots
    }

    /// The offset of a receive slot.
    pub(crate) fn receive_place(&self, slot: u32) -> usize {
        (slot as usize).saturating_mul(self.receive_size as usize)
    }

    fn send_place(&self, slot: u32) -> usize {
        let receives = (self.receive_slots as usize).saturating_mul(self.receive_size as usize);
        receives.saturating_add((slot as usize).saturating_mul(self.send_size as usize))
    }

    /// Copies part of a message into a send slot.
    pub(crate) fn write_send(&self, slot: u32, offset: usize, bytes: &[u8]) -> Result<(), NTSTATUS> {
        self.region.buffer().write(self.send_place(slot).saturating_add(offset), bytes)
    }

    /// Copies part of a message out of a receive slot.
    pub(crate) fn read_receive(&self, slot: u32, offset: usize, bytes: &mut [u8]) -> Result<(), NTSTATUS> {
        self.region.buffer().read(self.receive_place(slot).saturating_add(offset), bytes)
    }

    pub(crate) fn send_sge(&self, slot: u32, length: u32) -> NDK_SGE {
        self.region.sge(self.send_place(slot), length)
    }

    pub(crate) fn receive_sge(&self, slot: u32, length: u32) -> NDK_SGE {
        self.region.sge(self.receive_place(slot), length)
    }
}

/// Receive slots that are not posted.
pub(crate) struct FreeSlots<K: Kernel> {
    slots: Slice<u32, PlatformOf<K>>,
    count: usize,
}

impl<K: Kernel> FreeSlots<K> {
    pub(crate) fn new(count: u32) -> Result<Self, NTSTATUS> {
        let slots = Slice::from_fn(count as usize, |slot| slot as u32).map_err(crate::no_memory)?;
        Ok(Self { count: slots.len(), slots })
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        let last = self.count.checked_sub(1)?;
        self.count = last;
        self.slots.get(last).copied()
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        if let Some(place) = self.slots.get_mut(self.count) {
            *place = slot;
            self.count = self.count.saturating_add(1);
        }
    }
}
