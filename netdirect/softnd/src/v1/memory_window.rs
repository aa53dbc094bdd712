//! INDMemoryWindow.
#![expect(unsafe_code, reason = "COM")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use nd_com::v2::{IND2MemoryWindow, IND2MemoryWindow_Impl};
use windows_core::implement;

use super::adapter::Opened;
use crate::{
    core::{lock, memory::Window},
    hold::Hold,
};

/// A memory window. IND2MemoryWindow has the identifier of INDMemoryWindow and one method more, so the object
/// implements that.
#[implement(IND2MemoryWindow, Agile = false)]
pub(crate) struct MemoryWindow {
    core: Window,
    opened: Arc<Opened>,
    /// The address of the ND_RESULT for an invalidation by a peer; 0: none.
    invalidated: usize,
    _hold: Hold,
}

impl MemoryWindow {
    pub(super) fn new(core: Window, opened: Arc<Opened>, invalidated: usize) -> Self {
        Self { core, opened, invalidated, _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &Window {
        &self.core
    }

    /// This side has invalidated the window: the ND_RESULT is not used.
    pub(super) fn unbound(&self) {
        self.opened.invalidations.remove(self.core.token(), self.invalidated);
    }

    /// The window was bound; `before` was its token.
    pub(super) fn bound(&self, before: u32) {
        if self.invalidated != 0 {
            self.opened.invalidations.replace(before, self.core.token(), self.invalidated);
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

/// The ND_RESULTs of windows, for invalidations by peers: their addresses, by the windows' tokens.
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

    /// A peer has invalidated the window with this token: calls `write` with the address of its ND_RESULT, if it has
    /// one. The lock is held, so that a release of the window waits.
    pub(super) fn write_result(&self, token: u32, write: impl FnOnce(usize)) {
        let mut results = lock(&self.0);
        if let Some(result) = results.remove(&token) {
            write(result);
        }
    }
}
