//! What all NDK objects share: the head, its translation to the device's object, close and query-extension.
#![expect(unsafe_code, reason = "turns the consumer's object pointers into references")]

use core::{cell::UnsafeCell, ffi::c_void, mem::ManuallyDrop};

use ndk_abi::{
    ndkpi::{
        NDK_EXTENSION_INTERFACE, NDK_FN_CLOSE_COMPLETION, NDK_OBJECT_HEADER, NDK_OBJECT_HEADER_RESERVED_BLOCK,
        NDK_OBJECT_TYPE, NDK_VERSION,
    },
    status::{NTSTATUS, STATUS_NOT_SUPPORTED},
    wdm::GUID,
};
use platform::{Arc, Charge, OutOfMemory, Platform};
use soft_rdma::{Adapter, Callback, Close, Outcome};

use crate::{callback, status};

/// The memory behind the consumer's pointer: the public head, then the provider's own fields.
#[repr(C)]
pub(crate) struct Object<T, P: Platform> {
    header: NDK_OBJECT_HEADER,
    dispatch: *const c_void,
    /// The close moves the reference out; the head stays allocated.
    object: ManuallyDrop<Arc<T, P>>,
    /// The consumer's close callback, set by `close`.
    closed: UnsafeCell<Option<Callback<()>>>,
    _charge: Charge<P>,
}

// SAFETY: the head is written once, before the object is shared, and only its type is read after that; `closed` belongs
// to the one close.
unsafe impl<T: Send + Sync, P: Platform> Send for Object<T, P> {}
// SAFETY: as for Send.
unsafe impl<T: Send + Sync, P: Platform> Sync for Object<T, P> {}

impl<T, P: Platform> Object<T, P> {
    /// Allocates the head of `object` and returns the consumer's pointer, which owns the reference.
    #[track_caller]
    pub(crate) fn hand_out<H>(
        adapter: &Adapter<P>,
        object_type: NDK_OBJECT_TYPE,
        dispatch: &'static H,
        object: Arc<T, P>,
    ) -> Result<*mut NDK_OBJECT_HEADER, OutOfMemory> {
        let charge = adapter.quota().charge(Arc::<Self, P>::POOL_BYTES)?;
        let (major, minor) = adapter.version();
        let header = NDK_OBJECT_HEADER {
            Version: NDK_VERSION { Major: major, Minor: minor },
            ObjectType: object_type,
            NdkReserved: NDK_OBJECT_HEADER_RESERVED_BLOCK { rf: [core::ptr::null_mut(); 4] },
        };
        let dispatch = (&raw const *dispatch).cast();
        // The closure runs after the allocation: if there is no memory, `object` is dropped.
        let head = Arc::<_, P>::try_new_cyclic(move |_| Self {
            header,
            dispatch,
            object: ManuallyDrop::new(object),
            closed: UnsafeCell::new(None),
            _charge: charge,
        })?;
        Ok(Arc::into_raw(head).cast_mut().cast())
    }

    /// The device's object behind a pointer that was handed out.
    ///
    /// # Safety
    /// `pointer` came from [`Object::hand_out`] of the same `T` and `P`, and is not closed while the result is in use.
    pub(crate) unsafe fn of<'a, H>(pointer: *mut H) -> &'a Arc<T, P> {
        let object: *const Self = pointer.cast();
        // SAFETY: by contract, a live Object. Only the private field is accessed: Windows and the consumer may change
        // the head.
        unsafe { &(*object).object }
    }

    /// Takes the consumer's reference to the device's object back; the head stays allocated.
    ///
    /// # Safety
    /// As for [`Object::of`]; the object is not used again.
    unsafe fn take<H>(pointer: *mut H) -> Arc<T, P> {
        // SAFETY: the caller's contract.
        let object: *const Arc<T, P> = unsafe { Self::of(pointer) };
        // SAFETY: read out once, as the caller does not use it again; dropping the head does not drop it.
        unsafe { object.read() }
    }

    /// Frees the head.
    ///
    /// # Safety
    /// `pointer` came from [`Object::hand_out`], `take` was called, and the pointer is not used again.
    unsafe fn free<H>(pointer: *mut H) {
        // SAFETY: by contract, the pointer that `hand_out` got from `into_raw`.
        drop(unsafe { Arc::<Self, P>::from_raw(pointer.cast_const().cast()) });
    }

    /// Takes the consumer's reference back and frees the head.
    ///
    /// # Safety
    /// As for [`Object::of`]; the pointer is not used again.
    pub(crate) unsafe fn take_back<H>(pointer: *mut H) -> Arc<T, P> {
        // SAFETY: the caller's contract.
        let object = unsafe { Self::take(pointer) };
        // SAFETY: the caller's contract.
        unsafe { Self::free(pointer) };
        object
    }

    /// Completes a pending close: calls the consumer's close callback, then frees the head, which the callback may
    /// still use.
    ///
    /// # Safety
    /// `head` is the head that [`close`] passed to [`Callback::new`].
    unsafe fn complete_close(_function: *const (), head: *mut c_void, _argument: ()) {
        let object: *const Self = head.cast();
        // SAFETY: the head lives until it is freed below.
        let closed = unsafe { &raw const (*object).closed };
        // SAFETY: as above.
        let closed = unsafe { &*closed }.get();
        // SAFETY: this is the one completion of the one close.
        if let Some(done) = unsafe { closed.replace(None) } {
            done.call(());
        }
        // SAFETY: the object was taken by `close`, and its close has been completed.
        unsafe { Self::free(head) };
    }
}

/// The close entry of nine tables (NDK_FN_CLOSE_OBJECT). IRQL <= DISPATCH; cannot fail.
///
/// The head lives until the close is complete. A layer that has replaced the dispatch pointer, as Windows does, stores
/// the data of its own close callback in the reserved words of the head.
///
/// # Safety
/// NDK_FN_CLOSE_OBJECT: the consumer's open object of this kind, not used again.
pub(crate) unsafe extern "system" fn close<T: Close<P>, P: Platform>(
    object: *mut NDK_OBJECT_HEADER,
    completion: NDK_FN_CLOSE_COMPLETION,
    context: *mut c_void,
) -> NTSTATUS {
    // SAFETY: the caller's contract.
    let taken = unsafe { Object::<T, P>::take(object) };
    let head: *mut Object<T, P> = object.cast();
    // SAFETY: the head lives.
    let closed = unsafe { &raw const (*head).closed };
    // SAFETY: as above.
    let closed = unsafe { &*closed }.get();
    // SAFETY: only this close uses the field.
    unsafe { closed.write(Some(callback::closed(completion, context))) };
    // SAFETY: `complete_close` gets the head, which lives until that call frees it.
    let done = unsafe { Callback::new(Object::<T, P>::complete_close, core::ptr::null(), head.cast()) };
    let outcome = soft_rdma::close(taken, done);
    if outcome == Outcome::Done {
        // SAFETY: taken above, and no completion follows.
        unsafe { Object::<T, P>::free(head) };
    }
    status::outcome(Ok(outcome))
}

/// The query-extension entry of all ten tables. The provider has no extension: the only known one, the RSS processors
/// of an adapter, is optional.
pub(crate) unsafe extern "system" fn query_extension(
    _object: *mut NDK_OBJECT_HEADER,
    _interface: *mut GUID,
    _version: NDK_VERSION,
    _extension: *mut NDK_EXTENSION_INTERFACE,
) -> NTSTATUS {
    STATUS_NOT_SUPPORTED
}

/// Stores a created object in `out` and returns STATUS_SUCCESS, or the NTSTATUS of the error. All creates finish
/// inline.
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
