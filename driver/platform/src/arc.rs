//! Fallible shared ownership: the one rundown primitive of the driver.
//!
//! Strong references hold every object that a consumer can close: the consumer's own, one for each successor object,
//! one for each call or callback in flight. The close drops the consumer's reference by [`Arc::into_inner`]. `Some`: it
//! was the last, and the close completes inline. `None`: the close pends (STATUS_PENDING), and the thread that drops
//! the last reference drops the object, which calls the close callback (NDKPI: object lifetime requirements).
//!
//! The algorithm is the standard library's. Its `Arc` is not used, because a failed allocation there does not return.
#![expect(unsafe_code, reason = "reference counting over raw memory from the platform")]

use core::{
    alloc::Layout,
    cell::UnsafeCell,
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
    ops::{Deref, DerefMut},
    ptr::NonNull,
};

use crate::{
    OutOfMemory, Platform,
    atomic::{AtomicUsize, Ordering, fence},
    hint,
};

/// The weak count while [`Arc::get_mut`] reads the strong count.
const LOCKED: usize = usize::MAX;

#[repr(C)]
pub(crate) struct Inner<T> {
    strong: AtomicUsize,
    /// The number of `Weak`s, and 1 more for all strong references together.
    weak: AtomicUsize,
    /// Initialised while `strong` is not 0.
    value: UnsafeCell<MaybeUninit<T>>,
}

/// A strong reference to a `T` that does not move. Dropping the last one drops the `T`, at any IRQL <= DISPATCH.
pub struct Arc<T, P: Platform> {
    inner: NonNull<Inner<T>>,
    _owns: PhantomData<(Inner<T>, P)>,
}

/// A reference that keeps the memory but not the object.
pub struct Weak<T, P: Platform> {
    inner: NonNull<Inner<T>>,
    _owns: PhantomData<(Inner<T>, P)>,
}

/// An object whose last strong reference is gone. The object is still at its address, and is dropped with this value.
pub struct Last<T, P: Platform>(
    /// The weak reference that all strong references shared.
    Weak<T, P>,
);

// SAFETY: an Arc shares a T between threads and may drop it on any of them: T must be both Send and Sync.
unsafe impl<T: Send + Sync, P: Platform> Send for Arc<T, P> {}
// SAFETY: as for Send.
unsafe impl<T: Send + Sync, P: Platform> Sync for Arc<T, P> {}
// SAFETY: a Weak can become an Arc.
unsafe impl<T: Send + Sync, P: Platform> Send for Weak<T, P> {}
// SAFETY: a Weak can become an Arc.
unsafe impl<T: Send + Sync, P: Platform> Sync for Weak<T, P> {}

// Moving a reference does not move the object. Declared here, so that the compiler need not examine all types that
// objects contain.
impl<T, P: Platform> Unpin for Arc<T, P> {}
impl<T, P: Platform> Unpin for Weak<T, P> {}

impl<T, P: Platform> Arc<T, P> {
    /// Moves `value` to non-paged pool. IRQL <= DISPATCH.
    #[track_caller]
    pub fn try_new(value: T) -> Result<Self, OutOfMemory> {
        Self::try_new_cyclic(|_| value)
    }

    /// As [`Arc::try_new`], for a value that contains a weak reference to itself.
    #[track_caller]
    pub fn try_new_cyclic(make: impl FnOnce(&Weak<T, P>) -> T) -> Result<Self, OutOfMemory> {
        let memory = P::allocate(Layout::new::<Inner<T>>()).ok_or(OutOfMemory)?.cast::<Inner<T>>();
        // No strong reference yet, so upgrading fails until there is a value.
        let empty = Inner {
            strong: AtomicUsize::new(0),
            weak: AtomicUsize::new(1),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        // SAFETY: the fresh allocation has the layout of an Inner<T>.
        unsafe { memory.write(empty) };
        // The weak reference that all strong ones share.
        let weak = ManuallyDrop::new(Weak { inner: memory, _owns: PhantomData });
        let value = MaybeUninit::new(make(&weak));
        // SAFETY: no code reads the value before `strong` is 1.
        unsafe { weak.inner().value.get().write(value) };
        weak.inner().strong.store(1, Ordering::Release);
        Ok(Self { inner: memory, _owns: PhantomData })
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: a strong reference keeps the allocation, which was initialised when it was made.
        unsafe { self.inner.as_ref() }
    }

    /// A weak reference to the same object.
    pub fn downgrade(this: &Self) -> Weak<T, P> {
        let weak = &this.inner().weak;
        // Waits only for the few instructions of a `get_mut` on another processor.
        while weak
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |count| {
                if count == LOCKED { None } else { count.checked_add(1) }
            })
            .is_err()
        {
            hint::spin_loop();
        }
        Weak { inner: this.inner, _owns: PhantomData }
    }

    /// The object, if this is the only reference of either kind.
    ///
    /// IRQL DISPATCH if the object is ever downgraded: `downgrade` spins while this function holds the weak count
    /// locked, so a DPC that interrupted it would spin for ever.
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        let inner = this.inner();
        // There is no weak reference, and none can be made while the count is locked. So if the strong count is 1, no
        // other reference can appear.
        inner.weak.compare_exchange(1, LOCKED, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let unique = inner.strong.load(Ordering::Acquire) == 1;
        inner.weak.store(1, Ordering::Release);
        // SAFETY: no other reference exists, and `this` is borrowed mutably with the result.
        unique.then(|| unsafe { &mut *Self::as_ptr(this).cast_mut() })
    }

    /// Drops this reference. `Some`: it was the last strong reference; at most one call for an object returns that, and
    /// none if the last reference is dropped otherwise. The object does not move, as it may be too large for a kernel's
    /// stack.
    pub fn into_inner(this: Self) -> Option<Last<T, P>> {
        let this = ManuallyDrop::new(this);
        // SAFETY: the reference is not used again, and ManuallyDrop does not drop it.
        unsafe { this.drop_strong() }
    }

    /// # Safety
    /// The reference is neither used nor dropped afterwards.
    unsafe fn drop_strong(&self) -> Option<Last<T, P>> {
        if self.inner().strong.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        fence(Ordering::Acquire);
        Some(Last(Weak { inner: self.inner, _owns: PhantomData }))
    }

    /// Drops this reference, unless it is the last one: then `Err` returns it to the caller.
    pub fn release(this: Self) -> Result<(), Self> {
        let others = |count: usize| count.checked_sub(1).filter(|&others| others > 0);
        match this.inner().strong.fetch_update(Ordering::Release, Ordering::Relaxed, others) {
            Ok(_) => {
                core::mem::forget(this);
                Ok(())
            }
            Err(_) => Err(this),
        }
    }

    /// The address of the object, for a C interface. The pointer owns the reference until [`Arc::from_raw`].
    pub fn into_raw(this: Self) -> *const T {
        let this = ManuallyDrop::new(this);
        Self::as_ptr(&this)
    }

    /// The address of the object.
    pub fn as_ptr(this: &Self) -> *const T {
        this.inner().value.get().cast_const().cast()
    }

    /// Takes back the reference of an [`Arc::into_raw`].
    ///
    /// # Safety
    /// `pointer` came from `into_raw` of the same `T` and `P`, whose reference has not been taken back yet.
    pub unsafe fn from_raw(pointer: *const T) -> Self {
        let offset = core::mem::offset_of!(Inner<T>, value);
        // SAFETY: the value lies `offset` bytes inside its Inner.
        let inner = unsafe { pointer.byte_sub(offset) };
        // SAFETY: derived from a non-null allocation.
        let inner = unsafe { NonNull::new_unchecked(inner.cast::<Inner<T>>().cast_mut()) };
        Self { inner, _owns: PhantomData }
    }

    /// Whether both refer to the same object.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.inner == other.inner
    }
}

impl<T, P: Platform> Clone for Arc<T, P> {
    fn clone(&self) -> Self {
        self.inner().strong.fetch_add(1, Ordering::Relaxed);
        Self { inner: self.inner, _owns: PhantomData }
    }
}

impl<T, P: Platform> Deref for Arc<T, P> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: a strong reference exists, so the value is initialised; only shared references to it are given out.
        unsafe { &*Self::as_ptr(self) }
    }
}

impl<T, P: Platform> Drop for Arc<T, P> {
    fn drop(&mut self) {
        // SAFETY: the reference is being dropped.
        drop(unsafe { self.drop_strong() });
    }
}

impl<T, P: Platform> Deref for Last<T, P> {
    type Target = T;
    fn deref(&self) -> &T {
        let value = self.0.inner().value.get().cast_const().cast();
        // SAFETY: initialised, and only `self` refers to it: there is no strong reference, and none can be made.
        unsafe { &*value }
    }
}

impl<T, P: Platform> DerefMut for Last<T, P> {
    fn deref_mut(&mut self) -> &mut T {
        let value = self.0.inner().value.get().cast();
        // SAFETY: as in `deref`, and borrowed mutably with self.
        unsafe { &mut *value }
    }
}

impl<T, P: Platform> Drop for Last<T, P> {
    fn drop(&mut self) {
        // SAFETY: as in `deref`; the value is dropped in place, once. The drop of the weak reference frees its memory.
        unsafe { core::ptr::from_mut::<T>(self).drop_in_place() };
    }
}

impl<T, P: Platform> Weak<T, P> {
    /// The counts. The object may have been dropped already.
    fn inner(&self) -> &Inner<T> {
        // SAFETY: any reference keeps the allocation, which was initialised when it was made.
        unsafe { self.inner.as_ref() }
    }

    /// A strong reference, if the object still lives.
    pub fn upgrade(&self) -> Option<Arc<T, P>> {
        self.inner()
            .strong
            .fetch_update(
                Ordering::Acquire,
                Ordering::Relaxed,
                |count| if count == 0 { None } else { count.checked_add(1) },
            )
            .ok()?;
        Some(Arc { inner: self.inner, _owns: PhantomData })
    }

    /// Whether this refers to the object of `arc`.
    pub fn refers_to(&self, arc: &Arc<T, P>) -> bool {
        self.inner == arc.inner
    }
}

impl<T, P: Platform> Clone for Weak<T, P> {
    fn clone(&self) -> Self {
        self.inner().weak.fetch_add(1, Ordering::Relaxed);
        Self { inner: self.inner, _owns: PhantomData }
    }
}

impl<T, P: Platform> Drop for Weak<T, P> {
    fn drop(&mut self) {
        if self.inner().weak.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        // SAFETY: the last reference of either kind is gone; the memory came from allocate() with this layout.
        unsafe { P::free(self.inner.cast(), Layout::new::<Inner<T>>()) };
    }
}
