//! What all objects have in common: the head, the way to the device's object, close and query-extension.
#![expect(unsafe_code, reason = "turns the consumer's object pointers into references")]

use core::ffi::c_void;

use ndk_abi::{
    ndkpi::{
        NDK_EXTENSION_INTERFACE, NDK_FN_CLOSE_COMPLETION, NDK_OBJECT_HEADER, NDK_OBJECT_HEADER_RESERVED_BLOCK,
        NDK_OBJECT_TYPE, NDK_VERSION,
    },
    status::{NTSTATUS, STATUS_INTERNAL_ERROR, STATUS_NOT_SUPPORTED},
    wdm::GUID,
};
use platform::{Arc, OutOfMemory, Platform};
use soft_rdma::{Adapter, Close, Outcome};

use crate::{callback, status};

/// An object as it is handed out: the public head, then what is ours.
#[repr(C)]
pub(crate) struct Object<T, P: Platform> {
    header: NDK_OBJECT_HEADER,
    dispatch: *const c_void,
    object: Arc<T, P>,
}

// SAFETY: the head is written once, before the object is shared, and not touched by us after that.
unsafe impl<T: Send + Sync, P: Platform> Send for Object<T, P> {}
// SAFETY: as for Send.
unsafe impl<T: Send + Sync, P: Platform> Sync for Object<T, P> {}

impl<T, P: Platform> Object<T, P> {
    /// Makes the head of `object` and gives the consumer's pointer, which owns the reference.
    pub(crate) fn hand_out<H>(
        adapter: &Adapter<P>,
        object_type: NDK_OBJECT_TYPE,
        dispatch: &'static H,
        object: Arc<T, P>,
    ) -> Result<*mut NDK_OBJECT_HEADER, OutOfMemory> {
        let (major, minor) = adapter.version();
        let header = NDK_OBJECT_HEADER {
            Version: NDK_VERSION { Major: major, Minor: minor },
            ObjectType: object_type,
            NdkReserved: NDK_OBJECT_HEADER_RESERVED_BLOCK { rf: [core::ptr::null_mut(); 4] },
        };
        let head = Arc::<_, P>::try_new(Self { header, dispatch: (&raw const *dispatch).cast(), object })?;
        Ok(Arc::into_raw(head).cast_mut().cast())
    }

    /// The device's object of a pointer that was handed out.
    ///
    /// # Safety
    /// `pointer` came from [`Object::hand_out`] of the same `T` and `P`, and is not closed while the result is in use.
    pub(crate) unsafe fn of<'a, H>(pointer: *mut H) -> &'a Arc<T, P> {
        let object: *const Self = pointer.cast();
        // SAFETY: by contract, a live Object. Only the private field is touched: the head belongs to others.
        unsafe { &(*object).object }
    }

    /// Takes the consumer's reference back and frees the head.
    ///
    /// # Safety
    /// As for [`Object::of`]; the pointer is not used again.
    pub(crate) unsafe fn take_back<H>(pointer: *mut H) -> Option<Arc<T, P>> {
        // SAFETY: by contract, the pointer that `hand_out` got from `into_raw`.
        let head = unsafe { Arc::<Self, P>::from_raw(pointer.cast_const().cast()) };
        Arc::into_inner(head).map(|head| head.object)
    }
}

/// The close entry of nine tables (NDK_FN_CLOSE_OBJECT). IRQL <= DISPATCH; cannot fail.
///
/// # Safety
/// NDK_FN_CLOSE_OBJECT: the consumer's open object of this kind, not used again.
pub(crate) unsafe extern "system" fn close<T: Close<P>, P: Platform>(
    object: *mut NDK_OBJECT_HEADER,
    completion: NDK_FN_CLOSE_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the caller's contract.
    let Some(object) = (unsafe { Object::<T, P>::take_back(object) }) else { return STATUS_INTERNAL_ERROR };
    status::outcome(Ok::<Outcome, _>(soft_rdma::close(object, callback::closed(completion, context))))
}

/// The query-extension entry of all ten tables. There is no extension: neither does NDKPI define one.
pub(crate) unsafe extern "system" fn query_extension(
    _object: *mut NDK_OBJECT_HEADER,
    _interface: *mut GUID,
    _version: NDK_VERSION,
    _extension: *mut NDK_EXTENSION_INTERFACE,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

/// Gives a created object to the consumer: into `out`, with STATUS_SUCCESS (all creates finish inline).
///
/// # Safety
/// `out` is the create call's out parameter.
pub(crate) unsafe fn created<H>(
    object: Result<*mut NDK_OBJECT_HEADER, soft_rdma::Error>,
    out: *mut *mut H,
) -> NTSTATUS {
    match object {
        Ok(object) => {
            // SAFETY: by contract, writable.
            unsafe { out.write(object.cast()) };
            ndk_abi::status::STATUS_SUCCESS
        }
        Err(error) => status::error(error),
    }
}
