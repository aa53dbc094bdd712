//! NDK_MR_DISPATCH.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::ffi::c_void;

use ndk_abi::{
    ndkpi::{
        NDK_FN_REQUEST_COMPLETION, NDK_MR, NDK_MR_DISPATCH, NDK_MR_FLAG_ALLOW_LOCAL_WRITE,
        NDK_MR_FLAG_ALLOW_REMOTE_READ, NDK_MR_FLAG_ALLOW_REMOTE_WRITE, NDK_MR_FLAG_RDMA_READ_SINK,
    },
    status::{NTSTATUS, STATUS_SUCCESS},
    wdm::{BOOLEAN, MDL},
};
use platform::{Platform, Slice};
use soft_rdma::{Access, Error, MemoryRegion, Runs};

use crate::{
    callback,
    mdl::{self, Part},
    object::{Object, close, query_extension},
    status,
};

pub(crate) const fn table<P: Platform>() -> NDK_MR_DISPATCH {
    NDK_MR_DISPATCH {
        NdkCloseMr: close::<MemoryRegion<P>, P>,
        NdkQueryExtension: query_extension,
        NdkRegisterMr: register::<P>,
        NdkDeregisterMr: deregister::<P>,
        NdkInitializeFastRegisterMr: initialize_fast_register::<P>,
        NdkGetRemoteTokenFromMr: token::<P>,
        NdkGetLocalTokenFromMr: token::<P>,
    }
}

const FLAGS: u32 = NDK_MR_FLAG_ALLOW_REMOTE_READ | NDK_MR_FLAG_ALLOW_REMOTE_WRITE | NDK_MR_FLAG_RDMA_READ_SINK;

/// Translates NDK_MR_FLAG_*. The remote-write flag contains the local-write flag. The read-sink flag means local write:
/// that is all the device requires of a sink (NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED).
fn access(flags: u32) -> Result<Access, Error> {
    if flags & !FLAGS != 0 {
        return Err(Error::InvalidParameter);
    }
    let remote_write = NDK_MR_FLAG_ALLOW_REMOTE_WRITE & !NDK_MR_FLAG_ALLOW_LOCAL_WRITE;
    let mut access = Access::empty();
    access.set(Access::LOCAL_WRITE, flags & (NDK_MR_FLAG_ALLOW_LOCAL_WRITE | NDK_MR_FLAG_RDMA_READ_SINK) != 0);
    access.set(Access::REMOTE_READ, flags & NDK_MR_FLAG_ALLOW_REMOTE_READ != 0);
    access.set(Access::REMOTE_WRITE, flags & remote_write != 0);
    Ok(access)
}

/// NdkRegisterMr: always inline.
///
/// # Safety
/// NDK_FN_REGISTER_MR.
unsafe extern "system" fn register<P: Platform>(
    mr: *mut NDK_MR,
    chain: *mut MDL,
    length: usize,
    flags: u32,
    _completion: NDK_FN_REQUEST_COMPLETION,
    _context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open region.
    let mr = unsafe { Object::<MemoryRegion<P>, P>::of(mr) };
    // SAFETY: the consumer's MDL chain.
    let base = unsafe { mdl::virtual_address::<P>(chain) };
    // SAFETY: the consumer's MDL chain.
    let runs = unsafe { runs::<P>(chain, length as u64) };
    let registered = base.and_then(|base| MemoryRegion::register(mr, base, length as u64, access(flags)?, runs?));
    status::status(registered)
}

/// The mapped ranges of an MDL chain.
///
/// # Safety
/// As for [`mdl::walk`]; the memory stays locked until the registration has ended.
unsafe fn runs<P: Platform>(chain: *mut MDL, length: u64) -> Result<Runs<P>, Error> {
    let mut count = 0usize;
    // SAFETY: the caller's contract.
    unsafe {
        mdl::walk::<P>(chain, length, |_| {
            count = count.saturating_add(1);
            Ok(())
        })
    }?;
    let mut parts = Slice::<Option<Part>, P>::filled(count, None)?;
    let mut places = parts.iter_mut();
    // SAFETY: the caller's contract.
    unsafe {
        mdl::walk::<P>(chain, length, |part| {
            *places.next().ok_or(Error::InternalError)? = Some(part);
            Ok(())
        })
    }?;
    let nothing = (core::ptr::NonNull::dangling(), 0);
    let part = |index: usize| parts.get(index).copied().flatten().map_or(nothing, |part| (part.system, part.length));
    // SAFETY: the caller's contract: the parts are mapped and stay so.
    Ok(unsafe { Runs::new(count, part) }?)
}

/// NdkDeregisterMr.
///
/// # Safety
/// NDK_FN_DEREGISTER_MR.
unsafe extern "system" fn deregister<P: Platform>(
    mr: *mut NDK_MR,
    completion: NDK_FN_REQUEST_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    // The completion callback may run, and the consumer may close the region in it, before `deregister` returns: hold a
    // reference.
    // SAFETY: the consumer's open region.
    let mr = unsafe { Object::<MemoryRegion<P>, P>::of(mr) }.clone();
    status::outcome(mr.deregister(callback::requested(completion, context)))
}

/// NdkInitializeFastRegisterMr: always inline.
///
/// # Safety
/// NDK_FN_INITIALIZE_FAST_REGISTER_MR.
unsafe extern "system" fn initialize_fast_register<P: Platform>(
    mr: *mut NDK_MR,
    pages: u32,
    remote_access: BOOLEAN,
    _completion: NDK_FN_REQUEST_COMPLETION,
    _context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the consumer's open region.
    let mr = unsafe { Object::<MemoryRegion<P>, P>::of(mr) };
    MemoryRegion::initialize_fast(mr, pages, remote_access != 0).map_or_else(status::error, |()| STATUS_SUCCESS)
}

/// NdkGetRemoteTokenFromMr and NdkGetLocalTokenFromMr: a region has one token for both.
///
/// # Safety
/// NDK_FN_GET_REMOTE_TOKEN_FROM_MR.
unsafe extern "system" fn token<P: Platform>(mr: *mut NDK_MR) -> u32 {
    // SAFETY: the consumer's open region.
    unsafe { Object::<MemoryRegion<P>, P>::of(mr) }.token()
}
