//! What the loops ask of the other side of a link, wherever that is.

use super::side::{Place, Side};
use crate::nd::client::Cq;

/// What the other side does with the arriving messages, until [`Far::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Sends each back.
    Echo,
    /// Awaits each write by its last byte, and writes that byte back.
    Bounce,
    /// Takes them.
    Take,
}

/// The other side. In another process it needs no calls for what it does by itself.
pub(super) trait Far {
    /// Where its messages are.
    fn place(&self) -> Place;

    /// Begins a task with messages of `size` bytes.
    fn begin(&self, task: Task, size: usize) -> anyhow::Result<()>;

    /// Posts a receive.
    fn receive(&self, _nth: u64, _size: usize) -> anyhow::Result<()> {
        Ok(())
    }

    /// [`Task::Echo`], once.
    fn echo(&self, _near: &Side, _size: usize) -> anyhow::Result<()> {
        Ok(())
    }

    /// [`Task::Bounce`], once.
    fn bounce(&self, _near: &Side, _size: usize, _byte: u8) -> anyhow::Result<()> {
        Ok(())
    }

    /// Waits until what it has initiated last is over.
    fn initiated(&self) -> anyhow::Result<()> {
        Ok(())
    }

    /// [`Task::Take`]: how many it has taken, as far as it is known, since this was asked last.
    fn received(&self, near: &Side) -> anyhow::Result<u64>;

    /// The queue by which that gets known.
    fn received_cq<'a>(&'a self, near: &'a Side) -> &'a Cq;

    /// Ends the task. [`Task::Take`]: when it has taken `missing` more.
    fn finish(&self, near: &Side, missing: u64) -> anyhow::Result<()>;

    /// Waits until all that was written is there.
    fn placed(&self, near: &Side) -> anyhow::Result<()>;
}
