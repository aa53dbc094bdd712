//! What the stand-in promises of datagrams.

use ndk_abi::{
    sockaddr::{AF_INET, AF_INET6, SOCKADDR_INET},
    status::*,
};

use super::*;
use crate::{text::Text, wsk::bytes::Much, wsk::checks::with_client};

/// Two bound sockets with their addresses, and bytes to send.
struct Pair {
    sockets: [*mut WSK_SOCKET; 2],
    addresses: [SOCKADDR_INET; 2],
    bytes: Bytes,
}

impl Pair {
    /// With callbacks that return this, and are not enabled.
    unsafe fn new(client: &Client, family: u16, answer: i32, text: &mut Text<'_>) -> Self {
        // SAFETY: new sockets, whose callbacks are not enabled.
        unsafe {
            let sockets = INBOXES.each_ref().map(|inbox| client.datagram_socket(family, Some(inbox)));
            let bound = sockets.map(|socket| bind(socket, own(family, 0)));
            text.check(bound == [SUCCESS; 2], "bound datagram sockets");
            let addresses = sockets.map(|socket| address_of_datagram(socket));
            let bytes = Bytes::new();
            (0..LENGTH).for_each(|at| bytes.memory.add(at).write(byte_at(at)));
            for (inbox, peer) in INBOXES.iter().zip([addresses[1], addresses[0]]) {
                inbox.begin(peer, answer);
            }
            Self { sockets, addresses, bytes }
        }
    }

    /// Sends the datagrams with these numbers to the other socket, one after the other.
    unsafe fn send(&self, from: usize, numbers: core::ops::Range<u32>, text: &mut Text<'_>) {
        for number in numbers {
            let (start, length) = place(number);
            // SAFETY: bytes that live.
            let sent = unsafe { send(self.sockets[from], [self.bytes.part(start, length)], self.addresses[1 - from]) };
            text.check(sent == (SUCCESS, length), "a datagram that is sent");
        }
    }

    unsafe fn enable(&self, text: &mut Text<'_>) {
        // SAFETY: bound sockets with callbacks.
        let enabled = self.sockets.map(|socket| unsafe { enable(socket) });
        text.check(enabled == [SUCCESS; 2], "enabling callbacks");
    }

    /// The sockets are done after this number of datagrams each.
    unsafe fn end(self, came: [u32; 2], text: &mut Text<'_>) {
        // SAFETY: what was made by `new`.
        unsafe {
            let closed = self.sockets.map(|socket| close(socket));
            text.check(closed == [SUCCESS; 2], "closing datagram sockets");
            self.bytes.free();
        }
        for (inbox, came) in INBOXES.iter().zip(came) {
            let wrong = inbox.wrong.load(Ordering::Relaxed);
            text.check(wrong & WRONG_LEVEL == 0, "a callback at a level that it is not told");
            text.check(wrong & WRONG_ADDRESS == 0, "the address of a datagram");
            text.check(wrong & WRONG_BYTES == 0, "the bytes of a datagram");
            text.check(wrong & NO_LIST == 0, "a callback without a list");
            text.check(inbox.came.load(Ordering::Relaxed) == came, "the number of datagrams");
        }
    }
}

pub(crate) unsafe fn exchange(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe {
        with_client(text, |client, text| [AF_INET, AF_INET6].iter().for_each(|family| both_ways(client, *family, text)))
    };
}

/// Datagrams that came before the callback was enabled, then some each way, several under way at once.
fn both_ways(client: &Client, family: u16, text: &mut Text<'_>) {
    const EARLY: u32 = 40;
    const ROUNDS: u32 = 100;
    // Requests, and the datagrams of each.
    const TOGETHER: u32 = 5;
    const EACH: u32 = 3;
    const ALL: u32 = EARLY + ROUNDS * TOGETHER * EACH;
    let mut requests = [const { Request::new() }; TOGETHER as usize];
    let requests = requests.each_mut().map(|request| &raw mut *request);
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let pair = Pair::new(client, family, SUCCESS, text);
        pair.send(0, 0..EARLY, text);
        pair.send(1, 0..EARLY, text);
        sleep(20);
        let early = INBOXES.iter().any(|inbox| inbox.calls.load(Ordering::Relaxed) > 0);
        text.check(!early, "a callback that is not enabled");
        pair.enable(text);
        text.check(INBOXES.iter().all(|inbox| inbox.wait(EARLY)), "datagrams that came before the callback");
        let (mut within, mut later) = (false, false);
        for round in 0..ROUNDS {
            let first = EARLY + round * TOGETHER * EACH;
            let numbers = |request: u32| [0, 1, 2].map(|number| first + request * EACH + number);
            for from in [0, 1] {
                // At DISPATCH_LEVEL, as WskSendMessages may be called.
                KfRaiseIrql(2);
                for (number, request) in (0..).zip(requests) {
                    let datagrams = numbers(number).map(place).map(|(start, length)| pair.bytes.part(start, length));
                    let returned = start_send(request, pair.sockets[from], datagrams, pair.addresses[1 - from]);
                    within |= returned == SUCCESS && (*request).place() > 0;
                    later |= returned == PENDING;
                }
                KeLowerIrql(0);
                for (number, request) in (0..).zip(requests) {
                    let bytes = numbers(number).into_iter().map(|number| place(number).1).sum();
                    text.check(Request::end(request) == (SUCCESS, bytes), "datagrams that are sent beside others");
                }
            }
            text.check(INBOXES.iter().all(|inbox| inbox.wait(first + TOGETHER * EACH)), "datagrams of two ways");
        }
        text.check(within, "no list of datagrams is sent within its call");
        text.check(later, "no list of datagrams is sent after its call");
        let seen = INBOXES.iter().fold(0, |seen, inbox| seen | inbox.seen.load(Ordering::Relaxed));
        text.check(seen & AT_PASSIVE != 0, "no callback at PASSIVE_LEVEL");
        text.check(seen & AT_DISPATCH != 0, "no callback at DISPATCH_LEVEL without the flag");
        text.check(seen & SAID_DISPATCH != 0, "no callback at DISPATCH_LEVEL with the flag");
        text.check(seen & SEVERAL != 0, "no callback with several datagrams");
        text.check(seen & OFFSET != 0, "no datagram with an offset");
        text.check(seen & CHAIN != 0, "no datagram of two MDLs");
        text.check(seen == ALL_SEEN, "what callbacks are given");
        pair.end([ALL; 2], text);
    }
}

pub(crate) unsafe fn retained(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe {
        with_client(text, retain);
        with_client(text, release_early);
    }
}

/// Lists that stay as they are until they are released, in another order than they came, while more come.
unsafe fn retain(client: &Client, text: &mut Text<'_>) {
    const COUNT: u32 = 30;
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let pair = Pair::new(client, AF_INET, PENDING, text);
        pair.enable(text);
        pair.send(0, 0..COUNT, text);
        let inbox = &INBOXES[1];
        text.check(inbox.wait(COUNT), "datagrams that are retained");
        let lists = inbox.calls.load(Ordering::Acquire) as usize;
        text.check(lists <= LISTS, "more lists than datagrams");
        let mut came = 0;
        for number in 0..lists {
            came += inbox.compare(inbox.list(number), came);
        }
        text.check(came == COUNT, "what was retained");
        for number in (0..lists).rev() {
            let at_dispatch = number % 2 == 1;
            if at_dispatch {
                KfRaiseIrql(2);
            }
            let released = release(pair.sockets[1], inbox.list(number));
            if at_dispatch {
                KeLowerIrql(0);
            }
            text.check(released == SUCCESS, "a release");
        }
        pair.end([0, COUNT], text);
    }
}

/// The client may have released a list before the callback that keeps it has returned.
unsafe fn release_early(client: &Client, text: &mut Text<'_>) {
    const COUNT: u32 = 30;
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let pair = Pair::new(client, AF_INET, PENDING, text);
        SOCKET.store(pair.sockets[1], Ordering::Relaxed);
        INBOXES[1].does(release_it);
        pair.enable(text);
        pair.send(0, 0..COUNT, text);
        text.check(INBOXES[1].wait(COUNT), "datagrams that are released early");
        pair.end([0, COUNT], text);
    }
}

pub(crate) unsafe fn not_accepted(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe { with_client(text, accept_later) };
}

/// A callback that does not accept datagrams is called again, with the datagrams again, when it is enabled again.
unsafe fn accept_later(client: &Client, text: &mut Text<'_>) {
    const COUNT: u32 = 20;
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let pair = Pair::new(client, AF_INET6, STATUS_DATA_NOT_ACCEPTED.0, text);
        let inbox = &INBOXES[1];
        pair.send(0, 0..COUNT / 2, text);
        for calls in 1..=3 {
            text.check(enable(pair.sockets[1]) == SUCCESS, "enabling callbacks");
            text.check(inbox.wait_for(&inbox.calls, calls), "a callback that is enabled");
            sleep(20);
            text.check(inbox.calls.load(Ordering::Relaxed) == calls, "a callback after STATUS_DATA_NOT_ACCEPTED");
        }
        pair.send(0, COUNT / 2..COUNT, text);
        inbox.answer.store(SUCCESS, Ordering::Relaxed);
        text.check(enable(pair.sockets[1]) == SUCCESS, "enabling callbacks");
        text.check(inbox.wait(COUNT), "datagrams that were not accepted");
        pair.end([0, COUNT], text);
    }
}

pub(crate) unsafe fn ends(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe {
        with_client(text, fail);
        with_client(text, close_early);
    }
}

/// A datagram that cannot be sent, and the next one.
unsafe fn fail(client: &Client, text: &mut Text<'_>) {
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let pair = Pair::new(client, AF_INET, SUCCESS, text);
        let much = Much::new();
        for _ in 0..4 {
            let (status, sent) = send(pair.sockets[0], [much.all()], pair.addresses[1]);
            text.check((status, sent) == (STATUS_INVALID_BUFFER_SIZE.0, 0), "a datagram that is too long");
            let (first, last) = (pair.bytes.part(0, 20), pair.bytes.part(0, 20));
            let list = send(pair.sockets[0], [first, much.all(), last], pair.addresses[1]);
            text.check(list == (STATUS_INVALID_BUFFER_SIZE.0, 0), "a list with a datagram that is too long");
            let mut nowhere = own(AF_INET, 1).Ipv4();
            nowhere.sin_addr = [192, 0, 2, 1];
            let (status, sent) = send(pair.sockets[0], [pair.bytes.part(0, 1)], SOCKADDR_INET::from_ipv4(nowhere));
            let unreachable = [STATUS_INVALID_ADDRESS_COMPONENT, STATUS_NETWORK_UNREACHABLE, STATUS_HOST_UNREACHABLE];
            text.check(unreachable.contains(&NTSTATUS(status)) && sent == 0, "a datagram to nowhere");
        }
        // The port of a socket that is closed: UDP tells the sender nothing.
        let gone = client.datagram_socket(AF_INET, None);
        text.check(bind(gone, own(AF_INET, 0)) == SUCCESS, "a datagram socket without callbacks");
        let unused = address_of_datagram(gone);
        text.check(send(gone, [pair.bytes.part(0, 20)], unused) == (SUCCESS, 20), "a datagram to the socket itself");
        text.check(close(gone) == SUCCESS, "closing a socket with a datagram that it has not received");
        for _ in 0..4 {
            let sent = send(pair.sockets[0], [pair.bytes.part(0, 20)], unused);
            text.check(sent == (SUCCESS, 20), "a datagram to an unused port");
        }
        let taken = client.datagram_socket(AF_INET, None);
        text.check(bind(taken, pair.addresses[0]) == STATUS_ADDRESS_ALREADY_EXISTS.0, "a bind to a taken address");
        text.check(close(taken) == SUCCESS, "closing a socket that is not bound");
        let empty = WSK_BUF { Mdl: null_mut(), Offset: 0, Length: 0 };
        text.check(send(pair.sockets[0], [empty], pair.addresses[1]) == (SUCCESS, 0), "a datagram without an MDL");
        pair.end([0, 0], text);
        much.free();
    }
}

/// Sends that are under way when their socket is closed end before the close; no callback comes behind it.
unsafe fn close_early(client: &Client, text: &mut Text<'_>) {
    let mut requests = [const { Request::new() }; 9];
    let [closing, sends @ ..] = requests.each_mut().map(|request| &raw mut *request);
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let pair = Pair::new(client, AF_INET, SUCCESS, text);
        let inbox = &INBOXES[0];
        for _ in 0..50 {
            let socket = client.datagram_socket(AF_INET, Some(inbox));
            text.check(bind(socket, own(AF_INET, 0)) == SUCCESS, "a bound datagram socket");
            let address = address_of_datagram(socket);
            inbox.begin(address, SUCCESS);
            text.check(enable(socket) == SUCCESS, "enabling callbacks");
            for (number, send) in (0..).zip(sends) {
                let (start, length) = place(number);
                start_send(send, socket, [pair.bytes.part(start, length)], address);
            }
            Request::start(closing, |irp| {
                if let Some(close) = datagram(socket).WskCloseSocket {
                    close(socket, irp);
                }
            });
            text.check(Request::end(closing).0 == SUCCESS, "a close with sends under way");
            let calls = inbox.calls.load(Ordering::Relaxed);
            for (number, send) in (0..).zip(sends) {
                let ended = Request::end(send);
                let (sent, cancelled) = ((SUCCESS, place(number).1), (STATUS_CANCELLED.0, 0));
                text.check(ended == sent || ended == cancelled, "a send of a socket that is closed");
                text.check((*send).place() < (*closing).place(), "a close that ends before what it ends");
            }
            sleep(1);
            text.check(inbox.calls.load(Ordering::Relaxed) == calls, "a callback after the close");
        }
        inbox.begin(pair.addresses[1], SUCCESS);
        pair.end([0, 0], text);
    }
}
