//! Logical address mappings. The software device needs a system mapping of a page, not a bus address, so a logical
//! address *is* the page's system address. It is a kernel secret and never reaches user mode.
#![expect(unsafe_code, reason = "writes the consumer's mapping")]

use core::{ffi::c_void, mem::offset_of};

use ndk_abi::{
    ndkpi::{NDK_ADAPTER, NDK_FN_REQUEST_COMPLETION, NDK_LOGICAL_ADDRESS, NDK_LOGICAL_ADDRESS_MAPPING},
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
    wdm::{MDL, PAGE_SIZE},
};
use platform::Platform;
use soft_rdma::Error;

use crate::{mdl, status};

/// The bits of an address inside its page.
const PAGE_OFFSET: u64 = PAGE_SIZE as u64 - 1;

/// NdkBuildLAM: always inline, so that no completion is needed. IRQL <= DISPATCH.
///
/// # Safety
/// NDK_FN_BUILD_LAM.
pub(crate) unsafe extern "system" fn build<P: Platform>(
    _adapter: *mut NDK_ADAPTER,
    chain: *mut MDL,
    length: usize,
    _completion: Option<NDK_FN_REQUEST_COMPLETION>,
    _context: *mut c_void,
    mapping: *mut NDK_LOGICAL_ADDRESS_MAPPING,
    size: *mut u32,
    first_byte_offset: *mut u32,
) -> NTSTATUS {
    let mut pages = 0usize;
    let mut offset = 0u32;
    let count = |index: usize, _page: u64, first_byte: u32| {
        if index == 0 {
            offset = first_byte;
        }
        pages = index.saturating_add(1);
    };
    // SAFETY: the caller's contract.
    let counted = unsafe { each_page::<P>(chain, length as u64, count) };
    if let Err(error) = counted {
        return status::error(error);
    }
    let needed = NDK_LOGICAL_ADDRESS_MAPPING::size_for(pages).and_then(|needed| u32::try_from(needed).ok());
    let (Some(needed), Ok(page_count)) = (needed, u32::try_from(pages)) else { return STATUS_INVALID_PARAMETER };
    // SAFETY: an in/out parameter of the call.
    let available = unsafe { size.read() };
    // SAFETY: as above.
    unsafe { size.write(needed) };
    if mapping.is_null() || available < needed {
        return STATUS_BUFFER_TOO_SMALL;
    }
    // SAFETY: an out parameter of the call.
    unsafe { first_byte_offset.write(offset) };
    let head: *mut u8 = mapping.cast();
    let context = head.wrapping_add(offset_of!(NDK_LOGICAL_ADDRESS_MAPPING, AdapterContext)).cast::<*mut c_void>();
    // SAFETY: the buffer has room for `needed` bytes.
    unsafe { context.write(core::ptr::null_mut()) };
    let count = head.wrapping_add(offset_of!(NDK_LOGICAL_ADDRESS_MAPPING, AdapterPageCount)).cast::<u32>();
    // SAFETY: as above.
    unsafe { count.write(page_count) };
    let array =
        head.wrapping_add(offset_of!(NDK_LOGICAL_ADDRESS_MAPPING, AdapterPageArray)).cast::<NDK_LOGICAL_ADDRESS>();
    let fill = |index: usize, page: u64, _first_byte: u32| {
        if index < pages {
            // SAFETY: as above: the array of `pages` entries ends at `needed`.
            unsafe { array.wrapping_add(index).write(NDK_LOGICAL_ADDRESS { QuadPart: page.cast_signed() }) };
        }
    };
    // SAFETY: the caller's contract.
    let filled = unsafe { each_page::<P>(chain, length as u64, fill) };
    filled.map_or_else(status::error, |()| STATUS_SUCCESS)
}

/// NdkReleaseLAM: does nothing, as the mappings belong to the MDLs.
///
/// # Safety
/// NDK_FN_RELEASE_LAM.
pub(crate) unsafe extern "system" fn release(_adapter: *mut NDK_ADAPTER, _mapping: *mut NDK_LOGICAL_ADDRESS_MAPPING) {}

/// Calls `visit` for each page of a chain: with the page's index, its system address, and the offset of its MDL's first
/// byte inside that MDL's first page.
///
/// # Safety
/// As for [`mdl::walk`].
unsafe fn each_page<P: Platform>(
    chain: *mut MDL,
    length: u64,
    mut visit: impl FnMut(usize, u64, u32),
) -> Result<(), Error> {
    if length == 0 {
        return Err(Error::InvalidParameter);
    }
    let page_size = PAGE_SIZE as u64;
    let mut index = 0usize;
    // SAFETY: the caller's contract.
    unsafe {
        mdl::walk::<P>(chain, length, |part| {
            let offset = part.virtual_address & PAGE_OFFSET;
            let first_offset = u32::try_from(offset).map_err(|_| Error::InvalidParameter)?;
            let base =
                (part.system.as_ptr().expose_provenance() as u64).checked_sub(offset).ok_or(Error::InvalidParameter)?;
            let pages = offset.saturating_add(part.length).div_ceil(page_size);
            // A later MDL that starts inside a page continues the MDL before it, whose last page was visited.
            let shared = u64::from(index > 0 && offset > 0);
            for page in shared..pages {
                visit(index, base.saturating_add(page.saturating_mul(page_size)), first_offset);
                index = index.saturating_add(1);
            }
            Ok(())
        })
    }
}
