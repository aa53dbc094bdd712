//! 64 processes at once, each with a file, rings and a connection of its own.

use std::{sync::Barrier, thread, time::Duration};

use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, softndk_ring::SOFTNDK_COMPLETION, status::*};
use ndk_provider::ObjectCounts;
use simkernel::{boot, watchdog};
use users::{
    User, World,
    host::TestHost,
    rings::{DEPTH, Ringed, connect, push},
    start,
    user::{Memory, handle, work},
};

const LIMIT: Duration = Duration::from_secs(120);

const PROCESSES: u64 = 64;
/// Messages of each pair of processes.
const MESSAGES: u64 = 64;
/// Bytes of a message.
const LENGTH: u64 = 256;

struct Process<'a> {
    user: User<'a>,
    world: World,
    ringed: Ringed,
    memory: Memory,
}

impl<'a> Process<'a> {
    fn new(device: &'a nd_ioctl::Device<TestHost>, number: u64) -> Self {
        let user = User::new_of_process(device, number);
        let world = World::listening(&user);
        let ringed = Ringed::new(&user, &world).unwrap();
        let memory = user.memory(world.pd, 4);
        Self { user, world, ringed, memory }
    }

    /// Posts `count` requests as the ring has room, each over its own part of the memory, and passes each completion to `ends`, until that
    /// returns false. Calls `idle` when there is no completion.
    fn run(
        &self,
        operation: NDK_OPERATION_TYPE,
        count: u64,
        mut ends: impl FnMut(&SOFTNDK_COMPLETION) -> bool,
        idle: impl Fn(),
    ) {
        let [mut initiator, mut receives] = self.ringed.writers();
        let ring = if operation == NdkOperationTypeReceive { &mut receives } else { &mut initiator };
        let mut completions = self.ringed.completions();
        let (mut posted, mut ended) = (0, 0);
        while ended < count {
            while posted < count && posted - ended < DEPTH.into() {
                let place = posted % u64::from(DEPTH) * LENGTH;
                if operation == NdkOperationTypeSend {
                    self.memory.pages.write(place as usize, &message(posted));
                }
                let head = SOFTNDK_POST { SgeCount: 1, ..work(operation, 0, posted) };
                assert!(push(ring, &head, &[self.memory.sge(place, LENGTH as u32)]));
                posted += 1;
            }
            if ring.needs_doorbell() {
                assert_eq!(self.user.call(IOCTL_SOFTNDK_DOORBELL, &handle(self.ringed.qp)), STATUS_SUCCESS);
            }
            let mut goes_on = true;
            let taken = completions.poll(DEPTH as usize, |completion| {
                goes_on &= ends(&completion);
                ended += 1;
            });
            if !goes_on {
                return;
            }
            if taken == 0 {
                idle();
                thread::yield_now();
            } else if completions.needs_doorbell() {
                assert_eq!(self.user.call(IOCTL_SOFTNDK_DOORBELL, &handle(self.ringed.cq)), STATUS_SUCCESS);
            }
        }
    }
}

/// The bytes of a message.
fn message(number: u64) -> Vec<u8> {
    (0..LENGTH).map(|index| (number * 31 + index) as u8).collect()
}

/// Each message arrives, in order and unchanged, whatever other processes do. Every fourth sender dies in mid traffic: its peer's
/// connection ends, and no other.
// Shows S908.
#[test]
fn processes_have_traffic_at_once() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let barrier = Barrier::new(PROCESSES as usize);
        thread::scope(|scope| {
            for pair in 0..PROCESSES / 2 {
                let (device, barrier) = (&device, &barrier);
                scope.spawn(move || {
                    let from = Process::new(device, 4 * (2 * pair + 1));
                    let to = Process::new(device, 4 * (2 * pair + 2));
                    let [active, passive] = [&from, &to].map(|process| [process.world.connector, process.ringed.qp]);
                    connect(&from.user, active, &to.user, passive, to.world.listener);
                    let dies = pair % 4 == 0;
                    thread::scope(|scope| {
                        scope.spawn(|| {
                            barrier.wait();
                            send(&from, dies);
                        });
                        barrier.wait();
                        receive(&to, dies);
                    });
                });
            }
        });
        assert_eq!(device.host().pinned(), 0);
        assert_eq!(device.host().provider().object_counts(), ObjectCounts::default());
    });
}

fn send(from: &Process<'_>, dies: bool) {
    let mut sent = 0;
    let ends = |completion: &SOFTNDK_COMPLETION| {
        assert_eq!((completion.RequestContext, completion.Status), (sent, STATUS_SUCCESS));
        sent += 1;
        !dies || sent < MESSAGES / 2
    };
    from.run(NdkOperationTypeSend, MESSAGES, ends, || {});
    if dies {
        from.user.file.cleanup(&simkernel::passive());
    }
}

fn receive(to: &Process<'_>, dies: bool) {
    let gone = to.user.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(to.world.connector));
    let (mut received, mut cancelled) = (0, 0);
    let ends = |completion: &SOFTNDK_COMPLETION| {
        if dies && completion.Status == STATUS_CANCELLED {
            cancelled += 1;
            return false;
        }
        assert_eq!((completion.RequestContext, completion.Status), (received, STATUS_SUCCESS));
        let place = received % u64::from(DEPTH) * LENGTH;
        assert_eq!(to.memory.pages.read(place as usize, LENGTH as usize), message(received));
        received += 1;
        true
    };
    let flush_if_gone = || {
        if !gone.is_pending() {
            assert_eq!(gone.wait(), STATUS_SUCCESS);
            assert_eq!(to.user.call(IOCTL_ND_QP_FLUSH, &handle(to.ringed.qp)), STATUS_SUCCESS);
        }
    };
    to.run(NdkOperationTypeReceive, MESSAGES, ends, flush_if_gone);
    assert_eq!(cancelled > 0, dies);
    assert!(received >= MESSAGES / 2);
}
