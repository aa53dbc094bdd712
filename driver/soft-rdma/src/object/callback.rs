//! The consumer's callbacks, as the device calls them.
#![expect(unsafe_code, reason = "calls functions and contexts of a C interface")]

use core::ffi::c_void;

use platform::Dispatch;

/// A consumer's function and its context, with the code that calls the function.
pub struct Callback<A> {
    invoke: unsafe fn(function: *const (), context: *mut c_void, argument: A),
    function: *const (),
    context: *mut c_void,
}

// SAFETY: by the contract of `new`, the callback may be called from any thread.
unsafe impl<A> Send for Callback<A> {}
// SAFETY: by the contract of `new`, the callback may be called from any thread; calling is the only use.
unsafe impl<A> Sync for Callback<A> {}

impl<A> Clone for Callback<A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for Callback<A> {}

impl<A> Callback<A> {
    /// A callback that runs `invoke(function, context, argument)`.
    ///
    /// # Safety
    /// That call is sound on any thread at IRQL <= DISPATCH, from now until the object or request it belongs to has ended.
    pub const unsafe fn new(
        invoke: unsafe fn(*const (), *mut c_void, A),
        function: *const (),
        context: *mut c_void,
    ) -> Self {
        Self { invoke, function, context }
    }

    /// Calls the consumer at `DISPATCH_LEVEL`, from a deferred call: notifications and events (`docs/contexts.md`). The
    /// caller holds no lock.
    pub(crate) fn call_at_dispatch(&self, _: &Dispatch<'_>, argument: A) {
        self.call(argument);
    }

    /// Calls the consumer. The caller holds no lock.
    pub fn call(&self, argument: A) {
        // SAFETY: promised to `new`.
        unsafe { (self.invoke)(self.function, self.context, argument) };
    }
}
