//! A rule, and whether it fires.

use core::net::{IpAddr, SocketAddr};

use iwarp::terminate::Cause;

use crate::{Operation, Point};

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it fires.
    pub point: Point,
    /// The passages that count.
    pub filters: Filters,
    /// Which of these passages fire.
    pub when: When,
    /// What a firing does.
    pub action: Action,
}

/// The passages that a rule counts: those that agree with each filter that is present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// The port of this side or of the peer.
    pub port: Option<u16>,
    /// The IP address of this side or of the peer.
    pub address: Option<IpAddr>,
    /// This side's role.
    pub role: Option<Role>,
    /// The process that opened the adapter.
    pub process: Option<u32>,
    /// The queue pair's number in events.
    pub queue_pair: Option<u32>,
    /// What a post asks for.
    pub operation: Option<Operation>,
    /// The length.
    pub bytes: Bytes,
}

/// Lengths from `least` to `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// The smallest length.
    pub least: u64,
    /// The largest length.
    pub most: u64,
}

impl Default for Bytes {
    fn default() -> Self {
        Self { least: 0, most: u64::MAX }
    }
}

/// Whether a side of a connection connected or accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that connected.
    Active,
    /// The side that accepted.
    Passive,
}

/// Which of the passages that a rule counts fire. The first `after` do not. Of the others the first and each `every`th behind it may, unless
/// `chance` is against it, until the rule has fired `times` times, or first fired `time` ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Passages that do not fire.
    pub after: u64,
    /// The distance of passages that fire; not 0.
    pub every: u64,
    /// The most firings.
    pub times: u64,
    /// Microseconds from the first firing on in which the rule fires.
    pub time: Option<u32>,
    /// The chance of each.
    pub chance: Option<Chance>,
}

impl Default for When {
    fn default() -> Self {
        Self { after: 0, every: 1, times: u64::MAX, time: None, chance: None }
    }
}

/// `hits` of `of` passages fire, by pseudo-random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance {
    /// Of this many passages
    pub hits: u32,
    /// this many fire; not 0.
    pub of: u32,
    /// The seed of the pseudo-random numbers.
    pub seed: u64,
}

/// What a firing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The request fails with this NTSTATUS.
    Fail(u32),
    /// The connection ends as if the peer's consumer had disconnected, on both sides.
    Disconnect,
    /// The connection breaks, on both sides.
    Reset,
    /// The queue pair carries the request out after this number of microseconds, and the requests behind it later. A connection sends or takes the
    /// segment after that time, and the segments behind it later. The cable passes the frame on after that time, behind the frames that were delayed
    /// before it; frames that no rule delays overtake it while there is room for them.
    Delay(u32),
    /// The queue pair carries neither the request out nor those behind it, until the consumer flushes them, the connection ends, or no rule is for
    /// the point.
    Stall,
    /// Not the request, but messages of its connection that find no receive fail, after this number of seconds.
    SendTimeout(u32),
    /// The completion queue fails, as if it had no room for the completion.
    Overrun,
    /// The connection ends, and its peer gets a Terminate with this cause, as if the segment had that error.
    Terminate(Cause),
    /// The frame is lost.
    Drop,
    /// The frame comes twice.
    Duplicate,
    /// The frame comes behind the next one in its direction.
    Reorder,
    /// A bit of the segment or frame changes, if a CRC or checksum finds it: with [`Passage::is_checked`].
    Corrupt,
}

/// A request, completion, segment or frame that passes a point. `None`: it has no such property.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// The point.
    pub point: Point,
    /// This side's address.
    pub local: Option<SocketAddr>,
    /// The peer's address.
    pub remote: Option<SocketAddr>,
    /// This side's role.
    pub role: Option<Role>,
    /// The process that opened the adapter; `None`: a kernel consumer did.
    pub process: Option<u32>,
    /// The queue pair's number in events.
    pub queue_pair: Option<u32>,
    /// What the post asks for.
    pub operation: Option<Operation>,
    /// The length.
    pub bytes: Option<u64>,
    /// Whether a changed bit is found: the connection has CRCs, or the frame is a TCP segment.
    pub is_checked: bool,
    /// The time, in units of 100 ns.
    pub now: u64,
}

impl Passage {
    /// A passage without properties.
    #[must_use]
    pub const fn new(point: Point, now: u64) -> Self {
        Self {
            point,
            local: None,
            remote: None,
            role: None,
            process: None,
            queue_pair: None,
            operation: None,
            bytes: None,
            is_checked: false,
            now,
        }
    }
}

/// What a rule has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passages that agree with the filters.
    pub passed: u64,
    /// Those of them at which the rule fired.
    pub fired: u64,
    /// When it first fired.
    pub since: Option<u64>,
}

impl Rule {
    /// Counts a passage. `Some`: the rule fires.
    pub fn fires(&self, counts: &mut Counts, passage: &Passage) -> Option<Action> {
        let is_possible = passage.is_checked || self.action != Action::Corrupt;
        if passage.point != self.point || !is_possible || !self.filters.agree(passage) {
            return None;
        }
        let nth = counts.passed;
        counts.passed = nth.saturating_add(1);
        let is_over = counts.since.is_some_and(|since| self.when.is_over(since, passage.now));
        let fires = counts.fired < self.when.times && !is_over && self.when.is_due(nth);
        if fires {
            counts.fired = counts.fired.saturating_add(1);
            counts.since.get_or_insert(passage.now);
        }
        fires.then_some(self.action)
    }
}

impl Filters {
    fn agree(&self, passage: &Passage) -> bool {
        fn is<T: PartialEq>(wanted: Option<T>, found: Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        let either =
            |wanted: &dyn Fn(SocketAddr) -> bool| [passage.local, passage.remote].into_iter().flatten().any(wanted);
        self.port.is_none_or(|port| either(&|address| address.port() == port))
            && self.address.is_none_or(|wanted| either(&|address| address.ip() == wanted))
            && is(self.role, passage.role)
            && is(self.process, passage.process)
            && is(self.queue_pair, passage.queue_pair)
            && is(self.operation, passage.operation)
            && passage.bytes.is_none_or(|bytes| (self.bytes.least..=self.bytes.most).contains(&bytes))
    }
}

impl When {
    /// Whether the time of a rule that first fired at `since` is over.
    fn is_over(&self, since: u64, now: u64) -> bool {
        const PER_MICROSECOND: u64 = 10;
        self.time.is_some_and(|time| now.saturating_sub(since) >= u64::from(time).saturating_mul(PER_MICROSECOND))
    }

    /// Whether passage `nth`, from 0, may fire.
    fn is_due(&self, nth: u64) -> bool {
        let Some(nth) = nth.checked_sub(self.after) else { return false };
        nth.is_multiple_of(self.every) && self.chance.is_none_or(|chance| chance.hits(nth))
    }
}

impl Chance {
    /// Whether passage `nth` fires: number `nth` of SplitMix64 with this seed, modulo `of`, is less than `hits`.
    fn hits(&self, nth: u64) -> bool {
        const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.seed.wrapping_add(GAMMA.wrapping_mul(nth.wrapping_add(1)));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        mixed.checked_rem(u64::from(self.of)).is_some_and(|number| number < u64::from(self.hits))
    }
}
