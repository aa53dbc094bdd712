//! The counters of a device. A new counter is a line in [`Counter`], and a call of [`PerformanceCounters::count`] where
//! the event happens: ndkctl gets names and values from the driver.

use core::ops::Index;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use platform::{Platform, Slice};

use crate::Error;

/// The longest name, in bytes: SOFTNDK_COUNTER has no room for more.
const LONGEST_NAME: usize = 32;

macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $name:literal,)*) => {
        /// A counter of a device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $($(#[$doc])* $counter,)*
        }

        impl Counter {
            /// All counters.
            pub const ALL: [Self; COUNT] = [$(Self::$counter,)*];

            /// The name that ndkctl shows.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$counter => $name,)*
                }
            }
        }

        const COUNT: usize = [$(stringify!($counter),)*].len();
        $(const _: () = assert!($name.len() <= LONGEST_NAME);)*
    };
}

counters! {
    /// Outgoing connections that were established.
    Connects = "connects",
    /// Incoming connections that were established.
    Accepts = "accepts",
    /// Outgoing connections that failed.
    ConnectFailures = "connect_failures",
    /// Established connections that ended by an error.
    ConnectionErrors = "connection_errors",
    /// Sides of connections that are established now.
    ActiveConnections = "active_connections",
    /// Requests that a fault rule failed, and connections that one ended.
    Faults = "faults",
    /// Messages that waited for a receive: sends within the device, and messages of other machines.
    ReceiverNotReady = "receiver_not_ready",
    /// Completion queues that failed.
    CqErrors = "cq_errors",
    /// Bytes of data sent: within the device, or to other machines.
    OutOctets = "out_octets",
    /// Sends, writes and reads whose data was sent. The data of a read is sent by the peer of its requester.
    OutFrames = "out_frames",
    /// Bytes of data received: within the device, or from other machines.
    InOctets = "in_octets",
    /// Sends, writes and reads whose data was received.
    InFrames = "in_frames",
}

/// The counters of a device, since it was made.
pub struct PerformanceCounters<P: Platform> {
    /// One value for each counter. The four of octets and frames stay 0: `traffic` has their values.
    counts: [AtomicU64; COUNT],
    traffic: Slice<TrafficShard, P>,
    next_queue_pair: AtomicU32,
    next_shared_queue: AtomicU32,
}

/// What the queue pairs that count in this shard have moved. Each shard is on a cache line of its own, as processors write to different shards at
/// once.
#[derive(Default)]
#[repr(align(64))]
struct TrafficShard {
    /// Within the device.
    within: Volume,
    /// To other machines.
    sent: Volume,
    /// From other machines.
    received: Volume,
}

#[derive(Default)]
struct Volume {
    bytes: AtomicU64,
    requests: AtomicU64,
}

impl Volume {
    fn add(&self, bytes: u64, requests: u64) {
        // Skips a 0, as an atomic add of 0 costs as much as any other: a part of a message ends no request, and some messages have no bytes.
        for (counter, more) in [(&self.bytes, bytes), (&self.requests, requests)] {
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        }
    }
}

/// The index of the [`TrafficShard`] in which a queue pair counts.
#[derive(Clone, Copy)]
pub(crate) struct ShardIndex(usize);

/// Number of [`TrafficShard`]s; queue pairs are spread over them.
const SHARDS: usize = 64;

/// Values read from [`PerformanceCounters`].
#[derive(Clone, Copy, Debug)]
pub struct CounterValues([u64; COUNT]);

impl Index<Counter> for CounterValues {
    type Output = u64;

    fn index(&self, counter: Counter) -> &u64 {
        // A variant's number is below `COUNT`: the default is not used.
        self.0.get(counter as usize).unwrap_or(&0)
    }
}

impl<P: Platform> PerformanceCounters<P> {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            counts: [const { AtomicU64::new(0) }; COUNT],
            traffic: Slice::from_fn(SHARDS, |_| TrafficShard::default())?,
            next_queue_pair: AtomicU32::new(0),
            next_shared_queue: AtomicU32::new(0),
        })
    }

    /// The current values. Each is exact, but they are not read at one instant. IRQL: any.
    pub fn read(&self) -> CounterValues {
        CounterValues(Counter::ALL.map(|counter| self.value(counter)))
    }

    /// The current value of one counter. IRQL: any.
    pub fn value(&self, counter: Counter) -> u64 {
        let bytes = |volume: &Volume| volume.bytes.load(Ordering::Relaxed);
        let requests = |volume: &Volume| volume.requests.load(Ordering::Relaxed);
        match counter {
            Counter::OutOctets => self.sum(|traffic| bytes(&traffic.within).wrapping_add(bytes(&traffic.sent))),
            Counter::OutFrames => self.sum(|traffic| requests(&traffic.within).wrapping_add(requests(&traffic.sent))),
            Counter::InOctets => self.sum(|traffic| bytes(&traffic.within).wrapping_add(bytes(&traffic.received))),
            Counter::InFrames => {
                self.sum(|traffic| requests(&traffic.within).wrapping_add(requests(&traffic.received)))
            }
            _ => self.count_of(counter).map_or(0, |count| count.load(Ordering::Relaxed)),
        }
    }

    pub(crate) fn count(&self, counter: Counter) {
        if let Some(count) = self.count_of(counter) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn connected(&self, active: bool) {
        self.count(if active { Counter::Connects } else { Counter::Accepts });
        self.count(Counter::ActiveConnections);
    }

    pub(crate) fn disconnected(&self) {
        if let Some(count) = self.count_of(Counter::ActiveConnections) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn count_of(&self, counter: Counter) -> Option<&AtomicU64> {
        self.counts.get(counter as usize)
    }

    fn sum(&self, of: impl Fn(&TrafficShard) -> u64) -> u64 {
        self.traffic.iter().map(of).fold(0, u64::wrapping_add)
    }

    /// The number of a new queue pair, and its [`TrafficShard`].
    pub(crate) fn name_queue_pair(&self) -> (u32, ShardIndex) {
        let number = self.next_queue_pair.fetch_add(1, Ordering::Relaxed);
        (number, ShardIndex(number as usize % SHARDS))
    }

    /// The number of a new shared receive queue.
    pub(crate) fn name_shared_queue(&self) -> u32 {
        self.next_shared_queue.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts bytes that a queue pair has moved within the device, and requests that it has carried out.
    pub(crate) fn moved(&self, shard: ShardIndex, bytes: u64, requests: u64) {
        if let Some(traffic) = self.traffic.get(shard.0) {
            traffic.within.add(bytes, requests);
        }
    }

    /// Counts bytes that a queue pair has sent to another machine, and messages that ended with these bytes.
    pub(crate) fn sent(&self, shard: ShardIndex, bytes: u64, requests: u64) {
        if let Some(traffic) = self.traffic.get(shard.0) {
            traffic.sent.add(bytes, requests);
        }
    }

    /// Counts bytes that a queue pair has received from another machine, and messages that ended with these bytes.
    pub(crate) fn received(&self, shard: ShardIndex, bytes: u64, requests: u64) {
        if let Some(traffic) = self.traffic.get(shard.0) {
            traffic.received.add(bytes, requests);
        }
    }
}
