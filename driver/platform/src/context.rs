//! [`Passive`] and [`Dispatch`]: the IRQL that a function needs, as a parameter type.
//!
//! The tokens are zero-sized, bound to a lifetime and not `Send`: code can neither keep a token nor pass it to another
//! thread. `assume` makes a token, at the FFI boundary only; a deferred call borrows one. The guard of a spin lock
//! proves `Dispatch` too ([`AsDispatch`]).
#![expect(unsafe_code, reason = "minting a proof of context is a claim that the compiler cannot check")]

use core::marker::PhantomData;

use crate::{DISPATCH_LEVEL, PASSIVE_LEVEL, Platform, RawSpinLock};

/// Proof that the thread runs at `PASSIVE_LEVEL` and may block.
#[derive(Debug)]
pub struct Passive<'a>(PhantomData<(&'a (), *mut ())>);

/// Proof that the thread runs at `DISPATCH_LEVEL`: it may neither block nor touch pageable memory.
#[derive(Debug)]
pub struct Dispatch<'a>(PhantomData<(&'a (), *mut ())>);

impl Passive<'_> {
    /// Makes the token; [`Platform::claim_irql`] may check the IRQL.
    ///
    /// # Safety
    /// The thread is at `PASSIVE_LEVEL` and stays so while the token lives.
    pub unsafe fn assume<P: Platform>() -> Self {
        P::claim_irql(PASSIVE_LEVEL);
        Self(PhantomData)
    }
}

impl Dispatch<'_> {
    /// Makes the token; [`Platform::claim_irql`] may check the IRQL.
    ///
    /// # Safety
    /// The thread is at `DISPATCH_LEVEL` and stays so while the token lives.
    pub unsafe fn assume<P: Platform>() -> Self {
        P::claim_irql(DISPATCH_LEVEL);
        Self(PhantomData)
    }
}

/// A value that exists at `DISPATCH_LEVEL` only: the guard of a [`crate::SpinLock`].
pub trait AsDispatch {
    /// The proof, as long as `self` is borrowed.
    fn dispatch(&self) -> Dispatch<'_>;
}

impl<L: RawSpinLock, T: ?Sized> AsDispatch for lock_api::MutexGuard<'_, L, T> {
    fn dispatch(&self) -> Dispatch<'_> {
        Dispatch(PhantomData)
    }
}
