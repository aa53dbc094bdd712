//! The cases whose two ends are on devices of their own, and what is otherwise then.

use std::time::Duration;

use anyhow::ensure;

use crate::{COUNTS_CALLS, Case, Skipped, Transport, client::Path, run_on_two_devices};

/// Cases and groups with one end, or with both in one file of one device.
const ONE_END: &[&str] = &[
    "adapter::addresses",
    "adapter::limits",
    "adapter::unknown_adapter",
    "adapter::unknown_address",
    "affinity::",
    "arm::bad_type",
    "arm::cancelled",
    "cq::depths",
    "cq::two_queues",
    "diagnostics::adapter",
    "diagnostics::refused",
    "files::",
    "handles::",
    "invalidate::unconnected",
    "listener::cancelled",
    "listener::ephemeral_ports",
    "listener::in_use",
    "listener::not_local",
    "listener::states",
    "moderation::settings",
    "mr::bad_ranges",
    "mr::limit",
    "mr::states",
    "mr::tokens",
    "pd::many",
    "perf::at_once",
    "pending::",
    "qp::not_connected",
    "qp::sizes",
    "requests::",
    // The consumer in the driver connects to its own adapter.
    "smb_direct::",
    "srq::sizes",
    "transitions::polls",
];

/// Whether `name` is that case, or of that group.
fn is_of(name: &str, place: &str) -> bool {
    name == place || place.ends_with(':') && name.starts_with(place)
}

/// Plays a case on two devices, which are made for it, here and there, with a wire between them: [`run_on_two_devices`]. What has one end is
/// known.
pub fn play_on_two_devices(
    case: &Case,
    boot: impl Fn() -> (Box<dyn Transport>, Box<dyn Transport>),
    path: Path,
    patience: Duration,
) -> anyhow::Result<()> {
    let name = case.name;
    if path == Path::Rings && COUNTS_CALLS.contains(&name) {
        return Err(Skipped("it is about one device").into());
    }
    let (here, there) = boot();
    let uses_there = run_on_two_devices(case, here, there, path, patience)?;
    let has_one_end = ONE_END.iter().any(|place| is_of(name, place));
    ensure!(uses_there != has_one_end, "it has {} end(s)", if uses_there { 2 } else { 1 });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CASES;

    #[test]
    fn each_exception_is_a_case() {
        let names = COUNTS_CALLS.iter().chain(ONE_END);
        for place in names {
            assert!(CASES.iter().any(|case| is_of(case.name, place)), "{place}");
        }
    }
}
