//! Scenarios on seeded schedules: who runs when is drawn, and replays.

use ndk_abi::status::STATUS_SUCCESS;
use simkernel::{boot_seeded, seeds};
use smb_direct::{Scenario, Step};

use crate::host::Host;

#[track_caller]
fn succeeds(scenario: Scenario, seed: u64) {
    let _session = boot_seeded(seed);
    let report = Host::new().run(scenario).unwrap();
    assert_eq!((report.step, report.status), (Step::Done, STATUS_SUCCESS), "seed {seed}: {report:?}");
}

/// The scenarios in which both ends have most to say to each other, and the one that cuts them off.
// Shows S114.
#[test]
fn whatever_the_schedule() {
    for seed in seeds(24) {
        let scenario = match seed % 4 {
            0 => Scenario::Descriptors,
            1 => Scenario::Keepalive,
            2 => Scenario::Refused,
            _ => Scenario::Reconnect,
        };
        succeeds(scenario, seed);
    }
}

/// The last message and the disconnect event come at the same time. These seeds failed when the client asked for a failure first,
/// and then whether everything was back: two after a look at the message, one before it.
#[test]
fn a_refusal_is_heard_before_the_disconnect_is_believed() {
    for seed in [194, 421, 105] {
        succeeds(Scenario::Refused, seed);
    }
}
