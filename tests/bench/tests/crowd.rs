//! Good clients among others, over the host's TCP.

use softndk_bench::crowd;

/// How long it takes is for `softndk-bench crowd --check` to judge. That no time passes before it: `tests/peer`, by a clock that stands still.
#[test]
fn each_good_client_is_answered() {
    let waits = crowd::waits(1000).unwrap();
    assert_eq!(waits.len(), 3, "{waits:?}");
    println!("{waits:?}");
}
