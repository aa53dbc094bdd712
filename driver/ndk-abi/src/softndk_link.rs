//! IOCTL_SOFTNDK_TEST_LINK: a program drives one SMB Direct connection of the test consumer, step by step
//! (`tests/clients/smb-direct/src/program.rs`).
#![allow(missing_docs, reason = "pure layouts, described per structure")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::sockaddr::SOCKADDR_INET;
use crate::status::NTSTATUS;

c_consts! { SOFTNDK_LINK_NUMBERS: u32;
    /// [`SOFTNDK_TEST_LINK::Operation`]: connect a client from `Local` to `Remote`. The link gets `Place` buffers
    /// ("places") of `Length` bytes each; SMB Direct's KeepaliveInterval is `Keepalive` microseconds.
    SOFTNDK_TEST_LINK_CONNECT = 1;
    /// [`SOFTNDK_TEST_LINK::Operation`]: listen at `Local`; the other parameters as for a connect.
    SOFTNDK_TEST_LINK_LISTEN = 2;
    /// [`SOFTNDK_TEST_LINK::Operation`]: accept a client. `Status` STATUS_PENDING: no client has connected yet.
    SOFTNDK_TEST_LINK_ACCEPT = 3;
    /// [`SOFTNDK_TEST_LINK::Operation`]: start the negotiation, or query the negotiation that was started. `Status`:
    /// STATUS_PENDING, or the result. `Value`: the most bytes of one RDMA transfer.
    SOFTNDK_TEST_LINK_NEGOTIATE = 4;
    /// [`SOFTNDK_TEST_LINK::Operation`]: take the next event, whose `Kind` is SOFTNDK_TEST_LINK_NOTHING to
    /// SOFTNDK_TEST_LINK_HAS_WRITTEN. `Value`: keepalives that the peer has answered since the last such request.
    SOFTNDK_TEST_LINK_NEXT = 5;
    /// [`SOFTNDK_TEST_LINK::Operation`]: send the bytes behind the structure as one message, which invalidates `Token`
    /// if `Access` is 1.
    SOFTNDK_TEST_LINK_SEND = 6;
    /// [`SOFTNDK_TEST_LINK::Operation`]: let the server read (`Access` 1) or write (`Access` 2) the first `Length`
    /// bytes of a place. The bytes behind the result are the buffer descriptor.
    SOFTNDK_TEST_LINK_LEND = 7;
    /// [`SOFTNDK_TEST_LINK::Operation`]: end the server's access to a place.
    SOFTNDK_TEST_LINK_TAKE_BACK = 8;
    /// [`SOFTNDK_TEST_LINK::Operation`]: RDMA Read of `Length` bytes at `Address` by `Token` into a place.
    SOFTNDK_TEST_LINK_READ = 9;
    /// [`SOFTNDK_TEST_LINK::Operation`]: RDMA Write of the first `Length` bytes of a place to `Address` by `Token`.
    SOFTNDK_TEST_LINK_WRITE = 10;
    /// [`SOFTNDK_TEST_LINK::Operation`]: copy the bytes behind the structure into a place, at offset `Address`.
    SOFTNDK_TEST_LINK_FILL = 11;
    /// [`SOFTNDK_TEST_LINK::Operation`]: return `Length` bytes of a place, from offset `Address`.
    SOFTNDK_TEST_LINK_COPY = 12;
    /// [`SOFTNDK_TEST_LINK::Operation`]: end the connection. A file that listens can then accept the next client.
    SOFTNDK_TEST_LINK_CLOSE = 13;
    /// [`SOFTNDK_TEST_LINK_RESULT::Kind`]: no event.
    SOFTNDK_TEST_LINK_NOTHING = 0;
    /// [`SOFTNDK_TEST_LINK_RESULT::Kind`]: a message, whose bytes follow. If `Place` is 1, the message has invalidated
    /// `Token`.
    SOFTNDK_TEST_LINK_MESSAGE = 1;
    /// [`SOFTNDK_TEST_LINK_RESULT::Kind`]: the server has lost its access to `Place`.
    SOFTNDK_TEST_LINK_TAKEN_BACK = 2;
    /// [`SOFTNDK_TEST_LINK_RESULT::Kind`]: the RDMA Read into `Place` is complete.
    SOFTNDK_TEST_LINK_HAS_READ = 3;
    /// [`SOFTNDK_TEST_LINK_RESULT::Kind`]: the RDMA Write from `Place` is complete.
    SOFTNDK_TEST_LINK_HAS_WRITTEN = 4;
    /// The most places of a link.
    SOFTNDK_TEST_LINK_PLACES = 8;
    /// The most bytes of a place.
    SOFTNDK_TEST_LINK_PLACE_BYTES = 0x80_0000;
}

c_structs! { SOFTNDK_LINK_LAYOUTS:
    /// One step of the test consumer's link, an SMB Direct connection whose peer is another implementation. The
    /// comments of `SOFTNDK_TEST_LINK_CONNECT` to `_CLOSE` give the meaning of the fields.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_TEST_LINK, size 0x60 {
        0x00 Version: u32,
        0x04 Operation: u32,
        0x08 Place: u32,
        0x0c Length: u32,
        0x10 Address: u64,
        0x18 Token: u32,
        0x1c Access: u32,
        0x20 Local: SOCKADDR_INET,
        0x3c Remote: SOCKADDR_INET,
        0x58 Keepalive: u32,
        0x5c Reserved: u32,
    }

    /// The result: STATUS_SUCCESS, or the error of the step that failed (`Step` of `tests/clients/smb-direct`).
    /// `Length` bytes follow.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct SOFTNDK_TEST_LINK_RESULT, size 0x28 {
        0x00 Version: u32,
        0x04 Status: NTSTATUS,
        0x08 Step: u32,
        0x0c Kind: u32,
        0x10 Place: u32,
        0x14 Token: u32,
        0x18 Value: u64,
        0x20 Length: u32,
        0x24 Reserved: u32,
    }
}
