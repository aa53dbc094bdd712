//! The part of Winsock Kernel that TCP and UDP need: registration, capture of the provider, and sockets.
//!
//! Dispatch tables belong to the WSK provider, and newer versions append entries: read single fields, never copy a
//! table. Entries that SoftNDK does not call are plain pointers. All functions of sockets run at IRQL <= DISPATCH_LEVEL
//! and complete the IRP, whatever they return.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use crate::{
    sockaddr::SOCKADDR,
    status::NTSTATUS,
    wdm::{GUID, MDL},
};

/// The identity of WSK's own events, for [`WSK_EVENT_CALLBACK_CONTROL`].
pub const NPI_WSK_INTERFACE_ID: GUID = GUID::from_u128(0x2227e803_8d8b_11d4_abad_009027719e09);

c_consts! { WSK_VERSIONS: u16;
    /// `MAKE_WSK_VERSION(1, 0)`.
    WSK_VERSION_1_0 = 0x0100;
}

c_consts! { WSK_NUMBERS: u32;
    /// WskCaptureProviderNPI does not wait, and may be called at IRQL <= DISPATCH_LEVEL.
    WSK_NO_WAIT = 0;
    WSK_FLAG_LISTEN_SOCKET = 1;
    WSK_FLAG_CONNECTION_SOCKET = 2;
    WSK_FLAG_DATAGRAM_SOCKET = 4;
    /// WskReceiveFromEvent: WSK calls at DISPATCH_LEVEL.
    WSK_FLAG_AT_DISPATCH_LEVEL = 8;
    /// WskSend: the transport sends the data, and data queued before it, at once.
    WSK_FLAG_NODELAY = 2;
    IPPROTO_TCP = 6;
    IPPROTO_UDP = 17;
    /// `WskSetOption` and `WskGetOption`, types of WskControlSocket.
    WSK_SET_OPTION = 0;
    WSK_GET_OPTION = 1;
    SOL_SOCKET = 0xFFFF;
    /// Enables event callbacks; the input is a WSK_EVENT_CALLBACK_CONTROL. Without an IRP.
    SO_WSK_EVENT_CALLBACK = 0x4002;
    WSK_EVENT_RECEIVE_FROM = 0x100;
    /// An option of IPPROTO_UDP, and the type of control information with a send: the bytes of each datagram that TCP/IP makes of a message;
    /// the last one may have fewer.
    UDP_SEND_MSG_SIZE = 2;
}

c_consts! { SOCKET_TYPES: u16;
    SOCK_STREAM = 1;
    SOCK_DGRAM = 2;
}

c_structs! { WSK_SOCKET_LAYOUTS:
    /// The input of WskRegister.
    struct WSK_CLIENT_NPI, size 0x10 {
        0x00 ClientContext: *mut c_void,
        0x08 Dispatch: *const WSK_CLIENT_DISPATCH,
    }

    /// The client. Stays at its address until WskDeregister has returned.
    struct WSK_CLIENT_DISPATCH, size 0x10 {
        0x00 Version: u16,
        0x02 Reserved: u16,
        0x08 WskClientEvent: *mut c_void,
    }

    /// WSK's data of a registration, in the client's memory.
    struct WSK_REGISTRATION, size 0x18 {
        0x00 ReservedRegistrationState: u64,
        0x08 ReservedRegistrationContext: *mut c_void,
        0x10 ReservedRegistrationLock: usize,
    }

    /// The output of WskCaptureProviderNPI.
    struct WSK_PROVIDER_NPI, size 0x10 {
        0x00 Client: *mut c_void,
        0x08 Dispatch: *const WSK_PROVIDER_DISPATCH,
    }

    /// The functions that need no socket.
    struct WSK_PROVIDER_DISPATCH, size 0x38 {
        0x00 Version: u16,
        0x02 Reserved: u16,
        0x08 WskSocket: Option<PFN_WSK_SOCKET>,
        0x10 WskSocketConnect: *mut c_void,
        0x18 WskControlClient: *mut c_void,
        0x20 WskGetAddressInfo: *mut c_void,
        0x28 WskFreeAddressInfo: *mut c_void,
        0x30 WskGetNameInfo: *mut c_void,
    }

    /// A socket, in WSK's memory. The flags of WskSocket decide which dispatch table it has.
    struct WSK_SOCKET, size 0x8 {
        0x00 Dispatch: *const c_void,
    }

    /// `Length` bytes of an MDL chain, from `Offset` on; `Offset` lies in the first MDL.
    struct WSK_BUF, size 0x18 {
        0x00 Mdl: *mut MDL,
        0x08 Offset: u32,
        0x10 Length: usize,
    }

    /// A datagram of a list to be sent.
    struct WSK_BUF_LIST, size 0x20 {
        0x00 Next: *mut WSK_BUF_LIST,
        0x08 Buffer: WSK_BUF,
    }

    /// The functions of a listening socket.
    struct WSK_PROVIDER_LISTEN_DISPATCH, size 0x30 {
        0x00 WskControlSocket: *mut c_void,
        0x08 WskCloseSocket: Option<PFN_WSK_CLOSE_SOCKET>,
        0x10 WskBind: Option<PFN_WSK_BIND>,
        0x18 WskAccept: Option<PFN_WSK_ACCEPT>,
        0x20 WskInspectComplete: *mut c_void,
        0x28 WskGetLocalAddress: Option<PFN_WSK_GET_LOCAL_ADDRESS>,
    }

    /// The functions of a connected socket that all versions of WSK have.
    prefix WSK_PROVIDER_CONNECTION_DISPATCH, size 0x50 {
        0x00 WskControlSocket: *mut c_void,
        0x08 WskCloseSocket: Option<PFN_WSK_CLOSE_SOCKET>,
        0x10 WskBind: Option<PFN_WSK_BIND>,
        0x18 WskConnect: Option<PFN_WSK_CONNECT>,
        0x20 WskGetLocalAddress: Option<PFN_WSK_GET_LOCAL_ADDRESS>,
        0x28 WskGetRemoteAddress: *mut c_void,
        0x30 WskSend: Option<PFN_WSK_SEND>,
        0x38 WskReceive: Option<PFN_WSK_RECEIVE>,
        0x40 WskDisconnect: Option<PFN_WSK_DISCONNECT>,
        0x48 WskRelease: *mut c_void,
    }

    /// The functions of a datagram socket that all versions of WSK have.
    prefix WSK_PROVIDER_DATAGRAM_DISPATCH, size 0x40 {
        0x00 WskControlSocket: Option<PFN_WSK_CONTROL_SOCKET>,
        0x08 WskCloseSocket: Option<PFN_WSK_CLOSE_SOCKET>,
        0x10 WskBind: Option<PFN_WSK_BIND>,
        0x18 WskSendTo: *mut c_void,
        0x20 WskReceiveFrom: *mut c_void,
        0x28 WskRelease: Option<PFN_WSK_RELEASE_DATAGRAM_INDICATION_LIST>,
        0x30 WskGetLocalAddress: Option<PFN_WSK_GET_LOCAL_ADDRESS>,
        /// As of Windows 8.
        0x38 WskSendMessages: Option<PFN_WSK_SEND_MESSAGES>,
    }

    /// The event callbacks of a datagram socket.
    struct WSK_CLIENT_DATAGRAM_DISPATCH, size 0x8 {
        0x00 WskReceiveFromEvent: Option<PFN_WSK_RECEIVE_FROM_EVENT>,
    }

    /// Datagrams that WSK indicates, linked by `Next`.
    struct WSK_DATAGRAM_INDICATION, size 0x38 {
        0x00 Next: *mut WSK_DATAGRAM_INDICATION,
        0x08 Buffer: WSK_BUF,
        0x20 ControlInfo: *mut c_void,
        0x28 ControlInfoLength: u32,
        0x30 RemoteAddress: *mut SOCKADDR,
    }

    /// The input of SO_WSK_EVENT_CALLBACK.
    struct WSK_EVENT_CALLBACK_CONTROL, size 0x10 {
        0x00 NpiId: *const GUID,
        0x08 EventMask: u32,
    }

    /// What control information begins with. `cmsg_len` counts these bytes and those of the data, which follow.
    struct WSACMSGHDR, size 0x10 {
        0x00 cmsg_len: usize,
        0x08 cmsg_level: i32,
        0x0C cmsg_type: i32,
    }
}

c_fns! { WSK_SOCKET_PROTOTYPES:
    /// Creates a socket, returned in `IoStatus.Information`. Without a security descriptor no other socket can share
    /// its address.
    fn PFN_WSK_SOCKET(
        Client: *mut c_void,
        AddressFamily: u16,
        SocketType: u16,
        Protocol: u32,
        Flags: u32,
        SocketContext: *mut c_void,
        Dispatch: *const c_void,
        OwningProcess: *mut c_void,
        OwningThread: *mut c_void,
        SecurityDescriptor: *mut c_void,
        Irp: *mut c_void,
    ) -> NTSTATUS;

    /// Completes all other requests of the socket, then closes it: by a reset unless both sides have disconnected. No
    /// other call for the socket may be in progress.
    fn PFN_WSK_CLOSE_SOCKET(Socket: *mut WSK_SOCKET, Irp: *mut c_void) -> NTSTATUS;

    /// Binds the socket to a local address. A listening socket listens from then on.
    fn PFN_WSK_BIND(Socket: *mut WSK_SOCKET, LocalAddress: *mut SOCKADDR, Flags: u32, Irp: *mut c_void) -> NTSTATUS;

    /// Accepts the next connection: returns its socket in `IoStatus.Information`, and the addresses in the two buffers.
    fn PFN_WSK_ACCEPT(
        ListenSocket: *mut WSK_SOCKET,
        Flags: u32,
        AcceptSocketContext: *mut c_void,
        AcceptSocketDispatch: *const c_void,
        LocalAddress: *mut SOCKADDR,
        RemoteAddress: *mut SOCKADDR,
        Irp: *mut c_void,
    ) -> NTSTATUS;

    /// Connects a bound socket.
    fn PFN_WSK_CONNECT(Socket: *mut WSK_SOCKET, RemoteAddress: *mut SOCKADDR, Flags: u32, Irp: *mut c_void) -> NTSTATUS;

    /// Gets the local address; WSK uses the buffer until the IRP is completed.
    fn PFN_WSK_GET_LOCAL_ADDRESS(Socket: *mut WSK_SOCKET, LocalAddress: *mut SOCKADDR, Irp: *mut c_void) -> NTSTATUS;

    /// Sends. WSK uses the MDLs until the IRP is completed, the WSK_BUF only during the call.
    fn PFN_WSK_SEND(Socket: *mut WSK_SOCKET, Buffer: *mut WSK_BUF, Flags: u32, Irp: *mut c_void) -> NTSTATUS;

    /// Receives at least one byte; 0 bytes: the peer sends no more.
    fn PFN_WSK_RECEIVE(Socket: *mut WSK_SOCKET, Buffer: *mut WSK_BUF, Flags: u32, Irp: *mut c_void) -> NTSTATUS;

    /// Sets an option, gets one, or does something else that a control code names. Without an IRP the call is synchronous.
    fn PFN_WSK_CONTROL_SOCKET(
        Socket: *mut WSK_SOCKET,
        RequestType: u32,
        ControlCode: u32,
        Level: u32,
        InputSize: usize,
        InputBuffer: *mut c_void,
        OutputSize: usize,
        OutputBuffer: *mut c_void,
        OutputSizeReturned: *mut usize,
        Irp: *mut c_void,
    ) -> NTSTATUS;

    /// Sends each WSK_BUF of a list as a datagram, or as several by UDP_SEND_MSG_SIZE, from a bound socket, all to one address.
    /// `IoStatus.Information` is the sum of their bytes.
    fn PFN_WSK_SEND_MESSAGES(
        Socket: *mut WSK_SOCKET,
        BufferList: *mut WSK_BUF_LIST,
        Flags: u32,
        RemoteAddress: *mut SOCKADDR,
        ControlInfoLength: u32,
        ControlInfo: *mut c_void,
        Irp: *mut c_void,
    ) -> NTSTATUS;

    /// Gives back datagrams whose event callback has returned STATUS_PENDING.
    fn PFN_WSK_RELEASE_DATAGRAM_INDICATION_LIST(
        Socket: *mut WSK_SOCKET,
        DatagramIndication: *mut WSK_DATAGRAM_INDICATION,
    ) -> NTSTATUS;

    /// The client's: datagrams have arrived. STATUS_SUCCESS: the client has used them; STATUS_PENDING: the client keeps them
    /// until WskRelease. Null: the socket is to be closed. The client waits for no request in the callback.
    fn PFN_WSK_RECEIVE_FROM_EVENT(
        SocketContext: *mut c_void,
        Flags: u32,
        DataIndication: *mut WSK_DATAGRAM_INDICATION,
    ) -> NTSTATUS;

    /// Ends the sending side, after the sends that are under way.
    fn PFN_WSK_DISCONNECT(Socket: *mut WSK_SOCKET, Buffer: *mut WSK_BUF, Flags: u32, Irp: *mut c_void) -> NTSTATUS;
}
