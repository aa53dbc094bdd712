//! Values in a slab that are linked into lines, first-in first-out queues. The first value of a line is found in constant time, however
//! many values the slab has.
//!
//! A value is in the line of all values, and in the lines that it names: [`Lined`]. All functions take constant time.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};
use platform::{Arc, Charge, OutOfMemory, Platform, PoolQuota};

use crate::shared;
use crate::tables::slab::Slab;

/// Lines of one owner.
const LINES: usize = 4;
/// The most lines that a value is in.
const PLACES: usize = 4;
/// The place of the line of all values.
const ALL: usize = 0;

/// The lines of one owner, such as an object for which requests wait. Accessed under the lock that protects the slab.
pub(crate) struct Lines<P: Platform> {
    lines: [Line; LINES],
    /// The values in all lines.
    count: AtomicU32,
    _charge: Charge<P>,
}

/// The identifiers of the first and the last value; 0 if the line is empty.
#[derive(Default)]
struct Line {
    first: AtomicU64,
    last: AtomicU64,
}

/// A value that names the lines it is in.
pub(crate) trait Lined<P: Platform>: Sized {
    /// The owner and the number of a line. `place` is 1, 2 or 3; a line always has the same place.
    fn line(&self, place: usize) -> Option<(Arc<Lines<P>, P>, usize)>;
}

/// A slab of values in lines.
pub(crate) struct LinedSlab<T, P: Platform, const CHUNK: u32, const CHUNKS: usize> {
    entries: Slab<Entry<T>, P, CHUNK, CHUNKS>,
    all: Arc<Lines<P>, P>,
    next_number: u64,
}

struct Entry<T> {
    value: T,
    /// Numbers grow in the order in which the values were filled in.
    number: u64,
    /// The value is in its lines.
    stands: bool,
    links: [Link; PLACES],
}

/// The neighbours in a line; 0 at its ends.
#[derive(Clone, Copy, Default)]
struct Link {
    before: u64,
    after: u64,
}

impl<P: Platform> Lines<P> {
    /// Empty lines.
    pub(crate) fn new(quota: &PoolQuota<P>) -> Result<Arc<Self, P>, NTSTATUS> {
        let charge = quota.charge(Arc::<Self, P>::POOL_BYTES).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        shared(Self { lines: Default::default(), count: AtomicU32::new(0), _charge: charge })
    }

    /// The number of values in all lines.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    fn first(&self, line: usize) -> u64 {
        self.lines.get(line).map_or(0, |line| line.first.load(Ordering::Relaxed))
    }
}

impl<T: Lined<P>, P: Platform, const CHUNK: u32, const CHUNKS: usize> LinedSlab<T, P, CHUNK, CHUNKS> {
    /// An empty slab. Its memory is added to `charge`; line 0 of `all` is the line of all values.
    pub(crate) fn new(charge: Charge<P>, all: Arc<Lines<P>, P>) -> Self {
        Self { entries: Slab::new(charge), all, next_number: 0 }
    }

    /// Reserves a free slot. May allocate.
    pub(crate) fn reserve(&mut self) -> Result<u64, NTSTATUS> {
        self.entries.reserve()
    }

    /// Puts a value into a reserved slot and appends it to its lines.
    pub(crate) fn fill(&mut self, id: u64, value: T) {
        let mut links = [Link::default(); PLACES];
        for (place, link) in links.iter_mut().enumerate() {
            let Some((lines, number)) = self.line(&value, place) else { continue };
            let Some(line) = lines.lines.get(number) else { continue };
            link.before = line.last.load(Ordering::Relaxed);
            self.set_after(line, place, link.before, id);
            line.last.store(id, Ordering::Relaxed);
            lines.count.fetch_add(1, Ordering::Relaxed);
        }
        let number = self.next_number();
        self.next_number = number.wrapping_add(1);
        self.entries.fill(id, Entry { value, number, stands: true, links });
    }

    /// The number that the next value gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// The value, if it is still in its lines.
    pub(crate) fn standing(&mut self, id: u64) -> Option<&mut T> {
        self.entries.get(id).filter(|entry| entry.stands).map(|entry| &mut entry.value)
    }

    /// The oldest value in these lines of `owner`, if its number is below `end`.
    pub(crate) fn first(&mut self, owner: &Lines<P>, lines: impl Iterator<Item = usize>, end: u64) -> Option<u64> {
        let first = lines.filter_map(|line| {
            let id = owner.first(line);
            self.entries.get(id).map(|entry| (entry.number, id))
        });
        first.min().filter(|(number, _)| *number < end).map(|(_, id)| id)
    }

    /// Whether a line is empty.
    pub(crate) fn is_empty(&self, owner: &Lines<P>, line: usize) -> bool {
        owner.first(line) == 0
    }

    /// Removes a value from its lines; it stays in the slab.
    pub(crate) fn leave(&mut self, id: u64) {
        let Some(entry) = self.entries.get(id).filter(|entry| entry.stands) else { return };
        entry.stands = false;
        let links = entry.links;
        for (place, Link { before, after }) in links.into_iter().enumerate() {
            let Some((lines, number)) = self.line_of(id, place) else { continue };
            let Some(line) = lines.lines.get(number) else { continue };
            lines.count.fetch_sub(1, Ordering::Relaxed);
            self.set_after(line, place, before, after);
            match self.entries.get(after).and_then(|entry| entry.links.get_mut(place)) {
                Some(link) => link.before = before,
                None => line.last.store(before, Ordering::Relaxed),
            }
        }
    }

    /// Removes a value from its lines and from the slab.
    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        self.leave(id);
        self.entries.remove(id).map(|entry| entry.value)
    }

    fn set_after(&mut self, line: &Line, place: usize, before: u64, after: u64) {
        match self.entries.get(before).and_then(|entry| entry.links.get_mut(place)) {
            Some(link) => link.after = after,
            None => line.first.store(after, Ordering::Relaxed),
        }
    }

    fn line(&self, value: &T, place: usize) -> Option<(Arc<Lines<P>, P>, usize)> {
        if place == ALL { Some((self.all.clone(), 0)) } else { value.line(place) }
    }

    fn line_of(&mut self, id: u64, place: usize) -> Option<(Arc<Lines<P>, P>, usize)> {
        let all = self.all.clone();
        let value = &self.entries.get(id)?.value;
        if place == ALL { Some((all, 0)) } else { value.line(place) }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    extern crate std;

    use std::{vec, vec::Vec};

    use platform::{Arc, PoolQuota};
    use simkernel::{SimKernel, boot};

    use super::{LINES, Lined, LinedSlab, Lines, Ordering};

    type Owner = Arc<Lines<SimKernel>, SimKernel>;

    /// A value in one line each of up to two owners.
    struct Value(u32, [Option<(Owner, usize)>; 2]);

    impl Lined<SimKernel> for Value {
        fn line(&self, place: usize) -> Option<(Owner, usize)> {
            self.1.get(place - 1).cloned().flatten()
        }
    }

    type Slab = LinedSlab<Value, SimKernel, 32, 64>;

    fn owner() -> Owner {
        Lines::new(&PoolQuota::UNLIMITED).expect("memory")
    }

    fn add(slab: &mut Slab, value: u32, owners: [Option<(Owner, usize)>; 2]) -> u64 {
        let id = slab.reserve().expect("room");
        slab.fill(id, Value(value, owners));
        id
    }

    /// The values of a line, from its first to its last and back.
    fn values(slab: &mut Slab, owner: &Owner, line: usize, place: usize) -> Vec<u32> {
        let mut walk = |from: u64, forward: bool| {
            let (mut id, mut found) = (from, Vec::new());
            while let Some(entry) = slab.entries.get(id) {
                found.push(entry.value.0);
                let link = entry.links[place];
                id = if forward { link.after } else { link.before };
            }
            found
        };
        let (first, last) = (owner.first(line), owner.lines[line].last.load(Ordering::Relaxed));
        let (forward, mut back) = (walk(first, true), walk(last, false));
        back.reverse();
        assert_eq!(forward, back);
        forward
    }

    #[test]
    fn values_leave_from_anywhere_in_their_lines() {
        let _session = boot();
        let (all, one, two) = (owner(), owner(), owner());
        let mut slab = Slab::new(PoolQuota::UNLIMITED.no_charge(), all.clone());
        let places = |value: u32| [Some((one.clone(), value as usize % 2)), (value < 4).then(|| (two.clone(), 3))];
        let ids = [0, 1, 2, 3, 4, 5].map(|value| add(&mut slab, value, places(value)));
        assert_eq!(values(&mut slab, &all, 0, 0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(values(&mut slab, &one, 1, 1), [1, 3, 5]);
        assert_eq!(values(&mut slab, &two, 3, 2), [0, 1, 2, 3]);
        // Removes values from the end, the middle and the start of a line.
        for (gone, left) in [(5, vec![1, 3]), (2, vec![1, 3]), (1, vec![3]), (3, vec![])] {
            slab.leave(ids[gone]);
            slab.leave(ids[gone]);
            assert!(slab.standing(ids[gone]).is_none());
            assert_eq!(values(&mut slab, &one, 1, 1), left);
            assert_eq!(slab.remove(ids[gone]).map(|value| value.0), Some(gone as u32), "it was in the slab still");
        }
        assert_eq!((values(&mut slab, &all, 0, 0), values(&mut slab, &two, 3, 2)), (vec![0, 4], vec![0]));
        add(&mut slab, 7, places(1));
        assert_eq!((values(&mut slab, &all, 0, 0), values(&mut slab, &one, 1, 1)), (vec![0, 4, 7], vec![7]));
        assert!(!slab.is_empty(&one, 1) && slab.is_empty(&two, 0));
    }

    #[test]
    fn the_first_of_several_lines_is_the_one_that_came_first() {
        let _session = boot();
        let (all, one) = (owner(), owner());
        let mut slab = Slab::new(PoolQuota::UNLIMITED.no_charge(), all);
        let ids = [2, 0, 1].map(|line| add(&mut slab, line, [Some((one.clone(), line as usize)), None]));
        assert_eq!(slab.first(&one, 0..LINES, u64::MAX), Some(ids[0]));
        assert_eq!(slab.first(&one, 0..2, u64::MAX), Some(ids[1]));
        assert_eq!(slab.first(&one, 0..2, 1), None, "it came later");
        assert_eq!(slab.next_number(), 3);
    }

    /// The number of slots accessed does not grow with the number of other values.
    // Shows T82.
    #[test]
    fn nothing_looks_at_the_values_of_others() {
        let _session = boot();
        let (all, one, other) = (owner(), owner(), owner());
        let mut slab = Slab::new(PoolQuota::UNLIMITED.no_charge(), all);
        (0..1000).for_each(|value| _ = add(&mut slab, value, [Some((other.clone(), 0)), Some((one.clone(), 1))]));
        let before = slab.entries.looks;
        let id = add(&mut slab, 1000, [Some((one.clone(), 0)), None]);
        (0..1000).for_each(|value| _ = add(&mut slab, value, [Some((other.clone(), 0)), None]));
        let added = slab.entries.looks - before;
        assert!(added <= 1001 * 10, "{added} looks");
        let before = slab.entries.looks;
        assert_eq!(slab.first(&one, [0].into_iter(), u64::MAX), Some(id));
        assert_eq!(slab.remove(id).map(|value| value.0), Some(1000));
        assert_eq!(slab.first(&one, [0].into_iter(), u64::MAX), None);
        let looks = slab.entries.looks - before;
        assert!(looks < 20, "{looks} looks");
    }
}
