//! Walks MDL chains. The virtual address of an MDL is an index only; the device reaches data through the system mapping
//! of the pages.
#![expect(unsafe_code, reason = "walks the consumer's MDL chains")]

use core::ptr::NonNull;

use ndk_abi::wdm::MDL;
use platform::Platform;
use soft_rdma::Error;

/// One MDL of a chain that describes `length` virtually contiguous bytes.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// System address of the first byte.
    pub(crate) system: NonNull<u8>,
    /// Virtual address of the first byte, used as an index.
    pub(crate) virtual_address: u64,
    /// Bytes, never 0.
    pub(crate) length: u64,
}

/// Walks a chain for `length` bytes and passes each part to `visit`. `InvalidParameter` if the chain is shorter or not
/// virtually contiguous (NDK_FN_REGISTER_MR, NDK_FN_BUILD_LAM), `InsufficientResources` if a page cannot be mapped.
///
/// # Safety
/// `mdl` is a valid chain of locked or non-paged memory, and does not change during the call.
pub(crate) unsafe fn walk<P: Platform>(
    mdl: *mut MDL,
    length: u64,
    mut visit: impl FnMut(Part) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut next = mdl;
    let mut left = length;
    let mut expected = None;
    while left > 0 {
        let Some(current) = NonNull::new(next) else { return Err(Error::InvalidParameter) };
        // SAFETY: by contract, a valid MDL.
        let head = unsafe { current.read() };
        next = head.Next;
        let bytes = left.min(u64::from(head.ByteCount));
        // MDLs without bytes are legal in a chain.
        if bytes == 0 {
            continue;
        }
        let virtual_address = (head.StartVa.addr() as u64).wrapping_add(u64::from(head.ByteOffset));
        if expected.is_some_and(|expected| expected != virtual_address) {
            return Err(Error::InvalidParameter);
        }
        // SAFETY: by contract, its pages are locked or non-paged.
        let system = unsafe { P::mdl_system_address(current.as_ptr().cast()) }.ok_or(Error::InsufficientResources)?;
        visit(Part { system, virtual_address, length: bytes })?;
        expected = virtual_address.checked_add(bytes);
        left = left.saturating_sub(bytes);
    }
    Ok(())
}

/// The virtual address of a chain: of the first byte of its first MDL that has bytes.
///
/// # Safety
/// As for [`walk`].
pub(crate) unsafe fn virtual_address<P: Platform>(mdl: *mut MDL) -> Result<u64, Error> {
    let mut first = None;
    // SAFETY: the caller's contract.
    unsafe {
        walk::<P>(mdl, 1, |part| {
            first = Some(part.virtual_address);
            Ok(())
        })
    }?;
    first.ok_or(Error::InvalidParameter)
}
