//! Running a scenario.

use ndk_abi::softndk_ioctl::{SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_SMB_DIRECT_RESULT};
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_DEVICE_BUSY, STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use ndk_consumer::OpenAdapters;
use platform::{Event, Passive};

use crate::bell::Bell;
use crate::report::{Failure, Figures, Report, Step};
use crate::{Kernel, Lock, PlatformOf, Ref, Scenario, lock, no_memory};

/// The consumer of one adapter. One scenario runs at a time.
pub struct Consumer<K: Kernel> {
    state: Lock<State<K>, K>,
}

struct State<K: Kernel> {
    running: Option<Running<K>>,
    /// No scenario may run any more.
    closed: bool,
}

/// A run in progress.
struct Running<K: Kernel> {
    bell: Ref<Bell<PlatformOf<K>>, K>,
    /// Set when it is over, and the adapter is closed.
    finished: Ref<Event<PlatformOf<K>>, K>,
}

impl<K: Kernel> Clone for Running<K> {
    fn clone(&self) -> Self {
        Self { bell: self.bell.clone(), finished: self.finished.clone() }
    }
}

impl<K: Kernel> Default for Consumer<K> {
    fn default() -> Self {
        Self { state: lock::<_, K>(State { running: None, closed: false }) }
    }
}

impl<K: Kernel> Consumer<K> {
    /// Performs a scenario, in the caller's context. When it returns, all that it opened is closed.
    ///
    /// Errors, with nothing begun: STATUS_DEVICE_BUSY (another run), STATUS_CANCELLED (after [`Self::close`]),
    /// STATUS_INSUFFICIENT_RESOURCES. What goes wrong later is in the report.
    pub fn run(&self, kernel: &K, scenario: Scenario, passive: &Passive<'_>) -> Result<Report, NTSTATUS> {
        let running = self.begin()?;
        let adapters = OpenAdapters::default();
        let mut figures = Figures::default();
        let result = scenario.perform(kernel, &adapters, &running.bell, &mut figures, passive);
        adapters.close_all(kernel, passive);
        self.state.lock().running = None;
        running.finished.set();
        let Failure { step, status } = result.err().unwrap_or(Failure { step: Step::Done, status: STATUS_SUCCESS });
        Ok(Report { step, status, figures })
    }

    /// As [`Self::run`], from and to the structures of IOCTL_SOFTNDK_TEST_SMB_DIRECT. STATUS_INVALID_PARAMETER: no scenario has
    /// this number.
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

    fn begin(&self) -> Result<Running<K>, NTSTATUS> {
        let running = Running { bell: Bell::new()?, finished: Event::new().map_err(no_memory)? };
        let mut state = self.state.lock();
        if state.closed {
            return Err(STATUS_CANCELLED);
        }
        if state.running.is_some() {
            return Err(STATUS_DEVICE_BUSY);
        }
        state.running = Some(running.clone());
        Ok(running)
    }

    /// Stops the run in progress, if there is one, and waits until it is over. Its report says [`Step::Stopped`].
    pub fn stop(&self, passive: &Passive<'_>) {
        let running = self.state.lock().running.clone();
        if let Some(running) = running {
            running.bell.stop();
            running.finished.wait(passive);
        }
    }

    /// As [`Self::stop`], and no scenario may run any more: the adapter goes.
    pub fn close(&self, passive: &Passive<'_>) {
        self.state.lock().closed = true;
        self.stop(passive);
    }
}
