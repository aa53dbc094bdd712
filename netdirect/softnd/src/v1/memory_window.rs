//! INDMemoryWindow.
#![expect(unsafe_code, reason = "COM")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use nd_com::v2::{IND2MemoryWindow, IND2MemoryWindow_Impl};
use windows_core::implement;

use super::adapter::AdapterInner;
use crate::{
    core::{lock, memory::Window},
    hold::Hold,
};

/// A memory window. IND2MemoryWindow has the identifier of INDMemoryWindow and one method more, so the object
/// implements IND2MemoryWindow.
#[implement(IND2MemoryWindow, Agile = false)]
pub(crate) struct MemoryWindow {
    core: Window,
    adapter: Arc<AdapterInner>,
    /// The address of the ND_RESULT for an invalidation by a peer; 0: none.
    invalidated: usize,
    _hold: Hold,
}

impl MemoryWindow {
    pub(super) fn new(core: Window, adapter: Arc<AdapterInner>, invalidated: usize) -> Self {
        Self { core, adapter, invalidated, _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &Window {
        &self.core
    }

    /// Called when this side has posted an invalidate of the window, or has released the window: a peer's invalidation
    /// no longer writes the ND_RESULT.
    pub(super) fn unbound(&self) {
        self.adapter.invalidations.remove(self.core.token(), self.invalidated);
    }

    /// Called when a bind of the window was posted; `before` is the window's token before the bind.
    pub(super) fn bound(&self, before: u32) {
        if self.invalidated != 0 {
            self.adapter.invalidations.replace(before, self.core.token(), self.invalidated);
        }
    }
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        self.unbound();
    }
}

impl IND2MemoryWindow_Impl for MemoryWindow_Impl {
    unsafe fn GetRemoteToken(&self) -> u32 {
        self.core.token().to_be()
    }
}

/// The addresses of the ND_RESULTs for invalidations by peers, by the tokens of their windows.
#[derive(Default)]
pub(super) struct Invalidations(Mutex<HashMap<u32, usize>>);

impl Invalidations {
    fn replace(&self, before: u32, token: u32, result: usize) {
        let mut results = lock(&self.0);
        if results.get(&before) == Some(&result) {
            results.remove(&before);
        }
        results.insert(token, result);
    }

    fn remove(&self, token: u32, result: usize) {
        let mut results = lock(&self.0);
        if results.get(&token) == Some(&result) {
            results.remove(&token);
        }
    }

    /// A peer has invalidated the window with this token: calls `write` with the address of the window's ND_RESULT, if
    /// there is one. The lock is held during the call, so that a release of the window waits.
    pub(super) fn write_result(&self, token: u32, write: impl FnOnce(usize)) {
        let mut results = lock(&self.0);
        if let Some(result) = results.remove(&token) {
            write(result);
        }
    }
}
