//! There is no ETW on this system.

use std::sync::mpsc::SyncSender;

use super::{Lost, Said};

pub(super) fn run<T>(
    _level: u8,
    _sender: &SyncSender<Said>,
    _receive: impl FnOnce(&mut dyn FnMut() -> anyhow::Result<Lost>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    anyhow::bail!("this program needs Windows")
}
