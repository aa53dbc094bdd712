//! NDK_QP_DISPATCH of a kernel consumer's queue pair while fault injection is on: each post passes its point for fault rules. The entries of `qp.rs`,
//! which all other queue pairs have, do not look at the rules.
#![expect(unsafe_code, reason = "functions of a C interface")]

use core::{ffi::c_void, ptr::null};

use ndk_abi::{
    ndkpi::{NDK_LOGICAL_ADDRESS, NDK_MR, NDK_MW, NDK_OBJECT_HEADER, NDK_QP, NDK_QP_DISPATCH, NDK_SGE},
    status::NTSTATUS,
};
use platform::Platform;
use soft_rdma::{OperationKind, QueuePair};

use crate::{object::Object, qp, qp::sges, status};

/// Defines entries: each has its operation pass, then calls the entry of `qp.rs`.
macro_rules! entries {
    ($($entry:ident = $name:ident($($argument:ident: $type:ty,)*) $operation:ident, $sgl:expr;)*) => {
        pub(crate) const fn table<P: Platform>() -> NDK_QP_DISPATCH {
            NDK_QP_DISPATCH { $($entry: $name::<P>,)* ..qp::table::<P>() }
        }

        $(
            /// # Safety
            /// As for the entry of `qp.rs`.
            #[allow(clippy::too_many_arguments, reason = "the arguments of NDKPI")]
            unsafe extern "system" fn $name<P: Platform>(
                qp: *mut NDK_QP,
                context: *mut c_void,
                $($argument: $type,)*
            ) -> NTSTATUS {
                // SAFETY: the consumer's open queue pair, and its list.
                if let Err(status) = unsafe { pass::<P>(qp, OperationKind::$operation, $sgl) } {
                    return status;
                }
                // SAFETY: the caller's contract.
                unsafe { (const { qp::table::<P>() }.$entry)(qp, context, $($argument),*) }
            }
        )*
    };
}

entries! {
    NdkSend = send(sgl: *const NDK_SGE, count: u32, flags: u32,) Send, (sgl, count);
    NdkSendAndInvalidate =
        send_and_invalidate(sgl: *const NDK_SGE, count: u32, flags: u32, token: u32,) Send, (sgl, count);
    NdkReceive = receive(sgl: *const NDK_SGE, count: u32,) Receive, (sgl, count);
    NdkRead =
        read(sgl: *const NDK_SGE, count: u32, address: u64, token: u32, flags: u32,) Read, (sgl, count);
    NdkWrite =
        write(sgl: *const NDK_SGE, count: u32, address: u64, token: u32, flags: u32,) Write, (sgl, count);
    NdkFastRegister = fast_register(
        mr: *mut NDK_MR,
        page_count: u32,
        pages: *const NDK_LOGICAL_ADDRESS,
        first_byte_offset: u32,
        length: usize,
        base: *mut c_void,
        flags: u32,
    ) FastRegister, (null(), 0);
    NdkBind = bind(
        mr: *mut NDK_MR,
        mw: *mut NDK_MW,
        address: *mut c_void,
        length: usize,
        flags: u32,
    ) Bind, (null(), 0);
    NdkInvalidate = invalidate(object: *mut NDK_OBJECT_HEADER, flags: u32,) Invalidate, (null(), 0);
}

/// Has a post pass its point. Error: a rule fails it.
///
/// # Safety
/// `qp` is the consumer's open queue pair, and `sgl` readable for `count` entries.
unsafe fn pass<P: Platform>(
    qp: *mut NDK_QP,
    operation: OperationKind,
    (sgl, count): (*const NDK_SGE, u32),
) -> Result<(), NTSTATUS> {
    // SAFETY: the caller's contract.
    let qp = unsafe { Object::<QueuePair<P>, P>::of(qp) };
    // SAFETY: the caller's contract.
    QueuePair::pass_post(qp, operation, unsafe { sges(sgl, count) }).map_err(status::error)
}
