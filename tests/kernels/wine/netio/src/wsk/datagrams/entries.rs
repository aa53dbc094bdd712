//! The functions that only datagram sockets have.

use std::{collections::VecDeque, ffi::c_void};

use kernel::{status, violation};
use ndk_abi::{
    sockaddr::SOCKADDR,
    status::NTSTATUS,
    wsk::{
        IPPROTO_UDP, NPI_WSK_INTERFACE_ID, SO_WSK_EVENT_CALLBACK, SOL_SOCKET, UDP_SEND_MSG_SIZE, WSACMSGHDR,
        WSK_BUF_LIST, WSK_DATAGRAM_INDICATION, WSK_EVENT_CALLBACK_CONTROL, WSK_EVENT_RECEIVE_FROM, WSK_GET_OPTION,
        WSK_SET_OPTION, WSK_SOCKET,
    },
};

use super::{Events, list, release as give_back};
use crate::{
    lock, parameter,
    wsk::{
        entries::{admit, answer, copy, enter, refuse},
        mdl,
        operations::{self, Messages, What, finish},
        request::{self, Request},
        socket::{self, Kind, Phase},
    },
};

const NOT_SIMULATED: &str =
    "WskControlSocket: only the option that enables callbacks, and UDP_SEND_MSG_SIZE, are simulated";

/// Bytes of the header of control information, and of all of it with a number of four bytes (WSA_CMSG_SPACE).
const HEADER: usize = size_of::<WSACMSGHDR>();
const CONTROL: u32 = 24;

/// wsk/nc-wsk-pfn_wsk_control_socket, network/so-wsk-event-callback: for the option that enables the callback, and the one that says whether
/// messages are divided (winsock/ipproto-udp-socket-options).
pub(in crate::wsk) unsafe extern "system" fn control(
    socket: *mut WSK_SOCKET,
    what: u32,
    code: u32,
    level: u32,
    input_size: usize,
    input: *mut c_void,
    output_size: usize,
    output: *mut c_void,
    returned: *mut usize,
    irp: *mut c_void,
) -> NTSTATUS {
    const FUNCTION: &str = "WskControlSocket";
    let enables = (what, code, level) == (WSK_SET_OPTION, SO_WSK_EVENT_CALLBACK, SOL_SOCKET);
    if (what, code, level) == (WSK_GET_OPTION, UDP_SEND_MSG_SIZE, IPPROTO_UDP) {
        let is_right = input_size == 0 && input.is_null() && output_size == size_of::<u32>() && !output.is_null();
        let entered = enter(FUNCTION, socket, irp, &[Kind::Datagram], &[Phase::Made, Phase::Bound]);
        return answer(entered.map(|(socket, _call, request)| {
            if !is_right {
                return refuse(request, "WskControlSocket: UDP_SEND_MSG_SIZE is four bytes", status::INVALID_PARAMETER);
            }
            // Windows from before UDP segmentation, or with something below TCP/IP that refuses it.
            let without = parameter("WithoutUso").unwrap_or_default();
            if without == "1" {
                return finish(request, status::INVALID_PARAMETER, 0);
            }
            lock(&socket.state).datagrams.divides = Some(without != "2");
            // SAFETY: the client's place for it, until the request ends.
            unsafe { output.cast::<u32>().write(0) };
            finish(request, status::SUCCESS, size_of::<u32>())
        }));
    }
    if !irp.is_null() {
        let Some(mut request) = Request::begin(FUNCTION, irp) else { return NTSTATUS(status::INVALID_PARAMETER) };
        request.kind = Kind::Datagram;
        let text = if enables { "WskControlSocket: callbacks are enabled by an IRP" } else { NOT_SIMULATED };
        return NTSTATUS(refuse(request, text, status::INVALID_PARAMETER));
    }
    request::check_call(FUNCTION);
    let admitted = admit(FUNCTION, socket::find(socket), &[Kind::Datagram], &[Phase::Bound]);
    let (socket, _call) = match admitted {
        Ok(admitted) => admitted,
        Err(status) => return NTSTATUS(status),
    };
    if !enables {
        violation(NOT_SIMULATED);
        return NTSTATUS(status::NOT_SUPPORTED);
    }
    let has_output = output_size != 0 || !output.is_null() || !returned.is_null();
    // SAFETY: passed on to the caller.
    match unsafe { problem(socket.events, input_size, input, has_output) } {
        Some(problem) => {
            violation(&format!("WskControlSocket: {problem}"));
            NTSTATUS(status::INVALID_PARAMETER)
        }
        None => {
            lock(&socket.state).datagrams.enabled = true;
            // What has come until now is told of by this only.
            socket.proceed_soon();
            NTSTATUS(status::SUCCESS)
        }
    }
}

/// The bytes of each datagram by the control information with a send. Err: what is wrong with it.
///
/// # Safety
/// `control` is null, or has `length` bytes.
unsafe fn message_size(length: u32, control: *mut c_void) -> Result<Option<u32>, &'static str> {
    if control.is_null() && length == 0 {
        return Ok(None);
    }
    if control.is_null() || length != CONTROL {
        return Err("WskSendMessages: the length of control information");
    }
    // SAFETY: `CONTROL` bytes, which the header and the number take.
    let (header, size) = unsafe {
        (
            control.cast::<WSACMSGHDR>().read_unaligned(),
            control.wrapping_byte_add(HEADER).cast::<u32>().read_unaligned(),
        )
    };
    let WSACMSGHDR { cmsg_len, cmsg_level, cmsg_type } = header;
    if (cmsg_len, cmsg_level, cmsg_type) != (HEADER + size_of::<u32>(), IPPROTO_UDP as i32, UDP_SEND_MSG_SIZE as i32) {
        return Err("WskSendMessages: control information that is no UDP_SEND_MSG_SIZE");
    }
    if size == 0 { Err("WskSendMessages: datagrams of no bytes") } else { Ok(Some(size)) }
}

/// What is wrong with a call that enables the callback.
///
/// # Safety
/// So many bytes of input, which name a GUID; the client's table.
unsafe fn problem(events: Events, input_size: usize, input: *mut c_void, has_output: bool) -> Option<&'static str> {
    if input_size != size_of::<WSK_EVENT_CALLBACK_CONTROL>() || input.is_null() {
        return Some("the input is no WSK_EVENT_CALLBACK_CONTROL");
    }
    // SAFETY: passed on to the caller.
    let WSK_EVENT_CALLBACK_CONTROL { NpiId: id, EventMask: mask } =
        unsafe { input.cast::<WSK_EVENT_CALLBACK_CONTROL>().read() };
    let dispatch = events.dispatch.get();
    if has_output {
        Some("an option is set with an output")
    // SAFETY: passed on to the caller.
    } else if id.is_null() || unsafe { *id } != NPI_WSK_INTERFACE_ID {
        Some("the NpiId is not WSK's")
    } else if mask != WSK_EVENT_RECEIVE_FROM {
        Some("the EventMask is not WSK_EVENT_RECEIVE_FROM")
    // SAFETY: passed on to the caller.
    } else if dispatch.is_null() || unsafe { (*dispatch).WskReceiveFromEvent }.is_none() {
        Some("the socket has no WskReceiveFromEvent")
    } else {
        None
    }
}

/// wsk/nc-wsk-pfn_wsk_send_messages.
pub(in crate::wsk) unsafe extern "system" fn send_messages(
    socket: *mut WSK_SOCKET,
    list: *mut WSK_BUF_LIST,
    flags: u32,
    address: *mut SOCKADDR,
    control_length: u32,
    control: *mut c_void,
    irp: *mut c_void,
) -> NTSTATUS {
    const FUNCTION: &str = "WskSendMessages";
    let entered = enter(FUNCTION, socket, irp, &[Kind::Datagram], &[Phase::Bound]);
    answer(entered.map(|(socket, _call, request)| {
        if flags != 0 {
            return refuse(request, "WskSendMessages: flags", status::INVALID_PARAMETER);
        }
        // SAFETY: the client's.
        let size = match unsafe { message_size(control_length, control) } {
            Ok(size) => size,
            Err(problem) => return refuse(request, problem, status::INVALID_PARAMETER),
        };
        // SAFETY: the client's address.
        let to = (!address.is_null()).then(|| unsafe { copy(address, socket.family) }).flatten();
        let Some(to) = to else {
            return refuse(request, "WskSendMessages: no address, or one of another family", status::INVALID_PARAMETER);
        };
        if list.is_null() {
            return refuse(request, "WskSendMessages: no datagram", status::INVALID_PARAMETER);
        }
        let (mut messages, mut datagrams) = (VecDeque::new(), 0);
        let mut next = list;
        // SAFETY: the client's list.
        while let Some(datagram) = unsafe { next.as_ref() } {
            // SAFETY: passed on to the caller.
            let Some(parts) = (unsafe { mdl::parts(FUNCTION, &datagram.Buffer) }) else {
                return finish(request, status::INVALID_PARAMETER, 0);
            };
            datagrams += size.map_or(1, |size| datagram.Buffer.Length.div_ceil(size as usize).max(1));
            messages.push_back(parts);
            next = datagram.Next;
        }
        let mut state = lock(&socket.state);
        let seen = &mut state.datagrams;
        if size.is_some() {
            match seen.divides {
                None => {
                    drop(state);
                    let text = "WskSendMessages: UDP_SEND_MSG_SIZE, which WskControlSocket has not said to be there";
                    return refuse(request, text, status::INVALID_PARAMETER);
                }
                Some(false) => {
                    seen.refusals += 1;
                    drop(state);
                    return finish(request, status::INVALID_PARAMETER, 0);
                }
                Some(true) => seen.divided += u64::from(datagrams > messages.len()),
            }
        }
        seen.longest = datagrams.max(seen.longest);
        drop(state);
        operations::start(socket, request, What::SendMessages(Messages { messages, size, sent: 0, to }))
    }))
}

/// wsk/nc-wsk-pfn_wsk_release_datagram_indication_list: at most DISPATCH_LEVEL, before WskCloseSocket.
pub(in crate::wsk) unsafe extern "system" fn release(
    socket: *mut WSK_SOCKET,
    indication: *mut WSK_DATAGRAM_INDICATION,
) -> NTSTATUS {
    const FUNCTION: &str = "WskRelease";
    request::check_call(FUNCTION);
    let head = indication as usize;
    NTSTATUS(match admit(FUNCTION, socket::find(socket), &[Kind::Datagram], &[Phase::Bound]) {
        Err(status) => status,
        Ok((socket, _call)) if give_back(&socket, head) => status::SUCCESS,
        Ok(_) => {
            let again = list::is_ended(head);
            violation(if again { "WskRelease: again" } else { "WskRelease: the client does not have this list" });
            status::INVALID_PARAMETER
        }
    })
}
