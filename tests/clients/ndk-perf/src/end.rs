//! One end of a connection: a queue pair with its memory. The thread of the request polls its completions.

use ndk_abi::describe::ZeroInit;
use ndk_abi::ndkpi::{
    NDK_CQ_NOTIFY_ANY, NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_MR_FLAG_ALLOW_REMOTE_READ, NDK_MR_FLAG_ALLOW_REMOTE_WRITE,
    NDK_MR_FLAG_RDMA_READ_SINK, NDK_OP_FLAG_DEFER, NDK_RESULT_EX,
};
use ndk_abi::softndk_ioctl::SOFTNDK_TEST_PERF_COUNT;
use ndk_abi::status::{
    NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_DISCONNECTED, STATUS_INVALID_NETWORK_RESPONSE, STATUS_IO_TIMEOUT,
    STATUS_SUCCESS,
};
use ndk_consumer::{Adapter, Data, Notified, Offer, QpDepths, Work};
use platform::{Passive, Platform};

use kernel_consumer::{Bell, Connector, Kernel, Lock, Pd, PlatformOf, Ref, Registered, lock, shared};

use crate::ask::{Job, Operation};
use crate::greeting::{self, Place};
use crate::{Cq, Qp};

/// The longest wait for the other end, in microseconds.
pub(crate) const SILENCE: u32 = 5_000_000;
/// The longest life of an end whose other end is slow but not silent, in units of 100 ns: a minute.
const LONGEST: u64 = 600_000_000;
/// Looks for a completion before the thread waits for a notification, or for a time: about 100 us, and 1 ms.
const LOOKS: u32 = 2_000;
const LOOKS_AT_MEMORY: u32 = 20_000;
/// Waits where no completion tells of what is awaited, in microseconds: the first ones are short. Together they are [`SILENCE`], and on a kernel
/// whose timers expire late up to twice as long.
const NAP: u32 = 1_000;
const NAPS: u32 = 100;
const LONG_NAP: u32 = 50_000;
const LONG_NAPS: u32 = 98;
/// Completions of one poll.
const BATCH: usize = 16;
/// Places for incoming messages, used in turn, so that it is not always one piece of memory.
const SLOTS: u64 = 4;
/// Each place begins at a multiple of this number of bytes.
const LINE: usize = 64;
/// Requests beside the measured ones: the last message, and the server's reports of batches.
const MORE: u32 = 8;

const RECEIVE: u64 = 1;
const INITIATE: u64 = 2;

/// The context of a completion queue.
pub(crate) struct CqEvents<K: Kernel> {
    bell: Ref<Bell<PlatformOf<K>>, K>,
    /// Not STATUS_SUCCESS: the queue has failed.
    status: Lock<NTSTATUS, K>,
    _adapter: Ref<Adapter<PlatformOf<K>>, K>,
}

impl<K: Kernel> Notified for CqEvents<K> {
    fn notified(&self, status: NTSTATUS) {
        *self.status.lock() = status;
        self.bell.ring();
    }
}

/// The context of a queue pair, which lives until its close has completed.
pub(crate) struct Parts<K: Kernel> {
    memory: Registered<K>,
    cq: Cq<K>,
    _pd: Ref<Pd<K>, K>,
}

/// What an end is made with.
pub(crate) struct Site<'a, K: Kernel> {
    pub(crate) adapter: &'a Ref<Adapter<PlatformOf<K>>, K>,
    pub(crate) bell: &'a Ref<Bell<PlatformOf<K>>, K>,
    pub(crate) passive: &'a Passive<'a>,
}

/// One end.
pub(crate) struct End<'a, K: Kernel> {
    connector: Connector<K>,
    qp: Qp<K>,
    bell: &'a Ref<Bell<PlatformOf<K>>, K>,
    passive: &'a Passive<'a>,
    pub(crate) job: Job,
    /// Where the other end's memory is.
    remote: Place,
    /// Bytes of the messages that may come, but for the last one.
    expected: u32,
    /// When the end was made, in units of 100 ns.
    made: u64,
    /// Requests of the initiator queue, and those that have completed.
    posted: u64,
    pub(crate) initiated: u64,
    /// Receives that were posted, and those that have completed and wait to be posted again.
    receives: u64,
    spent: u32,
    /// Messages that have come, but for the last one.
    pub(crate) messages: u64,
    /// The last one has come.
    pub(crate) is_over: bool,
    /// Bytes of all requests.
    pub(crate) moved: u64,
}

impl<'a, K: Kernel> End<'a, K> {
    /// Makes an end that is not connected, with its receives posted. `is_server`: it expects what the other one sends.
    pub(crate) fn new(
        site: &Site<'a, K>,
        connector: Connector<K>,
        job: Job,
        is_server: bool,
    ) -> Result<Self, NTSTATUS> {
        let &Site { adapter, bell, passive } = site;
        let pd = shared::<_, K>(Adapter::create_pd(adapter, passive)?)?;
        let flags = NDK_MR_FLAG_ALLOW_LOCAL_WRITE
            | NDK_MR_FLAG_ALLOW_REMOTE_READ
            | NDK_MR_FLAG_ALLOW_REMOTE_WRITE
            | NDK_MR_FLAG_RDMA_READ_SINK;
        let length = place_length(job.size).saturating_mul((SLOTS as usize).saturating_add(1));
        let memory = Registered::new(&pd, length, flags, passive)?;
        let requests = job.depth.saturating_add(MORE);
        let status = lock::<_, K>(STATUS_SUCCESS);
        let events = shared::<_, K>(CqEvents { bell: bell.clone(), status, _adapter: adapter.clone() })?;
        let cq = Cq::<K>::create_cq(adapter, requests.saturating_mul(2), None, events, passive)?;
        let parts = shared::<_, K>(Parts { memory, cq, _pd: pd.clone() })?;
        let depths = QpDepths { initiator_depth: requests, initiator_sges: 1, inline_bytes: 0 };
        let qp = Qp::<K>::create_qp(&pd, &parts.cq, &parts.cq, 0, (requests, 1), &depths, parts.clone(), passive)?;
        let (receives, expected) = match (job.operation, is_server) {
            (Operation::Send, true) => (job.depth.saturating_add(1), job.size),
            (Operation::Send, false) if job.is_latency => (2, job.size),
            // The server says that it has taken a batch at most seven times before that is heard.
            (Operation::Send, false) => (MORE, 1),
            _ => (1, 0),
        };
        let mut end = Self {
            connector,
            qp,
            bell,
            passive,
            job,
            remote: Place { address: 0, token: 0 },
            expected,
            made: PlatformOf::<K>::system_time(),
            posted: 0,
            initiated: 0,
            receives: 0,
            spent: receives,
            messages: 0,
            is_over: false,
            moved: 0,
        };
        end.refill()?;
        Ok(end)
    }

    fn memory(&self) -> &Registered<K> {
        &self.qp.context().memory
    }

    /// What this end says first.
    pub(crate) fn greeting(&self) -> [u8; greeting::LENGTH] {
        let place = Place { address: self.memory().remote_address(0), token: self.memory().remote_token() };
        greeting::write(self.job, place)
    }

    /// What the other end has said first. STATUS_INVALID_NETWORK_RESPONSE: it is no end of this measurement.
    pub(crate) fn greeted(&mut self) -> Result<(), NTSTATUS> {
        let (job, place) = greeted_by(&self.connector)?;
        self.remote = place;
        if job == self.job { Ok(()) } else { Err(STATUS_INVALID_NETWORK_RESPONSE) }
    }

    /// Calls the connector with the offer of this end, and waits for the end of the operation, which has to succeed.
    pub(crate) fn operation(
        &self,
        call: impl FnOnce(&Connector<K>, &Qp<K>, &Offer<'_>) -> NTSTATUS,
    ) -> Result<(), NTSTATUS> {
        let greeting = self.greeting();
        // The provider takes as many reads as it can.
        let offer = Offer { inbound_reads: u32::MAX, outbound_reads: u32::MAX, private_data: &greeting };
        let events = self.connector.context();
        events.begin(|| call(&self.connector, &self.qp, &offer));
        loop {
            match events.outcome() {
                Some(STATUS_SUCCESS) => return Ok(()),
                Some(status) => return Err(status),
                None => self.rest(SILENCE)?,
            }
        }
    }

    /// Waits for the bell. STATUS_IO_TIMEOUT: it did not ring within `limit` microseconds, or the end is [`LONGEST`] old.
    fn rest(&self, limit: u32) -> Result<(), NTSTATUS> {
        if self.bell.stopped() {
            return Err(STATUS_CANCELLED);
        }
        if PlatformOf::<K>::system_time().saturating_sub(self.made) > LONGEST {
            return Err(STATUS_IO_TIMEOUT);
        }
        Bell::wait(self.bell, Some(limit), self.passive)
    }

    /// Waits until the other end has disconnected.
    pub(crate) fn await_disconnect(&self) -> Result<(), NTSTATUS> {
        while !self.connector.context().lost() {
            self.rest(SILENCE)?;
        }
        Ok(())
    }

    /// Posts each completed receive again.
    pub(crate) fn refill(&mut self) -> Result<(), NTSTATUS> {
        while self.spent > 0 {
            let sge = self.memory().sge(slot(self.receives, self.job.size), self.job.size);
            success(self.qp.receive(RECEIVE, &[sge]))?;
            self.receives = self.receives.saturating_add(1);
            self.spent = self.spent.saturating_sub(1);
        }
        Ok(())
    }

    /// Sends a message of `length` bytes.
    pub(crate) fn send(&mut self, length: u32) -> Result<(), NTSTATUS> {
        let sge = self.memory().sge(0, length);
        let data: &[_] = if length == 0 { &[] } else { &[sge] };
        self.post(&Work::Send(Data::Regions(data)), length, 0)
    }

    /// Begins an operation of the job. `more`: another one follows at once.
    pub(crate) fn begin(&mut self, more: bool) -> Result<(), NTSTATUS> {
        let Job { operation, is_latency, size, .. } = self.job;
        let flags = if more { NDK_OP_FLAG_DEFER } else { 0 };
        let own = slot(if is_latency { 0 } else { self.posted }, size);
        let Place { address, token } = self.remote;
        match operation {
            Operation::Send => {
                let sge = self.memory().sge(0, size);
                self.post(&Work::Send(Data::Regions(&[sge])), size, flags)
            }
            Operation::Write => {
                let sge = self.memory().sge(0, size);
                let address = address.wrapping_add(own as u64);
                self.post(&Work::Write { data: Data::Regions(&[sge]), address, token }, size, flags)
            }
            Operation::Read => {
                let sge = self.memory().sge(own, size);
                self.post(&Work::Read { sges: &[sge], address, token }, size, flags)
            }
        }
    }

    fn post(&mut self, work: &Work<'_, (), PlatformOf<K>>, length: u32, flags: u32) -> Result<(), NTSTATUS> {
        success(self.qp.post(INITIATE, work, flags))?;
        self.posted = self.posted.saturating_add(1);
        self.moved = self.moved.saturating_add(length.into());
        Ok(())
    }

    /// Requests of the initiator queue that have not completed.
    pub(crate) fn under_way(&self) -> u64 {
        self.posted.saturating_sub(self.initiated)
    }

    /// Waits until each request of the initiator queue has completed.
    pub(crate) fn await_initiated(&mut self) -> Result<(), NTSTATUS> {
        self.until(|end| end.under_way() == 0)
    }

    /// Polls until `ready`, which completions lead to.
    pub(crate) fn until(&mut self, ready: impl Fn(&Self) -> bool) -> Result<(), NTSTATUS> {
        let mut looks = 0_u32;
        while !ready(self) {
            if self.look()? {
                looks = 0;
                continue;
            }
            looks = looks.saturating_add(1);
            if looks < LOOKS {
                core::hint::spin_loop();
                continue;
            }
            // A completion before the arm causes no notification.
            self.qp.context().cq.arm(NDK_CQ_NOTIFY_ANY);
            if !self.look()? {
                self.rest(SILENCE)?;
            }
            looks = 0;
        }
        Ok(())
    }

    /// Polls until the other end has written a message whose last byte is `byte`, or has sent its last message.
    pub(crate) fn until_written(&mut self, byte: u8) -> Result<(), NTSTATUS> {
        let (mut looks, mut naps) = (0_u32, 0_u32);
        while !self.is_over && self.arrived()? != byte {
            if self.look()? {
                continue;
            }
            looks = looks.saturating_add(1);
            if looks < LOOKS_AT_MEMORY {
                core::hint::spin_loop();
                continue;
            }
            naps = naps.saturating_add(1);
            match self.rest(if naps <= NAPS { NAP } else { LONG_NAP }) {
                Err(STATUS_IO_TIMEOUT) if naps < NAPS + LONG_NAPS => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// The last byte of what the other end writes.
    fn arrived(&self) -> Result<u8, NTSTATUS> {
        let mut byte = [0];
        let last = slot(0, self.job.size).saturating_add(self.job.size as usize).saturating_sub(1);
        self.memory().buffer().read(last, &mut byte)?;
        let [byte] = byte;
        Ok(byte)
    }

    /// Writes the last byte of the outgoing message.
    pub(crate) fn mark(&self, byte: u8) -> Result<(), NTSTATUS> {
        self.memory().buffer().write((self.job.size as usize).saturating_sub(1), &[byte])
    }

    /// Polls once. Whether there was a completion.
    fn look(&mut self) -> Result<bool, NTSTATUS> {
        // Read first: what came before the disconnect is then found.
        let lost = self.connector.context().lost();
        let mut results = [NDK_RESULT_EX::ZERO; BATCH];
        let count = self.qp.context().cq.results(&mut results);
        for result in results.iter().take(count) {
            match result.Status {
                STATUS_SUCCESS => self.completed(result)?,
                // The provider flushes the requests of a connection that has ended.
                STATUS_CANCELLED => return Err(self.ended()),
                status => return Err(status),
            }
        }
        if count > 0 {
            return Ok(true);
        }
        if lost || self.bell.stopped() {
            return Err(self.ended());
        }
        match *self.qp.context().cq.context().status.lock() {
            STATUS_SUCCESS => Ok(false),
            status => Err(status),
        }
    }

    fn ended(&self) -> NTSTATUS {
        if self.bell.stopped() { STATUS_CANCELLED } else { STATUS_CONNECTION_DISCONNECTED }
    }

    fn completed(&mut self, result: &NDK_RESULT_EX) -> Result<(), NTSTATUS> {
        if result.RequestContext.addr() as u64 == INITIATE {
            self.initiated = self.initiated.saturating_add(1);
            return Ok(());
        }
        self.spent = self.spent.saturating_add(1);
        match result.BytesTransferred {
            0 => self.is_over = true,
            bytes if bytes == self.expected && self.messages < SOFTNDK_TEST_PERF_COUNT.into() => {
                self.messages = self.messages.saturating_add(1);
            }
            _ => return Err(STATUS_INVALID_NETWORK_RESPONSE),
        }
        Ok(())
    }
}

/// What the other end of a connection has said first.
pub(crate) fn greeted_by<K: Kernel>(connector: &Connector<K>) -> Result<(Job, Place), NTSTATUS> {
    let mut bytes = [0; greeting::LENGTH];
    let length = connector.private_data(&mut bytes)?;
    greeting::read(&bytes, length).ok_or(STATUS_INVALID_NETWORK_RESPONSE)
}

fn place_length(size: u32) -> usize {
    (size as usize).next_multiple_of(LINE)
}

/// The offset of the incoming message number `nth`. The outgoing message is at 0.
fn slot(nth: u64, size: u32) -> usize {
    place_length(size).saturating_mul(((nth % SLOTS) as usize).saturating_add(1))
}

fn success(status: NTSTATUS) -> Result<(), NTSTATUS> {
    if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
}
