//! loom's atomics, as the driver uses them, in which a test can plant a defect for its negative control.

use std::cell::Cell;

/// What may be wrong with the atomics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// `fence` does nothing.
    NoFence,
    /// `fetch_update` reads, lets others run, and writes.
    TornUpdate,
    /// `fetch_sub` reads, lets others run, and writes.
    TornSubtraction,
    /// Whatever is released or acquired is not.
    Relaxed,
}

thread_local! {
    /// All threads of a model run on the thread that explores it.
    static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
}

/// Plants a defect, for the rest of the thread.
pub fn plant(defect: Defect) {
    PLANTED.set(Some(defect));
}

fn is_planted(defect: Defect) -> bool {
    PLANTED.get() == Some(defect)
}

/// As `loom::hint`.
pub mod hint {
    pub use loom::hint::spin_loop;
}

/// As `loom::sync`.
pub mod sync {
    /// As `loom::sync::atomic`: the types and methods that the driver uses.
    pub mod atomic {
        pub use loom::sync::atomic::Ordering;
        use loom::sync::atomic::{self as real};

        use crate::{Defect, is_planted};

        /// The ordering to use in the place of `ordering`.
        fn weaken(ordering: Ordering) -> Ordering {
            if is_planted(Defect::Relaxed) { Ordering::Relaxed } else { ordering }
        }

        /// As `core::sync::atomic::fence`.
        pub fn fence(ordering: Ordering) {
            if !is_planted(Defect::NoFence) {
                real::fence(ordering);
            }
        }

        macro_rules! atomics {
            ($($name:ident($value:ty)),*) => {
                $(
                    /// As the type of that name in `core::sync::atomic`.
                    #[derive(Debug)]
                    pub struct $name(real::$name);

                    #[allow(missing_docs, reason = "as in core")]
                    impl $name {
                        #[track_caller]
                        pub fn new(value: $value) -> Self {
                            Self(real::$name::new(value))
                        }

                        #[track_caller]
                        pub fn load(&self, ordering: Ordering) -> $value {
                            self.0.load(weaken(ordering))
                        }

                        #[track_caller]
                        pub fn store(&self, value: $value, ordering: Ordering) {
                            self.0.store(value, weaken(ordering));
                        }

                        #[track_caller]
                        pub fn swap(&self, value: $value, ordering: Ordering) -> $value {
                            self.0.swap(value, weaken(ordering))
                        }

                        #[track_caller]
                        pub fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                            self.0.fetch_add(value, weaken(ordering))
                        }

                        #[track_caller]
                        pub fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                            if is_planted(Defect::TornSubtraction) {
                                let before = self.0.load(Ordering::Acquire);
                                self.0.store(before.wrapping_sub(value), Ordering::Release);
                                return before;
                            }
                            self.0.fetch_sub(value, weaken(ordering))
                        }

                        #[track_caller]
                        pub fn compare_exchange(
                            &self,
                            current: $value,
                            new: $value,
                            success: Ordering,
                            failure: Ordering,
                        ) -> Result<$value, $value> {
                            self.0.compare_exchange(current, new, weaken(success), weaken(failure))
                        }

                        #[track_caller]
                        pub fn fetch_update(
                            &self,
                            set: Ordering,
                            fetch: Ordering,
                            mut update: impl FnMut($value) -> Option<$value>,
                        ) -> Result<$value, $value> {
                            if is_planted(Defect::TornUpdate) {
                                let before = self.0.load(Ordering::Acquire);
                                let after = update(before).ok_or(before)?;
                                self.0.store(after, Ordering::Release);
                                return Ok(before);
                            }
                            self.0.fetch_update(weaken(set), weaken(fetch), update)
                        }
                    }
                )*
            };
        }

        atomics!(AtomicU8(u8), AtomicU32(u32), AtomicUsize(usize));
    }
}
