//! Scenarios on seeded schedules: who runs when is drawn, and replays.

use ndk_abi::status::STATUS_SUCCESS;
use simkernel::{boot_seeded, seeds};
use smb_direct::{Scenario, Step};

use crate::host::Host;

/// The scenarios in which both ends have most to say to each other, and the one that cuts them off.
#[test]
fn whatever_the_schedule() {
    for seed in seeds(24) {
        let scenario = match seed % 4 {
            0 => Scenario::Descriptors,
            1 => Scenario::Keepalive,
            2 => Scenario::Refused,
            _ => Scenario::Reconnect,
        };
        let _session = boot_seeded(seed);
        let report = Host::new().run(scenario).unwrap();
        assert_eq!((report.step, report.status), (Step::Done, STATUS_SUCCESS), "seed {seed}: {report:?}");
    }
}
