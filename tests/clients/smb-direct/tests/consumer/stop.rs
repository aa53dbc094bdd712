//! Stopping a run, as the driver does when the adapter goes.

use std::{sync::mpsc, thread, time::Duration};

use ndk_abi::status::{STATUS_CANCELLED, STATUS_DEVICE_BUSY};
use smb_direct::{Consumer, Scenario, Step};

use crate::host::Host;

/// Runs until it is stopped, and then ends early: thousands of messages take much longer than the first one.
#[test]
fn a_run_is_stopped_and_waited_for() {
    let _session = simkernel::boot();
    let (host, consumer) = (Host::new(), Consumer::default());
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let (host, consumer) = (&host, &consumer);
        scope.spawn(move || {
            let report = consumer.run(host, Scenario::Credits, &simkernel::passive());
            tell.send(report).unwrap();
        });
        while !host.is_used() {
            thread::yield_now();
        }
        // One at a time.
        let other = consumer.run(host, Scenario::Transfer, &simkernel::passive());
        assert_eq!(other.map(|report| report.step), Err(STATUS_DEVICE_BUSY));
        consumer.stop(host, &simkernel::passive());
        assert!(!host.is_used(), "stop waits until all is closed");
        let report = told.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!((report.step, report.status), (Step::Stopped, STATUS_CANCELLED));
    });
    // Stopping is for one run.
    let report = consumer.run(&host, Scenario::LocalInvalidation, &simkernel::passive());
    assert_eq!(report.map(|report| report.step), Ok(Step::Done));
    consumer.close(&host, &simkernel::passive());
    let report = consumer.run(&host, Scenario::LocalInvalidation, &simkernel::passive());
    assert_eq!(report.map(|report| report.step), Err(STATUS_CANCELLED));
}
