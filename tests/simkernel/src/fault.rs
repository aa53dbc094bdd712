//! Planted failures.

use std::{marker::PhantomData, sync::Mutex};

use crate::lock_table;

/// What can be made to fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Point {
    Allocation,
    Mapping,
}

/// The number of calls until the planted failure: 1 is the next one, 0 is over.
static PLANTED: Mutex<[Option<u64>; 2]> = Mutex::new([None; 2]);

/// A planted failure. It can happen as long as this lives, and happens once.
#[must_use = "dropping it takes the fault away"]
#[derive(Debug)]
pub struct Fault<'session> {
    point: Point,
    _session: PhantomData<&'session ()>,
}

impl Fault<'_> {
    /// Has the `nth` call of `point` from now fail; 1 is the next one.
    pub(crate) fn plant(point: Point, nth: u64) -> Self {
        assert!(nth != 0, "the first call has the number 1");
        let before = lock_table(&PLANTED)[point as usize].replace(nth);
        assert!(before.is_none(), "one fault of a kind at a time");
        Self { point, _session: PhantomData }
    }

    /// Whether the failure has happened.
    #[must_use]
    pub fn happened(&self) -> bool {
        lock_table(&PLANTED)[self.point as usize] == Some(0)
    }
}

impl Drop for Fault<'_> {
    fn drop(&mut self) {
        lock_table(&PLANTED)[self.point as usize] = None;
    }
}

/// Whether this call of `point` is the one to fail.
pub(crate) fn strikes(point: Point) -> bool {
    match &mut lock_table(&PLANTED)[point as usize] {
        Some(left) if *left > 0 => {
            *left -= 1;
            *left == 0
        }
        _ => false,
    }
}
