//! The executor: an adapter on the simulated kernel beside the reference model.

mod connections;
mod faults;
mod memory;
mod queues;
mod slots;

use std::net::{IpAddr, SocketAddr};

use ndk_abi::{
    ndkpi::{NDK_LOGICAL_ADDRESS, NDK_VERSION},
    status::{NTSTATUS, STATUS_PENDING},
};
use ndk_provider::Provider;
use simkernel::{Mdl, Pages, SimKernel};

use crate::{
    consumer::{self, Adapter, Called, Context},
    operation::{Event, Operation},
    reference::{Callback, Mismatch, Mistake, Model, Outcomes, QpSizes, Result, mismatch},
};

/// Slots for objects.
const CQS: usize = 4;
const SRQS: usize = 2;
const LISTENERS: usize = 2;
const WINDOWS: usize = 4;
/// Of the queue pairs, the last four take their receives from two shared queues.
const QPS: usize = 8;
const OWN_RECEIVES: usize = 4;
/// Of the regions, the last four are fast ones. Each has a buffer of its own.
const REGIONS: usize = 12;
const FAST: usize = 8;
/// Two buffers take several steps, and several runs, of the provider's engine to move.
const BUFFER_PAGES: [usize; REGIONS] = [4, 4, 4, 4, 4, 4, 80, 80, 8, 8, 8, 8];
const SIZES: QpSizes = QpSizes { receives: 8, requests: 8, receive_sges: 4, request_sges: 4, inline: 64 };
const CQ_DEPTH: u32 = 4_096;
/// Of the last completion queue, which is overrun now and then.
const SHALLOW_CQ_DEPTH: u32 = 30;
const SRQ_DEPTH: u32 = 12;

/// A buffer of the consumer.
struct Memory {
    pages: Pages,
    logical: Vec<NDK_LOGICAL_ADDRESS>,
    _mdl: Mdl,
}

/// Handles of the provider's objects, by the indices of the model's.
#[derive(Default)]
struct Handles {
    cqs: Vec<consumer::Cq>,
    srqs: Vec<consumer::Srq>,
    mrs: Vec<consumer::Mr>,
    mws: Vec<consumer::Mw>,
    qps: Vec<consumer::Qp>,
    connectors: Vec<consumer::Connector>,
    listeners: Vec<consumer::Listener>,
}

/// The indices of the objects in the slots, the last one of each.
#[derive(Default)]
struct Slots {
    cqs: [usize; CQS],
    srqs: [usize; SRQS],
    mrs: [usize; REGIONS],
    mws: [usize; WINDOWS],
    qps: [usize; QPS],
    listeners: [usize; LISTENERS],
}

/// A consumer with an open adapter of its own, and the model of what it does.
pub struct Session {
    model: Model,
    handles: Handles,
    slots: Slots,
    domains: [consumer::Pd; 2],
    adapter: Adapter,
    memory: Vec<Memory>,
    /// The MDLs of registrations.
    mdls: Vec<Mdl>,
    /// Where the listeners listen.
    addresses: Vec<Option<SocketAddr>>,
    /// Tokens that were good once.
    stale: Vec<u32>,
    /// Inline data lies here.
    scratch: Vec<u8>,
    /// The last context or request number given out.
    numbers: usize,
    operations: u64,
    /// What ended inline during this operation counts as called back.
    inline: Vec<Callback>,
    provider: Provider<SimKernel>,
    kernel: simkernel::Session,
}

/// What a session has done.
#[derive(Debug, Default)]
pub struct Report {
    /// Operations performed; one that consists of several counts each.
    pub operations: u64,
    /// How they ended.
    pub outcomes: Outcomes,
}

/// Performs `operations` in a new session, whose schedule `seed` determines.
///
/// # Errors
/// The first difference between the provider and the model, or what was left behind at the end.
pub fn run(seed: u64, operations: &[Operation]) -> std::result::Result<Report, Mismatch> {
    play(Session::new(seed), operations)
}

/// As [`run`], with a model that makes a mistake.
///
/// # Errors
/// As [`run`]; there must be one if the operations reach the mistake.
pub fn run_mistaken(seed: u64, mistake: Mistake, operations: &[Operation]) -> std::result::Result<Report, Mismatch> {
    let mut session = Session::new(seed);
    session.model.mistake = Some(mistake);
    play(session, operations)
}

fn play(mut session: Session, operations: &[Operation]) -> std::result::Result<Report, Mismatch> {
    for (number, operation) in operations.iter().enumerate() {
        if let Err(Mismatch(what)) = session.perform(operation) {
            session.give_up();
            mismatch!("operation {number}, {operation:?}: {what}");
        }
    }
    session.end()
}

/// The context of a callback: what it is for, and the index or number.
fn context(kind: usize, index: usize) -> Context {
    kind << 32 | index
}

const CQ_NOTIFIED: usize = 1;
const SRQ_NOTIFIED: usize = 2;
const COMPLETED: usize = 3;
const DISCONNECTED: usize = 4;
const CONNECT_EVENT: usize = 5;
/// And the following ones.
const CLOSED: usize = 6;

/// The nth of what there is.
fn nth<T>(number: impl Into<usize>, from: impl Iterator<Item = T>) -> Option<T> {
    let all: Vec<_> = from.collect();
    let count = all.len();
    all.into_iter().nth(number.into() % count.max(1))
}

impl Session {
    /// Boots the simulated kernel and makes a first set of objects: all slots are filled, the regions registered or
    /// initialised, and the queue pairs connected two by two.
    ///
    /// # Panics
    /// If something as simple as that fails.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let kernel = simkernel::boot_seeded(seed);
        drop(consumer::take_log());
        let provider = Provider::new(&[IpAddr::from([10, 0, 0, 1])]).expect("a provider");
        provider.pass_posts();
        let adapter = Adapter(provider.open(NDK_VERSION { Major: 2, Minor: 1 }).expect("an adapter"));
        let mut session = Self {
            model: Model::default(),
            handles: Handles::default(),
            slots: Slots::default(),
            domains: [adapter.create_pd(), adapter.create_pd()],
            adapter,
            memory: Vec::new(),
            mdls: Vec::new(),
            addresses: Vec::new(),
            stale: Vec::new(),
            scratch: (0..=u8::MAX).collect(),
            numbers: 0,
            operations: 0,
            inline: Vec::new(),
            provider,
            kernel,
        };
        session.furnish().unwrap_or_else(|mismatch| panic!("{mismatch}"));
        session.operations = 0;
        session
    }

    fn furnish(&mut self) -> Result<()> {
        (0..REGIONS).for_each(|index| self.create_buffer(index));
        (0..CQS).for_each(|index| self.create_cq(index));
        (0..SRQS).for_each(|index| self.create_srq(index));
        (0..REGIONS).for_each(|index| self.create_mr(index));
        (0..WINDOWS).for_each(|index| self.create_mw(index));
        (0..QPS).for_each(|index| self.create_qp(index));
        (0..LISTENERS).for_each(|index| self.create_listener(index));
        for mr in 0..REGIONS as u8 {
            if usize::from(mr) < FAST {
                self.perform(&Operation::Register { mr, offset: 0, length: u32::MAX, flags: 0xF })?;
            } else {
                self.perform(&Operation::InitializeFast { mr, pages: 8, remote_access: true })?;
            }
        }
        self.perform(&Operation::Listen { listener: 0 })?;
        for pair in 0..QPS as u8 / 2 {
            self.perform(&Operation::Establish { active: 2 * pair, passive: 2 * pair + 1, event: Event::Ex })?;
        }
        Ok(())
    }

    /// A number for a context or request.
    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    /// One operation on both sides, to its end, and the comparison.
    ///
    /// # Errors
    /// The difference between the provider and the model.
    pub fn perform(&mut self, operation: &Operation) -> Result<()> {
        use Operation::*;
        match *operation {
            Post { qp, ref posts } => self.post(qp, posts),
            Receive { qp, ref sges } => self.receive(qp, sges),
            SrqReceive { srq, ref sges } => self.srq_receive(srq, sges),
            Poll { cq, count, plain } => self.poll(cq, count, plain),
            Arm { cq, notify } => self.arm(cq, notify),
            ResizeCq { cq, depth } => self.resize_cq(cq, depth),
            ModifySrq { srq, depth, threshold } => self.modify_srq(srq, depth, threshold),
            Flush { qp } => self.flush(qp),
            Register { mr, offset, length, flags } => self.register(mr, offset, length, flags),
            Deregister { mr } => self.deregister(mr),
            InitializeFast { mr, pages, remote_access } => self.initialize_fast(mr, pages, remote_access),
            Scribble { buffer, offset, seed } => self.scribble(buffer, offset, seed),
            Create(slot) => self.create(slot),
            Close(slot) => self.close_slot(slot),
            Listen { listener } => self.listen(listener),
            Pause { listener, pause } => self.pause(listener, pause),
            Connect { connector, qp, listener, inbound, outbound, private_data } => {
                self.connect(connector, qp, listener, (inbound, outbound), private_data)
            }
            Accept { connector, qp, inbound, outbound, private_data, event } => {
                self.accept(connector, qp, (inbound, outbound), private_data, event)
            }
            Reject { connector, private_data } => self.reject(connector, private_data),
            Complete { connector, event } => self.complete(connector, event),
            ConnectionData { connector, room } => self.connection_data(connector, room),
            Disconnect { connector } => self.disconnect(connector),
            CloseConnector { connector } => self.close_any_connector(connector),
            Establish { active, passive, event } => self.establish(active, passive, event),
            Faults(ref rules) => self.set_faults(rules),
        }
    }

    /// One call: `call` makes it, the session waits until its effects are over, then `model` performs the call, with the result.
    fn step<T>(
        &mut self,
        call: impl FnOnce(&mut Self) -> T,
        model: impl FnOnce(&mut Self, T) -> Result<()>,
    ) -> Result<()> {
        self.operations += 1;
        self.model.begin();
        let answer = call(self);
        self.kernel.flush_dpcs();
        model(self, answer)?;
        let mut callbacks = std::mem::take(&mut self.inline);
        for called in consumer::take_log() {
            callbacks.push(self.callback(called)?);
        }
        self.model.end(&callbacks)?;
        self.model.compare_rules(&self.counted())?;
        self.compare_memory()
    }

    /// A step that is a request: it has a number and a status, and ends inline or by callback.
    fn request(
        &mut self,
        call: impl FnOnce(&mut Self, Context) -> NTSTATUS,
        model: impl FnOnce(&mut Self) -> NTSTATUS,
    ) -> Result<()> {
        let number = self.number();
        self.step(
            |session| call(session, context(COMPLETED, number)),
            |session, returned| {
                if returned != STATUS_PENDING {
                    session.inline.push(Callback::Completed(number, returned));
                }
                let status = model(session);
                session.model.ends(number, status);
                Ok(())
            },
        )
    }

    fn callback(&mut self, called: Called) -> Result<Callback> {
        let split = |context: Context| (context >> 32, context & 0xFFFF_FFFF);
        Ok(match called {
            Called::Status(context, status) => match split(context) {
                (CQ_NOTIFIED, index) => Callback::CqNotified(index, status),
                (SRQ_NOTIFIED, index) => Callback::SrqNotified(index, status),
                (_, number) => Callback::Completed(number, status),
            },
            Called::Closed(context) => {
                let (kind, index) = split(context);
                Callback::Closed(slots::closed_object(kind, index))
            }
            Called::Disconnected(context, reason) => Callback::Disconnected(split(context).1, reason),
            Called::ConnectEvent(context, address) => {
                self.handles.connectors.push(consumer::Connector::of_event(address));
                Callback::ConnectEvent(split(context).1, self.handles.connectors.len() - 1)
            }
            Called::Wrong(what) => mismatch!("a callback was {what}"),
        })
    }

    /// Closes everything, the antecedents first, and checks that nothing is left.
    ///
    /// # Errors
    /// As [`run`].
    pub fn end(mut self) -> std::result::Result<Report, Mismatch> {
        for object in self.objects().into_iter().rev() {
            if let Err(Mismatch(what)) = self.close(object) {
                self.give_up();
                mismatch!("closing {object:?}: {what}");
            }
        }
        let compared = self.compare_all_memory();
        let report = Report { operations: self.operations, outcomes: std::mem::take(&mut self.model.outcomes) };
        let left = self.close_domains();
        let ledger = self.finish(left.is_none());
        compared?;
        if let Some(left) = left {
            mismatch!("left behind: {left}");
        }
        if !ledger.is_clean() {
            mismatch!("the kernel's ledger is not clean:\n{ledger}");
        }
        Ok(report)
    }

    /// Closes the domains; the objects that are left then, if any.
    fn close_domains(&self) -> Option<String> {
        for domain in self.domains {
            domain.close(0);
        }
        self.kernel.flush_dpcs();
        let counts = ndk_provider::ObjectCounts { adapters: 0, ..self.provider.object_counts() };
        (counts != ndk_provider::ObjectCounts::default()).then(|| format!("{counts:?}"))
    }

    fn finish(self, close_adapter: bool) -> simkernel::Ledger {
        let Self { adapter, provider, kernel, memory, mdls, .. } = self;
        if close_adapter {
            consumer::close_adapter(adapter);
            drop(provider);
        } else {
            std::mem::forget(provider);
        }
        drop((memory, mdls));
        kernel.finish()
    }

    /// Ends a session that has failed, as far as that is possible.
    pub fn give_up(mut self) {
        for object in self.objects() {
            self.call_close(object);
        }
        self.kernel.flush_dpcs();
        let left = self.close_domains();
        drop(self.finish(left.is_none()));
    }
}
