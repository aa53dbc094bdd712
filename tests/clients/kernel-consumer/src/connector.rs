//! Contexts of connectors and of the listener, in which callbacks store events for the runner.

use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_PENDING};
use ndk_consumer::{Adapter, Completed, ConnectRequested, Disconnected};
use platform::Arc;

use crate::bell::Bell;
use crate::{Connector, Fifo, Kernel, Lock, PlatformOf, Ref, lock, shared};

/// The most connection requests that wait.
const BACKLOG: usize = 4;

/// The events of a connector.
pub struct ConnectorEvents<K: Kernel> {
    /// The status of the last operation; `None`: the operation is in progress.
    outcome: Lock<Option<NTSTATUS>, K>,
    /// The peer disconnected, or the connection was aborted.
    lost: AtomicBool,
    bell: Ref<Bell<PlatformOf<K>>, K>,
    _adapter: Ref<Adapter<PlatformOf<K>>, K>,
}

impl<K: Kernel> ConnectorEvents<K> {
    /// Those of a connector on `adapter`, which ring the bell.
    pub fn new(
        adapter: &Ref<Adapter<PlatformOf<K>>, K>,
        bell: &Ref<Bell<PlatformOf<K>>, K>,
    ) -> Result<Ref<Self, K>, NTSTATUS> {
        shared::<_, K>(Self {
            outcome: lock::<_, K>(None),
            lost: AtomicBool::new(false),
            bell: bell.clone(),
            _adapter: adapter.clone(),
        })
    }

    /// Begins an operation: `start` calls the provider and returns its status. [`Self::outcome`] has the final status when the operation
    /// has ended.
    pub fn begin(&self, start: impl FnOnce() -> NTSTATUS) {
        *self.outcome.lock() = None;
        let status = start();
        if status != STATUS_PENDING {
            *self.outcome.lock() = Some(status);
        }
    }

    /// The status of the operation; `None`: the operation is in progress.
    pub fn outcome(&self) -> Option<NTSTATUS> {
        *self.outcome.lock()
    }

    /// Whether the peer has disconnected, or the connection was aborted.
    pub fn lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

impl<K: Kernel> Completed<PlatformOf<K>> for ConnectorEvents<K> {
    fn completed(this: &Arc<Self, PlatformOf<K>>, status: NTSTATUS) {
        *this.outcome.lock() = Some(status);
        this.bell.ring();
    }
}

impl<K: Kernel> Disconnected for ConnectorEvents<K> {
    fn disconnected(&self) {
        self.lost.store(true, Ordering::Release);
        self.bell.ring();
    }
}

/// Connection requests that wait for the runner: connect events come at DISPATCH_LEVEL, where the accept cannot be waited for.
pub struct ListenerEvents<K: Kernel> {
    /// `None`: the listener is closed or about to be.
    waiting: Lock<Option<Fifo<Connector<K>, K>>, K>,
    bell: Ref<Bell<PlatformOf<K>>, K>,
    adapter: Ref<Adapter<PlatformOf<K>>, K>,
}

impl<K: Kernel> ListenerEvents<K> {
    /// Those of a listener on `adapter`, which ring the bell.
    pub fn new(
        adapter: &Ref<Adapter<PlatformOf<K>>, K>,
        bell: &Ref<Bell<PlatformOf<K>>, K>,
    ) -> Result<Ref<Self, K>, NTSTATUS> {
        let waiting = Fifo::<Connector<K>, K>::new(BACKLOG).map_err(crate::no_memory)?;
        shared::<_, K>(Self { waiting: lock::<_, K>(Some(waiting)), bell: bell.clone(), adapter: adapter.clone() })
    }

    /// Takes the oldest request that waits.
    pub fn take(&self) -> Option<Connector<K>> {
        self.waiting.lock().as_mut()?.pop()
    }

    /// Refuses all waiting and later requests: the close of a listener completes only after its connectors are closed.
    pub fn close(&self) {
        let waiting = self.waiting.lock().take();
        drop(waiting);
    }
}

impl<K: Kernel> ConnectRequested<PlatformOf<K>> for ListenerEvents<K> {
    type Link = ConnectorEvents<K>;

    fn link(&self) -> Option<Ref<ConnectorEvents<K>, K>> {
        ConnectorEvents::new(&self.adapter, &self.bell).ok()
    }

    fn requested(&self, connector: Connector<K>) {
        let mut waiting = self.waiting.lock();
        let refused = match waiting.as_mut() {
            Some(queue) => queue.push(connector).err(),
            None => Some(connector),
        };
        drop(waiting);
        drop(refused);
        self.bell.ring();
    }
}
