//! The requests in progress.

use ndk_abi::softndk_ioctl::{SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_PERF, SOFTNDK_TEST_PERF_RESULT};
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_DEVICE_BUSY};
use ndk_consumer::OpenAdapters;
use platform::{Event, Passive};

use kernel_consumer::{Bell, Kernel, Lock, PlatformOf, Ref, lock, no_memory};

use crate::ask::Ask;
use crate::client::{self, Measured};
use crate::end::Site;
use crate::server;

/// The most requests at once: each has memory for five messages.
const REQUESTS: usize = 4;

/// The consumer of one adapter.
pub struct Consumer<K: Kernel> {
    state: Lock<State<K>, K>,
}

struct State<K: Kernel> {
    running: [Option<Running<K>>; REQUESTS],
    /// No request may begin.
    closed: bool,
}

/// A request in progress.
struct Running<K: Kernel> {
    owner: u64,
    bell: Ref<Bell<PlatformOf<K>>, K>,
    /// Set when the request's adapter is closed.
    finished: Ref<Event<PlatformOf<K>>, K>,
}

impl<K: Kernel> Clone for Running<K> {
    fn clone(&self) -> Self {
        Self { owner: self.owner, bell: self.bell.clone(), finished: self.finished.clone() }
    }
}

impl<K: Kernel> Default for Consumer<K> {
    fn default() -> Self {
        Self { state: lock::<_, K>(State { running: [const { None }; REQUESTS], closed: false }) }
    }
}

impl<K: Kernel> Consumer<K> {
    /// Performs a request of `owner` in the calling thread (IOCTL_SOFTNDK_TEST_PERF). Samples go to `room`. At the return everything that the
    /// request opened is closed.
    pub fn serve(
        &self,
        kernel: &K,
        owner: u64,
        ask: &SOFTNDK_TEST_PERF,
        room: &mut [u8],
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_PERF_RESULT, NTSTATUS> {
        let ask = Ask::new(ask, room.len())?;
        let running = Running { owner, bell: Bell::new()?, finished: Event::new().map_err(no_memory)? };
        let place = self.begin(&running)?;
        let adapters = OpenAdapters::default();
        let measured = perform(kernel, &adapters, &ask, &running.bell, room, passive);
        adapters.close_all(kernel, passive);
        let over = self.state.lock().running.get_mut(place).and_then(Option::take);
        // It may have the last reference to the bell, so it is dropped without the lock.
        drop(over);
        running.finished.set();
        let Measured { operations, time, samples, moved } = measured?;
        Ok(SOFTNDK_TEST_PERF_RESULT {
            Version: SOFTNDK_IOCTL_VERSION,
            Samples: samples,
            Operations: operations,
            Time: time,
            Moved: moved,
        })
    }

    /// Finds a place for a request.
    fn begin(&self, running: &Running<K>) -> Result<usize, NTSTATUS> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(STATUS_CANCELLED);
        }
        let free = state.running.iter().position(Option::is_none).ok_or(STATUS_DEVICE_BUSY)?;
        if let Some(place) = state.running.get_mut(free) {
            *place = Some(running.clone());
        }
        Ok(free)
    }

    /// Stops the requests of `owner`, and waits for their end.
    pub fn end(&self, owner: u64, passive: &Passive<'_>) {
        self.stop_if(|whose| whose == owner, passive);
    }

    /// Stops the requests in progress, and waits for their end.
    pub fn stop(&self, passive: &Passive<'_>) {
        self.stop_if(|_| true, passive);
    }

    /// As [`Self::stop`], and no later request may begin: the adapter is being removed.
    pub fn close(&self, passive: &Passive<'_>) {
        self.state.lock().closed = true;
        self.stop(passive);
    }

    fn stop_if(&self, wanted: impl Fn(u64) -> bool, passive: &Passive<'_>) {
        for place in 0..REQUESTS {
            let found = self.state.lock().running.get(place).cloned().flatten();
            if let Some(running) = found.filter(|running| wanted(running.owner)) {
                running.bell.stop();
                running.finished.wait(passive);
            }
        }
    }
}

fn perform<K: Kernel>(
    kernel: &K,
    adapters: &OpenAdapters<PlatformOf<K>>,
    ask: &Ask,
    bell: &Ref<Bell<PlatformOf<K>>, K>,
    room: &mut [u8],
    passive: &Passive<'_>,
) -> Result<Measured, NTSTATUS> {
    let adapter = adapters.open(kernel, None, passive)?;
    let site = Site::<K> { adapter: &adapter, bell, passive };
    match ask {
        Ask::Serve { local, limit } => server::serve(&site, *local, *limit),
        Ask::Measure(asked) => client::measure(&site, asked, room),
    }
}
