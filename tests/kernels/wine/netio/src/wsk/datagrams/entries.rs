//! The functions that only datagram sockets have.

use std::{collections::VecDeque, ffi::c_void};

use kernel::{status, violation};
use ndk_abi::{
    sockaddr::SOCKADDR,
    status::NTSTATUS,
    wsk::{
        NPI_WSK_INTERFACE_ID, SO_WSK_EVENT_CALLBACK, SOL_SOCKET, WSK_BUF_LIST, WSK_DATAGRAM_INDICATION,
        WSK_EVENT_CALLBACK_CONTROL, WSK_EVENT_RECEIVE_FROM, WSK_SET_OPTION, WSK_SOCKET,
    },
};

use super::{Events, list, release as give_back};
use crate::{
    lock,
    wsk::{
        entries::{admit, answer, copy, enter, refuse},
        mdl,
        operations::{self, What, finish},
        request::{self, Request},
        socket::{self, Kind, Phase},
    },
};

const NOT_SIMULATED: &str = "WskControlSocket: only the option that enables callbacks is simulated";

/// wsk/nc-wsk-pfn_wsk_control_socket, network/so-wsk-event-callback: for the one option that enables the callback.
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
        if flags != 0 || control_length != 0 || !control.is_null() {
            return refuse(request, "WskSendMessages: flags, or control information", status::INVALID_PARAMETER);
        }
        // SAFETY: the client's address.
        let to = (!address.is_null()).then(|| unsafe { copy(address, socket.family) }).flatten();
        let Some(to) = to else {
            return refuse(request, "WskSendMessages: no address, or one of another family", status::INVALID_PARAMETER);
        };
        if list.is_null() {
            return refuse(request, "WskSendMessages: no datagram", status::INVALID_PARAMETER);
        }
        let mut datagrams = VecDeque::new();
        let mut next = list;
        // SAFETY: the client's list.
        while let Some(datagram) = unsafe { next.as_ref() } {
            // SAFETY: passed on to the caller.
            let Some(parts) = (unsafe { mdl::parts(FUNCTION, &datagram.Buffer) }) else {
                return finish(request, status::INVALID_PARAMETER, 0);
            };
            datagrams.push_back(parts);
            next = datagram.Next;
        }
        let mut state = lock(&socket.state);
        state.datagrams.longest = datagrams.len().max(state.datagrams.longest);
        drop(state);
        operations::start(socket, request, What::SendMessages { datagrams, sent: 0, to })
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
