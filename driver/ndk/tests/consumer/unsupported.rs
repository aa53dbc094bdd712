//! What is not implemented says so.

use std::collections::BTreeSet;

use ndk_abi::status::STATUS_NOT_SUPPORTED;
use ndk_provider::UNSUPPORTED;

use crate::kit::{Pair, World, loopback};

/// Entries of all ten dispatch tables (ndkpi.md, section 3).
const ENTRIES: usize = 70;

#[test]
fn unsupported_entries_say_so() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let connector = world.adapter.create_connector().expect("a connector");
    // Those of objects that cannot be made cannot be called.
    let reachable = [
        ("NDK_ADAPTER_DISPATCH", "NdkCreateSharedEndpoint", world.adapter.create_shared_endpoint(loopback(0))),
        (
            "NDK_CONNECTOR_DISPATCH",
            "NdkConnectWithSharedEndpoint",
            connector.connect_with_shared_endpoint(&pair.active.qp, loopback(1)),
        ),
    ];
    for (table, entry, status) in reachable {
        assert_eq!(status, STATUS_NOT_SUPPORTED, "{table}.{entry}");
    }
    let called: BTreeSet<_> = reachable.iter().map(|&(table, entry, _)| (table, entry)).collect();
    let listed: BTreeSet<_> = UNSUPPORTED.iter().copied().collect();
    assert_eq!(listed.len(), UNSUPPORTED.len(), "no entry is listed twice");
    let unreachable: Vec<_> = listed.difference(&called).collect();
    assert!(called.is_subset(&listed));
    assert!(unreachable.iter().all(|(table, _)| *table == "NDK_SHARED_ENDPOINT_DISPATCH"), "{unreachable:?}");
    // Nothing came of the calls.
    pair.message(1, false);
    pair.passive.expect_receive(1, ndk_abi::status::STATUS_SUCCESS);
    connector.close_now();
    pair.close();
    println!("{} of {ENTRIES} entries are implemented; unsupported:", ENTRIES - UNSUPPORTED.len());
    UNSUPPORTED.iter().for_each(|(table, entry)| println!("  {table}.{entry}"));
}
