//! Memory runs out, once, at every single allocation: nothing panics, hangs or leaks, and the next request is served.

use std::time::Duration;

use conformance::{Bench, CASES, Transport as _, sim::Simulated};

/// Runs a case with allocation after allocation failing. Returns how many were tried, and how many times it passed anyway.
fn every_allocation(name: &str) -> (u64, u64) {
    let case = CASES.iter().find(|case| case.name == name).expect("a case of the table");
    let mut passed = 0;
    for nth in 1.. {
        let simulated = Simulated::boot();
        let fault = simulated.session().fail_allocation(nth);
        let bench = Bench::new(&simulated, Duration::from_secs(1));
        let result = (case.run)(&bench);
        let happened = fault.happened();
        drop(fault);
        let mut complaints = bench.left_behind();
        drop(bench);
        complaints.extend(Box::new(simulated).close());
        // Refused for want of memory, a region stays registered until it is freed, which needs none.
        complaints.retain(|complaint| !complaint.starts_with("deregistering MR"));
        assert!(complaints.is_empty(), "{name}, allocation {nth}: {}", complaints.join("\n"));
        match result {
            Ok(()) if !happened => return (nth - 1, passed),
            Ok(()) => passed += 1,
            Err(error) => {
                let error = format!("{error:#}");
                assert!(happened, "{name} fails without a fault: {error}");
                // A request that was refused is not among the pended ones, which is how some cases notice.
                let stalled = error.contains("still waiting") && !error.contains("requests to be pended");
                assert!(!stalled, "{name}, allocation {nth} failed: {error}");
            }
        }
    }
    unreachable!("a case makes a finite number of allocations")
}

macro_rules! survives {
    ($($test:ident: $case:literal;)*) => {
        $(#[test]
        fn $test() {
            let (tried, passed) = every_allocation($case);
            // Most failures have to show: what allocates is there because it is needed.
            assert!(tried > 40 && passed < tried / 2, "{passed} of {tried} failed allocations made no difference");
        })*
    };
}

survives! {
    send: "send::page";
    connect: "connector::connects";
    rejected: "connector::rejected";
    srq: "srq::below_already";
    fast_register: "fast_register::local_invalidate";
    invalidate: "invalidate::access_ends";
    resize: "cq::resize_refuses";
    disconnect: "disconnect::graceful";
    listener: "listener::cancelled";
    requests: "requests::short_outputs";
}
