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

/// A memory window. Version 2 has an interface with the same identifier and one method more, so it is that one.
#[implement(IND2MemoryWindow, Agile = false)]
pub(crate) struct MemoryWindow {
    core: Window,
    opened: Arc<Opened>,
    /// Where the program wants to read that a peer has invalidated it; 0: nowhere.
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

    /// It has been invalidated by this side, of which nobody is told.
    pub(super) fn unbound(&self) {
        self.opened.invalidations.remove(self.core.token(), self.invalidated);
    }

    /// It has been bound, and had `before` as its token.
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

/// Where programs want to read of windows that peers have invalidated, by the windows' tokens.
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

    /// A peer has invalidated the window with this token: has `tell` say so where that is wanted, if it is. A release of the window
    /// meanwhile waits.
    pub(super) fn tell(&self, token: u32, tell: impl FnOnce(usize)) {
        let mut results = lock(&self.0);
        if let Some(result) = results.remove(&token) {
            tell(result);
        }
    }
}
