//! The pointer arguments of COM callers: checks, reads and writes.
#![expect(unsafe_code, reason = "pointers of COM callers")]

use std::{ffi::c_void, mem::MaybeUninit, ptr, slice};

use nd_com::status::{E_POINTER, ND_BUFFER_OVERFLOW, ND_INVALID_PARAMETER, ND_SUCCESS, from_nt};
use ndk_abi::{
    sockaddr::{AF_INET, AF_INET6, SOCKADDR_IN, SOCKADDR_INET},
    status::{NTSTATUS, STATUS_INVALID_ADDRESS, STATUS_INVALID_BUFFER_SIZE, STATUS_INVALID_PARAMETER},
};
use windows_core::{ComObject, ComObjectInner, GUID, HRESULT, IUnknown, Interface};
use windows_sys::Win32::{
    Networking::WinSock::{SOCKADDR, SOCKET_ADDRESS, SOCKET_ADDRESS_LIST},
    System::IO::OVERLAPPED,
};
use zerocopy::{FromZeros, IntoBytes};

use crate::core::overlapped::Overlapped;

/// The type of lengths in a version of the interfaces: ULONG or SIZE_T.
pub(crate) trait Size: Copy {
    fn get(self) -> usize;
    /// Converts a length of this process's memory.
    fn new(length: usize) -> Self;
}

impl Size for u32 {
    fn get(self) -> usize {
        self as usize
    }

    fn new(length: usize) -> Self {
        length as Self
    }
}

impl Size for usize {
    fn get(self) -> usize {
        self
    }

    fn new(length: usize) -> Self {
        length
    }
}

/// Makes an object and returns its requested interface.
///
/// # Safety
/// `iid` and `out` are null, or valid pointers.
pub(crate) unsafe fn give(
    iid: *const GUID,
    out: *mut *mut c_void,
    make: impl FnOnce() -> Result<IUnknown, HRESULT>,
) -> HRESULT {
    if iid.is_null() || out.is_null() {
        return E_POINTER;
    }
    // SAFETY: not null, so valid.
    unsafe { out.write(ptr::null_mut()) };
    match make() {
        // SAFETY: valid pointers. If the object does not have the interface, the drop of `object` frees the object.
        Ok(object) => unsafe { object.query(iid, out) },
        Err(status) => status,
    }
}

/// This DLL's object behind an interface pointer. `None`: a null pointer, or an object that is not this DLL's `T`.
///
/// # Safety
/// `raw` is null, or a COM object that outlives the call.
pub(crate) unsafe fn ours<T: ComObjectInner<Outer: 'static>>(raw: *mut c_void) -> Option<ComObject<T>> {
    // SAFETY: as the caller says.
    let object = unsafe { IUnknown::from_raw_borrowed(&raw) }?;
    object.cast_object().ok()
}

/// The caller's array. STATUS_INVALID_PARAMETER: `data` is null and `count` is not 0.
///
/// # Safety
/// `data` is null, or valid for `count` elements as long as the result is used.
pub(crate) unsafe fn array<'a, T>(data: *const T, count: impl Size) -> Result<&'a [T], NTSTATUS> {
    match (count.get(), data.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(STATUS_INVALID_PARAMETER),
        // SAFETY: as the caller says.
        (count, false) => Ok(unsafe { slice::from_raw_parts(data, count) }),
    }
}

/// Private data of a connection. STATUS_INVALID_BUFFER_SIZE: more than `most` bytes, the one limit for connect, accept
/// and reject.
///
/// # Safety
/// As for [`array`].
pub(crate) unsafe fn private_data<'a>(data: *const c_void, length: impl Size, most: u32) -> Result<&'a [u8], NTSTATUS> {
    if length.get() > most as usize {
        return Err(STATUS_INVALID_BUFFER_SIZE);
    }
    // SAFETY: as the caller says.
    unsafe { array(data.cast(), length) }
}

/// Calls `act` with the caller's OVERLAPPED. ND_INVALID_PARAMETER: a null pointer.
///
/// # Safety
/// `overlapped` is null, or stays valid until the request for which `act` uses it has ended.
pub(crate) unsafe fn with(overlapped: *mut OVERLAPPED, act: impl FnOnce(&Overlapped) -> NTSTATUS) -> HRESULT {
    // SAFETY: as the caller says.
    match unsafe { Overlapped::new(overlapped) } {
        Some(overlapped) => from_nt(act(&overlapped)),
        None => ND_INVALID_PARAMETER,
    }
}

/// The caller's array for results; empty if the pointer is null.
///
/// # Safety
/// `array` is null, or valid for `count` elements as long as the result is used.
pub(crate) unsafe fn places<'a, T>(array: *mut T, count: impl Size) -> &'a mut [MaybeUninit<T>] {
    if array.is_null() {
        return &mut [];
    }
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts_mut(array.cast(), count.get()) }
}

/// Copies `data` to a buffer of `*size` bytes, and sets `*size` to the length of `data`. ND_BUFFER_OVERFLOW: the buffer
/// is too small; it gets the beginning of `data` if `partly`.
///
/// # Safety
/// `size` is null or valid; `buffer` is null, or valid for `*size` bytes.
pub(crate) unsafe fn copy_out<S: Size>(data: &[u8], buffer: *mut c_void, size: *mut S, partly: bool) -> HRESULT {
    // SAFETY: as the caller says.
    let Some(size) = (unsafe { size.as_mut() }) else { return ND_INVALID_PARAMETER };
    let room = if buffer.is_null() { 0 } else { size.get() };
    // A null buffer asks for the size and gets ND_BUFFER_OVERFLOW, even if the size is 0 (ndspi.md section 5,
    // GetPrivateData).
    let fits = !buffer.is_null() && data.len() <= room;
    *size = S::new(data.len());
    if fits || partly {
        let length = data.len().min(room);
        // SAFETY: both have `length` bytes, as the caller says; a program's buffer does not overlap memory of this DLL.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), buffer.cast(), length) };
    }
    if fits { ND_SUCCESS } else { ND_BUFFER_OVERFLOW }
}

/// A socket address. STATUS_INVALID_PARAMETER: null; STATUS_INVALID_ADDRESS: too short for its family, or neither IPv4
/// nor IPv6.
///
/// # Safety
/// `address` is null, or valid for `length` bytes.
pub(crate) unsafe fn address(address: *const SOCKADDR, length: impl Size) -> Result<SOCKADDR_INET, NTSTATUS> {
    // No socket address is longer than SOCKADDR_INET.
    let length = length.get().min(size_of::<SOCKADDR_INET>());
    // SAFETY: as the caller says.
    let given: &[u8] = unsafe { array(address.cast(), length) }?;
    if given.is_empty() && address.is_null() {
        return Err(STATUS_INVALID_PARAMETER);
    }
    let mut known = SOCKADDR_INET::new_zeroed();
    known.as_mut_bytes()[..given.len()].copy_from_slice(given);
    if known.socket_addr().is_none() || given.len() < address_length(&known) {
        return Err(STATUS_INVALID_ADDRESS);
    }
    Ok(known)
}

/// The length of an address of this family.
fn address_length(address: &SOCKADDR_INET) -> usize {
    match address.si_family() {
        AF_INET => size_of::<SOCKADDR_IN>(),
        AF_INET6 => size_of::<SOCKADDR_INET>(),
        _ => 0,
    }
}

/// Returns an address to the caller.
///
/// # Safety
/// As for [`copy_out`].
pub(crate) unsafe fn give_address<S: Size>(
    address: Result<SOCKADDR_INET, NTSTATUS>,
    out: *mut SOCKADDR,
    size: *mut S,
) -> HRESULT {
    match address {
        // SAFETY: as the caller says.
        Ok(address) => unsafe { copy_out(&address.as_bytes()[..address_length(&address)], out.cast(), size, false) },
        Err(status) => from_nt(status),
    }
}

/// Returns a list of addresses to the caller: the head, a SOCKET_ADDRESS for each, then the addresses that these point
/// to.
///
/// # Safety
/// As for [`copy_out`].
pub(crate) unsafe fn give_addresses<S: Size>(
    addresses: Result<Vec<SOCKADDR_INET>, NTSTATUS>,
    out: *mut SOCKET_ADDRESS_LIST,
    size: *mut S,
) -> HRESULT {
    let addresses = match addresses {
        Ok(addresses) => addresses,
        Err(status) => return from_nt(status),
    };
    const HEAD: usize = std::mem::offset_of!(SOCKET_ADDRESS_LIST, Address);
    let first = HEAD + addresses.len() * size_of::<SOCKET_ADDRESS>();
    let mut list = vec![0u8; first.max(size_of::<SOCKET_ADDRESS_LIST>())];
    list[..size_of::<i32>()].copy_from_slice(&(addresses.len() as i32).to_ne_bytes());
    for (index, address) in addresses.iter().enumerate() {
        let length = address_length(address);
        let pointer = out.addr() + list.len();
        let entry = HEAD + index * size_of::<SOCKET_ADDRESS>();
        list[entry..entry + size_of::<usize>()].copy_from_slice(&pointer.to_ne_bytes());
        let at = entry + std::mem::offset_of!(SOCKET_ADDRESS, iSockaddrLength);
        list[at..at + size_of::<i32>()].copy_from_slice(&(length as i32).to_ne_bytes());
        list.extend_from_slice(&address.as_bytes()[..length]);
        // Each address lies on a multiple of 8.
        list.resize(list.len().next_multiple_of(size_of::<u64>()), 0);
    }
    // SAFETY: as the caller says.
    unsafe { copy_out(&list, out.cast(), size, false) }
}

/// Checks values against their limits; returns the error of the first value above its limit.
pub(crate) fn at_most<S: Size, const N: usize>(values: [(S, u32, HRESULT); N]) -> Result<(), HRESULT> {
    let above = values.into_iter().find(|(value, limit, _)| value.get() > *limit as usize);
    above.map_or(Ok(()), |(_, _, status)| Err(status))
}

/// Converts a result to the HRESULT of the interfaces.
pub(crate) fn hresult(result: Result<(), NTSTATUS>) -> HRESULT {
    from_nt(result.err().unwrap_or(NTSTATUS(0)))
}
