//! Datagrams that have come: the thread of datagram sockets calls the client's WskReceiveFromEvent with them.
//!
//! A callback gets up to 16 of those that have come, at either IRQL. WSK_FLAG_AT_DISPATCH_LEVEL means DISPATCH_LEVEL, but without the flag the
//! client may be at DISPATCH_LEVEL as well (wsk/nc-wsk-pfn_wsk_receive_from_event): the stand-in sets it every other time.

pub(super) mod entries;
mod list;

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use kernel::{Context, DISPATCH_LEVEL, Shared, status, violation};
use ndk_abi::{
    sockaddr::SOCKADDR_INET,
    status::STATUS_DATA_NOT_ACCEPTED,
    wsk::{WSK_CLIENT_DATAGRAM_DISPATCH, WSK_FLAG_AT_DISPATCH_LEVEL},
};

use super::{
    linux::udp,
    socket::{Socket, State},
};
use crate::lock;
use list::List;
pub(super) use list::check;

const EVENT: &str = "WskReceiveFromEvent";

/// The most datagrams that a callback gets, in turn.
const BATCHES: [usize; 5] = [16, 1, 3, 16, 7];

/// What WskSocket got for the callbacks of a socket.
#[derive(Clone, Copy)]
pub(super) struct Events {
    context: Context,
    dispatch: Shared<WSK_CLIENT_DATAGRAM_DISPATCH>,
}

impl Events {
    pub(super) const NONE: Self = Self::new(std::ptr::null_mut(), std::ptr::null());

    pub(super) const fn new(context: *mut c_void, dispatch: *const c_void) -> Self {
        Self { context: Shared(context), dispatch: Shared(dispatch.cast_mut().cast()) }
    }
}

/// A datagram that has come.
struct Datagram {
    from: SOCKADDR_INET,
    bytes: Vec<u8>,
}

/// What a datagram socket has beside its requests.
#[derive(Default)]
pub(super) struct Datagrams {
    /// The callback is enabled.
    enabled: bool,
    /// What the client has not accepted: it comes first when the callback is enabled again.
    refused: Vec<Datagram>,
    /// What the client has, by the addresses of the first indications.
    lists: BTreeMap<usize, Held>,
    /// Datagrams in the longest list that the client has sent.
    longest: usize,
    /// The client was told that messages are divided; whether they are.
    divides: Option<bool>,
    /// Lists with a message of several datagrams: sent, and refused.
    divided: u64,
    refusals: u64,
}

struct Held {
    list: List,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The callback has not returned.
    Indicated,
    /// The callback has not returned, and the client has called WskRelease already: on another thread, if it does as it may.
    Released,
    /// The callback has returned STATUS_PENDING.
    Retained,
}

/// Calls the client once, if datagrams have come. The thread goes on with the rest after other work, perhaps at another IRQL. By the thread of
/// datagrams, with no lock held.
pub(super) fn indicate(socket: &Arc<Socket>) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let most = BATCHES[count % BATCHES.len()];
    let mut state = lock(&socket.state);
    if !state.datagrams.enabled {
        return;
    }
    let came = take(socket, &mut state, most);
    if came.is_empty() {
        return;
    }
    let list = List::new(&came);
    let head = list.head();
    state.datagrams.lists.insert(head as usize, Held { list, stage: Stage::Indicated });
    drop(state);
    // SAFETY: the client's table stays until the socket is closed.
    let event = unsafe { (*socket.events.dispatch.get()).WskReceiveFromEvent };
    let says_so = kernel::irql() == DISPATCH_LEVEL && count.is_multiple_of(2);
    let flags = if says_so { WSK_FLAG_AT_DISPATCH_LEVEL } else { 0 };
    let status = event.map_or(status::SUCCESS, |event| {
        // SAFETY: the client's function, its context, and a list that lives until it is given back.
        kernel::balanced(EVENT, || unsafe { event(socket.events.context.get(), flags, head) }).0
    });
    returned(socket, head as usize, status, came);
    socket.proceed_soon();
}

/// What has come for the socket.
fn take(socket: &Socket, state: &mut State, most: usize) -> Vec<Datagram> {
    static PLACE: Mutex<[u8; udp::LONGEST]> = Mutex::new([0; udp::LONGEST]);
    let refused = &mut state.datagrams.refused;
    let mut came: Vec<_> = refused.drain(..most.min(refused.len())).collect();
    let mut place = lock(&PLACE);
    while came.len() < most {
        match udp::receive(socket.file, &mut place) {
            Ok(Some((length, from))) => came.push(Datagram { from, bytes: place[..length].to_vec() }),
            Ok(None) => break,
            Err(status) => {
                violation(&format!("stand-in: no datagram can be received: {status:#x}"));
                break;
            }
        }
    }
    came
}

/// The callback has returned.
fn returned(socket: &Socket, head: usize, status: i32, came: Vec<Datagram>) {
    let mut state = lock(&socket.state);
    let Datagrams { enabled, refused, lists, .. } = &mut state.datagrams;
    let Some(held) = lists.get_mut(&head) else { return };
    let released = held.stage == Stage::Released;
    if status == status::PENDING && !released {
        held.stage = Stage::Retained;
        return;
    }
    let held = lists.remove(&head);
    if status == STATUS_DATA_NOT_ACCEPTED.0 {
        *enabled = false;
        refused.splice(..0, came);
    }
    drop(state);
    if let Some(held) = held {
        held.list.end();
    }
    if ![status::SUCCESS, status::PENDING, STATUS_DATA_NOT_ACCEPTED.0].contains(&status) {
        violation(&format!("{EVENT} returned {status:#x}"));
    } else if released && status != status::PENDING {
        violation(&format!("WskRelease: {EVENT} returned {status:#x}, and did not keep the list"));
    }
}

/// The client gives back a list. False: it does not have it.
fn release(socket: &Socket, head: usize) -> bool {
    let mut state = lock(&socket.state);
    let lists = &mut state.datagrams.lists;
    match lists.get_mut(&head) {
        Some(Held { stage: stage @ Stage::Indicated, .. }) => {
            *stage = Stage::Released;
            true
        }
        Some(Held { stage: Stage::Retained, .. }) => {
            let held = lists.remove(&head);
            drop(state);
            held.map(|held| held.list.end()).is_some()
        }
        Some(Held { stage: Stage::Released, .. }) | None => false,
    }
}

/// The socket is about to be closed. By the thread of datagrams: no callback is in progress, and none comes.
pub(super) fn end(socket: &Socket) {
    let Datagrams { lists, longest, divided, refusals, .. } = std::mem::take(&mut lock(&socket.state).datagrams);
    kernel::trace(&format!("netio: longest list of datagrams: {longest}"));
    kernel::trace(&format!("netio: lists with a message that is divided: {divided}"));
    kernel::trace(&format!("netio: lists with a message that is refused: {refusals}"));
    if !lists.is_empty() {
        violation(&format!("WskCloseSocket: the client has not released {} lists of datagrams", lists.len()));
    }
    lists.into_values().for_each(|held| held.list.end());
}
