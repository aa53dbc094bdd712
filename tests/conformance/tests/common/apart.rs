//! The cases whose two ends are on devices of their own, and what is otherwise then.

use conformance::{CASES, COUNTS_CALLS, Case, client::Path};

use crate::common::{named, passed};

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

/// Plays a case by `apart`, which says whether it has two ends.
///
/// # Panics
/// It fails, or passes although it has to fail.
pub(crate) fn run(name: &str, path: Path, apart: impl Fn(&Case, Path) -> anyhow::Result<bool>) {
    let case = named(name);
    let one_end = ONE_END.iter().any(|place| is_of(name, place));
    let of_one_device = OF_ONE_DEVICE.iter().find(|(place, _)| *place == name);
    if path == Path::Rings && (of_one_device.is_some() || COUNTS_CALLS.contains(&name)) {
        return;
    }
    if let Some((_, because)) = of_one_device {
        // It looks for what has not happened, maybe before that happens.
        let failed = (0..50).find_map(|_| apart(case, path).err());
        let failure =
            format!("{:#}", failed.unwrap_or_else(|| panic!("{name} passes, although its sends do not wait")));
        assert!(failure.contains(because), "{name} failed for another reason than {because:?}: {failure}");
        return;
    }
    if let Some(is_apart) = passed(case, apart(case, path)) {
        assert_eq!(is_apart, !one_end, "whether {name} has two ends");
    }
}

#[test]
fn each_exception_is_a_case() {
    let names = OF_ONE_DEVICE.iter().map(|(name, _)| name).chain(COUNTS_CALLS).chain(ONE_END);
    for place in names {
        assert!(CASES.iter().any(|case| is_of(case.name, place)), "{place}");
    }
}
