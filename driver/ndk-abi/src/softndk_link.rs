//! The link of the test consumer: IOCTL_SOFTNDK_TEST_LINK.
#![allow(missing_docs, reason = "pure layouts, described per structure")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::sockaddr::SOCKADDR_INET;
use crate::status::NTSTATUS;

c_consts! { SOFTNDK_LINK_NUMBERS: u32;
    /// [`SOFTNDK_TEST_LINK::Operation`]: connect a client from `Local` to `Remote`; `Place` places of `Length` bytes each, SMB Direct's
    /// KeepaliveInterval is `Keepalive` microseconds.
    SOFTNDK_TEST_LINK_CONNECT = 1;
    /// The same: listen at `Local`; the other parameters as for a connect.
    SOFTNDK_TEST_LINK_LISTEN = 2;
    /// The same: accept a client that has connected. `Status` STATUS_PENDING: there is none yet.
    SOFTNDK_TEST_LINK_ACCEPT = 3;
    /// The same: begin to negotiate, or look how far it is: `Status` STATUS_PENDING, or the end. `Value`: bytes of one RDMA transfer.
    SOFTNDK_TEST_LINK_NEGOTIATE = 4;
    /// The same: take what has come: `Kind`. `Value`: keepalives that the peer has answered since the last time.
    SOFTNDK_TEST_LINK_NEXT = 5;
    /// The same: send the bytes as one message, which invalidates `Token` if `Access` is 1.
    SOFTNDK_TEST_LINK_SEND = 6;
    /// The same: lend the first `Length` bytes of a place, for the server to read (`Access` 1) or write (2). The bytes: the descriptor.
    SOFTNDK_TEST_LINK_LEND = 7;
    /// The same: take a place back that is lent.
    SOFTNDK_TEST_LINK_TAKE_BACK = 8;
    /// The same: read `Length` bytes at `Address` by `Token` into a place.
    SOFTNDK_TEST_LINK_READ = 9;
    /// The same: write the first `Length` bytes of a place to `Address` by `Token`.
    SOFTNDK_TEST_LINK_WRITE = 10;
    /// The same: copy the bytes to `Address` bytes behind the beginning of a place.
    SOFTNDK_TEST_LINK_FILL = 11;
    /// The same: give `Length` bytes from there.
    SOFTNDK_TEST_LINK_COPY = 12;
    /// The same: end the connection. A file that listens can accept the next one.
    SOFTNDK_TEST_LINK_CLOSE = 13;
    /// [`SOFTNDK_TEST_LINK_RESULT::Kind`]: nothing.
    SOFTNDK_TEST_LINK_NOTHING = 0;
    /// The same: the bytes are a message, which has invalidated `Token` if `Place` is 1.
    SOFTNDK_TEST_LINK_MESSAGE = 1;
    /// The same: `Place` is taken back.
    SOFTNDK_TEST_LINK_TAKEN_BACK = 2;
    /// The same: `Place` has what was read.
    SOFTNDK_TEST_LINK_HAS_READ = 3;
    /// The same: `Place` is written.
    SOFTNDK_TEST_LINK_HAS_WRITTEN = 4;
    /// Places of a link, at most.
    SOFTNDK_TEST_LINK_PLACES = 8;
    /// Bytes of a place, at most.
    SOFTNDK_TEST_LINK_PLACE_BYTES = 0x80_0000;
}

c_structs! { SOFTNDK_LINK_LAYOUTS:
    /// Works with the one link of the test consumer, an end of SMB Direct whose peer is another implementation: `SOFTNDK_TEST_LINK_CONNECT` to
    /// `_CLOSE`, which say what the fields are.
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

    /// What came of it: STATUS_SUCCESS, or why the step (`Step` of `tests/clients/smb-direct`) failed. `Length` bytes follow.
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
