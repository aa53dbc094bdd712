//! Packets: sends to the miniport, and what it receives.
//!
//! ndis/nc-ndis-miniport_send_net_buffer_lists: each list comes back once, as it was but for its status; while the adapter is paused
//! with NDIS_STATUS_PAUSED. ndis/nc-ndis-miniport_pause: what was sent before has come back when the pause has completed.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use kernel::{DISPATCH_LEVEL, PASSIVE_LEVEL, violation};
use ndk_abi::{describe::ZeroInit, ndis::*, status::*, wdm::MDL};

use crate::{
    adapter::{self, Adapter, PATIENCE, State},
    lock,
    oid::{Operation, request},
};

/// A list that the miniport has, or has had.
struct Lent {
    /// The number of pauses when it was sent.
    era: u64,
    /// The call that sent it has returned.
    returned: bool,
    /// How it came back.
    status: Option<NDIS_STATUS>,
    frames: Vec<usize>,
}

/// Sends that the miniport has, by the addresses of their lists.
#[derive(Default)]
pub(crate) struct Outstanding {
    lent: Mutex<BTreeMap<usize, Lent>>,
    changed: Condvar,
    era: AtomicU64,
    /// What did not come back in time, and may yet.
    missed: Mutex<Vec<Batch>>,
}

impl Outstanding {
    /// Before MiniportPause is called.
    pub(crate) fn pausing(&self) {
        self.era.fetch_add(1, Ordering::AcqRel);
    }

    /// Lists that were sent before the latest pause, and are still with the miniport. Those of calls in progress are left out: the
    /// miniport may know nothing of them yet.
    pub(crate) fn overdue(&self) -> usize {
        let era = self.era.load(Ordering::Acquire);
        lock(&self.lent).values().filter(|lent| lent.status.is_none() && lent.returned && lent.era < era).count()
    }
}

/// NDIS 6.85's NET_BUFFER_LIST and NET_BUFFER are this long; drivers see the fields at their beginning.
#[repr(C, align(16))]
struct List {
    head: NET_BUFFER_LIST,
    rest: [u8; 0x170 - size_of::<NET_BUFFER_LIST>()],
}

#[repr(C, align(16))]
struct Buffer {
    head: NET_BUFFER,
    rest: [u8; 0xB0 - size_of::<NET_BUFFER>()],
}

/// Shortest Ethernet frame, without its check sum, and the header of one.
const FRAME: usize = 60;
const HEADER: usize = 14;
/// Bytes before a frame in its memory, which a miniport must skip.
const BEFORE: usize = 7;
/// Frames are cut into two pieces of memory here, in their destination.
const CUT: usize = 3;

const BROADCAST: [u8; 6] = [0xFF; 6];
const MULTICAST: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];
const DIRECTED: [u8; 6] = [0x02, 0x53, 0x4F, 0x46, 0x54, 0x02];

/// A frame of `length` bytes, with an experimental Ethernet type (IEEE 802, local experimental 1).
fn frame(destination: [u8; 6], source: [u8; 6], length: usize) -> Vec<u8> {
    let header = [&destination[..], &source, &[0x88, 0xB5]].concat();
    (0..length).map(|at| header.get(at).copied().unwrap_or(at as u8)).collect()
}

/// Lists of frames, linked, and all that belongs to them.
struct Batch {
    lists: Vec<*mut List>,
    buffers: Vec<*mut Buffer>,
    mdls: Vec<*mut MDL>,
    _memory: Vec<Box<[u8]>>,
}

// SAFETY: memory that belongs to the batch, whichever thread has it.
unsafe impl Send for Batch {}

impl Batch {
    fn new(lists: &[Vec<Vec<u8>>]) -> Self {
        let mut batch = Self { lists: vec![], buffers: vec![], mdls: vec![], _memory: vec![] };
        for frames in lists {
            let mut first: *mut NET_BUFFER = std::ptr::null_mut();
            for frame in frames.iter().rev() {
                first = batch.buffer(frame, first);
            }
            batch.lists.push(Box::into_raw(Box::new(List {
                // A status that says whether the miniport has set another.
                head: NET_BUFFER_LIST { FirstNetBuffer: first, Status: NDIS_STATUS_PENDING, ..NET_BUFFER_LIST::ZERO },
                rest: [0; _],
            })));
        }
        for pair in batch.lists.windows(2) {
            // SAFETY: two lists just made.
            unsafe { (*pair[0]).head.Next = pair[1].cast() };
        }
        batch
    }

    /// A NET_BUFFER for the bytes of a frame, in two pieces where it is long enough.
    fn buffer(&mut self, frame: &[u8], next: *mut NET_BUFFER) -> *mut NET_BUFFER {
        let (head, tail) = frame.split_at(CUT.min(frame.len()));
        let mut following = std::ptr::null_mut();
        for (bytes, before) in [(tail, 0), (head, BEFORE)] {
            if bytes.is_empty() {
                continue;
            }
            let mut memory = [&[0xEE].repeat(before)[..], bytes].concat().into_boxed_slice();
            let length = memory.len() as u32;
            // SAFETY: the memory outlives its descriptor.
            let mdl = unsafe { IoAllocateMdl(memory.as_mut_ptr().cast(), length, 0, 0, std::ptr::null_mut()) };
            // SAFETY: a new descriptor of this process's memory.
            unsafe {
                MmBuildMdlForNonPagedPool(mdl);
                (*mdl).Next = following;
            }
            following = mdl;
            self.mdls.push(mdl);
            self._memory.push(memory);
        }
        let head = NET_BUFFER {
            Next: next,
            CurrentMdl: following,
            MdlChain: following,
            CurrentMdlOffset: BEFORE as u32,
            DataOffset: BEFORE as u32,
            DataLength: frame.len() as u32,
            ..NET_BUFFER::ZERO
        };
        let buffer = Box::into_raw(Box::new(Buffer { head, rest: [0; _] }));
        self.buffers.push(buffer);
        buffer.cast()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: the miniport has given all of it back; each was allocated here.
        unsafe {
            self.lists.iter().for_each(|list| drop(Box::from_raw(*list)));
            self.buffers.iter().for_each(|buffer| drop(Box::from_raw(*buffer)));
            self.mdls.iter().for_each(|mdl| IoFreeMdl(*mdl));
        }
    }
}

fn frames_of(list: &NET_BUFFER_LIST) -> Vec<usize> {
    let mut frames = vec![];
    let mut next = list.FirstNetBuffer;
    while !next.is_null() {
        frames.push(next as usize);
        // SAFETY: a chain of this module's, which drivers leave as it is.
        next = unsafe { (*next).Next };
    }
    frames
}

/// Hands lists to the miniport.
fn begin(adapter: &Adapter, batch: &Batch, at_dispatch: bool) {
    let Some(handler) = adapter.driver.characteristics.SendNetBufferListsHandler else { return };
    let Some(first) = batch.lists.first() else { return };
    let era = adapter.packets.era.load(Ordering::Acquire);
    let mut lent = lock(&adapter.packets.lent);
    for list in &batch.lists {
        // SAFETY: a list of the batch, still here.
        let frames = frames_of(unsafe { &(**list).head });
        lent.insert(*list as usize, Lent { era, returned: false, status: None, frames });
    }
    drop(lent);
    let flags = if at_dispatch { NDIS_SEND_FLAGS_DISPATCH_LEVEL } else { 0 };
    // SAFETY: the driver's handler, called as documented; the lists are the driver's until they are completed.
    let call = || unsafe { handler(adapter.context(), first.cast(), 0, flags) };
    if at_dispatch {
        kernel::at_dispatch(|| kernel::balanced("MiniportSendNetBufferLists", call));
    } else {
        kernel::balanced("MiniportSendNetBufferLists", call);
    }
    let mut lent = lock(&adapter.packets.lent);
    for list in &batch.lists {
        if let Some(lent) = lent.get_mut(&(*list as usize)) {
            lent.returned = true;
        }
    }
}

/// Waits for the lists of a batch; what they came back with. None: that took too long.
fn finish(adapter: &Adapter, batch: Batch) -> Option<Vec<NDIS_STATUS>> {
    let packets = &adapter.packets;
    let start = Instant::now();
    let mut lent = lock(&packets.lent);
    let status =
        |lent: &BTreeMap<usize, Lent>, list: &*mut List| lent.get(&(*list as usize)).and_then(|lent| lent.status);
    while batch.lists.iter().any(|list| status(&lent, list).is_none()) {
        let left = PATIENCE.saturating_sub(start.elapsed());
        if left.is_zero() {
            drop(lent);
            // devtest/ndis-wifi-verification, rule NdisTimedDataSend.
            violation("a send was not completed within 12 s");
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

/// OID_GEN_STATISTICS.
fn statistics(adapter: &Adapter) -> Option<NDIS_STATISTICS_INFO> {
    let answer = request(adapter, Operation::Query, false, OID_GEN_STATISTICS, &[0; 0x98]);
    let read = || {
        // SAFETY: the answer has as many bytes, and the structure is of numbers.
        unsafe { answer.data.as_ptr().cast::<NDIS_STATISTICS_INFO>().read_unaligned() }
    };
    (answer.status.is_success() && answer.transferred == 0x98).then(read)
}

/// Frames of all kinds, alone and in chains, at both levels; those of a wrong length; cancels. What OID_GEN_STATISTICS says that it
/// counts has to be counted.
pub(crate) fn check(adapter: &Arc<Adapter>) {
    let (source, mtu) = {
        let attributes = lock(&adapter.attributes);
        (attributes.mac_address, attributes.mtu as usize)
    };
    let whole = |destination, length| frame(destination, source, length);
    let before = statistics(adapter);
    for at_dispatch in [false, true] {
        let batches = [
            vec![vec![whole(BROADCAST, FRAME)]],
            vec![
                vec![whole(DIRECTED, FRAME), whole(MULTICAST, 777)],
                vec![whole(MULTICAST, mtu + HEADER)],
                vec![whole(BROADCAST, FRAME), whole(DIRECTED, HEADER), whole(DIRECTED, 1000)],
            ],
        ];
        for lists in batches {
            let Some(statuses) = send(adapter, Batch::new(&lists), at_dispatch) else { return };
            if !statuses.iter().all(|status| status.is_success()) {
                violation(&format!("sends to a running adapter were completed with {statuses:?}"));
            }
        }
        cancel(adapter, at_dispatch);
    }
    let after = statistics(adapter);
    if let (Some(before), Some(after)) = (&before, &after) {
        // Twice: at either level.
        let multicast = (2 * 2, 2 * (777 + mtu + HEADER));
        let sent = [
            ("directed", (3 * 2, 2 * (FRAME + HEADER + 1000))),
            ("multicast", multicast),
            ("broadcast", (2 * 2, 2 * 2 * FRAME)),
        ];
        check_statistics(before, after, sent);
    }
    for wrong in [HEADER - 1, mtu + HEADER + 1] {
        let lists = [vec![whole(DIRECTED, FRAME)], vec![whole(DIRECTED, wrong)]];
        let Some(statuses) = send(adapter, Batch::new(&lists), false) else { return };
        let counts_errors =
            after.as_ref().is_some_and(|a| a.SupportedStatistics & NDIS_STATISTICS_FLAGS_VALID_XMIT_ERROR != 0);
        if counts_errors && (!statuses[0].is_success() || statuses[1].is_success()) {
            violation(&format!("a frame, and one of {wrong} bytes, were completed with {statuses:?}"));
        }
    }
    if let (Some(before), Some(after)) = (after, statistics(adapter))
        && after.SupportedStatistics & NDIS_STATISTICS_FLAGS_VALID_XMIT_ERROR != 0
        && after.ifOutErrors - before.ifOutErrors != 2
    {
        violation("OID_GEN_STATISTICS: two frames of a wrong length are not two errors");
    }
}

/// What was sent, by destination, with frames and bytes, has to be in the statistics that say that they have it.
fn check_statistics(before: &NDIS_STATISTICS_INFO, after: &NDIS_STATISTICS_INFO, sent: [(&str, (usize, usize)); 3]) {
    type Place = fn(&NDIS_STATISTICS_INFO) -> u64;
    let places: [(u32, Place, u32, Place); 3] = [
        (
            NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_XMIT,
            |s| s.ifHCOutUcastPkts,
            NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_XMIT,
            |s| s.ifHCOutUcastOctets,
        ),
        (
            NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_XMIT,
            |s| s.ifHCOutMulticastPkts,
            NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_XMIT,
            |s| s.ifHCOutMulticastOctets,
        ),
        (
            NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_XMIT,
            |s| s.ifHCOutBroadcastPkts,
            NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_XMIT,
            |s| s.ifHCOutBroadcastOctets,
        ),
    ];
    let check = |what: &str, flag: u32, place: Place, expected: usize| {
        let counted = place(after).wrapping_sub(place(before));
        if after.SupportedStatistics & flag != 0 && counted != expected as u64 {
            violation(&format!("OID_GEN_STATISTICS: {expected} {what} were sent, {counted} are counted"));
        }
    };
    let mut all = 0;
    for ((what, (frames, octets)), (frames_flag, frames_at, octets_flag, octets_at)) in sent.into_iter().zip(places) {
        check(&format!("{what} frames"), frames_flag, frames_at, frames);
        check(&format!("bytes in {what} frames"), octets_flag, octets_at, octets);
        all += octets;
    }
    check("bytes", NDIS_STATISTICS_FLAGS_VALID_BYTES_XMIT, |s| s.ifHCOutOctets, all);
}

/// ndis/nc-ndis-miniport_cancel_send: at most DISPATCH_LEVEL, for an identifier that may be of nothing that is sent.
fn cancel(adapter: &Adapter, at_dispatch: bool) {
    let Some(handler) = adapter.driver.characteristics.CancelSendHandler else { return };
    // SAFETY: the driver's handler, called as documented.
    let call = || unsafe { handler(adapter.context(), std::ptr::without_provenance_mut(0x5EED)) };
    if at_dispatch {
        kernel::at_dispatch(|| kernel::balanced("MiniportCancelSend", call));
    } else {
        kernel::balanced("MiniportCancelSend", call);
    }
}

/// Pauses and restarts a running adapter while threads send at both levels, and sends while it is paused.
pub(crate) fn check_pauses(adapter: &Arc<Adapter>) {
    const PAUSES: usize = 20;
    let source = lock(&adapter.attributes).mac_address;
    let lists = || {
        vec![
            vec![frame(BROADCAST, source, FRAME), frame(DIRECTED, source, FRAME)],
            vec![frame(MULTICAST, source, FRAME)],
        ]
    };
    let over = AtomicBool::new(false);
    SLOW.store(true, Ordering::Release);
    std::thread::scope(|scope| {
        for at_dispatch in [false, false, true] {
            let (over, lists) = (&over, &lists);
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) && send(adapter, Batch::new(&lists()), at_dispatch).is_some() {}
            });
        }
        for _ in 0..PAUSES {
            adapter.pause();
            send(adapter, Batch::new(&lists()), false);
            adapter.restart();
        }
        over.store(true, Ordering::Release);
    });
    SLOW.store(false, Ordering::Release);
}

/// Whether a miniport that looks at a frame at PASSIVE_LEVEL is delayed there, so that pauses come while it sends.
static SLOW: AtomicBool = AtomicBool::new(false);

/// For tests: pauses with a send under way, for which the pause has to wait, and restarts.
pub(crate) fn pause_with_send(adapter: &Arc<Adapter>) {
    let source = lock(&adapter.attributes).mac_address;
    let batch = Batch::new(&[vec![frame(BROADCAST, source, FRAME)]]);
    begin(adapter, &batch, false);
    adapter.pause();
    adapter.restart();
    finish(adapter, batch);
}

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn IoAllocateMdl(address: *mut c_void, length: u32, secondary: u8, quota: u8, irp: *mut c_void) -> *mut MDL;
    fn MmBuildMdlForNonPagedPool(mdl: *mut MDL);
    fn IoFreeMdl(mdl: *mut MDL);
}

/// A flag that says DISPATCH_LEVEL is for that level only.
fn check_level(function: &str, flags: u32, flag: u32) {
    kernel::at_most(DISPATCH_LEVEL, function);
    if flags & flag != 0 && kernel::irql() != DISPATCH_LEVEL {
        violation(&format!("{function}: the flags say DISPATCH_LEVEL, which it is not"));
    }
}

/// ndis/nf-ndis-ndismsendnetbufferlistscomplete: at most DISPATCH_LEVEL; the flag says at that level exactly.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMSendNetBufferListsComplete(handle: NDIS_HANDLE, list: *mut NET_BUFFER_LIST, flags: u32) {
    const NAME: &str = "NdisMSendNetBufferListsComplete";
    check_level(NAME, flags, NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL);
    let Some(adapter) = adapter::from_handle(handle, NAME) else { return };
    let mut lent = lock(&adapter.packets.lent);
    let mut next = list;
    while !next.is_null() {
        let Some(of_list) = lent.get_mut(&(next as usize)) else {
            violation(&format!("{NAME}: a list that the miniport does not have"));
            break;
        };
        if of_list.status.is_some() {
            violation(&format!("{NAME}: a list that was completed already"));
            break;
        }
        // SAFETY: one of this module's lists, which is still there.
        let list = unsafe { &*next };
        if list.Status == NDIS_STATUS_PENDING {
            violation(&format!("{NAME}: a list without a status"));
        }
        if adapter.state() == State::Paused && list.Status != NDIS_STATUS_PAUSED {
            violation(&format!(
                "{NAME}: a send that ended with {} after the pause, which had to wait for it",
                list.Status
            ));
        }
        if frames_of(list) != of_list.frames {
            violation(&format!("{NAME}: the NET_BUFFERs of a list were changed"));
        }
        of_list.status = Some(list.Status);
        next = list.Next;
    }
    drop(lent);
    adapter.packets.changed.notify_all();
}

/// ndis/nf-ndis-ndisgetdatabuffer: at most DISPATCH_LEVEL. The bytes in place if they are in one piece, else a copy of them.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisGetDataBuffer(
    buffer: *mut NET_BUFFER,
    needed: u32,
    storage: *mut u8,
    align_multiple: u32,
    _align_offset: u32,
) -> *mut u8 {
    kernel::at_most(DISPATCH_LEVEL, "NdisGetDataBuffer");
    if SLOW.load(Ordering::Acquire) && kernel::irql() == PASSIVE_LEVEL {
        std::thread::sleep(Duration::from_millis(1));
    }
    if align_multiple != 1 {
        violation("NdisGetDataBuffer: the stand-in has no alignment but 1");
    }
    // SAFETY: the caller gives a frame.
    let buffer = unsafe { &*buffer };
    let needed = needed as usize;
    if needed == 0 || needed > buffer.DataLength as usize {
        return std::ptr::null_mut();
    }
    let (mut mdl, mut offset, mut copied) = (buffer.CurrentMdl, buffer.CurrentMdlOffset as usize, 0);
    // SAFETY: a chain of descriptors of memory that is there, and storage of as many bytes as are needed.
    unsafe {
        while copied < needed && !mdl.is_null() {
            let from = (*mdl).MappedSystemVa.cast::<u8>().add(offset);
            let here = ((*mdl).ByteCount as usize - offset).min(needed - copied);
            if here == needed {
                return from;
            }
            if storage.is_null() {
                return std::ptr::null_mut();
            }
            storage.add(copied).copy_from(from, here);
            copied += here;
            (mdl, offset) = ((*mdl).Next, 0);
        }
    }
    if copied == needed { storage } else { std::ptr::null_mut() }
}

/// ndis/nf-ndis-ndismindicatereceivenetbufferlists: at most DISPATCH_LEVEL, while running. There is no protocol: lists that may be
/// kept are returned at once.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMIndicateReceiveNetBufferLists(
    handle: NDIS_HANDLE,
    list: *mut NET_BUFFER_LIST,
    _port: NDIS_PORT_NUMBER,
    count: u32,
    flags: u32,
) {
    const NAME: &str = "NdisMIndicateReceiveNetBufferLists";
    const DISPATCH: u32 = 1;
    const RESOURCES: u32 = 2;
    check_level(NAME, flags, DISPATCH);
    let Some(adapter) = adapter::from_handle(handle, NAME) else { return };
    if adapter.state() != State::Running {
        violation(&format!("{NAME}: in state {:?}", adapter.state()));
    }
    let longest = lock(&adapter.attributes).mtu as usize + HEADER;
    let mut found = 0;
    let mut next = list;
    while !next.is_null() && found <= count {
        // SAFETY: the driver gives a chain of lists.
        let item = unsafe { &*next };
        if item.SourceHandle != handle {
            violation(&format!("{NAME}: SourceHandle is not the adapter's handle"));
        }
        let frames = frames_of(item);
        if frames.len() != 1 {
            violation(&format!("{NAME}: a list of other than one NET_BUFFER"));
        }
        for frame in frames {
            // SAFETY: a frame of the list.
            let length = unsafe { (*(frame as *const NET_BUFFER)).DataLength } as usize;
            if !(HEADER..=longest).contains(&length) {
                violation(&format!("{NAME}: a frame of {length} bytes"));
            }
        }
        found += 1;
        next = item.Next;
    }
    if found != count {
        violation(&format!("{NAME}: {found} lists, but the count is {count}"));
    }
    if flags & RESOURCES == 0
        && let Some(handler) = adapter.driver.characteristics.ReturnNetBufferListsHandler
    {
        let flags = u32::from(kernel::irql() == DISPATCH_LEVEL);
        // SAFETY: the driver's handler, called as documented.
        kernel::balanced("MiniportReturnNetBufferLists", || unsafe { handler(adapter.context(), list, flags) });
    }
}
