//! A sweep through the fault rules: whichever request, post, completion or call fails, the consumer says so, does not hang, and leaves nothing.

use fault_rules::{ActionKind, Point};
use ndk_abi::status::STATUS_SUCCESS;
use smb_direct::{Scenario, Step};

use crate::host::Host;

/// The rules' `after`, in turn, until the scenario has fewer passages.
const AFTER: [u64; 10] = [0, 1, 2, 4, 7, 12, 20, 33, 54, 88];

fn actions(point: Point) -> Vec<String> {
    let statuses = point.statuses().iter().map(|(status, _)| format!("fail {status}"));
    let others = point.actions().iter().filter_map(|kind| match kind {
        ActionKind::Disconnect | ActionKind::Reset | ActionKind::Overrun => Some(kind.syntax().to_owned()),
        _ => None,
    });
    statuses.chain(others).collect()
}

// Shows S1718.
#[test]
fn each_fault_is_told_and_leaves_nothing() {
    let mut fired = 0;
    for point in Point::ALL {
        for action in actions(point) {
            // Behind an overrun while it disconnects the consumer waits for its time to be over, as the flush does not complete.
            let most = if point == Point::Complete { 33 } else { u64::MAX };
            for after in AFTER.into_iter().filter(|&after| after <= most) {
                let _session = simkernel::boot();
                let host = Host::new();
                host.provider().pass_posts();
                let rule = format!("on {} after {after} times 1 do {action}", point.name());
                host.provider().set_fault_rules(&rule).unwrap();
                let outcome = host.run(Scenario::Descriptors);
                if host.provider().fault_rule(0).unwrap().Fired == 0 {
                    assert!(after > 0 || matches!(point, Point::Bind), "{rule} has not fired");
                    break;
                }
                fired += 1;
                let succeeded =
                    outcome.is_ok_and(|report| (report.step, report.status) == (Step::Done, STATUS_SUCCESS));
                assert!(!succeeded, "{rule} was not told");
                // The rule has fired as often as it may: it works afterwards.
                let again = host.run(Scenario::Descriptors).unwrap();
                assert_eq!((again.step, again.status), (Step::Done, STATUS_SUCCESS), "after {rule}");
            }
        }
    }
    println!("{fired} faults");
    assert!(fired > 100, "{fired}");
}
