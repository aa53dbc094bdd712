//! What a client of datagram sockets must not do.

use ndk_abi::{
    sockaddr::{AF_INET, AF_INET6},
    status::STATUS_UNSUCCESSFUL,
    wdm::GUID,
};

use super::*;
use crate::wsk::planted::with_socket;

const CONTROL: WSK_EVENT_CALLBACK_CONTROL =
    WSK_EVENT_CALLBACK_CONTROL { NpiId: &NPI_WSK_INTERFACE_ID, EventMask: WSK_EVENT_RECEIVE_FROM };
const SIZE: usize = size_of::<WSK_EVENT_CALLBACK_CONTROL>();

/// Breaks a rule with a socket that is not bound.
unsafe fn with_unbound(misuse: impl FnOnce(*mut WSK_SOCKET)) {
    // SAFETY: wrong on purpose; what is used is given back.
    unsafe {
        with_socket(|client, _| {
            let socket = client.datagram_socket(AF_INET, Some(&INBOXES[0]));
            misuse(socket);
            close(socket);
        });
    }
}

/// Breaks a rule with a bound socket.
unsafe fn with_bound(misuse: impl FnOnce(*mut WSK_SOCKET)) {
    // SAFETY: as above.
    unsafe {
        with_unbound(|socket| {
            bind(socket, own(AF_INET, 0));
            misuse(socket);
        });
    }
}

/// Breaks a rule with a socket that has sent itself a datagram, whose callback has returned this after it has done something.
unsafe fn with_received(answer: i32, deed: Option<Deed>, misuse: impl FnOnce(*mut WSK_SOCKET, &Inbox)) {
    // SAFETY: as above.
    unsafe {
        with_bound(|socket| {
            let (inbox, address, bytes) = (&INBOXES[0], address_of_datagram(socket), Bytes::new());
            inbox.begin(address, answer);
            if let Some(deed) = deed {
                inbox.does(deed);
            }
            SOCKET.store(socket, Ordering::Relaxed);
            enable(socket);
            send(socket, [bytes.part(0, 1)], address);
            inbox.wait_for(&inbox.calls, 1);
            // Until the stand-in knows what the callback has returned.
            sleep(20);
            misuse(socket, inbox);
            bytes.free();
        });
    }
}

/// Connects a datagram socket by the table of a connection.
pub(crate) unsafe fn connect() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_socket(|client, stream| {
            let socket = client.datagram_socket(AF_INET, None);
            bind(socket, own(AF_INET, 0));
            let mut address = own(AF_INET, 1);
            wait(|irp| {
                if let Some(connect) = connection(stream).WskConnect {
                    connect(socket, (&raw mut address).cast(), 0, irp);
                }
            });
            close(socket);
        });
    }
}

pub(crate) unsafe fn send_unbound() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_unbound(|socket| {
            let bytes = Bytes::new();
            send(socket, [bytes.part(0, 1)], own(AF_INET, 1));
            bytes.free();
        });
    }
}

pub(crate) unsafe fn enable_by_irp() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_bound(|socket| {
            wait(|irp| {
                enable_by(socket, CONTROL, SIZE, irp);
            });
        });
    }
}

pub(crate) unsafe fn enable_other_npi() {
    const OTHER: GUID = GUID::from_u128(1);
    // SAFETY: wrong on purpose.
    unsafe {
        with_bound(|socket| {
            enable_by(socket, WSK_EVENT_CALLBACK_CONTROL { NpiId: &OTHER, ..CONTROL }, SIZE, null_mut());
        });
    }
}

pub(crate) unsafe fn enable_short() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_bound(|socket| {
            enable_by(socket, CONTROL, SIZE - 4, null_mut());
        });
    }
}

pub(crate) unsafe fn enable_unbound() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_unbound(|socket| {
            enable_by(socket, CONTROL, SIZE, null_mut());
        });
    }
}

pub(crate) unsafe fn enable_without_function() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_socket(|client, _| {
            let socket = client.datagram_socket(AF_INET, None);
            bind(socket, own(AF_INET, 0));
            enable(socket);
            close(socket);
        });
    }
}

pub(crate) unsafe fn enable_other_event() {
    const WSK_EVENT_RECEIVE: u32 = 0x40;
    // SAFETY: wrong on purpose.
    unsafe {
        with_bound(|socket| {
            enable_by(socket, WSK_EVENT_CALLBACK_CONTROL { EventMask: WSK_EVENT_RECEIVE, ..CONTROL }, SIZE, null_mut());
        });
    }
}

pub(crate) unsafe fn enable_at_high_level() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_bound(|socket| {
            INBOXES[0].begin(SOCKADDR_INET::ZERO, SUCCESS);
            KfRaiseIrql(3);
            enable(socket);
            KeLowerIrql(0);
        });
    }
}

pub(crate) unsafe fn send_more_than_described() {
    // SAFETY: wrong on purpose: nothing beyond the MDLs is touched.
    unsafe {
        with_bound(|socket| {
            let bytes = Bytes::new();
            send(socket, [bytes.part(0, LENGTH + 1)], own(AF_INET, 1));
            bytes.free();
        });
    }
}

pub(crate) unsafe fn send_nothing() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_bound(|socket| {
            send(socket, [], own(AF_INET, 1));
        });
    }
}

/// A WSACMSGHDR of 20 bytes with a number.
const fn control(cmsg_type: u32, number: u32) -> [u32; 6] {
    [20, 0, IPPROTO_UDP, cmsg_type, number, 0]
}

/// Sends a datagram with control information.
unsafe fn send_with(control: &mut [u32]) {
    // SAFETY: wrong on purpose.
    unsafe {
        with_bound(|socket| {
            let (bytes, mut request) = (Bytes::new(), Request::new());
            let request = &raw mut request;
            start_send_with(request, socket, [bytes.part(0, 1)], own(AF_INET, 1), control);
            Request::end(request);
            bytes.free();
        });
    }
}

pub(crate) unsafe fn send_size_unasked() {
    // SAFETY: wrong on purpose.
    unsafe { send_with(&mut control(UDP_SEND_MSG_SIZE, 1000)) };
}

pub(crate) unsafe fn send_other_control() {
    // SAFETY: wrong on purpose.
    unsafe { send_with(&mut control(UDP_SEND_MSG_SIZE + 1, 1000)) };
}

pub(crate) unsafe fn send_short_control() {
    // SAFETY: wrong on purpose.
    unsafe { send_with(&mut control(UDP_SEND_MSG_SIZE, 1000)[..4]) };
}

pub(crate) unsafe fn send_no_bytes() {
    // SAFETY: wrong on purpose.
    unsafe { send_with(&mut control(UDP_SEND_MSG_SIZE, 0)) };
}

pub(crate) unsafe fn ask_short() {
    let mut size = 0_u16;
    let output = (&raw mut size).cast();
    // SAFETY: wrong on purpose.
    unsafe {
        with_bound(|socket| {
            wait(|irp| {
                if let Some(control) = datagram(socket).WskControlSocket {
                    let (code, level, none) = (UDP_SEND_MSG_SIZE, IPPROTO_UDP, null_mut());
                    control(socket, WSK_GET_OPTION, code, level, 0, none, 2, output, null_mut(), irp);
                }
            });
        });
    }
}

pub(crate) unsafe fn send_to_other_family() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_bound(|socket| {
            let bytes = Bytes::new();
            send(socket, [bytes.part(0, 1)], own(AF_INET6, 1));
            bytes.free();
        });
    }
}

pub(crate) unsafe fn fail() {
    // SAFETY: wrong on purpose.
    unsafe { with_received(STATUS_UNSUCCESSFUL.0, None, |_, _| ()) };
}

/// From PASSIVE_LEVEL up, from DISPATCH_LEVEL down.
pub(crate) unsafe fn return_at_other_level() {
    unsafe fn change_level(_: *mut WSK_DATAGRAM_INDICATION) {
        // SAFETY: wrong on purpose.
        unsafe {
            if irql() == 0 {
                KfRaiseIrql(2);
            } else {
                KeLowerIrql(0);
            }
        }
    }
    // SAFETY: wrong on purpose.
    unsafe { with_received(SUCCESS, Some(change_level), |_, _| ()) };
}

pub(crate) unsafe fn release_unkept() {
    // SAFETY: wrong on purpose.
    unsafe { with_received(SUCCESS, Some(release_it), |_, _| ()) };
}

pub(crate) unsafe fn close_before_release() {
    // SAFETY: wrong on purpose.
    unsafe { with_received(PENDING, None, |_, _| ()) };
}

pub(crate) unsafe fn release_twice() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_received(PENDING, None, |socket, inbox| {
            release(socket, inbox.list(0));
            release(socket, inbox.list(0));
        });
    }
}

pub(crate) unsafe fn release_other() {
    static OTHER: Storage<WSK_DATAGRAM_INDICATION> = Storage::new();
    // SAFETY: wrong on purpose.
    unsafe {
        with_received(PENDING, None, |socket, inbox| {
            release(socket, OTHER.get());
            release(socket, inbox.list(0));
        });
    }
}

/// By a table that was read before.
pub(crate) unsafe fn release_after_close() {
    static OTHER: Storage<WSK_DATAGRAM_INDICATION> = Storage::new();
    // SAFETY: wrong on purpose: what the client has of a socket stays.
    unsafe {
        with_socket(|client, _| {
            let socket = client.datagram_socket(AF_INET, None);
            bind(socket, own(AF_INET, 0));
            close(socket);
            release(socket, OTHER.get());
        });
    }
}

/// It is seen at the latest when the client is deregistered.
pub(crate) unsafe fn write_late() {
    // SAFETY: wrong on purpose: the stand-in keeps the memory for a while.
    unsafe { with_received(SUCCESS, None, |_, inbox| (*inbox.list(0)).ControlInfoLength = 1) };
}
