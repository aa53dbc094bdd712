//! Lists that wait for slots: NDIS gets them back when the cable has queued their frames, so that a transport sends no faster than Winsock Kernel.
//!
//! Each list counts in `Traffic`: a pause waits for it. The runs of the cable's deferred call go on with the oldest; a run follows whenever slots
//! become free. MiniportCancelSend does not look here: a list waits for the datagrams before it only.
#![expect(unsafe_code, reason = "lists that NDIS has lent")]

use ndk_abi::ndis::NET_BUFFER_LIST;
use platform::SpinLock;

use crate::{lists::Chain, platform::Windows};

/// The lists, the oldest first.
pub(super) struct Waiting(SpinLock<Queue, Windows>);

struct Queue {
    lists: Chain,
    /// A run has taken the first list, and may put it back: lists that come now are behind it.
    is_resuming: bool,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self(SpinLock::<_, Windows>::new(Queue { lists: Chain::empty(), is_resuming: false }))
    }

    /// Whether no list waits: one that is sent now need not wait behind others.
    pub(super) fn is_empty(&self) -> bool {
        let queue = self.0.lock();
        queue.lists.count == 0 && !queue.is_resuming
    }

    /// Puts a list behind the others.
    ///
    /// # Safety
    /// The driver owns `list`, whose `Next` is null.
    pub(super) unsafe fn push(&self, list: *mut NET_BUFFER_LIST) {
        // SAFETY: by contract.
        let list = unsafe { Chain::of(list) };
        self.0.lock().lists.append(list);
    }

    /// Takes the oldest list, in a run.
    pub(super) fn pop(&self) -> Option<*mut NET_BUFFER_LIST> {
        let mut queue = self.0.lock();
        let list = queue.lists.pop();
        queue.is_resuming = list.is_some();
        list
    }

    /// Puts the list back that the run has taken, before the others.
    ///
    /// # Safety
    /// [`Self::pop`] has returned `list`.
    pub(super) unsafe fn put_back(&self, list: *mut NET_BUFFER_LIST) {
        let mut queue = self.0.lock();
        // SAFETY: the driver owns the list, by contract.
        unsafe { queue.lists.prepend(list) };
        queue.is_resuming = false;
    }

    /// The run takes no more lists.
    pub(super) fn rest(&self) {
        self.0.lock().is_resuming = false;
    }
}
