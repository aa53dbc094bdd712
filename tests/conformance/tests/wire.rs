//! Every case with two ends once more, each end on a device of its own: between them is TCP of the simulated network, in segments and
//! with delays that a generator chooses.

#[macro_use]
mod common;

use common::{PATIENCE, named, passed};
use conformance::{CASES, Case, client::Path, run_apart, sim::Simulated};

/// Cases that promise what is not so over a wire, and why. On the plain path each has to fail there.
const OF_ONE_DEVICE: &[(&str, &str)] = &[
    ("qp::flush", ON_ITS_WAY),
    ("qp::full", ON_ITS_WAY),
    ("send::no_receive", ON_ITS_WAY),
    ("srq::holds_sends", ON_ITS_WAY),
];
const ON_ITS_WAY: &str = "a send does not wait for the peer's receive: it is complete when it is on its way";

/// Cases that count calls of the driver, which rings save as long as the peer is as fast as who posts. Here a network is between them.
const COUNTS_CALLS: &[&str] = &["transitions::counted", "transitions::stream"];

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

fn apart(case: &Case, path: Path) -> anyhow::Result<bool> {
    let [here, there] = Simulated::boot_apart();
    run_apart(case, Box::new(here), Box::new(there), path, PATIENCE)
}

fn run(name: &str, path: Path) {
    let case = named(name);
    let one_end = ONE_END.iter().any(|place| is_of(name, place));
    let of_one_device = OF_ONE_DEVICE.iter().find(|(place, _)| *place == name);
    if path == Path::Rings && (one_end || of_one_device.is_some() || COUNTS_CALLS.contains(&name)) {
        return;
    }
    if let Some((_, why)) = of_one_device {
        // It looks for what has not happened, maybe before that happens.
        let failed = (0..50).find_map(|_| apart(case, path).err());
        println!("{:#}", failed.unwrap_or_else(|| panic!("{name} passes, although {why}")));
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

conformance::for_each_case!(tests);
