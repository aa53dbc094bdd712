//! Reads and writes the socket addresses and private data that consumers pass by pointer.
#![expect(unsafe_code, reason = "reads and writes the consumer's buffers")]

use core::net::SocketAddr;

use ndk_abi::{
    sockaddr::{AF_INET, AF_INET6, SOCKADDR, SOCKADDR_IN, SOCKADDR_IN6},
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_DEVICE_STATE, STATUS_SUCCESS},
};
use soft_rdma::Error;

/// Reads the IPv4 or IPv6 address at `address`, a structure of `length` bytes.
///
/// # Safety
/// `address` is readable for `length` bytes.
pub(crate) unsafe fn read(address: *const SOCKADDR, length: u32) -> Result<SocketAddr, Error> {
    let length = length as usize;
    if address.is_null() || length < size_of::<u16>() {
        return Err(Error::InvalidAddress);
    }
    // SAFETY: at least the family can be read.
    let family = unsafe { address.cast::<u16>().read_unaligned() };
    match family {
        AF_INET if length >= size_of::<SOCKADDR_IN>() => {
            // SAFETY: `length` says that the whole structure can be read.
            let v4 = unsafe { address.cast::<SOCKADDR_IN>().read_unaligned() };
            Ok(SocketAddr::V4(v4.address()))
        }
        AF_INET6 if length >= size_of::<SOCKADDR_IN6>() => {
            // SAFETY: `length` says that the whole structure can be read.
            let v6 = unsafe { address.cast::<SOCKADDR_IN6>().read_unaligned() };
            Ok(SocketAddr::V6(v6.address()))
        }
        _ => Err(Error::InvalidAddress),
    }
}

/// Answers an address query: copies the address, or returns STATUS_BUFFER_TOO_SMALL with the size needed.
/// STATUS_INVALID_DEVICE_STATE: the object has no address yet, as in IND2Listener::GetLocalAddress.
///
/// # Safety
/// `length` is readable and writable; `buffer` is null or writable for `*length` bytes.
pub(crate) unsafe fn write(address: Option<SocketAddr>, buffer: *mut SOCKADDR, length: *mut u32) -> NTSTATUS {
    let Some(address) = address else { return STATUS_INVALID_DEVICE_STATE };
    let needed = match address {
        SocketAddr::V4(_) => size_of::<SOCKADDR_IN>() as u32,
        SocketAddr::V6(_) => size_of::<SOCKADDR_IN6>() as u32,
    };
    // SAFETY: by contract.
    let available = unsafe { length.read() };
    // SAFETY: by contract.
    unsafe { length.write(needed) };
    if buffer.is_null() || available < needed {
        return STATUS_BUFFER_TOO_SMALL;
    }
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: the buffer has room for `needed` bytes.
            unsafe { buffer.cast::<SOCKADDR_IN>().write_unaligned(SOCKADDR_IN::new(v4)) };
        }
        SocketAddr::V6(v6) => {
            // SAFETY: the buffer has room for `needed` bytes.
            unsafe { buffer.cast::<SOCKADDR_IN6>().write_unaligned(SOCKADDR_IN6::new(v6)) };
        }
    }
    STATUS_SUCCESS
}

/// The private data that a consumer passes.
///
/// # Safety
/// `data` is null or readable for `length` bytes while the result is in use.
pub(crate) unsafe fn private_data<'a>(data: *const core::ffi::c_void, length: u32) -> &'a [u8] {
    if data.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: by contract.
    unsafe { core::slice::from_raw_parts(data.cast(), length as usize) }
}
