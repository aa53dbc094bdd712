//! The few helpers of the crate.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use ndk_abi::describe::ZeroInit;
use ndk_abi::nd_ioctl::{ND_BIND, ctl_code};
use ndk_abi::ndkpi::{
    NDK_LOGICAL_ADDRESS, NDK_LOGICAL_ADDRESS_MAPPING, NDK_OPERATION_TYPE, NDK_RESULT_EX, NDK_SGE_ADDRESS,
    NdkOperationTypeReceiveAndInvalidate,
};
use ndk_abi::sockaddr::{AF_INET, AF_INET6, SOCKADDR_INET};
use ndk_abi::softndk_ioctl::softndk_control_code;
use ndk_abi::status::{
    ND_REMOTE_ERROR, NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_PENDING,
    STATUS_REMOTE_RESOURCES, STATUS_SUCCESS,
};
use zerocopy::{FromBytes, IntoBytes};

// Shows N8.
#[test]
fn status_severity_and_names() {
    assert!(STATUS_SUCCESS.is_success());
    assert!(STATUS_PENDING.is_success(), "PENDING is informational");
    assert!(!STATUS_BUFFER_OVERFLOW.is_success(), "BUFFER_OVERFLOW is a warning");
    assert!(STATUS_BUFFER_OVERFLOW.is_warning());
    assert!(![STATUS_SUCCESS, STATUS_PENDING, STATUS_ACCESS_VIOLATION].iter().any(|status| status.is_warning()));
    assert_eq!(STATUS_BUFFER_OVERFLOW.to_string(), "STATUS_BUFFER_OVERFLOW (0x80000005)");
    assert_eq!(format!("{:?}", NTSTATUS::from_u32(0xdead_beef)), "0xdeadbeef");
    // Two names, one number: the NTSTATUS name wins.
    assert_eq!(ND_REMOTE_ERROR, STATUS_REMOTE_RESOURCES);
    assert_eq!(ND_REMOTE_ERROR.name(), Some("STATUS_REMOTE_RESOURCES"));
    assert_eq!(NTSTATUS::ZERO, STATUS_SUCCESS);
}

#[test]
fn enumerations_take_any_value() {
    assert_eq!(NdkOperationTypeReceiveAndInvalidate.name(), Some("NdkOperationTypeReceiveAndInvalidate"));
    assert_eq!(format!("{:?}", NDK_OPERATION_TYPE(0x8002)), "NDK_OPERATION_TYPE(0x8002)");
    assert_eq!(NDK_RESULT_EX::ZERO.Type, NDK_OPERATION_TYPE(0));
}

#[test]
fn socket_addresses_have_the_layout_of_windows() {
    let v4 = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 5445));
    let address = SOCKADDR_INET::new(v4);
    let bytes = address.as_bytes();
    assert_eq!(bytes[..8], [2, 0, 0x15, 0x45, 192, 0, 2, 1]);
    assert!(bytes[8..].iter().all(|byte| *byte == 0));
    assert_eq!(address.si_family(), AF_INET);
    assert_eq!(address.socket_addr(), Some(v4));

    let v6 = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 445, 0, 7));
    let address = SOCKADDR_INET::new(v6);
    assert_eq!(address.as_bytes()[..4], [23, 0, 0x01, 0xbd]);
    assert_eq!(address.as_bytes()[23..], [1, 7, 0, 0, 0]);
    assert_eq!(address.si_family(), AF_INET6);
    assert_eq!(address.socket_addr(), Some(v6));

    assert_eq!(SOCKADDR_INET::ZERO.socket_addr(), None);
}

#[test]
fn requests_are_read_from_bytes_and_written_back() {
    let mut input = [0u8; 56];
    input[0] = 1;
    input[8..16].copy_from_slice(&0x1122_3344_5566_7788u64.to_le_bytes());
    let (request, rest) = ND_BIND::read_from_prefix(&input).unwrap();
    assert_eq!((request.Version, request.Handle), (1, 0x1122_3344_5566_7788));
    assert_eq!(rest.len(), 8);
    assert_eq!(request.as_bytes(), &input[..48]);
    assert!(ND_BIND::read_from_prefix(&input[..47]).is_err(), "a short buffer is refused");
}

// Shows P1.
#[test]
fn control_codes() {
    // The worked examples of the documentation of CTL_CODE: IOCTL_DISK_GET_DRIVE_GEOMETRY, IOCTL_DISK_FORMAT_TRACKS.
    assert_eq!(ctl_code(0x07, 0, 0, 0), 0x0007_0000);
    assert_eq!(ctl_code(0x07, 6, 0, 3), 0x0007_c018);
    assert_eq!(softndk_control_code(0), 0x0012_e000);
}

#[test]
fn logical_addresses() {
    let address = NDK_LOGICAL_ADDRESS { QuadPart: -0x1000 };
    assert_eq!(NDK_SGE_ADDRESS::from_logical(address).LogicalAddress(), address);
    assert_eq!(NDK_LOGICAL_ADDRESS_MAPPING::size_for(0), Some(0x10));
    assert_eq!(NDK_LOGICAL_ADDRESS_MAPPING::size_for(3), Some(0x28));
    assert_eq!(NDK_LOGICAL_ADDRESS_MAPPING::size_for(usize::MAX / 8 + 1), None);
    assert_eq!(NDK_LOGICAL_ADDRESS_MAPPING::size_for(usize::MAX / 8), None);
}
