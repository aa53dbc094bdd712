//! What the stand-in promises.

use ndk_abi::{
    describe::ZeroInit,
    sockaddr::{AF_INET, AF_INET6, SOCKADDR_INET},
    status::*,
    wsk::*,
};

use super::*;
use crate::{
    checks::{NON_PAGED, Storage, TAG},
    text::Text,
};

static REGISTRATION: Storage<WSK_REGISTRATION> = Storage::new();

/// A client, for as long as something is checked.
pub(super) unsafe fn with_client(text: &mut Text<'_>, check: unsafe fn(&Client, &mut Text<'_>)) {
    // SAFETY: static memory, one check at a time.
    unsafe {
        REGISTRATION.get().write(WSK_REGISTRATION::ZERO);
        match Client::new(REGISTRATION.get()) {
            None => text.check(false, "no provider"),
            Some(client) => {
                check(&client, text);
                client.end();
            }
        }
    }
}

/// A listener at an own address, any port.
unsafe fn listen(client: &Client, local: SOCKADDR_INET, text: &mut Text<'_>) -> (*mut WSK_SOCKET, SOCKADDR_INET) {
    // SAFETY: a new socket, which is not bound.
    unsafe {
        let (made, socket) = client.socket(local.si_family(), WSK_FLAG_LISTEN_SOCKET);
        text.check(made == SUCCESS, "a listening socket");
        text.check(bind(socket, local) == SUCCESS, "listening");
        (socket, address_of(socket))
    }
}

/// A bound socket for a connection.
unsafe fn bound(client: &Client, local: SOCKADDR_INET, text: &mut Text<'_>) -> *mut WSK_SOCKET {
    // SAFETY: a new socket.
    unsafe {
        let (made, socket) = client.socket(local.si_family(), WSK_FLAG_CONNECTION_SOCKET);
        text.check(made == SUCCESS && bind(socket, local) == SUCCESS, "a bound socket");
        socket
    }
}

/// Both ends of a connection, as connected and as accepted.
pub(super) unsafe fn pair(client: &Client, local: SOCKADDR_INET, text: &mut Text<'_>) -> [*mut WSK_SOCKET; 2] {
    let mut accept = Accept::new();
    let accept = &raw mut accept;
    // SAFETY: the accept does not move before it has ended.
    unsafe {
        let (from, at) = listen(client, local, text);
        Accept::start(accept, from);
        let active = bound(client, local, text);
        text.check(connect(active, at) == SUCCESS, "a connect");
        let (status, passive) = Request::end(&raw mut (*accept).request);
        text.check(status == SUCCESS, "an accept");
        text.check((*accept).local == at, "the local address of an accept");
        text.check((*accept).remote == address_of_connection(active), "the remote address of an accept");
        text.check(close(from) == SUCCESS, "closing a listener");
        [active, core::ptr::with_exposed_provenance_mut(passive)]
    }
}

unsafe fn address_of_connection(socket: *mut WSK_SOCKET) -> SOCKADDR_INET {
    let mut address = SOCKADDR_INET::ZERO;
    // SAFETY: a connection.
    unsafe {
        wait(|irp| {
            if let Some(ask) = connection(socket).WskGetLocalAddress {
                ask(socket, (&raw mut address).cast(), irp);
            }
        });
    }
    address
}

pub(crate) unsafe fn streams(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe {
        with_client(text, |client, text| [AF_INET, AF_INET6].iter().for_each(|family| stream(client, *family, text)))
    };
}

/// Bytes of chains of MDLs both ways, then the end of each way.
fn stream(client: &Client, family: u16, text: &mut Text<'_>) {
    const OFFSET: usize = 100;
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let [active, passive] = pair(client, own(family, 0), text);
        let (from, to) = (Bytes::new(), Bytes::new());
        (0..LENGTH).for_each(|at| from.memory.add(at).write((at % 251) as u8));
        for (sender, receiver) in [(active, passive), (passive, active)] {
            to.memory.write_bytes(0, LENGTH);
            let length = LENGTH - OFFSET;
            text.check(send(sender, from.part(OFFSET, length)) == (SUCCESS, length), "a send of two MDLs");
            let mut came = 0;
            while came < length {
                // Only what begins in the first of the MDLs can be named by an offset.
                let start = came.min(OFFSET);
                let (status, count) = receive(receiver, to.part(start, length - came));
                if status != SUCCESS || count == 0 {
                    text.check(false, "a receive into two MDLs");
                    break;
                }
                let as_sent =
                    (0..count).all(|at| to.memory.add(start + at).read() == ((OFFSET + came + at) % 251) as u8);
                text.check(as_sent, "bytes are not those that were sent");
                came += count;
            }
        }
        text.check(disconnect(active) == SUCCESS, "the end of one way");
        text.check(receive(passive, to.part(0, LENGTH)) == (SUCCESS, 0), "the end of one way, at the peer");
        text.check(send(passive, from.part(0, 10)) == (SUCCESS, 10), "the other way goes on");
        text.check(receive(active, to.part(0, 10)) == (SUCCESS, 10), "and arrives");
        text.check(disconnect(passive) == SUCCESS, "the end of the other way");
        text.check(receive(active, to.part(0, LENGTH)) == (SUCCESS, 0), "the same at the peer");
        text.check(close(active) == SUCCESS && close(passive) == SUCCESS, "closing");
        from.free();
        to.free();
    }
}

pub(crate) unsafe fn ends(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe { with_client(text, end_early) };
}

/// Requests that end for other reasons than their own.
unsafe fn end_early(client: &Client, text: &mut Text<'_>) {
    let (mut waiting, mut closing) = (Request::new(), Request::new());
    let (waiting, closing) = (&raw mut waiting, &raw mut closing);
    let mut accept = Accept::new();
    let accept = &raw mut accept;
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let bytes = Bytes::new();
        let [active, passive] = pair(client, own(AF_INET, 0), text);
        start_receive(waiting, active, bytes.part(0, LENGTH));
        Request::start(closing, |irp| {
            if let Some(close) = connection(active).WskCloseSocket {
                close(active, irp);
            }
        });
        text.check(Request::end(closing).0 == SUCCESS, "a close with a receive under way");
        text.check(Request::end(waiting).0 == STATUS_CANCELLED.0, "a receive of a socket that is closed");
        text.check((*waiting).place() < (*closing).place(), "a close that ends before what it ends");
        let (reset, _) = receive(passive, bytes.part(0, LENGTH));
        text.check(reset == STATUS_CONNECTION_RESET.0, "a receive when the peer has closed");
        text.check(close(passive) == SUCCESS, "closing a dead socket");

        let (from, at) = listen(client, own(AF_INET, 0), text);
        Accept::start(accept, from);
        // It says whether the accept was known already; either way it is cancelled.
        let _known = IoCancelIrp(Request::irp(&raw mut (*accept).request));
        text.check(Request::end(&raw mut (*accept).request).0 == STATUS_CANCELLED.0, "an accept that was cancelled");
        let (_, other) = client.socket(AF_INET, WSK_FLAG_LISTEN_SOCKET);
        let taken = bind(other, at);
        text.check(
            taken == STATUS_ADDRESS_ALREADY_EXISTS.0 || taken == STATUS_ACCESS_DENIED.0,
            "a bind to a taken address",
        );
        text.check(close(other) == SUCCESS, "closing a socket that is not bound");
        Accept::start(accept, from);
        text.check(close(from) == SUCCESS, "closing a listener");
        text.check(Request::end(&raw mut (*accept).request).0 == STATUS_CANCELLED.0, "an accept of one that is closed");

        let nobody = bound(client, own(AF_INET, 0), text);
        text.check(connect(nobody, at) == STATUS_CONNECTION_REFUSED.0, "a connect to nobody");
        text.check(close(nobody) == SUCCESS, "closing a socket that is refused");
        let (_, stranger) = client.socket(AF_INET, WSK_FLAG_CONNECTION_SOCKET);
        let mut address = own(AF_INET, 0).Ipv4();
        address.sin_addr = [192, 0, 2, 1];
        let elsewhere = bind(stranger, SOCKADDR_INET::from_ipv4(address));
        text.check(elsewhere == STATUS_INVALID_ADDRESS_COMPONENT.0, "a bind to an address of nobody");
        text.check(close(stranger) == SUCCESS, "closing it");
        bytes.free();
    }
}

pub(crate) unsafe fn ports(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe {
        with_client(text, any_port);
        with_client(text, one_port);
    }
}

/// Another process cannot tell which port comes next.
unsafe fn any_port(client: &Client, text: &mut Text<'_>) {
    // SAFETY: sockets that are closed once.
    unsafe {
        let ports = [(); 4].map(|()| {
            let socket = bound(client, own(AF_INET, 0), text);
            let port = u16::from_be(address_of_connection(socket).Ipv6.sin6_port);
            text.check(close(socket) == SUCCESS, "closing a bound socket");
            port
        });
        text.check(ports.iter().all(|port| *port >= 49152), "a port that Windows gives to nobody");
        text.check(!ports.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == 1), "ports in their order");
    }
}

/// An address that a client names is that of one socket, until it is closed.
unsafe fn one_port(client: &Client, text: &mut Text<'_>) {
    // SAFETY: sockets that are closed once.
    unsafe {
        let first = bound(client, own(AF_INET, 0), text);
        let address = address_of_connection(first);
        text.check(close(first) == SUCCESS, "closing a bound socket");
        let [first, second] = [(); 2].map(|()| client.socket(AF_INET, WSK_FLAG_CONNECTION_SOCKET).1);
        text.check(bind(first, address) == SUCCESS, "a bind to a port");
        text.check(bind(second, address) == STATUS_ADDRESS_ALREADY_EXISTS.0, "a bind to the port of another socket");
        text.check(close(first) == SUCCESS, "closing a bound socket");
        text.check(bind(second, address) == SUCCESS, "a bind to a port that was given back");
        text.check(close(second) == SUCCESS, "closing a bound socket");
    }
}

pub(crate) unsafe fn within_calls(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe { with_client(text, some_at_once) };
}

/// A receive of what has come ends within its call, or later: both happen.
unsafe fn some_at_once(client: &Client, text: &mut Text<'_>) {
    let mut request = Request::new();
    let request = &raw mut request;
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let bytes = Bytes::new();
        let [active, passive] = pair(client, own(AF_INET, 0), text);
        let returned = [(); 32].map(|()| {
            text.check(send(active, bytes.part(0, 1)) == (SUCCESS, 1), "a send");
            let returned = start_receive(request, passive, bytes.part(0, 1));
            text.check(returned == PENDING || (*request).place() > 0, "a call that says that its request has ended");
            text.check(Request::end(request) == (SUCCESS, 1), "a receive");
            returned
        });
        text.check(returned.contains(&SUCCESS), "no receive ends within its call");
        text.check(returned.contains(&PENDING), "no receive ends after its call");
        text.check(close(active) == SUCCESS && close(passive) == SUCCESS, "closing");
        bytes.free();
    }
}

pub(crate) unsafe fn late_sends(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe { with_client(text, sends_together) };
}

/// Sends that are under way together end in their order, and when a close ends them.
unsafe fn sends_together(client: &Client, text: &mut Text<'_>) {
    let mut requests = [const { Request::new() }; 3];
    let requests = requests.each_mut().map(|request| &raw mut *request);
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let bytes = Bytes::new();
        let [active, passive] = pair(client, elsewhere(), text);
        for round in 0..100 {
            requests.iter().for_each(|request| start_send(*request, active, bytes.part(0, 10)));
            let ends = requests.map(|request| Request::end(request));
            text.check(ends == [(SUCCESS, 10); 3], "sends under way together");
            let places = requests.map(|request| (*request).place());
            text.check(places.is_sorted(), "the order of their ends");
            if round == 0 {
                text.check(receive(passive, bytes.part(0, 10)) == (SUCCESS, 10), "they have arrived");
            }
        }
        requests.iter().for_each(|request| start_send(*request, active, bytes.part(0, 10)));
        text.check(close(active) == SUCCESS, "a close with sends under way");
        let ended = requests.iter().all(|request| [SUCCESS, STATUS_CANCELLED.0].contains(&Request::end(*request).0));
        text.check(ended, "sends of a socket that is closed");
        text.check(close(passive) == SUCCESS, "closing the peer");
        bytes.free();
    }
}

const MANY: usize = 1000;
static ENDS: Storage<[[*mut WSK_SOCKET; 2]; MANY]> = Storage::new();

pub(crate) unsafe fn many(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe { with_client(text, thousand) };
}

/// A thousand connections of one listener at once, each with a receive under way; all carry their own byte.
unsafe fn thousand(client: &Client, text: &mut Text<'_>) {
    let mut accept = Accept::new();
    let accept = &raw mut accept;
    // SAFETY: memory that lives until all requests have ended; static, one check at a time.
    unsafe {
        let ends = &mut *ENDS.get();
        let (from, at) = listen(client, own(AF_INET, 0), text);
        let block = ExAllocatePool2(NON_PAGED, MANY * size_of::<Request>(), TAG).cast::<Request>();
        let (bytes, received) = (Bytes::new(), Bytes::new());
        for (number, ends) in ends.iter_mut().enumerate() {
            Accept::start(accept, from);
            let active = bound(client, own(AF_INET, 0), text);
            text.check(connect(active, at) == SUCCESS, "one of many connects");
            let (status, passive) = Request::end(&raw mut (*accept).request);
            text.check(status == SUCCESS, "one of many accepts");
            *ends = [active, core::ptr::with_exposed_provenance_mut(passive)];
            start_receive(block.add(number), ends[1], received.part(number, 1));
        }
        for (number, [active, _]) in ends.iter().enumerate() {
            bytes.memory.write(number as u8);
            text.check(send(*active, bytes.part(0, 1)) == (SUCCESS, 1), "one of many sends");
            text.check(Request::end(block.add(number)) == (SUCCESS, 1), "one of many receives");
            text.check(received.memory.add(number).read() == number as u8, "a byte of another connection");
        }
        for socket in ends.iter().flatten() {
            text.check(close(*socket) == SUCCESS, "one of many closes");
        }
        text.check(close(from) == SUCCESS, "closing the listener");
        bytes.free();
        received.free();
        ExFreePoolWithTag(block.cast(), TAG);
    }
}
