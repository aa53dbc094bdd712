//! NDK_QP_DISPATCH: flush, and the posts. No post is inlined into its entry of `qp_faults.rs`: then the queue pair's code would be there twice, and
//! no longer inlined here.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::ffi::c_void;

use ndk_abi::{
    ndkpi::{
        NDK_LOGICAL_ADDRESS, NDK_MR, NDK_MW, NDK_OBJECT_HEADER, NDK_OP_FLAG_ALLOW_LOCAL_WRITE,
        NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_RDMA_READ_SINK, NDK_QP,
        NDK_QP_DISPATCH, NDK_SGE, NdkObjectTypeMr, NdkObjectTypeMw,
    },
    status::NTSTATUS,
};
use platform::Platform;
use soft_rdma::{
    Access, BindRange, Error, FastRegistration, Flags, MemoryRegion, MemoryWindow, Post, QueuePair, Remote, Sge,
};

use crate::{
    object::{Object, close, query_extension},
    status,
};

pub(crate) const fn table<P: Platform>() -> NDK_QP_DISPATCH {
    NDK_QP_DISPATCH {
        NdkCloseQp: close::<QueuePair<P>, P>,
        NdkQueryExtension: query_extension,
        NdkFlush: flush::<P>,
        NdkSend: send::<P>,
        NdkReceive: receive::<P>,
        NdkBind: bind::<P>,
        NdkFastRegister: fast_register::<P>,
        NdkInvalidate: invalidate::<P>,
        NdkRead: read::<P>,
        NdkWrite: write::<P>,
        NdkSendAndInvalidate: send_and_invalidate::<P>,
    }
}

const _: () = assert!(size_of::<Sge>() == size_of::<NDK_SGE>());
const _: () = assert!(core::mem::offset_of!(Sge, length) == core::mem::offset_of!(NDK_SGE, Length));
const _: () = assert!(core::mem::offset_of!(Sge, token) == core::mem::offset_of!(NDK_SGE, MemoryRegionToken));
const _: () = assert!(align_of::<Sge>() == align_of::<NDK_SGE>());
const _: () = assert!(size_of::<u64>() == size_of::<NDK_LOGICAL_ADDRESS>());

/// The consumer's list of SGEs.
///
/// # Safety
/// `sgl` is readable for `count` entries while the result is in use; with a count of 0 `sgl` may be any value.
pub(crate) unsafe fn sges<'a>(sgl: *const NDK_SGE, count: u32) -> &'a [Sge] {
    if count == 0 || sgl.is_null() {
        return &[];
    }
    // SAFETY: by contract; the layouts are the same (asserted above).
    unsafe { core::slice::from_raw_parts(sgl.cast(), count as usize) }
}

/// Posts an initiator request. `flags` has only the flags that the caller has not translated.
///
/// # Safety
/// `qp` is the consumer's open queue pair, `sgl` its list of `count` entries.
// Inlined, as `QueuePair::post` is: each caller posts one kind of request, so the compiler removes most of the function
// there.
#[inline(always)]
unsafe fn post<P: Platform>(
    qp: *mut NDK_QP,
    context: *mut c_void,
    sgl: (*const NDK_SGE, u32),
    flags: u32,
    post: Post<'_, P>,
) -> NTSTATUS {
    // SAFETY: the caller's contract.
    let qp = unsafe { Object::<QueuePair<P>, P>::of(qp) };
    // SAFETY: the caller's contract.
    let sges = unsafe { sges(sgl.0, sgl.1) };
    // Unknown flags stay, so that the device refuses the request.
    let flags = Flags::from_bits_retain(flags);
    status::status(QueuePair::post(qp, context.expose_provenance(), sges, flags, post))
}

/// NdkFlush.
///
/// # Safety
/// NDK_FN_FLUSH.
unsafe extern "system" fn flush<P: Platform>(qp: *mut NDK_QP) {
    // SAFETY: the consumer's open queue pair.
    QueuePair::flush(unsafe { Object::<QueuePair<P>, P>::of(qp) });
}

/// NdkSend.
///
/// # Safety
/// NDK_FN_SEND.
#[inline(never)]
unsafe extern "system" fn send<P: Platform>(
    qp: *mut NDK_QP,
    context: *mut c_void,
    sgl: *const NDK_SGE,
    count: u32,
    flags: u32,
) -> NTSTATUS {
    // SAFETY: the caller's contract.
    unsafe { post::<P>(qp, context, (sgl, count), flags, Post::Send(None)) }
}

/// NdkSendAndInvalidate.
///
/// # Safety
/// NDK_FN_SEND_AND_INVALIDATE.
#[inline(never)]
unsafe extern "system" fn send_and_invalidate<P: Platform>(
    qp: *mut NDK_QP,
    context: *mut c_void,
    sgl: *const NDK_SGE,
    count: u32,
    flags: u32,
    remote_token: u32,
) -> NTSTATUS {
    // SAFETY: the caller's contract.
    unsafe { post::<P>(qp, context, (sgl, count), flags, Post::Send(Some(remote_token))) }
}

/// NdkReceive.
///
/// # Safety
/// NDK_FN_RECEIVE.
#[inline(never)]
unsafe extern "system" fn receive<P: Platform>(
    qp: *mut NDK_QP,
    context: *mut c_void,
    sgl: *const NDK_SGE,
    count: u32,
) -> NTSTATUS {
    // SAFETY: the consumer's open queue pair.
    let qp = unsafe { Object::<QueuePair<P>, P>::of(qp) };
    // SAFETY: the consumer's list, for the time of the call.
    status::status(qp.post_receive(context.expose_provenance(), unsafe { sges(sgl, count) }))
}

/// NdkRead.
///
/// # Safety
/// NDK_FN_READ.
#[inline(never)]
unsafe extern "system" fn read<P: Platform>(
    qp: *mut NDK_QP,
    context: *mut c_void,
    sgl: *const NDK_SGE,
    count: u32,
    remote_address: u64,
    remote_token: u32,
    flags: u32,
) -> NTSTATUS {
    let remote = Remote { address: remote_address, token: remote_token };
    // SAFETY: the caller's contract.
    unsafe { post::<P>(qp, context, (sgl, count), flags, Post::Read(remote)) }
}

/// NdkWrite.
///
/// # Safety
/// NDK_FN_WRITE.
#[inline(never)]
unsafe extern "system" fn write<P: Platform>(
    qp: *mut NDK_QP,
    context: *mut c_void,
    sgl: *const NDK_SGE,
    count: u32,
    remote_address: u64,
    remote_token: u32,
    flags: u32,
) -> NTSTATUS {
    let remote = Remote { address: remote_address, token: remote_token };
    // SAFETY: the caller's contract.
    unsafe { post::<P>(qp, context, (sgl, count), flags, Post::Write(remote)) }
}

/// NdkFastRegister.
///
/// # Safety
/// NDK_FN_FAST_REGISTER.
#[allow(clippy::too_many_arguments, reason = "NDK_FN_FAST_REGISTER")]
#[inline(never)]
unsafe extern "system" fn fast_register<P: Platform>(
    qp: *mut NDK_QP,
    context: *mut c_void,
    mr: *mut NDK_MR,
    page_count: u32,
    pages: *const NDK_LOGICAL_ADDRESS,
    first_byte_offset: u32,
    length: usize,
    base: *mut c_void,
    flags: u32,
) -> NTSTATUS {
    let remote_write = NDK_OP_FLAG_ALLOW_REMOTE_WRITE & !NDK_OP_FLAG_ALLOW_LOCAL_WRITE;
    let mut access = Access::empty();
    access.set(Access::LOCAL_WRITE, flags & (NDK_OP_FLAG_ALLOW_LOCAL_WRITE | NDK_OP_FLAG_RDMA_READ_SINK) != 0);
    access.set(Access::REMOTE_READ, flags & NDK_OP_FLAG_ALLOW_REMOTE_READ != 0);
    access.set(Access::REMOTE_WRITE, flags & remote_write != 0);
    let rights = NDK_OP_FLAG_ALLOW_REMOTE_WRITE | NDK_OP_FLAG_ALLOW_REMOTE_READ | NDK_OP_FLAG_RDMA_READ_SINK;
    let pages: &[u64] = if page_count == 0 || pages.is_null() {
        &[]
    } else {
        // SAFETY: the consumer's array, for the time of the call; the layouts are the same (asserted above).
        unsafe { core::slice::from_raw_parts(pages.cast(), page_count as usize) }
    };
    // SAFETY: the pages came from NdkBuildLAM and stay mapped until the region is invalidated or closed.
    let registration = unsafe {
        FastRegistration::new(pages, first_byte_offset, length as u64, base.expose_provenance() as u64, access)
    };
    // SAFETY: the consumer's open region.
    let mr = unsafe { Object::<MemoryRegion<P>, P>::of(mr) };
    // SAFETY: the caller's contract.
    unsafe { post::<P>(qp, context, (core::ptr::null(), 0), flags & !rights, Post::FastRegister(mr, registration)) }
}

/// NdkBind.
///
/// # Safety
/// NDK_FN_BIND.
#[inline(never)]
unsafe extern "system" fn bind<P: Platform>(
    qp: *mut NDK_QP,
    context: *mut c_void,
    mr: *mut NDK_MR,
    mw: *mut NDK_MW,
    address: *mut c_void,
    length: usize,
    flags: u32,
) -> NTSTATUS {
    // NDK_OP_FLAG_ALLOW_REMOTE_WRITE contains the local-write bit. That bit alone is no flag of a bind: the device
    // refuses it.
    let may_write = flags & NDK_OP_FLAG_ALLOW_REMOTE_WRITE == NDK_OP_FLAG_ALLOW_REMOTE_WRITE;
    let may_read = flags & NDK_OP_FLAG_ALLOW_REMOTE_READ != 0;
    let mut access = Access::empty();
    access.set(Access::REMOTE_WRITE, may_write);
    access.set(Access::REMOTE_READ, may_read);
    let write = if may_write { NDK_OP_FLAG_ALLOW_REMOTE_WRITE } else { 0 };
    let flags = flags & !(write | NDK_OP_FLAG_ALLOW_REMOTE_READ);
    let bind_range = BindRange { address: address.expose_provenance() as u64, length: length as u64, access };
    // SAFETY: the consumer's open region.
    let mr = unsafe { Object::<MemoryRegion<P>, P>::of(mr) };
    // SAFETY: the consumer's open window.
    let mw = unsafe { Object::<MemoryWindow<P>, P>::of(mw) };
    // SAFETY: the caller's contract.
    unsafe { post::<P>(qp, context, (core::ptr::null(), 0), flags, Post::Bind(mw, mr, bind_range)) }
}

/// NdkInvalidate of a region or a window, by the object type in the head.
///
/// # Safety
/// NDK_FN_INVALIDATE.
#[inline(never)]
unsafe extern "system" fn invalidate<P: Platform>(
    qp: *mut NDK_QP,
    context: *mut c_void,
    object: *mut NDK_OBJECT_HEADER,
    flags: u32,
) -> NTSTATUS {
    if object.is_null() {
        return status::error(Error::InvalidParameter);
    }
    // SAFETY: the consumer's open object; its type never changes.
    let object_type = unsafe { (*object).ObjectType };
    let what = if object_type == NdkObjectTypeMr {
        // SAFETY: a region, by its type.
        Post::Invalidate(unsafe { Object::<MemoryRegion<P>, P>::of(object) })
    } else if object_type == NdkObjectTypeMw {
        // SAFETY: a window, by its type.
        Post::InvalidateWindow(unsafe { Object::<MemoryWindow<P>, P>::of(object) })
    } else {
        return status::error(Error::InvalidParameter);
    };
    // SAFETY: the caller's contract.
    unsafe { post::<P>(qp, context, (core::ptr::null(), 0), flags, what) }
}
