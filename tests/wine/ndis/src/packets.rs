//! Packets: sends to the miniport and what it receives.

use std::{
    ffi::c_void,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use kernel::{DISPATCH_LEVEL, violation};
use ndk_abi::{describe::ZeroInit, ndis::*, status::*, wdm::MDL};

use crate::{
    adapter::{self, Adapter, PATIENCE, State},
    lock,
};

/// Sends that the miniport has.
#[derive(Default)]
pub(crate) struct Outstanding {
    sends: AtomicU32,
    /// Status of each list that came back.
    returned: Mutex<Vec<NDIS_STATUS>>,
    changed: Condvar,
}

impl Outstanding {
    pub(crate) fn sends(&self) -> u32 {
        self.sends.load(Ordering::Acquire)
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

/// Shortest Ethernet frame, without its check sum.
const FRAME: usize = 60;

/// Sends a broadcast frame, once at PASSIVE_LEVEL and once at DISPATCH_LEVEL, and waits for it to come back
/// (ndis/nc-ndis-miniport_send_net_buffer_lists: every list is completed, with a status).
pub(crate) fn check(adapter: &Arc<Adapter>) {
    let source = lock(&adapter.attributes).mac_address;
    for at_dispatch in [false, true] {
        let mut frame = vec![0_u8; FRAME];
        frame[..6].fill(0xFF);
        frame[6..12].copy_from_slice(&source);
        // An experimental Ethernet type (IEEE 802, local experimental 1).
        frame[12..14].copy_from_slice(&[0x88, 0xB5]);
        let Some(status) = send(adapter, &mut frame, at_dispatch) else {
            violation("a send was not completed within 12 s");
            return; // What was lent to the miniport stays lent.
        };
        if !status.is_success() {
            violation(&format!("a send to a running adapter was completed with {status}"));
        }
    }
}

fn send(adapter: &Adapter, frame: &mut [u8], at_dispatch: bool) -> Option<NDIS_STATUS> {
    let handler = adapter.driver.characteristics.SendNetBufferListsHandler?;
    // SAFETY: the frame outlives its descriptor.
    let mdl = unsafe { IoAllocateMdl(frame.as_mut_ptr().cast(), frame.len() as u32, 0, 0, std::ptr::null_mut()) };
    // SAFETY: a new descriptor of this process's memory.
    unsafe { MmBuildMdlForNonPagedPool(mdl) };
    let length = frame.len() as u32;
    let buffer = Box::leak(Box::new(Buffer {
        head: NET_BUFFER { CurrentMdl: mdl, MdlChain: mdl, DataLength: length, ..NET_BUFFER::ZERO },
        rest: [0; _],
    }));
    let list = Box::leak(Box::new(List {
        head: NET_BUFFER_LIST { FirstNetBuffer: &raw mut buffer.head, ..NET_BUFFER_LIST::ZERO },
        rest: [0; _],
    }));
    let (list_pointer, buffer_pointer) = (&raw mut *list, &raw mut *buffer);
    adapter.packets.sends.fetch_add(1, Ordering::AcqRel);
    let flags = if at_dispatch { NDIS_SEND_FLAGS_DISPATCH_LEVEL } else { 0 };
    // SAFETY: the driver's handler, called as documented; the list is the driver's until it is completed.
    let call = || unsafe { handler(adapter.context(), list_pointer.cast(), 0, flags) };
    if at_dispatch {
        kernel::at_dispatch(|| kernel::balanced("MiniportSendNetBufferLists", call));
    } else {
        kernel::balanced("MiniportSendNetBufferLists", call);
    }
    let start = Instant::now();
    let mut returned = lock(&adapter.packets.returned);
    let status = loop {
        if let Some(status) = returned.pop() {
            break status;
        }
        let left = PATIENCE.saturating_sub(start.elapsed());
        if left.is_zero() {
            return None;
        }
        returned = adapter.packets.changed.wait_timeout(returned, left).unwrap_or_else(PoisonError::into_inner).0;
    };
    // SAFETY: completed, so the driver has no more to do with any of them; each was allocated above.
    unsafe {
        drop(Box::from_raw(list_pointer));
        drop(Box::from_raw(buffer_pointer));
        IoFreeMdl(mdl);
    }
    Some(status)
}

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn IoAllocateMdl(address: *mut c_void, length: u32, secondary: u8, quota: u8, irp: *mut c_void) -> *mut MDL;
    fn MmBuildMdlForNonPagedPool(mdl: *mut MDL);
    fn IoFreeMdl(mdl: *mut MDL);
}

/// ndis/nf-ndis-ndismsendnetbufferlistscomplete: at most DISPATCH_LEVEL; the flag says at that level exactly.
#[unsafe(no_mangle)]
unsafe extern "system" fn NdisMSendNetBufferListsComplete(handle: NDIS_HANDLE, list: *mut NET_BUFFER_LIST, flags: u32) {
    const NAME: &str = "NdisMSendNetBufferListsComplete";
    kernel::at_most(DISPATCH_LEVEL, NAME);
    if flags & NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL != 0 && kernel::irql() != DISPATCH_LEVEL {
        violation(&format!("{NAME}: the flags say DISPATCH_LEVEL, which it is not"));
    }
    let Some(adapter) = adapter::from_handle(handle, NAME) else { return };
    let mut next = list;
    while !next.is_null() {
        // SAFETY: the driver gives back lists that it was given.
        let list = unsafe { &*next };
        let (status, following) = (list.Status, list.Next);
        if adapter.packets.sends.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_err() {
            violation(&format!("{NAME}: more lists than were sent"));
            return;
        }
        lock(&adapter.packets.returned).push(status);
        next = following;
    }
    adapter.packets.changed.notify_all();
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
    const RESOURCES: u32 = 2;
    kernel::at_most(DISPATCH_LEVEL, NAME);
    let Some(adapter) = adapter::from_handle(handle, NAME) else { return };
    if adapter.state() != State::Running {
        violation(&format!("{NAME}: in state {:?}", adapter.state()));
    }
    let mut found = 0;
    let mut next = list;
    while !next.is_null() && found <= count {
        // SAFETY: the driver gives a chain of lists.
        let item = unsafe { &*next };
        if item.SourceHandle != handle {
            violation(&format!("{NAME}: SourceHandle is not the adapter's handle"));
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
