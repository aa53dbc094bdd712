//! Each allocation fails once: the run ends with a report of it, and nothing is left.

use ndk_abi::status::{
    STATUS_CANCELLED, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_DISCONNECTED, STATUS_CONNECTION_INVALID,
    STATUS_CONNECTION_REFUSED, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS,
};
use smb_direct::{Scenario, Step};

use crate::host::Host;

/// What the end that had no memory says, and what the other one hears.
const ALLOWED: [ndk_abi::status::NTSTATUS; 6] = [
    STATUS_INSUFFICIENT_RESOURCES,
    STATUS_CONNECTION_REFUSED,
    STATUS_CONNECTION_DISCONNECTED,
    STATUS_CONNECTION_ABORTED,
    STATUS_CONNECTION_INVALID,
    STATUS_CANCELLED,
];

#[test]
fn every_allocation_fails_once() {
    let mut failed = 0;
    for nth in 1.. {
        let session = simkernel::boot();
        let host = Host::new();
        let fault = session.fail_allocation(nth);
        let outcome = host.run(Scenario::Descriptors);
        let happened = fault.happened();
        drop(fault);
        match outcome {
            Ok(report) if report.step == Step::Done => {
                assert_eq!(report.status, STATUS_SUCCESS);
                if !happened {
                    break;
                }
                // One of the waits of the disconnect at the end, which goes on without it.
            }
            Ok(report) => assert!(ALLOWED.contains(&report.status), "allocation {nth}: {report:?}"),
            Err(status) => assert_eq!(status, STATUS_INSUFFICIENT_RESOURCES, "allocation {nth}"),
        }
        assert!(happened, "allocation {nth}: {outcome:?}");
        failed += 1;
        // It works afterwards.
        if nth % 16 == 0 {
            assert_eq!(host.run(Scenario::Descriptors).unwrap().status, STATUS_SUCCESS);
        }
    }
    println!("{failed} allocations");
    assert!(failed > 80, "{failed}");
}
