//! What may be called where is a type, not a comment.
//!
//! The tokens are zero-sized and bound to a lifetime, so that neither can be kept, nor sent to another thread. They are
//! minted at the FFI boundary only (`assume`), by lock guards and by deferred calls.
#![expect(unsafe_code, reason = "minting a proof of context is a claim that the compiler cannot check")]

use core::marker::PhantomData;

use crate::{DISPATCH_LEVEL, PASSIVE_LEVEL, Platform};

/// Proof that the thread runs at `PASSIVE_LEVEL` and may block.
#[derive(Debug)]
pub struct Passive<'a>(PhantomData<(&'a (), *mut ())>);

/// Proof that the thread runs at `DISPATCH_LEVEL`: it may neither block nor touch pageable memory.
#[derive(Debug)]
pub struct Dispatch<'a>(PhantomData<(&'a (), *mut ())>);

impl Passive<'_> {
    /// Mints the token. Debug builds check the claim against the real IRQL.
    ///
    /// # Safety
    /// The thread is at `PASSIVE_LEVEL` and stays so while the token lives.
    pub unsafe fn assume<P: Platform>() -> Self {
        debug_assert!(P::irql() == PASSIVE_LEVEL, "passive code above PASSIVE_LEVEL");
        Self(PhantomData)
    }
}

impl Dispatch<'_> {
    /// Mints the token. Debug builds check the claim against the real IRQL.
    ///
    /// # Safety
    /// The thread is at `DISPATCH_LEVEL` and stays so while the token lives.
    pub unsafe fn assume<P: Platform>() -> Self {
        debug_assert!(P::irql() == DISPATCH_LEVEL, "dispatch code below DISPATCH_LEVEL");
        Self(PhantomData)
    }
}
