//! What connectors and listeners do.
#![expect(unsafe_code, reason = "calls functions of a C interface")]

use std::{
    ffi::c_void,
    net::SocketAddr,
    ptr::{NonNull, null_mut},
};

use ndk_abi::{
    describe::ZeroInit,
    ndkpi::*,
    sockaddr::SOCKADDR_INET,
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_SUCCESS},
};

use super::{
    super::{
        Request, Waiter,
        call::call,
        transport::{Address, RawAddress},
        waiter,
    },
    Connector, Listener, Qp, SharedEndpoint,
};

/// Private data as it crosses the interface.
fn data(bytes: &[u8]) -> (*const c_void, u32) {
    (bytes.as_ptr().cast(), bytes.len() as u32)
}

impl Connector {
    pub(crate) fn connect(
        &self,
        qp: &Qp,
        local: SocketAddr,
        remote: SocketAddr,
        limits: (u32, u32),
        private_data: &[u8],
    ) -> Request {
        let (local, remote) = (Address::new(local), Address::new(remote));
        self.connect_to(
            qp,
            (local.pointer(), local.length()),
            (remote.pointer(), remote.length()),
            limits,
            private_data,
        )
    }

    /// NdkConnect with addresses that are passed on unchecked.
    pub(crate) fn connect_to(
        &self,
        qp: &Qp,
        local: RawAddress,
        remote: RawAddress,
        limits: (u32, u32),
        private_data: &[u8],
    ) -> Request {
        let completion = Waiter::deferred("completion of NdkConnect");
        let (bytes, length) = data(private_data);
        let returned = call!(
            self.raw,
            NdkConnect(
                qp.raw.as_ptr(),
                local.0,
                local.1,
                remote.0,
                remote.1,
                limits.0,
                limits.1,
                bytes,
                length,
                waiter::completed,
                completion.context(),
            )
        );
        Request { returned, completion }
    }

    pub(crate) fn connect_shared(
        &self,
        qp: &Qp,
        endpoint: &SharedEndpoint,
        remote: SocketAddr,
        limits: (u32, u32),
        private_data: &[u8],
    ) -> Request {
        let remote = Address::new(remote);
        self.connect_shared_to(qp, endpoint, (remote.pointer(), remote.length()), limits, private_data)
    }

    /// NdkConnectWithSharedEndpoint with an address that is passed on unchecked.
    pub(crate) fn connect_shared_to(
        &self,
        qp: &Qp,
        endpoint: &SharedEndpoint,
        remote: RawAddress,
        limits: (u32, u32),
        private_data: &[u8],
    ) -> Request {
        let completion = Waiter::deferred("completion of NdkConnectWithSharedEndpoint");
        let (bytes, length) = data(private_data);
        let returned = call!(
            self.raw,
            NdkConnectWithSharedEndpoint(
                qp.raw.as_ptr(),
                endpoint.raw.as_ptr(),
                remote.0,
                remote.1,
                limits.0,
                limits.1,
                bytes,
                length,
                waiter::completed,
                completion.context(),
            )
        );
        Request { returned, completion }
    }

    /// NdkCompleteConnect.
    pub(crate) fn complete(&self, event: Option<&'static Waiter>) -> Request {
        let completion = Waiter::deferred("completion of NdkCompleteConnect");
        let function = event.map(|_| waiter::disconnected as NDK_FN_DISCONNECT_EVENT_CALLBACK);
        let context = event.map_or(null_mut(), Waiter::context);
        let returned = call!(self.raw, NdkCompleteConnect(function, context, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    /// NdkCompleteConnectEx.
    pub(crate) fn complete_ex(&self, event: Option<&'static Waiter>) -> Request {
        let completion = Waiter::deferred("completion of NdkCompleteConnectEx");
        let function = event.map(|_| waiter::disconnected_ex as NDK_FN_DISCONNECT_EVENT_CALLBACK_EX);
        let context = event.map_or(null_mut(), Waiter::context);
        let returned =
            call!(self.raw, NdkCompleteConnectEx(function, context, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    /// NdkAccept.
    pub(crate) fn accept(
        &self,
        qp: &Qp,
        limits: (u32, u32),
        private_data: &[u8],
        event: Option<&'static Waiter>,
    ) -> Request {
        let completion = Waiter::deferred("completion of NdkAccept");
        let function = event.map(|_| waiter::disconnected as NDK_FN_DISCONNECT_EVENT_CALLBACK);
        let context = event.map_or(null_mut(), Waiter::context);
        let (bytes, length) = data(private_data);
        let returned = call!(
            self.raw,
            NdkAccept(
                qp.raw.as_ptr(),
                limits.0,
                limits.1,
                bytes,
                length,
                function,
                context,
                waiter::completed,
                completion.context(),
            )
        );
        Request { returned, completion }
    }

    /// NdkAcceptEx.
    pub(crate) fn accept_ex(
        &self,
        qp: &Qp,
        limits: (u32, u32),
        private_data: &[u8],
        event: Option<&'static Waiter>,
    ) -> Request {
        let completion = Waiter::deferred("completion of NdkAcceptEx");
        let function = event.map(|_| waiter::disconnected_ex as NDK_FN_DISCONNECT_EVENT_CALLBACK_EX);
        let context = event.map_or(null_mut(), Waiter::context);
        let (bytes, length) = data(private_data);
        let returned = call!(
            self.raw,
            NdkAcceptEx(
                qp.raw.as_ptr(),
                limits.0,
                limits.1,
                bytes,
                length,
                function,
                context,
                waiter::completed,
                completion.context(),
            )
        );
        Request { returned, completion }
    }

    pub(crate) fn reject(&self, private_data: &[u8]) -> NTSTATUS {
        let (bytes, length) = data(private_data);
        call!(self.raw, NdkReject(bytes, length))
    }

    pub(crate) fn disconnect(&self) -> Request {
        let completion = Waiter::deferred("completion of NdkDisconnect");
        let returned = call!(self.raw, NdkDisconnect(waiter::completed, completion.context()));
        Request { returned, completion }
    }

    /// NdkGetConnectionData with a buffer of `room` bytes (none: no buffer): the status, the read limits, the size
    /// reported, and the buffer.
    pub(crate) fn data_sized(&self, room: Option<usize>) -> (NTSTATUS, (u32, u32), u32, Vec<u8>) {
        let mut buffer = vec![0xEE; room.unwrap_or(0)];
        let pointer = if room.is_some() { buffer.as_mut_ptr().cast() } else { null_mut() };
        let (mut inbound, mut outbound) = (u32::MAX, u32::MAX);
        let mut length = buffer.len() as u32;
        let status =
            call!(self.raw, NdkGetConnectionData(&raw mut inbound, &raw mut outbound, pointer, &raw mut length));
        (status, (inbound, outbound), length, buffer)
    }

    /// NdkGetConnectionData without a buffer, with these out parameters: inbound limit, outbound limit, length and what it says.
    pub(crate) fn data_in_part(
        &self,
        inbound: bool,
        outbound: bool,
        length: Option<u32>,
    ) -> (NTSTATUS, [Option<u32>; 3]) {
        let mut values = [0, 0, length.unwrap_or(0)];
        let wanted = [inbound, outbound, length.is_some()];
        let mut places = values
            .iter_mut()
            .zip(wanted)
            .map(|(place, wanted)| if wanted { std::ptr::from_mut(place) } else { null_mut() });
        let [inbound, outbound, length] = [(); 3].map(|()| places.next().expect("three"));
        let status = call!(self.raw, NdkGetConnectionData(inbound, outbound, null_mut(), length));
        (status, [0, 1, 2].map(|index| wanted[index].then_some(values[index])))
    }

    /// The read limits and the peer's private data.
    #[track_caller]
    pub(crate) fn data(&self) -> ((u32, u32), Vec<u8>) {
        let (status, limits, length, mut data) = self.data_sized(Some(512));
        assert_eq!(status, STATUS_SUCCESS);
        data.truncate(length as usize);
        (limits, data)
    }

    pub(crate) fn local_address(&self) -> Result<SocketAddr, NTSTATUS> {
        query_address(|buffer, length| call!(self.raw, NdkGetLocalAddress(buffer, length)))
    }

    pub(crate) fn local_address_sized(&self, room: Option<usize>) -> Sized {
        query_address_sized(room, |buffer, length| call!(self.raw, NdkGetLocalAddress(buffer, length)))
    }

    pub(crate) fn peer_address(&self) -> Result<SocketAddr, NTSTATUS> {
        query_address(|buffer, length| call!(self.raw, NdkGetPeerAddress(buffer, length)))
    }

    pub(crate) fn peer_address_sized(&self, room: Option<usize>) -> Sized {
        query_address_sized(room, |buffer, length| call!(self.raw, NdkGetPeerAddress(buffer, length)))
    }
}

/// What an address query answers: its status, the size reported, and the buffer, of which 0xEE was not written.
pub(crate) type Sized = (NTSTATUS, u32, Vec<u8>);

/// Asks for an address with a buffer of `room` bytes; none: no buffer, of any size.
fn query_address_sized(
    room: Option<usize>,
    query: impl Fn(*mut ndk_abi::sockaddr::SOCKADDR, *mut u32) -> NTSTATUS,
) -> Sized {
    let mut buffer = vec![0xEE; room.unwrap_or(0)];
    let pointer = if room.is_some() { buffer.as_mut_ptr().cast() } else { null_mut() };
    let mut length = room.map_or(u32::MAX, |room| room as u32);
    let status = query(pointer, &raw mut length);
    (status, length, buffer)
}

/// Asks for an address in two calls, size first.
fn query_address(
    query: impl Fn(*mut ndk_abi::sockaddr::SOCKADDR, *mut u32) -> NTSTATUS,
) -> Result<SocketAddr, NTSTATUS> {
    let mut length = 0;
    let sized = query(null_mut(), &raw mut length);
    if sized != STATUS_BUFFER_TOO_SMALL {
        assert_ne!(sized, STATUS_SUCCESS);
        return Err(sized);
    }
    let mut storage = SOCKADDR_INET::ZERO;
    assert!(length as usize <= size_of::<SOCKADDR_INET>());
    let needed = length;
    length -= 1;
    assert_eq!(query((&raw mut storage).cast(), &raw mut length), STATUS_BUFFER_TOO_SMALL);
    assert_eq!(length, needed);
    assert_eq!(query((&raw mut storage).cast(), &raw mut length), STATUS_SUCCESS);
    Ok(storage.socket_addr().expect("a known family"))
}

impl SharedEndpoint {
    pub(crate) fn local_address(&self) -> Result<SocketAddr, NTSTATUS> {
        query_address(|buffer, length| call!(self.raw, NdkGetLocalAddress(buffer, length)))
    }

    pub(crate) fn local_address_sized(&self, room: Option<usize>) -> Sized {
        query_address_sized(room, |buffer, length| call!(self.raw, NdkGetLocalAddress(buffer, length)))
    }
}

impl Listener {
    pub(crate) fn listen(&self, address: SocketAddr) -> NTSTATUS {
        let address = Address::new(address);
        let completion = Waiter::new("completion of NdkListen");
        let returned =
            call!(self.raw, NdkListen(address.pointer(), address.length(), waiter::completed, completion.context()));
        Request { returned, completion }.wait()
    }

    pub(crate) fn local_address(&self) -> Result<SocketAddr, NTSTATUS> {
        query_address(|buffer, length| call!(self.raw, NdkGetLocalAddress(buffer, length)))
    }

    pub(crate) fn local_address_sized(&self, room: Option<usize>) -> Sized {
        query_address_sized(room, |buffer, length| call!(self.raw, NdkGetLocalAddress(buffer, length)))
    }

    pub(crate) fn pause(&self, pause: bool) {
        call!(self.raw, NdkControlConnectEvents(u8::from(pause)));
    }

    /// The connector of the next connect event.
    #[track_caller]
    pub(crate) fn take(&self) -> Connector {
        Connector::of_event(self.events.take().value)
    }
}

impl Connector {
    /// The connector that a connect event handed over.
    #[track_caller]
    pub(crate) fn of_event(value: usize) -> Self {
        let raw = NonNull::new(std::ptr::with_exposed_provenance_mut(value)).expect("a connector");
        let connector = Self { raw };
        connector.check_header();
        connector
    }
}
