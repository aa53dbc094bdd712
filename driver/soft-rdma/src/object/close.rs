//! How an object ends.
//!
//! The consumer's handle is one strong reference among others (successors, calls and callbacks in flight). Close gives it up:
//! if it was the last, the close is complete; else the object reports it when it is dropped.

use platform::{Arc, Platform, SpinLock};

use crate::{Callback, Outcome, object::counts::Count};

/// The close callback of an object, and its place among those of its kind, which is free when the callback is called. As a
/// field it is declared first: it must be dropped, and thereby report, before the references to the antecedents go, which
/// come last.
pub struct OnClose<P: Platform> {
    count: Option<Count<P>>,
    done: SpinLock<Option<Callback<()>>, P>,
}

impl<P: Platform> OnClose<P> {
    pub(crate) fn new(count: Count<P>) -> Self {
        Self { count: Some(count), done: SpinLock::<_, P>::new(None) }
    }
}

impl<P: Platform> Drop for OnClose<P> {
    fn drop(&mut self) {
        self.count = None;
        if let Some(done) = self.done.get_mut().take() {
            done.call(());
        }
    }
}

/// An object that its consumer closes.
pub trait Close<P: Platform>: Sized {
    /// Where the close callback waits.
    fn on_close(&self) -> &OnClose<P>;

    /// Stops what can be stopped at once: pending requests, connections, listening.
    fn begin_close(this: &Arc<Self, P>) {
        let _nothing_to_stop = this;
    }
}

/// Closes an object: gives the consumer's reference up. `done` is called only if the answer is [`Outcome::Pending`], as the
/// object's last callback. IRQL <= DISPATCH. Cannot fail (NDK_FN_CLOSE_COMPLETION).
pub fn close<T: Close<P>, P: Platform>(object: Arc<T, P>, done: Callback<()>) -> Outcome {
    T::begin_close(&object);
    *object.on_close().done.lock() = Some(done);
    match Arc::into_inner(object) {
        Some(object) => {
            let _inline = object.on_close().done.lock().take();
            Outcome::Done
        }
        None => Outcome::Pending,
    }
}
