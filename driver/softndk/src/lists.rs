//! Chains of NET_BUFFER_LISTs.
#![expect(unsafe_code, reason = "lists that NDIS has by pointer")]

use core::ptr::null_mut;

use ndk_abi::ndis::NET_BUFFER_LIST;

/// Lists that are linked by `Next`.
pub(crate) struct Chain {
    pub(crate) first: *mut NET_BUFFER_LIST,
    last: *mut NET_BUFFER_LIST,
    pub(crate) count: usize,
}

// SAFETY: the owner of the chain owns its lists.
unsafe impl Send for Chain {}

impl Chain {
    pub(crate) const fn empty() -> Self {
        Self { first: null_mut(), last: null_mut(), count: 0 }
    }

    /// The chain that begins with `first`.
    ///
    /// # Safety
    /// `first` is null or a list that the caller owns, as are the lists that follow.
    pub(crate) unsafe fn of(first: *mut NET_BUFFER_LIST) -> Self {
        let mut chain = Self { first, last: first, count: 0 };
        let mut next = first;
        while !next.is_null() {
            chain.last = next;
            chain.count = chain.count.saturating_add(1);
            // SAFETY: a list of the chain, by contract.
            next = unsafe { (*next).Next };
        }
        chain
    }

    pub(crate) fn count(&self) -> u32 {
        self.count as u32
    }

    pub(crate) fn append(&mut self, other: Self) {
        if other.first.is_null() {
            return;
        }
        match self.last {
            last if last.is_null() => self.first = other.first,
            // SAFETY: a list of this chain, which is owned.
            last => unsafe { (*last).Next = other.first },
        }
        self.last = other.last;
        self.count = self.count.saturating_add(other.count);
    }

    /// Puts a list before the others.
    ///
    /// # Safety
    /// The caller owns `list`.
    pub(crate) unsafe fn prepend(&mut self, list: *mut NET_BUFFER_LIST) {
        // SAFETY: by contract.
        unsafe { (*list).Next = null_mut() };
        // SAFETY: a single list, which the caller owns.
        let others = core::mem::replace(self, unsafe { Self::of(list) });
        self.append(others);
    }

    pub(crate) fn pop(&mut self) -> Option<*mut NET_BUFFER_LIST> {
        let list = self.first;
        if list.is_null() {
            return None;
        }
        // SAFETY: a list of this chain, which is owned.
        self.first = unsafe { (*list).Next };
        // SAFETY: as above.
        unsafe { (*list).Next = null_mut() };
        if self.first.is_null() {
            self.last = null_mut();
        }
        self.count = self.count.saturating_sub(1);
        Some(list)
    }
}
