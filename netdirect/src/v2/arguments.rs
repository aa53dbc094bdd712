//! Arguments that are pointers.
#![expect(unsafe_code, reason = "pointers of COM callers")]

use std::{ffi::c_void, mem::MaybeUninit, ptr, slice};

use nd_com::{
    status::{E_POINTER, ND_BUFFER_OVERFLOW, ND_INVALID_PARAMETER, ND_SUCCESS, from_nt},
    v2::ND2_SGE,
};
use ndk_abi::{
    sockaddr::{AF_INET, AF_INET6, SOCKADDR_IN, SOCKADDR_INET},
    softndk_ioctl::SOFTNDK_SGE,
    status::{NTSTATUS, STATUS_INVALID_ADDRESS, STATUS_INVALID_PARAMETER},
};
use windows_core::{ComObject, ComObjectInner, GUID, HRESULT, IUnknown, Interface};
use windows_sys::Win32::Networking::WinSock::{SOCKADDR, SOCKET_ADDRESS, SOCKET_ADDRESS_LIST};
use zerocopy::{FromZeros, IntoBytes};

/// Makes an object and hands out the interface of it that is asked for.
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
        // SAFETY: valid pointers. An interface that the object does not have frees it again.
        Ok(object) => unsafe { object.query(iid, out) },
        Err(status) => status,
    }
}

/// The object of ours behind an interface pointer. `None`: null, or an object of somebody else's.
///
/// # Safety
/// `raw` is null, or a COM object that outlives the call.
pub(crate) unsafe fn ours<T: ComObjectInner<Outer: 'static>>(raw: *mut c_void) -> Option<ComObject<T>> {
    // SAFETY: as the caller says.
    let object = unsafe { IUnknown::from_raw_borrowed(&raw) }?;
    object.cast_object().ok()
}

/// Bytes. STATUS_INVALID_PARAMETER: null, and some.
///
/// # Safety
/// `data` is null, or valid for `length` bytes as long as the result is used.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: u32) -> Result<&'a [u8], NTSTATUS> {
    match (length, data.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(STATUS_INVALID_PARAMETER),
        // SAFETY: as the caller says.
        (_, false) => Ok(unsafe { slice::from_raw_parts(data.cast(), length as usize) }),
    }
}

const _: () = assert!(size_of::<ND2_SGE>() == size_of::<SOFTNDK_SGE>());
const _: () = assert!(std::mem::offset_of!(ND2_SGE, BufferLength) == std::mem::offset_of!(SOFTNDK_SGE, Length));
const _: () = assert!(std::mem::offset_of!(ND2_SGE, MemoryRegionToken) == std::mem::offset_of!(SOFTNDK_SGE, Token));

/// SGEs, which the driver has in the same layout. STATUS_INVALID_PARAMETER: null, and some.
///
/// # Safety
/// `list` is null, or valid for `count` SGEs as long as the result is used.
pub(crate) unsafe fn sges<'a>(list: *const ND2_SGE, count: u32) -> Result<&'a [SOFTNDK_SGE], NTSTATUS> {
    match (count, list.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(STATUS_INVALID_PARAMETER),
        // SAFETY: as the caller says; an address is a number here.
        (_, false) => Ok(unsafe { slice::from_raw_parts(list.cast(), count as usize) }),
    }
}

/// An array to be filled. Null is none.
///
/// # Safety
/// `array` is null, or valid for `count` elements as long as the result is used.
pub(crate) unsafe fn places<'a, T>(array: *mut T, count: u32) -> &'a mut [MaybeUninit<T>] {
    if array.is_null() {
        return &mut [];
    }
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts_mut(array.cast(), count as usize) }
}

/// Copies to a buffer of `*size` bytes, and sets that to how many there are. ND_BUFFER_OVERFLOW: too few; then `partly` says
/// whether the beginning is copied.
///
/// # Safety
/// `size` is null or valid; `buffer` is null, or valid for `*size` bytes.
pub(crate) unsafe fn copy_out(data: &[u8], buffer: *mut c_void, size: *mut u32, partly: bool) -> HRESULT {
    // SAFETY: as the caller says.
    let Some(size) = (unsafe { size.as_mut() }) else { return ND_INVALID_PARAMETER };
    let room = if buffer.is_null() { 0 } else { *size as usize };
    let fits = data.len() <= room;
    // A length in memory of this process that the driver filled.
    *size = data.len() as u32;
    if fits || partly {
        let length = data.len().min(room);
        // SAFETY: as many bytes of both, as the caller says; a program's buffer is none of ours.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), buffer.cast(), length) };
    }
    if fits { ND_SUCCESS } else { ND_BUFFER_OVERFLOW }
}

/// A socket address. STATUS_INVALID_PARAMETER: null; STATUS_INVALID_ADDRESS: too short for its family, or of another.
///
/// # Safety
/// `address` is null, or valid for `length` bytes.
pub(crate) unsafe fn address(address: *const SOCKADDR, length: u32) -> Result<SOCKADDR_INET, NTSTATUS> {
    // SAFETY: as the caller says.
    let given = unsafe { bytes(address.cast(), length) }?;
    if given.is_empty() && address.is_null() {
        return Err(STATUS_INVALID_PARAMETER);
    }
    let mut known = SOCKADDR_INET::new_zeroed();
    let taken = given.len().min(size_of::<SOCKADDR_INET>());
    known.as_mut_bytes()[..taken].copy_from_slice(&given[..taken]);
    if known.socket_addr().is_none() || taken < address_length(&known) {
        return Err(STATUS_INVALID_ADDRESS);
    }
    Ok(known)
}

/// Bytes of an address of this family.
fn address_length(address: &SOCKADDR_INET) -> usize {
    match address.si_family() {
        AF_INET => size_of::<SOCKADDR_IN>(),
        AF_INET6 => size_of::<SOCKADDR_INET>(),
        _ => 0,
    }
}

/// Hands out an address.
///
/// # Safety
/// As of [`copy_out`].
pub(crate) unsafe fn give_address(
    address: Result<SOCKADDR_INET, NTSTATUS>,
    out: *mut SOCKADDR,
    size: *mut u32,
) -> HRESULT {
    match address {
        // SAFETY: as the caller says.
        Ok(address) => unsafe { copy_out(&address.as_bytes()[..address_length(&address)], out.cast(), size, false) },
        Err(status) => from_nt(status),
    }
}

/// Hands out a list of addresses: the head, a SOCKET_ADDRESS for each, then what those point at.
///
/// # Safety
/// As of [`copy_out`].
pub(crate) unsafe fn give_addresses(
    addresses: Result<Vec<SOCKADDR_INET>, NTSTATUS>,
    out: *mut SOCKET_ADDRESS_LIST,
    size: *mut u32,
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
        // Each on a multiple of 8.
        list.resize(list.len().next_multiple_of(size_of::<u64>()), 0);
    }
    // SAFETY: as the caller says.
    unsafe { copy_out(&list, out.cast(), size, false) }
}

/// A result as the interfaces return it.
pub(crate) fn hresult(result: Result<(), NTSTATUS>) -> HRESULT {
    from_nt(result.err().unwrap_or(NTSTATUS(0)))
}
