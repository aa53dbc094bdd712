//! Packets: sends to the miniport, and what it receives.
//!
//! ndis/nc-ndis-miniport_send_net_buffer_lists: each list comes back once, as it was but for its status; while the adapter is paused
//! with NDIS_STATUS_PAUSED. ndis/nc-ndis-miniport_pause: what was sent before has come back when the pause has completed, and what was
//! received has been returned.

mod batch;
mod check;
mod coalesced;
mod entries;
mod pool;
mod receive;
mod tap;
mod unchecked;
mod virtio;

use std::{
    collections::BTreeMap,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use kernel::violation;
use ndk_abi::{ndis::*, status::*};

use crate::{
    adapter::{Adapter, State},
    limits, lock,
};
use batch::{Batch, List, frames_of};
pub(crate) use check::{check, check_pauses, hold_receives, pause_with_receives, pause_with_send};

/// A list that the miniport has, or has had.
struct Lent {
    /// The number of pauses when it was sent.
    era: u64,
    /// The call that sent it has returned.
    returned: bool,
    /// How it came back.
    status: Option<NDIS_STATUS>,
    frames: Vec<usize>,
    /// What its information about large sends has to be when it comes back.
    large_send: usize,
}

/// Sends that the miniport has, by the addresses of their lists.
#[derive(Default)]
pub(crate) struct Outstanding {
    lent: Mutex<BTreeMap<usize, Lent>>,
    changed: Condvar,
    era: AtomicU64,
    /// What did not come back in time, and may yet.
    missed: Mutex<Vec<Batch>>,
    pub(crate) receives: receive::Receives,
    pub(crate) coalesced: coalesced::Counts,
    /// Receives are not checked: set for an adapter that has a TAP interface.
    unchecked: AtomicBool,
    pub(crate) tap: tap::Slot,
}

impl Outstanding {
    /// Before MiniportPause is called.
    pub(crate) fn pausing(&self) {
        self.era.fetch_add(1, Ordering::AcqRel);
        self.receives.pausing();
    }

    /// Lists that were sent before the latest pause, and are still with the miniport. Those of calls in progress are left out: the
    /// miniport may know nothing of them yet.
    pub(crate) fn overdue(&self) -> usize {
        let era = self.era.load(Ordering::Acquire);
        lock(&self.lent).values().filter(|lent| lent.status.is_none() && lent.returned && lent.era < era).count()
    }
}

/// Hands lists to the miniport.
fn begin(adapter: &Adapter, batch: &Batch, at_dispatch: bool) {
    let Some(handler) = adapter.driver.characteristics.SendNetBufferListsHandler else { return };
    let Some(first) = batch.lists.first() else { return };
    let era = adapter.packets.era.load(Ordering::Acquire);
    let mut lent = lock(&adapter.packets.lent);
    for list in &batch.lists {
        // SAFETY: a list of the batch, still here.
        let head = unsafe { &(**list).head };
        let asked = head.NetBufferListInfo[TcpLargeSendNetBufferListInfo].addr();
        let complete = NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO::COMPLETE.0 as usize;
        let large_send = if asked == 0 { 0 } else { complete };
        let frames = frames_of(head);
        lent.insert(*list as usize, Lent { era, returned: false, status: None, frames, large_send });
    }
    drop(lent);
    let flags = if at_dispatch { NDIS_SEND_FLAGS_DISPATCH_LEVEL } else { 0 };
    // SAFETY: the driver's handler, called as documented; the lists are the driver's until they are completed.
    let call = || unsafe { handler(adapter.context(), first.cast(), 0, flags) };
    let send = || {
        kernel::balanced("MiniportSendNetBufferLists", call);
        let mut lent = lock(&adapter.packets.lent);
        for list in &batch.lists {
            if let Some(lent) = lent.get_mut(&(*list as usize)) {
                lent.returned = true;
            }
        }
    };
    if at_dispatch { kernel::at_dispatch_before_dpcs(send) } else { send() }
}

/// Whether all lists of a batch have come back.
fn is_back(adapter: &Adapter, batch: &Batch) -> bool {
    let lent = lock(&adapter.packets.lent);
    batch.lists.iter().all(|list| lent.get(&(*list as usize)).is_some_and(|lent| lent.status.is_some()))
}

/// Waits for the lists of a batch; what they came back with. None: that took too long.
fn finish(adapter: &Adapter, batch: Batch) -> Option<Vec<NDIS_STATUS>> {
    let packets = &adapter.packets;
    let mut lent = lock(&packets.lent);
    let status =
        |lent: &BTreeMap<usize, Lent>, list: &*mut List| lent.get(&(*list as usize)).and_then(|lent| lent.status);
    let (mut pending, mut since) = (batch.lists.len(), Instant::now());
    loop {
        let now = batch.lists.iter().filter(|list| status(&lent, list).is_none()).count();
        if now == 0 {
            break;
        }
        if now < pending {
            (pending, since) = (now, Instant::now());
        }
        let left = limits::now(limits::SENDS).saturating_sub(since.elapsed());
        if left.is_zero() {
            drop(lent);
            violation("no send was completed for 22 s, and one was pending");
            lock(&packets.missed).push(batch);
            return None;
        }
        lent = packets.changed.wait_timeout(lent, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    let statuses = batch.lists.iter().filter_map(|list| lent.remove(&(*list as usize))?.status).collect();
    // Those that came back late.
    lock(&packets.missed).retain(|batch| {
        let is_back = batch.lists.iter().all(|list| status(&lent, list).is_some());
        if is_back {
            batch.lists.iter().for_each(|list| drop(lent.remove(&(*list as usize))));
        }
        !is_back
    });
    Some(statuses)
}

/// Sends a batch and waits for it. While the adapter stays paused all of it comes back as such.
fn send(adapter: &Adapter, batch: Batch, at_dispatch: bool) -> Option<Vec<NDIS_STATUS>> {
    let phase = || (adapter.state(), adapter.packets.era.load(Ordering::Acquire));
    let before = phase();
    begin(adapter, &batch, at_dispatch);
    let statuses = finish(adapter, batch)?;
    if phase() == before {
        let is_paused = |status: &NDIS_STATUS| *status == NDIS_STATUS_PAUSED;
        match before.0 {
            State::Paused if !statuses.iter().all(is_paused) => {
                violation(&format!("sends to a paused adapter were completed with {statuses:?}"));
            }
            State::Running if statuses.iter().any(is_paused) => {
                violation("a send to a running adapter was completed with NDIS_STATUS_PAUSED");
            }
            _ => {}
        }
    }
    Some(statuses)
}
