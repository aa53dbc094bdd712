//! How an object ends.
//!
//! The consumer's handle is one strong reference; successors, calls and callbacks in flight hold others. Close drops the handle's reference. If
//! that was the last, the close completes inline; else the drop of the last reference runs the close callback.

use platform::{Arc, Platform, SpinLock};

use crate::{Callback, Outcome, object::counts::CountedObject};

/// The close callback of an object, and the object's place in the count of its kind, which is released before the callback runs. An object declares
/// this field before the references to its antecedents: fields drop in that order, so the callback runs before the references are dropped.
pub struct OnClose<P: Platform> {
    count: Option<CountedObject<P>>,
    done: SpinLock<Option<Callback<()>>, P>,
}

impl<P: Platform> OnClose<P> {
    pub(crate) fn new(count: CountedObject<P>) -> Self {
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
    /// The field that holds the close callback.
    fn on_close(&self) -> &OnClose<P>;

    /// Stops pending requests, connections and listening, as far as possible without a wait.
    fn begin_close(this: &Arc<Self, P>) {
        let _nothing_to_stop = this;
    }
}

/// Closes an object: drops the consumer's reference. `done` is the object's last callback, and is called only if the result is
/// [`Outcome::Pending`]. IRQL <= DISPATCH. Cannot fail (NDK_FN_CLOSE_COMPLETION).
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
