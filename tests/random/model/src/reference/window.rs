//! Memory windows (4.5; `docs/decisions.md`: as InfiniBand's type 2).

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE},
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER},
};

use super::{
    Life, Model,
    memory::{Extent, Right, past_end},
};

/// A bind as it is posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bind {
    pub(crate) window: usize,
    pub(crate) region: usize,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) flags: u32,
    /// What the window's token is after the post.
    pub(crate) token: u32,
}

#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) life: Life,
    pub(crate) domain: usize,
    /// Of the latest bind that was posted; 0 before.
    pub(crate) token: u32,
    /// With the queue pair that bound it.
    pub(super) binding: Option<(usize, Bind)>,
}

impl Bind {
    fn allows(&self, right: Right) -> bool {
        match right {
            Right::RemoteRead => self.flags & NDK_OP_FLAG_ALLOW_REMOTE_READ != 0,
            Right::RemoteWrite => self.flags & NDK_OP_FLAG_ALLOW_REMOTE_WRITE == NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
            Right::LocalRead | Right::LocalWrite => false,
        }
    }
}

impl Window {
    /// The address and length of what it shows.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        self.binding.filter(|_| self.life == Life::Open).map(|(_, bind)| (bind.address, bind.length))
    }
}

impl Model {
    pub(crate) fn create_mw(&mut self, domain: usize) -> usize {
        self.windows.push(Window { life: Life::Open, domain, token: 0, binding: None });
        self.windows.len() - 1
    }

    /// Whether a region has to stay as it is for the sake of windows.
    pub(super) fn is_bound(&self, region: usize) -> bool {
        let bound = |window: &super::Window| window.binding.is_some_and(|(_, bind)| bind.region == region);
        self.windows.iter().any(|window| window.life != Life::Gone && bound(window))
    }

    /// The rules that a post of a bind breaks. A fast region's rights are checked when the bind runs.
    pub(super) fn broken_by(&self, qp: usize, bind: &Bind) -> Vec<(bool, NTSTATUS)> {
        let (region, window) = (&self.regions[bind.region], &self.windows[bind.window]);
        let domain = self.qps[qp].domain;
        let remote = bind.allows(Right::RemoteRead) || bind.allows(Right::RemoteWrite);
        let now = if region.fast { None } else { self.may_bind(bind) };
        vec![
            (bind.length == 0 || bind.address.checked_add(bind.length).is_none(), STATUS_INVALID_PARAMETER),
            (region.domain != domain || window.domain != domain, STATUS_ACCESS_VIOLATION),
            (region.token == 0, STATUS_INVALID_DEVICE_REQUEST),
            (region.fast && remote && !region.remote_access, STATUS_ACCESS_VIOLATION),
            (now.is_some(), now.unwrap_or(STATUS_INVALID_PARAMETER)),
        ]
    }

    /// Why the region does not allow it.
    fn may_bind(&self, bind: &Bind) -> Option<NTSTATUS> {
        let Some(mapping) = &self.regions[bind.region].mapping else { return Some(STATUS_INVALID_DEVICE_REQUEST) };
        let writable = mapping.allows(Right::LocalWrite) || !bind.allows(Right::RemoteWrite);
        let inside = mapping.extents(bind.address, bind.length).is_some();
        (!writable || !inside).then_some(STATUS_ACCESS_VIOLATION)
    }

    /// The post of a bind was accepted: the window has a new token.
    pub(super) fn announce(&mut self, bind: &Bind) -> super::Result<()> {
        let token = bind.token;
        if token == 0 || self.is_token(token) || self.windows.iter().any(|window| window.token == token) {
            super::mismatch!("token {token:#x} of a window is not a new one");
        }
        self.windows[bind.window].token = token;
        Ok(())
    }

    pub(super) fn bind(&mut self, qp: usize, bind: &Bind) -> Result<(), Vec<NTSTATUS>> {
        self.windows[bind.window].binding = None;
        match self.may_bind(bind) {
            Some(status) => Err(vec![status]),
            None => {
                self.windows[bind.window].binding = Some((qp, *bind));
                Ok(())
            }
        }
    }

    pub(super) fn unbind(&mut self, window: usize) -> Result<(), Vec<NTSTATUS>> {
        let bound = self.windows[window].binding.take().is_some();
        if bound { Ok(()) } else { Err(vec![STATUS_INVALID_DEVICE_REQUEST]) }
    }

    /// The window that a token names, for the peer of `qp`.
    pub(super) fn window_of(&self, qp: usize, token: u32) -> Option<usize> {
        let names = |(by, bind): (usize, Bind)| by == qp && bind.token == token;
        let is_theirs = |window: &super::Window| window.life == Life::Open && window.binding.is_some_and(names);
        self.windows.iter().position(is_theirs)
    }

    /// The memory of a range that a window shows, or why there is no access to it.
    pub(super) fn access_through(
        &self,
        window: usize,
        (address, length): (u64, u64),
        right: Right,
    ) -> Result<Vec<Extent>, NTSTATUS> {
        let (_, bind) = self.windows[window].binding.ok_or(STATUS_ACCESS_VIOLATION)?;
        if !bind.allows(right) {
            return Err(STATUS_ACCESS_VIOLATION);
        }
        let end = address.checked_add(length);
        if address < bind.address || end.is_none_or(|end| end > bind.address + bind.length) {
            return Err(past_end(right));
        }
        let mapping = self.regions[bind.region].mapping.as_ref();
        mapping.and_then(|mapping| mapping.extents(address, length)).ok_or(STATUS_ACCESS_VIOLATION)
    }
}
