//! What connectors and listeners do.
#![expect(unsafe_code, reason = "calls functions of a C interface, through pointers to objects")]

use std::{
    ffi::c_void,
    net::SocketAddr,
    ptr::{NonNull, null_mut},
};

use ndk_abi::{
    describe::ZeroInit,
    ndkpi::{NDK_FN_DISCONNECT_EVENT_CALLBACK, NDK_FN_DISCONNECT_EVENT_CALLBACK_EX},
    sockaddr::{SOCKADDR_IN, SOCKADDR_INET},
    status::{NTSTATUS, STATUS_SUCCESS},
};

use super::{Connector, Context, Listener, Qp, call, completed, disconnected, disconnected_ex, number, pointer};

/// Address and length of an address structure.
fn socket(address: &SOCKADDR_IN) -> (*const ndk_abi::sockaddr::SOCKADDR, u32) {
    (std::ptr::from_ref(address).cast(), size_of::<SOCKADDR_IN>() as u32)
}

fn ipv4(address: SocketAddr) -> SOCKADDR_IN {
    match address {
        SocketAddr::V4(address) => SOCKADDR_IN::new(address),
        SocketAddr::V6(_) => unreachable!("IPv4 only here"),
    }
}

/// The callback for the end of a connection.
#[derive(Clone, Copy)]
pub(crate) enum OnDisconnect {
    Plain(Option<Context>),
    Ex(Context),
}

fn plain(context: Option<Context>) -> (Option<NDK_FN_DISCONNECT_EVENT_CALLBACK>, *mut c_void) {
    let function = context.map(|_| disconnected as NDK_FN_DISCONNECT_EVENT_CALLBACK);
    (function, context.map_or(null_mut(), number))
}

impl Connector {
    /// The connector that a connect event handed over.
    pub(crate) fn of_event(address: usize) -> Self {
        Self(NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("a connector"))
    }

    pub(crate) fn connect(
        self,
        qp: Qp,
        (local, remote): (SocketAddr, SocketAddr),
        limits: (u32, u32),
        data: &[u8],
        context: Context,
    ) -> NTSTATUS {
        let (local, remote) = (ipv4(local), ipv4(remote));
        let (local, remote) = (socket(&local), socket(&remote));
        call!(
            self.0,
            NdkConnect(
                qp.0.as_ptr(),
                local.0,
                local.1,
                remote.0,
                remote.1,
                limits.0,
                limits.1,
                pointer(data).cast(),
                data.len() as u32,
                completed,
                number(context),
            )
        )
    }

    pub(crate) fn accept(
        self,
        qp: Qp,
        limits: (u32, u32),
        data: &[u8],
        event: OnDisconnect,
        context: Context,
    ) -> NTSTATUS {
        let (qp, bytes, length, context) = (qp.0.as_ptr(), pointer(data).cast(), data.len() as u32, number(context));
        match event {
            OnDisconnect::Plain(event) => {
                let (function, event) = plain(event);
                call!(self.0, NdkAccept(qp, limits.0, limits.1, bytes, length, function, event, completed, context))
            }
            OnDisconnect::Ex(event) => {
                let function = Some(disconnected_ex as NDK_FN_DISCONNECT_EVENT_CALLBACK_EX);
                let event = number(event);
                call!(self.0, NdkAcceptEx(qp, limits.0, limits.1, bytes, length, function, event, completed, context))
            }
        }
    }

    pub(crate) fn complete(self, event: OnDisconnect, context: Context) -> NTSTATUS {
        let context = number(context);
        match event {
            OnDisconnect::Plain(event) => {
                let (function, event) = plain(event);
                call!(self.0, NdkCompleteConnect(function, event, completed, context))
            }
            OnDisconnect::Ex(event) => {
                let function = Some(disconnected_ex as NDK_FN_DISCONNECT_EVENT_CALLBACK_EX);
                call!(self.0, NdkCompleteConnectEx(function, number(event), completed, context))
            }
        }
    }

    pub(crate) fn reject(self, data: &[u8]) -> NTSTATUS {
        call!(self.0, NdkReject(pointer(data).cast(), data.len() as u32))
    }

    pub(crate) fn disconnect(self, context: Context) -> NTSTATUS {
        call!(self.0, NdkDisconnect(completed, number(context)))
    }

    /// The status, the limits, the size, and what is in a buffer of `room` bytes.
    pub(crate) fn data(self, room: usize) -> (NTSTATUS, (u32, u32), u32, Vec<u8>) {
        let mut buffer = vec![0xEE; room];
        let pointer = if room > 0 { buffer.as_mut_ptr().cast() } else { null_mut() };
        let (mut inbound, mut outbound, mut length) = (u32::MAX, u32::MAX, room as u32);
        let status = call!(self.0, NdkGetConnectionData(&raw mut inbound, &raw mut outbound, pointer, &raw mut length));
        (status, (inbound, outbound), length, buffer)
    }
}

impl Listener {
    pub(crate) fn listen(self, address: SocketAddr, context: Context) -> NTSTATUS {
        let address = ipv4(address);
        let address = socket(&address);
        call!(self.0, NdkListen(address.0, address.1, completed, number(context)))
    }

    /// Where it listens.
    pub(crate) fn local_address(self) -> Option<SocketAddr> {
        let mut storage = SOCKADDR_INET::ZERO;
        let mut length = size_of::<SOCKADDR_INET>() as u32;
        let known = call!(self.0, NdkGetLocalAddress((&raw mut storage).cast(), &raw mut length));
        if known == STATUS_SUCCESS { storage.socket_addr() } else { None }
    }

    pub(crate) fn pause(self, pause: bool) {
        call!(self.0, NdkControlConnectEvents(u8::from(pause)));
    }
}
