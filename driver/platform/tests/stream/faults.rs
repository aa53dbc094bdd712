//! Failures.

use simkernel::{Session, boot_seeded, each_fault};

use crate::{
    LIMIT,
    ends::{Door, End, address, bytes, wait},
};

/// Each allocation and each request fails once: the connection works, or ends, and nothing is left.
#[test]
fn each_fault_is_survived() {
    let scenario = |_: &Session| {
        let Ok(door) = Door::listen(address(2, 5445)) else { return "no door" };
        let Ok(a) = End::connect(address(1, 0), address(2, 5445)) else {
            Door::close_all(&door);
            return "no end";
        };
        End::tell(&a, |work| (work.data, work.finishes) = (bytes(100_000, 13), true));
        wait("the start", || a.stream.started().is_some());
        let accepted = || door.state().ends.first().cloned();
        wait("an outcome", || {
            let end = accepted();
            let over = |end: &End| end.work().ended.is_some();
            a.stream.started() != Some(Ok(())) || over(&a) || end.as_ref().map_or(door.state().gave_up, |end| over(end))
        });
        let whole = accepted().is_some_and(|end| end.work().received == a.work().data);
        End::close(&a);
        Door::close_all(&door);
        if whole { "whole" } else { "broken" }
    };
    let mut outcomes = Vec::new();
    let faults = each_fault(
        || boot_seeded(5),
        LIMIT,
        scenario,
        |site, outcome| {
            outcomes.push((outcome, site.map(ToString::to_string).unwrap_or_default()));
        },
    );
    println!("{faults}");
    let came_to =
        |what: &str, after: &str| outcomes.iter().any(|(outcome, site)| *outcome == what && site.contains(after));
    assert!(came_to("whole", "allocation"), "growing is not necessary");
    assert!(came_to("broken", "request on a socket") && came_to("no end", "allocation"));
    assert!(faults.failed.len() > 10, "{faults}");
}
