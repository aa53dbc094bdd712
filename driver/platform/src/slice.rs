//! Fixed-length arrays from non-paged pool.
#![expect(unsafe_code, reason = "owns raw memory from the platform")]

use core::{alloc::Layout, marker::PhantomData, ops::Deref, ops::DerefMut, ptr::NonNull};

use crate::{OutOfMemory, Platform};

/// An owned `[T]` whose length is set when it is made. Empty slices own no memory.
pub struct Slice<T, P: Platform> {
    memory: NonNull<T>,
    length: usize,
    _platform: PhantomData<(T, P)>,
}

// SAFETY: a Slice owns its elements, as a Box<[T]> does.
unsafe impl<T: Send, P: Platform> Send for Slice<T, P> {}
// SAFETY: shared access to a Slice is shared access to its elements, nothing else.
unsafe impl<T: Sync, P: Platform> Sync for Slice<T, P> {}

impl<T, P: Platform> Slice<T, P> {
    /// The empty slice.
    pub const fn empty() -> Self {
        Self { memory: NonNull::dangling(), length: 0, _platform: PhantomData }
    }

    /// `length` elements, each made by `make`. IRQL <= DISPATCH; the time is linear in `length`.
    #[track_caller]
    pub fn from_fn(length: usize, mut make: impl FnMut(usize) -> T) -> Result<Self, OutOfMemory> {
        let layout = Layout::array::<T>(length).map_err(|_| OutOfMemory)?;
        let memory = match layout.size() {
            0 => NonNull::dangling(),
            _ => P::allocate(layout).ok_or(OutOfMemory)?.cast::<T>(),
        };
        for index in 0..length {
            // SAFETY: index < length, inside the allocation of `length` elements (which may have no size).
            let place = unsafe { memory.add(index) };
            // SAFETY: `place` is inside the allocation, aligned for T by its layout, and uninitialised.
            unsafe { place.write(make(index)) };
        }
        Ok(Self { memory, length, _platform: PhantomData })
    }
}

impl<T: Copy, P: Platform> Slice<T, P> {
    /// `length` copies of `value`.
    #[track_caller]
    pub fn filled(length: usize, value: T) -> Result<Self, OutOfMemory> {
        Self::from_fn(length, |_| value)
    }
}

impl<T, P: Platform> Drop for Slice<T, P> {
    fn drop(&mut self) {
        let elements = NonNull::slice_from_raw_parts(self.memory, self.length);
        // SAFETY: the elements are initialised, owned by self, and not used again.
        unsafe { elements.drop_in_place() };
        if let Ok(layout) = Layout::array::<T>(self.length)
            && layout.size() != 0
        {
            // SAFETY: the memory came from allocate() with this very layout (the length never changes).
            unsafe { P::free(self.memory.cast(), layout) };
        }
    }
}

impl<T, P: Platform> Deref for Slice<T, P> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `length` initialised elements, borrowed with self.
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr(), self.length) }
    }
}

impl<T, P: Platform> AsRef<[T]> for Slice<T, P> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T, P: Platform> AsMut<[T]> for Slice<T, P> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T, P: Platform> DerefMut for Slice<T, P> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `length` initialised elements, borrowed mutably with self.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr(), self.length) }
    }
}
