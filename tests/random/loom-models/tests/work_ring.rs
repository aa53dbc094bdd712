//! A ring of requests of the control device, as `driver/nd-ioctl` serves it: each request that its user puts in is posted, while the ring
//! sleeps and awaits completions. The code is the driver's; a queue pair, whose part it is to schedule runs, is the model's.

#[path = "../../../../driver/nd-ioctl/src/rings/poll_backoff.rs"]
mod poll_backoff;
#[path = "../../../../driver/nd-ioctl/src/rings/ring_poll.rs"]
#[expect(dead_code, reason = "the model has no timer")]
mod ring_poll;
#[path = "../../../../driver/nd-ioctl/src/rings/work_ring.rs"]
#[expect(dead_code, reason = "the model does not end")]
mod work_ring;

use std::sync::Arc as StdArc;

use loom::{sync::atomic, thread};
use loom_models::{Kernel, Loom, RingMemory, Wakeup, explore, faults};
use nd_rings::Writer;
use ndk_abi::{describe::ZeroInit as _, ndkpi::NdkOperationTypeSend, softndk_ioctl::SOFTNDK_POST};
use planted_atomics::Defect;
use platform::{Arc, Deferred, Dispatch, RunDeferred};
use ring_poll::{Next, RingPoll};
use work_ring::{Posted, ServeMode, Step, WorkRing};

/// Each thread is preempted at most so often in an execution.
const BOUND: usize = 3;

/// Words of a request.
const WORDS: usize = size_of::<SOFTNDK_POST>() / size_of::<u64>();

/// The words of a send.
fn send() -> [u64; WORDS] {
    zerocopy::transmute!(SOFTNDK_POST { Operation: NdkOperationTypeSend.0.cast_unsigned(), ..SOFTNDK_POST::ZERO })
}

/// The memory of a ring of sends.
fn ring_of_sends() -> RingMemory {
    RingMemory::of_entries(2, |written, first, words| {
        assert_ne!(written, 0, "read before it was written");
        words.copy_from_slice(&send()[first..][..words.len()]);
    })
}

/// A queue pair with one ring.
struct Queue {
    deferred: Deferred<Loom>,
    ring: WorkRing<RingMemory, (), Loom>,
    poll: RingPoll,
    /// Counts what is posted.
    posted: StdArc<Wakeup>,
}

impl Queue {
    /// Its ring sleeps.
    fn new(kernel: &Kernel, memory: RingMemory, posted: &StdArc<Wakeup>) -> Arc<Self, Loom> {
        let (deferred, poll) = (Deferred::default(), RingPoll::new());
        let queue = Self { deferred, ring: WorkRing::new(memory, 0, ()), poll, posted: posted.clone() };
        let queue = Arc::<_, Loom>::try_new(queue).expect("memory");
        Deferred::initialize(&queue);
        Deferred::schedule(&queue);
        kernel.run_queued();
        queue
    }

    fn doorbell(this: &Arc<Self, Loom>) {
        this.ring.wake();
        Deferred::schedule(this);
    }

    /// A completion is put into the ring of its CQ, as `Cq::fill_once` does.
    fn report(this: &Arc<Self, Loom>) {
        this.ring.completing();
        this.ring.completed();
        if this.poll.take_due() {
            Deferred::schedule(this);
        }
    }
}

impl RunDeferred<Loom> for Queue {
    fn deferred(&self) -> &Deferred<Loom> {
        &self.deferred
    }

    fn run(this: &Arc<Self, Loom>, _dispatch: &Dispatch<'_>) {
        let mut serving = this.ring.serve(ServeMode { awaits: true, polls_on: false });
        let served = loop {
            match serving.next() {
                Step::Post(..) => {
                    this.posted.wake();
                    serving.posted(Posted::Taken);
                }
                Step::Complete(..) => serving.completed_unposted(true),
                Step::End(served) => break served,
            }
        };
        drop(serving);
        assert!(!served.broken, "the user keeps to the rules");
        if served.next == Next::Run {
            return Deferred::schedule(this);
        }
        let _awaited = this.poll.await_completion();
        if served.next == Next::Sleep && !this.ring.sleep(true) {
            Deferred::schedule(this);
        }
    }
}

/// The user of a queue.
struct User {
    queue: Arc<Queue, Loom>,
    writer: Writer<RingMemory>,
    posted: StdArc<Wakeup>,
}

impl User {
    fn new(kernel: &Kernel) -> Self {
        let (memory, posted) = (ring_of_sends(), StdArc::new(Wakeup::default()));
        Self { queue: Queue::new(kernel, memory.clone(), &posted), writer: Writer::new(memory), posted }
    }

    fn push(&mut self) {
        assert_eq!(self.writer.push(&send(), &[]), Ok(()));
        if self.writer.needs_doorbell() {
            Queue::doorbell(&self.queue);
        }
    }
}

/// A request is put in while another one, for which the ring was awake, is reported.
fn pushed_while_one_is_reported(report: fn(&Arc<Queue, Loom>)) {
    explore(Some(BOUND), move |kernel| {
        let mut user = User::new(kernel);
        user.push();
        kernel.live();
        user.posted.wait_for(1);
        let queue = user.queue.clone();
        let device = thread::spawn(move || report(&queue));
        user.push();
        user.posted.wait_for(2);
        device.join().expect("a thread");
    });
}

/// A request by a control code is refused, and then one is put into the ring, which was awake.
fn pushed_after_a_refused_one(look: fn(&Arc<Queue, Loom>)) {
    explore(Some(BOUND), move |kernel| {
        let mut user = User::new(kernel);
        user.queue.ring.wake();
        kernel.live();
        // As what came by the ring is older.
        Deferred::schedule(&user.queue);
        user.queue.ring.count_ioctl_post();
        user.queue.ring.completed();
        look(&user.queue);
        user.push();
        user.posted.wait_for(1);
    });
}

fn reported() {
    pushed_while_one_is_reported(Queue::report);
}

fn reported_to_nobody() {
    pushed_while_one_is_reported(|queue| {
        queue.ring.completing();
        queue.ring.completed();
    });
}

fn refused() {
    pushed_after_a_refused_one(Deferred::schedule);
}

fn refused_without_a_look() {
    pushed_after_a_refused_one(|_| ());
}

// Shows S905.
#[test]
fn a_request_beside_a_completion() {
    reported();
}

#[test]
fn a_request_after_a_refused_one_by_code() {
    refused();
}

faults! {
    a_missing_fence_is_found: reported with Atomics(Defect::NoFence) says "deadlock",
    a_report_that_nobody_is_told_of_is_found: reported_to_nobody with Model("a look after the report") says "deadlock",
    a_refusal_that_nobody_is_told_of_is_found: refused_without_a_look with Model("a look after the refusal") says "deadlock",
}
