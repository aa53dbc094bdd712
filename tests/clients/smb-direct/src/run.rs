//! Running a scenario, or the link of a program.

use ndk_abi::softndk_ioctl::{
    SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_LINK, SOFTNDK_TEST_LINK_RESULT, SOFTNDK_TEST_SMB_DIRECT_RESULT,
};
use ndk_abi::status::{
    NTSTATUS, STATUS_CANCELLED, STATUS_DEVICE_BUSY, STATUS_INVALID_DEVICE_STATE, STATUS_INVALID_PARAMETER,
    STATUS_SUCCESS,
};
use ndk_consumer::OpenAdapters;
use platform::{Event, Passive};

use crate::program::{self, Ask, Held};
use crate::report::{Failure, Figures, Report, Step};
use crate::{Kernel, Lock, PlatformOf, Ref, Scenario, lock, no_memory};
use kernel_consumer::Bell;

/// The consumer of one adapter. One scenario runs at a time, or one link is held.
pub struct Consumer<K: Kernel> {
    state: Lock<State<K>, K>,
}

struct State<K: Kernel> {
    running: Option<Running<K>>,
    /// The owner and the link of a program, while no request works with the link.
    held: Option<(u64, Held<K>)>,
    /// No scenario and no request may begin.
    closed: bool,
}

/// A scenario, or a request that works with a link, in progress.
struct Running<K: Kernel> {
    /// The owner of the link; `None`: a scenario.
    owner: Option<u64>,
    bell: Ref<Bell<PlatformOf<K>>, K>,
    /// Set when the scenario or the request has ended; a scenario's adapters are closed by then.
    finished: Ref<Event<PlatformOf<K>>, K>,
}

/// The link of a request, and the event to set at the request's end.
type Taken<K> = (Held<K>, Ref<Event<PlatformOf<K>>, K>);

impl<K: Kernel> Clone for Running<K> {
    fn clone(&self) -> Self {
        Self { owner: self.owner, bell: self.bell.clone(), finished: self.finished.clone() }
    }
}

impl<K: Kernel> Default for Consumer<K> {
    fn default() -> Self {
        Self { state: lock::<_, K>(State { running: None, held: None, closed: false }) }
    }
}

impl<K: Kernel> Consumer<K> {
    /// Performs a scenario in the calling thread. At the return everything that the scenario opened is closed.
    ///
    /// Errors before the scenario begins: STATUS_DEVICE_BUSY (a scenario runs, or there is a link), STATUS_CANCELLED (after
    /// [`Self::close`]), STATUS_INSUFFICIENT_RESOURCES. Later errors are in the report.
    pub fn run(&self, kernel: &K, scenario: Scenario, passive: &Passive<'_>) -> Result<Report, NTSTATUS> {
        let running = Running { owner: None, bell: Bell::new()?, finished: Event::new().map_err(no_memory)? };
        let mut state = self.state.lock();
        state.is_free()?;
        if state.held.is_some() {
            return Err(STATUS_DEVICE_BUSY);
        }
        state.running = Some(running.clone());
        drop(state);
        let adapters = OpenAdapters::default();
        let mut figures = Figures::default();
        let result = scenario.perform(kernel, &adapters, &running.bell, &mut figures, passive);
        adapters.close_all(kernel, passive);
        self.state.lock().running = None;
        running.finished.set();
        let Failure { step, status } = result.err().unwrap_or(Failure { step: Step::Done, status: STATUS_SUCCESS });
        Ok(Report { step, status, figures })
    }

    /// As [`Self::run`], with the structures of IOCTL_SOFTNDK_TEST_SMB_DIRECT. STATUS_INVALID_PARAMETER: no scenario has this number.
    pub fn serve(
        &self,
        kernel: &K,
        number: u32,
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_SMB_DIRECT_RESULT, NTSTATUS> {
        let scenario = Scenario::from_number(number).ok_or(STATUS_INVALID_PARAMETER)?;
        let Report { step, status, figures } = self.run(kernel, scenario, passive)?;
        Ok(SOFTNDK_TEST_SMB_DIRECT_RESULT {
            Version: SOFTNDK_IOCTL_VERSION,
            Scenario: number,
            Status: status,
            Step: step as u32,
            BytesWritten: figures.bytes_written,
            BytesRead: figures.bytes_read,
            BytesEchoed: figures.bytes_echoed,
            MessagesSent: figures.messages_sent,
            MessagesReceived: figures.messages_received,
            CreditStalls: figures.credit_stalls,
            QueueStalls: figures.queue_stalls,
            Keepalives: figures.keepalives,
            RemoteInvalidations: figures.remote_invalidations,
            LocalInvalidations: figures.local_invalidations,
            Cancelled: figures.cancelled,
            Connections: figures.connections,
        })
    }

    /// Performs a request of `owner` on its link (IOCTL_SOFTNDK_TEST_LINK), with the request's input bytes or with room for output bytes;
    /// no request has both. The link belongs to the owner until it is closed, or until [`Self::end`].
    pub fn serve_link(
        &self,
        kernel: &K,
        owner: u64,
        ask: &SOFTNDK_TEST_LINK,
        (bytes, room): (&[u8], &mut [u8]),
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_LINK_RESULT, NTSTATUS> {
        let (mut held, finished) = self.take(owner, ask)?;
        let result = held.serve(kernel, Ask { ask, bytes, room }, passive);
        let held = if held.is_over() {
            held.end(kernel, passive);
            None
        } else {
            Some((owner, held))
        };
        let mut state = self.state.lock();
        let over = state.running.take();
        state.held = held;
        drop(state);
        // `over` may have the last reference to the link's bell, so it is dropped without the lock.
        drop(over);
        finished.set();
        result
    }

    /// Takes the owner's link out of the state, or makes a new link.
    fn take(&self, owner: u64, ask: &SOFTNDK_TEST_LINK) -> Result<Taken<K>, NTSTATUS> {
        let finished = Event::new().map_err(no_memory)?;
        let mut new = if program::makes(ask) { Some(Held::new(ask)?) } else { None };
        let mut state = self.state.lock();
        state.is_free()?;
        match &state.held {
            Some((whose, _)) if *whose != owner => return Err(STATUS_DEVICE_BUSY),
            // The link is being stopped.
            Some((_, held)) if held.wake.stopped() => return Err(STATUS_CANCELLED),
            held if held.is_some() == new.is_some() => return Err(STATUS_INVALID_DEVICE_STATE),
            _ => {}
        }
        let held = state.held.take().map(|(_, held)| held).or_else(|| new.take());
        let held = held.ok_or(STATUS_INVALID_DEVICE_STATE)?;
        let bell = held.wake.bell();
        state.running = Some(Running { owner: Some(owner), bell, finished: finished.clone() });
        Ok((held, finished))
    }

    /// Stops the request in progress on the link of `owner`, waits for its end, and ends the link, if there is one.
    pub fn end(&self, kernel: &K, owner: u64, passive: &Passive<'_>) {
        self.stop_if(kernel, |whose| whose == Some(owner), passive);
    }

    /// Stops the scenario in progress, if there is one, and waits for its end; its report says [`Step::Stopped`]. Ends a link as
    /// [`Self::end`] does.
    pub fn stop(&self, kernel: &K, passive: &Passive<'_>) {
        self.stop_if(kernel, |_| true, passive);
    }

    fn stop_if(&self, kernel: &K, wanted: impl Fn(Option<u64>) -> bool, passive: &Passive<'_>) {
        loop {
            let mut state = self.state.lock();
            if let Some(running) = state.running.clone() {
                drop(state);
                if !wanted(running.owner) {
                    return;
                }
                running.bell.stop();
                running.finished.wait(passive);
                if running.owner.is_none() {
                    return;
                }
                // The request may have put its link back. No other request can take a stopped link, so the next turn ends it.
                continue;
            }
            let held = if state.held.as_ref().is_some_and(|(owner, _)| wanted(Some(*owner))) {
                state.held.take()
            } else {
                None
            };
            drop(state);
            if let Some((_, held)) = held {
                held.end(kernel, passive);
            }
            return;
        }
    }

    /// As [`Self::stop`], and no later scenario or request may begin: the adapter is being removed.
    pub fn close(&self, kernel: &K, passive: &Passive<'_>) {
        self.state.lock().closed = true;
        self.stop(kernel, passive);
    }
}

impl<K: Kernel> State<K> {
    /// Whether a scenario or a request may begin.
    fn is_free(&self) -> Result<(), NTSTATUS> {
        match self.running {
            _ if self.closed => Err(STATUS_CANCELLED),
            Some(_) => Err(STATUS_DEVICE_BUSY),
            None => Ok(()),
        }
    }
}
