//! What the miniport receives. The protocol above it has all that NDIS lets a protocol do with a list: it returns the list within the
//! indication or later, alone or with others, in another order, from another thread, at either level.
//!
//! network/receiving-network-data, ndis/nc-ndis-miniport_return_net_buffer_lists. What becomes of a list is decided by how many indications
//! there were before, not by time.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{Arc, Condvar, Mutex, Once, PoisonError, atomic::Ordering},
    thread::{self, ThreadId},
    time::Duration,
};

use kernel::{DISPATCH_LEVEL, violation};
use ndk_abi::{ndis::*, status::*, wdm::*};

use super::{
    batch::{HEADER, frames_of, pieces},
    coalesced,
    entries::check_level,
    pool, unchecked,
};
use crate::{
    adapter::{self, Adapter, PATIENCE, State},
    lock, offload,
};

const NAME: &str = "NdisMIndicateReceiveNetBufferLists";
/// How long kept lists wait for others at most, to go back with them.
const JOIN: Duration = Duration::from_millis(1);
/// How long lists that are held are out while the adapter is pausing.
const HELD: Duration = Duration::from_millis(20);
/// What the protocol leaves in the fields that are its own.
const SCRIBBLED: *mut std::ffi::c_void = std::ptr::without_provenance_mut(0xA5A5_A5A5_A5A5_A5A5);

/// How a list was when the protocol got it. It has to be so when it goes back.
struct Lent {
    fields: Vec<usize>,
    frame: Vec<u8>,
}

#[derive(Default)]
struct Progress {
    /// Indications so far.
    indications: u64,
    /// Lists that the protocol has, by address.
    lent: BTreeMap<usize, Lent>,
    /// Calls of NdisMIndicateReceiveNetBufferLists, and of MiniportReturnNetBufferLists, that have not returned.
    indicating: usize,
    returning: usize,
    /// The thread that is in MiniportPause.
    pauses: Option<ThreadId>,
    /// MiniportPause has returned, and the adapter is pausing.
    pause_has_returned: bool,
    /// Threads that have begun an indication since.
    late: HashSet<ThreadId>,
    /// The lists of the next indications are kept until the adapter is pausing.
    holds: bool,
}

/// Lists of an adapter that the protocol has.
#[derive(Default)]
pub(crate) struct Receives {
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// Lists that go back later.
struct Kept {
    adapter: Arc<Adapter>,
    /// Each chain by itself.
    chains: Vec<Vec<usize>>,
    at_dispatch: bool,
    /// With the lists that are kept next.
    joins: bool,
    /// When the adapter is pausing.
    is_held: bool,
}

static KEPT: Mutex<VecDeque<Kept>> = Mutex::new(VecDeque::new());
static KEPT_MORE: Condvar = Condvar::new();

impl Receives {
    /// Before MiniportPause is called, by the thread that calls it.
    pub(super) fn pausing(&self) {
        let mut progress = lock(&self.progress);
        progress.pauses = Some(thread::current().id());
        progress.late.clear();
    }

    /// MiniportPause has returned.
    pub(crate) fn pause_has_returned(&self) {
        let mut progress = lock(&self.progress);
        progress.pauses = None;
        progress.pause_has_returned = true;
    }

    /// When the miniport says that it has paused (network/pausing-an-adapter).
    pub(crate) fn paused(&self) {
        let progress = lock(&self.progress);
        let (lists, calls) = (progress.lent.len(), progress.indicating);
        drop(progress);
        if lists > 0 {
            violation(&format!("MiniportPause completed with {lists} received lists outstanding"));
        }
        if calls > 0 {
            violation(&format!("MiniportPause completed with {calls} calls of {NAME} that have not returned"));
        }
    }

    /// Waits until the protocol has no list, and the miniport is in no call of this module's.
    pub(crate) fn settle(&self) {
        let mut progress = lock(&self.progress);
        progress.pause_has_returned = false;
        let is_busy = |progress: &mut Progress| !progress.lent.is_empty() || progress.returning > 0;
        let waited = self.changed.wait_timeout_while(progress, PATIENCE, is_busy);
        if waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            violation("MiniportReturnNetBufferLists has not returned");
        }
    }

    /// For tests: the lists that are indicated until the next pause are kept until then.
    pub(super) fn hold(&self) {
        lock(&self.progress).holds = true;
    }

    /// Ends that; whether any list is out.
    pub(super) fn is_holding(&self) -> bool {
        let mut progress = lock(&self.progress);
        progress.holds = false;
        !progress.lent.is_empty()
    }

    /// An indication begins. While the adapter is pausing that is right for a thread which had decided so before: it does that once, and not
    /// in MiniportPause. As of MiniportRestart it is right (ndis/nf-ndis-ndismrestartcomplete).
    fn enter(&self, state: State) {
        let mut progress = lock(&self.progress);
        progress.indicating += 1;
        let thread = thread::current().id();
        let is_right = match state {
            State::Running | State::Restarting => true,
            State::Pausing => {
                progress.pauses != Some(thread) && (!progress.pause_has_returned || progress.late.insert(thread))
            }
            _ => false,
        };
        drop(progress);
        if !is_right {
            violation(&format!("{NAME}: in state {state:?}"));
        }
    }

    fn leave(&self) {
        lock(&self.progress).indicating -= 1;
    }

    /// What becomes of the lists of an indication which may be kept.
    fn dispose(&self, adapter: &Arc<Adapter>, mut lists: Vec<usize>) {
        let mut progress = lock(&self.progress);
        let is_held = progress.holds;
        let turn = if is_held { 1 } else { progress.indications % 4 };
        progress.indications += 1;
        drop(progress);
        let keep = |chains, at_dispatch, joins| {
            keep(Kept { adapter: Arc::clone(adapter), chains, at_dispatch, joins, is_held });
        };
        match turn {
            // In the call, the last list first.
            0 => {
                lists.reverse();
                self.give_back(adapter, &lists);
            }
            // Later, as one chain, at DISPATCH_LEVEL.
            1 => {
                lists.reverse();
                keep(vec![lists], true, false);
            }
            // Each by itself, every second one in the call, the others later.
            2 => {
                let (now, later): (Vec<_>, Vec<_>) = (0..).zip(lists).partition(|(at, _)| at % 2 == 1);
                now.iter().for_each(|(_, list)| self.give_back(adapter, &[*list]));
                keep(later.iter().rev().map(|(_, list)| vec![*list]).collect(), false, false);
            }
            // Later, together with the lists of the next.
            _ => keep(vec![lists], false, true),
        }
    }

    /// Calls MiniportReturnNetBufferLists, at the level of the calling thread.
    fn give_back(&self, adapter: &Adapter, lists: &[usize]) {
        let Some(first) = lists.first() else { return };
        let Some(handler) = adapter.driver.characteristics.ReturnNetBufferListsHandler else { return };
        for (at, list) in lists.iter().enumerate() {
            self.end(*list);
            let next = lists.get(at + 1).map_or(std::ptr::null_mut(), |next| *next as *mut NET_BUFFER_LIST);
            // SAFETY: a list that is not freed: the protocol had it.
            unsafe { (*(*list as *mut NET_BUFFER_LIST)).Next = next };
        }
        // Before the call: in it the miniport may free the lists, and say that it has paused.
        let mut progress = lock(&self.progress);
        progress.returning += 1;
        lists.iter().for_each(|list| {
            progress.lent.remove(list);
            pool::give_back(*list);
        });
        drop(progress);
        let flags = if kernel::irql() == DISPATCH_LEVEL { NDIS_RETURN_FLAGS_DISPATCH_LEVEL } else { 0 };
        kernel::balanced("MiniportReturnNetBufferLists", || {
            // SAFETY: the driver's handler, called as documented.
            unsafe { handler(adapter.context(), *first as *mut NET_BUFFER_LIST, flags) };
        });
        lock(&self.progress).returning -= 1;
        self.changed.notify_all();
    }

    /// Looks whether a list that goes back is as it was.
    fn end(&self, list: usize) {
        let progress = lock(&self.progress);
        let Some(lent) = progress.lent.get(&list) else { return };
        // SAFETY: a list that is not freed: the protocol has it.
        let list = unsafe { &*(list as *const NET_BUFFER_LIST) };
        let is_same = fields_of(list) == lent.fields;
        // If the list leads elsewhere now, there may be no frame.
        let frame_is_same = !is_same || frame_of(list) == lent.frame;
        drop(progress);
        if !is_same {
            violation(&format!("{NAME}: a list was changed while the protocol had it"));
        }
        if !frame_is_same {
            violation(&format!("{NAME}: a frame was changed while the protocol had it"));
        }
    }
}

fn keep(kept: Kept) {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| drop(thread::spawn(give_back_kept)));
    if kept.chains.iter().all(Vec::is_empty) {
        return;
    }
    lock(&KEPT).push_back(kept);
    KEPT_MORE.notify_all();
}

/// The thread that returns lists. One for all adapters, and for as long as the process lives.
fn give_back_kept() {
    loop {
        let queue = KEPT_MORE.wait_while(lock(&KEPT), |queue| queue.is_empty());
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        let Some(mut kept) = queue.pop_front() else { continue };
        if kept.joins {
            let waited = KEPT_MORE.wait_timeout_while(queue, JOIN, |queue| queue.is_empty());
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            let goes_along = |next: &Kept| !next.is_held && Arc::ptr_eq(&next.adapter, &kept.adapter);
            if queue.front().is_some_and(goes_along)
                && let Some(next) = queue.pop_front()
            {
                kept.chains = joined(kept.chains, next.chains);
            }
        }
        drop(queue);
        if kept.is_held {
            kept.adapter.wait_for_pause();
            thread::sleep(HELD);
        }
        let give_back =
            || kept.chains.iter().for_each(|chain| kept.adapter.packets.receives.give_back(&kept.adapter, chain));
        if kept.at_dispatch {
            kernel::at_dispatch(give_back);
        } else {
            give_back();
        }
    }
}

/// One chain, of the lists of both in turn.
fn joined(first: Vec<Vec<usize>>, second: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let (mut first, mut second) = (first.concat().into_iter(), second.concat().into_iter());
    let mut both = vec![];
    loop {
        let pair = [second.next(), first.next()];
        if pair == [None, None] {
            return vec![both];
        }
        both.extend(pair.into_iter().flatten());
    }
}

/// What the protocol leaves as it is, and the miniport too while the protocol has the list.
fn fields_of(list: &NET_BUFFER_LIST) -> Vec<usize> {
    let mut fields = vec![
        list.Next.addr(),
        list.FirstNetBuffer.addr(),
        list.Context.addr(),
        list.ParentNetBufferList.addr(),
        list.NdisPoolHandle.addr(),
        list.SourceHandle.addr(),
        list.NblFlags as usize,
        list.Flags as usize,
        list.Status.0 as usize,
    ];
    fields.extend(list.ProtocolReserved.map(|field| field.addr()));
    fields.push(list.Scratch.addr());
    for frame in frames_of(list) {
        // SAFETY: a NET_BUFFER of the list.
        let buffer = unsafe { &*(frame as *const NET_BUFFER) };
        fields.extend([
            buffer.Next.addr(),
            buffer.CurrentMdl.addr(),
            buffer.CurrentMdlOffset as usize,
            buffer.DataLength as usize,
            buffer.MdlChain.addr(),
            buffer.DataOffset as usize,
        ]);
        // SAFETY: its chain of descriptors.
        for (mdl, at, bytes) in unsafe { pieces(buffer.CurrentMdl, buffer.CurrentMdlOffset as usize) } {
            // SAFETY: a descriptor of the chain.
            fields.extend([mdl.addr(), unsafe { (*mdl).MappedSystemVa.addr() }, at, bytes]);
        }
    }
    fields
}

/// The bytes of its frame, as far as the MDLs describe it.
fn frame_of(list: &NET_BUFFER_LIST) -> Vec<u8> {
    let mut bytes = vec![];
    // SAFETY: null, or the NET_BUFFER of the list.
    let Some(buffer) = (unsafe { list.FirstNetBuffer.as_ref() }) else { return bytes };
    // SAFETY: its chain of descriptors.
    for (mdl, at, length) in unsafe { pieces(buffer.CurrentMdl, buffer.CurrentMdlOffset as usize) } {
        // SAFETY: a descriptor of the chain.
        let mdl = unsafe { &*mdl };
        if mdl.MdlFlags & (MDL_MAPPED_TO_SYSTEM_VA | MDL_SOURCE_IS_NONPAGED_POOL) == 0 {
            return bytes;
        }
        let here = length.min(buffer.DataLength as usize - bytes.len());
        // SAFETY: the descriptor's memory is mapped, and has as many bytes from there on.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(mdl.MappedSystemVa.cast::<u8>().add(at), here) });
    }
    bytes
}

/// Looks at a list of an indication; its frame, and, if segments were joined in it, what they were.
fn check_list(
    list: &NET_BUFFER_LIST,
    handle: NDIS_HANDLE,
    longest: usize,
    offloads: Option<offload::State>,
) -> (Vec<u8>, Option<coalesced::Unit>) {
    if list.SourceHandle != handle {
        violation(&format!("{NAME}: SourceHandle is not the adapter's handle"));
    }
    if list.Status != NDIS_STATUS_SUCCESS {
        violation(&format!("{NAME}: a list with the status {}", list.Status));
    }
    let buffers = frames_of(list);
    if buffers.len() != 1 {
        violation(&format!("{NAME}: a list of {} NET_BUFFERs", buffers.len()));
    }
    let frame = frame_of(list);
    let unit = coalesced::check(list, &frame, longest, offloads);
    let longest = if unit.is_some() { coalesced::LONGEST } else { longest };
    for buffer in buffers {
        // SAFETY: a NET_BUFFER of the list.
        let length = unsafe { (*(buffer as *const NET_BUFFER)).DataLength } as usize;
        if !(HEADER..=longest).contains(&length) {
            violation(&format!("{NAME}: a frame of {length} bytes"));
        }
        if frame.len() < length {
            violation(&format!("{NAME}: a frame of {length} bytes, of which the MDLs describe {}", frame.len()));
        }
    }
    (frame, unit)
}

/// ndis/nf-ndis-ndismindicatereceivenetbufferlists: at most DISPATCH_LEVEL. With NDIS_RECEIVE_FLAGS_RESOURCES the lists are the miniport's
/// when the call returns, with all that is in them, and are not returned.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMIndicateReceiveNetBufferLists(
    handle: NDIS_HANDLE,
    first: *mut NET_BUFFER_LIST,
    port: NDIS_PORT_NUMBER,
    count: u32,
    flags: u32,
) {
    check_level(NAME, flags, NDIS_RECEIVE_FLAGS_DISPATCH_LEVEL);
    let Some(adapter) = adapter::from_handle(handle, NAME) else { return };
    if flags & !(NDIS_RECEIVE_FLAGS_DISPATCH_LEVEL | NDIS_RECEIVE_FLAGS_RESOURCES) != 0 {
        violation(&format!("{NAME}: flags {flags:#x}"));
    }
    if port != 0 {
        violation(&format!("{NAME}: port {port}"));
    }
    let receives = &adapter.packets.receives;
    receives.enter(adapter.state());
    if adapter.packets.unchecked.load(Ordering::Relaxed) {
        // SAFETY: as the caller says.
        unsafe { unchecked::indicate(&adapter, first, flags) };
        return receives.leave();
    }
    let may_keep = flags & NDIS_RECEIVE_FLAGS_RESOURCES == 0;
    let attributes = lock(&adapter.attributes);
    let (longest, offloads) = (attributes.mtu as usize + HEADER, attributes.offloads);
    drop(attributes);
    let (mut lists, tap) = (vec![], adapter.packets.tap.get());
    let mut next = first;
    while !next.is_null() {
        if let Err(problem) = pool::lend(next as usize) {
            violation(&format!("{NAME}: {problem}"));
            break;
        }
        // SAFETY: a list that is not freed, and that the protocol has now.
        let list = unsafe { &mut *next };
        lists.push(next as usize);
        let (frame, unit) = check_list(list, handle, longest, offloads);
        if let Some(unit) = &unit {
            adapter.packets.coalesced.add(unit);
        }
        if let Some(tap) = &tap {
            tap.write(&frame, unit.as_ref());
        }
        next = list.Next;
        if may_keep {
            list.Next = SCRIBBLED.cast();
            list.ProtocolReserved = [SCRIBBLED; 4];
            list.Scratch = SCRIBBLED;
        }
        lock(&receives.progress).lent.insert(lists[lists.len() - 1], Lent { fields: fields_of(list), frame });
    }
    if next.is_null() && lists.len() != count as usize {
        violation(&format!("{NAME}: {} lists, but the count is {count}", lists.len()));
    }
    if may_keep {
        receives.dispose(&adapter, lists);
    } else {
        for list in lists {
            receives.end(list);
            lock(&receives.progress).lent.remove(&list);
            pool::give_back(list);
        }
        receives.changed.notify_all();
    }
    receives.leave();
}
