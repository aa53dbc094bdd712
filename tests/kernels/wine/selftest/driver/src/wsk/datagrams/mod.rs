//! Datagram sockets, and a client that looks at what it receives.

pub(crate) mod checks;
pub(crate) mod planted;

use core::{
    ptr::{null, null_mut},
    sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering},
};

use ndk_abi::{describe::ZeroInit, sockaddr::SOCKADDR_INET, status::NTSTATUS, wsk::*};

use super::*;
use crate::checks::{Storage, irql, sleep};

/// What lies in the memory that is sent from, at this offset.
fn byte_at(offset: usize) -> u8 {
    (offset % 251) as u8
}

/// The bytes of the datagram with this number: their offset in the memory that is sent from, and their count.
fn place(number: u32) -> (usize, usize) {
    const LENGTHS: [usize; 5] = [1, 1000, 9000, 0, 20];
    (number as usize % 100, LENGTHS[number as usize % LENGTHS.len()])
}

/// What went wrong in a callback.
const WRONG_LEVEL: u32 = 1;
const WRONG_ADDRESS: u32 = 2;
const WRONG_BYTES: u32 = 4;
const NO_LIST: u32 = 8;
/// What was seen in one.
const AT_PASSIVE: u32 = 1;
const AT_DISPATCH: u32 = 2;
const SAID_DISPATCH: u32 = 4;
const SEVERAL: u32 = 8;
const OFFSET: u32 = 0x10;
const CHAIN: u32 = 0x20;
const ALL_SEEN: u32 = 0x3F;

const LISTS: usize = 64;

/// A socket's context: what its callback does, and what it has received.
pub(crate) struct Inbox {
    /// What the callback returns.
    answer: AtomicI32,
    /// What the callback does besides.
    deed: AtomicPtr<c_void>,
    /// The datagrams that have come, each the next of its numbers.
    came: AtomicU32,
    /// Calls of the callback.
    calls: AtomicU32,
    wrong: AtomicU32,
    seen: AtomicU32,
    /// The lists that have come.
    lists: [AtomicPtr<WSK_DATAGRAM_INDICATION>; LISTS],
    /// Where they come from.
    peer: Storage<SOCKADDR_INET>,
}

/// What a callback does with a list before it returns.
type Deed = unsafe fn(*mut WSK_DATAGRAM_INDICATION);

pub(crate) static INBOXES: [Inbox; 2] = [const { Inbox::new() }; 2];

static EVENTS: Constant<WSK_CLIENT_DATAGRAM_DISPATCH> =
    Constant(WSK_CLIENT_DATAGRAM_DISPATCH { WskReceiveFromEvent: Some(received) });

impl Inbox {
    const fn new() -> Self {
        Self {
            answer: AtomicI32::new(SUCCESS),
            deed: AtomicPtr::new(null_mut()),
            came: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            wrong: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            lists: [const { AtomicPtr::new(null_mut()) }; LISTS],
            peer: Storage::new(),
        }
    }

    /// Begins anew, for a socket that receives from this address, with a callback that returns this.
    fn begin(&self, peer: SOCKADDR_INET, answer: i32) {
        for counter in [&self.came, &self.calls, &self.wrong, &self.seen] {
            counter.store(0, Ordering::Relaxed);
        }
        self.answer.store(answer, Ordering::Relaxed);
        self.deed.store(null_mut(), Ordering::Relaxed);
        // SAFETY: no callback is enabled.
        unsafe { self.peer.get().write(peer) };
    }

    /// Has the callback do something besides.
    fn does(&self, deed: Deed) {
        self.deed.store(deed as *mut c_void, Ordering::Relaxed);
    }

    fn note(&self, wrong: u32) {
        self.wrong.fetch_or(wrong, Ordering::Relaxed);
    }

    /// Waits until this number of datagrams has come. False: it does not.
    fn wait(&self, count: u32) -> bool {
        self.wait_for(&self.came, count)
    }

    fn wait_for(&self, counter: &AtomicU32, count: u32) -> bool {
        (0..10_000).any(|_| {
            let enough = counter.load(Ordering::Acquire) >= count;
            if !enough {
                sleep(1);
            }
            enough
        })
    }

    /// The list of the callback with this number.
    fn list(&self, number: usize) -> *mut WSK_DATAGRAM_INDICATION {
        self.lists[number].load(Ordering::Relaxed)
    }

    /// Compares the datagrams of a list with what was sent by this number and the next ones, and counts them.
    unsafe fn compare(&self, mut list: *mut WSK_DATAGRAM_INDICATION, first: u32) -> u32 {
        let mut number = first;
        // SAFETY: indications that the client has.
        while let Some(indication) = unsafe { list.as_ref() } {
            // SAFETY: as above; the peer was written before.
            unsafe {
                let peer = self.peer.get().read();
                let length =
                    if peer.si_family() == ndk_abi::sockaddr::AF_INET { 8 } else { size_of::<SOCKADDR_INET>() };
                let from = indication.RemoteAddress.cast::<u8>();
                let is_peer = (0..length).all(|at| *from.add(at) == *(&raw const peer).cast::<u8>().add(at));
                if !is_peer || indication.ControlInfoLength != 0 {
                    self.note(WRONG_ADDRESS);
                }
                if !self.has_bytes(&indication.Buffer, number) {
                    self.note(WRONG_BYTES);
                }
            }
            number += 1;
            list = indication.Next;
        }
        number - first
    }

    /// Whether a buffer has the bytes of the datagram with this number.
    unsafe fn has_bytes(&self, buffer: &WSK_BUF, number: u32) -> bool {
        let (start, length) = place(number);
        let (mut mdl, mut offset, mut at) = (buffer.Mdl, buffer.Offset as usize, 0);
        if offset > 0 {
            self.seen.fetch_or(OFFSET, Ordering::Relaxed);
        }
        while at < length.min(buffer.Length) {
            // SAFETY: a chain of MDLs that the system can read.
            let Some(part) = (unsafe { mdl.as_ref() }) else { break };
            let count = (part.ByteCount as usize - offset).min(length - at);
            let bytes = part.MappedSystemVa.cast::<u8>().wrapping_add(offset);
            // SAFETY: as above.
            if !(0..count).all(|index| unsafe { *bytes.add(index) } == byte_at(start + at + index)) {
                return false;
            }
            if at > 0 {
                self.seen.fetch_or(CHAIN, Ordering::Relaxed);
            }
            at += count;
            offset = 0;
            mdl = part.Next;
        }
        at == length && buffer.Length == length
    }
}

/// WskReceiveFromEvent.
unsafe extern "system" fn received(context: *mut c_void, flags: u32, list: *mut WSK_DATAGRAM_INDICATION) -> NTSTATUS {
    // SAFETY: the context that was given with the socket.
    let inbox = unsafe { &*context.cast::<Inbox>() };
    let says_dispatch = flags & WSK_FLAG_AT_DISPATCH_LEVEL != 0;
    let seen = match irql() {
        0 if !says_dispatch => AT_PASSIVE,
        2 if says_dispatch => SAID_DISPATCH,
        2 => AT_DISPATCH,
        _ => {
            inbox.note(WRONG_LEVEL);
            0
        }
    };
    if list.is_null() {
        inbox.note(NO_LIST);
        return NTSTATUS(SUCCESS);
    }
    // SAFETY: a list that the client has for now.
    let several = if unsafe { (*list).Next }.is_null() { 0 } else { SEVERAL };
    inbox.seen.fetch_or(seen | several, Ordering::Relaxed);
    let number = inbox.calls.load(Ordering::Relaxed) as usize;
    if let Some(place) = inbox.lists.get(number) {
        place.store(list, Ordering::Relaxed);
    }
    // SAFETY: as above.
    let count = unsafe { inbox.compare(list, inbox.came.load(Ordering::Relaxed)) };
    let answer = inbox.answer.load(Ordering::Relaxed);
    let deed = inbox.deed.load(Ordering::Relaxed);
    if !deed.is_null() {
        // SAFETY: stored by `does`.
        unsafe { core::mem::transmute::<*mut c_void, Deed>(deed)(list) };
    }
    if answer != ndk_abi::status::STATUS_DATA_NOT_ACCEPTED.0 {
        inbox.came.fetch_add(count, Ordering::Release);
    }
    inbox.calls.fetch_add(1, Ordering::Release);
    NTSTATUS(answer)
}

impl Client {
    /// A datagram socket with this inbox, or without callbacks.
    unsafe fn datagram_socket(&self, family: u16, inbox: Option<&'static Inbox>) -> *mut WSK_SOCKET {
        let what = (SOCK_DGRAM, IPPROTO_UDP, WSK_FLAG_DATAGRAM_SOCKET);
        let (context, dispatch) = inbox.map_or((null_mut(), null()), |inbox| {
            let events: *const c_void = (&raw const EVENTS.0).cast();
            ((&raw const *inbox).cast_mut().cast::<c_void>(), events)
        });
        // SAFETY: a variable of the kernel that does not change; static tables and contexts.
        unsafe { self.make(PsInitialSystemProcess, family, what, context, dispatch).1 }
    }
}

unsafe fn datagram(socket: *mut WSK_SOCKET) -> &'static WSK_PROVIDER_DATAGRAM_DISPATCH {
    // SAFETY: a socket whose table outlives it.
    unsafe { &*(*socket).Dispatch.cast() }
}

unsafe fn address_of_datagram(socket: *mut WSK_SOCKET) -> SOCKADDR_INET {
    let mut address = SOCKADDR_INET::ZERO;
    // SAFETY: a datagram socket.
    unsafe {
        wait(|irp| {
            if let Some(ask) = datagram(socket).WskGetLocalAddress {
                ask(socket, (&raw mut address).cast(), irp);
            }
        });
    }
    address
}

/// Enables the callback.
unsafe fn enable(socket: *mut WSK_SOCKET) -> i32 {
    let control = WSK_EVENT_CALLBACK_CONTROL { NpiId: &NPI_WSK_INTERFACE_ID, EventMask: WSK_EVENT_RECEIVE_FROM };
    // SAFETY: a datagram socket.
    unsafe { enable_by(socket, control, size_of::<WSK_EVENT_CALLBACK_CONTROL>(), null_mut()) }
}

/// Enables callbacks by this input of this size.
unsafe fn enable_by(
    socket: *mut WSK_SOCKET,
    mut control: WSK_EVENT_CALLBACK_CONTROL,
    size: usize,
    irp: *mut c_void,
) -> i32 {
    let input = (&raw mut control).cast();
    // SAFETY: a datagram socket.
    unsafe {
        datagram(socket).WskControlSocket.map_or(NEVER, |function| {
            function(
                socket,
                WSK_SET_OPTION,
                SO_WSK_EVENT_CALLBACK,
                SOL_SOCKET,
                size,
                input,
                0,
                null_mut(),
                null_mut(),
                irp,
            )
            .0
        })
    }
}

/// Begins to send datagrams: what the call returns.
unsafe fn start_send<const COUNT: usize>(
    request: *mut Request,
    socket: *mut WSK_SOCKET,
    datagrams: [WSK_BUF; COUNT],
    to: SOCKADDR_INET,
) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { start_send_with(request, socket, datagrams, to, &mut []) }
}

/// The same, with control information.
unsafe fn start_send_with<const COUNT: usize>(
    request: *mut Request,
    socket: *mut WSK_SOCKET,
    datagrams: [WSK_BUF; COUNT],
    mut to: SOCKADDR_INET,
    control: &mut [u32],
) -> i32 {
    let information = if control.is_empty() { null_mut() } else { control.as_mut_ptr().cast() };
    let size = size_of_val(control) as u32;
    let mut lists = datagrams.map(|buffer| WSK_BUF_LIST { Next: null_mut(), Buffer: buffer });
    let mut first = null_mut();
    for list in lists.iter_mut().rev() {
        list.Next = first;
        first = list;
    }
    let mut returned = NEVER;
    // SAFETY: a datagram socket, bytes that live.
    unsafe {
        Request::start(request, |irp| {
            if let Some(send) = datagram(socket).WskSendMessages {
                returned = send(socket, first, 0, (&raw mut to).cast(), size, information, irp).0;
            }
        });
    }
    returned
}

unsafe fn send<const COUNT: usize>(
    socket: *mut WSK_SOCKET,
    datagrams: [WSK_BUF; COUNT],
    to: SOCKADDR_INET,
) -> (i32, usize) {
    let mut request = Request::new();
    let request = &raw mut request;
    // SAFETY: it does not move before it has ended.
    unsafe {
        start_send(request, socket, datagrams, to);
        Request::end(request)
    }
}

unsafe fn release(socket: *mut WSK_SOCKET, list: *mut WSK_DATAGRAM_INDICATION) -> i32 {
    // SAFETY: a datagram socket.
    unsafe { datagram(socket).WskRelease.map_or(NEVER, |release| release(socket, list).0) }
}

/// The socket of [`release_it`].
static SOCKET: AtomicPtr<WSK_SOCKET> = AtomicPtr::new(null_mut());

/// Releases a list within its callback.
unsafe fn release_it(list: *mut WSK_DATAGRAM_INDICATION) {
    // SAFETY: the socket that the list comes from.
    unsafe { release(SOCKET.load(Ordering::Relaxed), list) };
}
