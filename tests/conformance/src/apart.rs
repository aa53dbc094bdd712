//! The cases whose two ends are on devices of their own, and what is otherwise then.

use std::time::Duration;

use anyhow::{anyhow, ensure};

use crate::{COUNTS_CALLS, Case, Skipped, Transport, client::Path, run_apart};

/// Cases whose sends wait for the peer's receive. Over a wire they are complete when they are on their way: on the plain path each of
/// these has to fail there, saying this.
const OF_ONE_DEVICE: &[(&str, &str)] = &[
    ("qp::flush", "waiting sends: completion NdkOperationTypeSend, context 0x0, STATUS_SUCCESS"),
    ("qp::full", "a fifth send: succeeded"),
    ("send::no_receive", "the send completed with no receive posted"),
    ("srq::holds_sends", "a send completed with no receive posted"),
];

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

/// Plays a case on two devices, which are made for it, here and there, with a wire between them: [`run_apart`]. What cannot hold over
/// one has to fail, and what has one end is known.
pub fn play_apart(
    case: &Case,
    boot: impl Fn() -> (Box<dyn Transport>, Box<dyn Transport>),
    path: Path,
    patience: Duration,
) -> anyhow::Result<()> {
    let apart = || {
        let (here, there) = boot();
        run_apart(case, here, there, path, patience)
    };
    let name = case.name;
    let of_one_device = OF_ONE_DEVICE.iter().find(|(place, _)| *place == name);
    if path == Path::Rings && (of_one_device.is_some() || COUNTS_CALLS.contains(&name)) {
        return Err(Skipped("it is about one device").into());
    }
    if let Some((_, because)) = of_one_device {
        // It looks for what has not happened, maybe before that happens.
        let failed = (0..50).find_map(|_| apart().err());
        let failed = failed.ok_or_else(|| anyhow!("it passes, although its sends do not wait"))?;
        let failure = format!("{failed:#}");
        ensure!(failure.contains(because), "it failed for another reason than {because:?}: {failure}");
        return Ok(());
    }
    let (is_apart, has_one_end) = (apart()?, ONE_END.iter().any(|place| is_of(name, place)));
    ensure!(is_apart != has_one_end, "it has {} end(s)", if is_apart { 2 } else { 1 });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CASES;

    #[test]
    fn each_exception_is_a_case() {
        let names = OF_ONE_DEVICE.iter().map(|(name, _)| name).chain(COUNTS_CALLS).chain(ONE_END);
        for place in names {
            assert!(CASES.iter().any(|case| is_of(case.name, place)), "{place}");
        }
    }
}
