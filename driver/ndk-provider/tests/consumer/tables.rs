//! The ten dispatch tables: every entry does what it is for.

use std::collections::BTreeSet;

use ndk_abi::{
    describe::Kind,
    index::LAYOUTS,
    ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_OP_FLAG_ALLOW_REMOTE_READ},
    status::{STATUS_CONNECTION_REFUSED, STATUS_NOT_SUPPORTED, STATUS_SUCCESS},
};

use crate::kit::{
    Buffer, FastRegion, Options, Pair, QpSizes, SharedEndpoint, Unconnected, World, connect, loopback, record,
};

/// Entries of all ten dispatch tables of NDKPI 2.1 (ndkpi.md, section 3).
const ENTRIES: usize = 70;

/// The entries of the tables, as they are declared.
fn declared() -> BTreeSet<(&'static str, &'static str)> {
    let tables = LAYOUTS.iter().copied().flatten();
    let tables = tables.filter(|layout| layout.kind == Kind::Table && !layout.name.contains("EXTENSION"));
    tables.flat_map(|table| table.fields.iter().map(|field| (table.name, field.name))).collect()
}

/// Calls every entry of every table at least once; what may fail must not.
fn call_everything(world: &World) {
    let adapter = &world.adapter;
    let shared: SharedEndpoint = adapter.create_shared_endpoint(loopback(0)).expect("a shared endpoint");
    assert_eq!(shared.local_address().map(|address| address.ip()), Ok(loopback(0).ip()));
    let (active, passive) = [1, 2].map(|tag| Unconnected::new(adapter, tag, Options::default())).into();
    let listener = adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
    let remote = listener.local_address().expect("it listens");

    // Paused, rejected, and then accepted: through the shared endpoint, with the calls of NDKPI 1.1.
    let connector = adapter.create_connector().expect("a connector");
    let attempt = || connector.connect_shared(&active.qp, &shared, remote, (4, 4), b"hello");
    listener.pause(true);
    assert_eq!(attempt().wait(), STATUS_CONNECTION_REFUSED);
    listener.pause(false);
    let refused = attempt();
    let incoming = listener.take();
    assert_eq!(incoming.reject(b"no"), STATUS_SUCCESS);
    assert_eq!((refused.wait(), connector.data().1), (STATUS_CONNECTION_REFUSED, b"no".to_vec()));
    incoming.close_now();
    let request = attempt();
    let incoming = listener.take();
    assert_eq!((incoming.peer_address(), incoming.local_address()), (shared.local_address(), Ok(remote)));
    let accept = incoming.accept(&passive.qp, (4, 4), &[], None);
    request.succeed();
    connector.complete(None).succeed();
    accept.succeed();
    connector.disconnect().succeed();
    connector.close_now();
    incoming.close_now();
    active.close();
    passive.close();
    shared.close_now();

    // The data path, over a connection made with NdkConnect and the calls of 2.1.
    let (active, passive) = [1, 2].map(|tag| Unconnected::new(adapter, tag, Options::default())).into();
    let (ours, theirs) = connect(adapter, &listener, &active.qp, &passive.qp, (4, 4));
    let pair = Pair { active: active.with(ours.0, ours.1), passive: passive.with(theirs.0, theirs.1), listener };
    let (ours, theirs) = (pair.active, pair.passive);
    ours.initiator_cq.resize(512).succeed();
    assert_eq!(ours.initiator_cq.moderate(10, 2), STATUS_SUCCESS);
    ours.initiator_cq.arm(NDK_CQ_NOTIFY_ANY);
    let (local, target) = (Buffer::full(&ours.pd, 1), Buffer::full(&theirs.pd, 1));
    let sges = [local.sge(0, 8)];
    assert_eq!(theirs.qp.receive(1, &[target.sge(0, 8)]), STATUS_SUCCESS);
    assert_eq!(ours.qp.send(1, &sges, 0), STATUS_SUCCESS);
    assert_eq!(ours.qp.write(2, &sges, target.base, target.token, 0), STATUS_SUCCESS);
    assert_eq!(ours.qp.read(3, &sges, target.base, target.token, 0), STATUS_SUCCESS);
    (1..=3).for_each(|context| _ = ours.expect(context, STATUS_SUCCESS));
    theirs.expect_receive(1, STATUS_SUCCESS);
    assert!(theirs.receive_cq.results(1).is_empty());
    assert_ne!(ours.pd.privileged_token(), 0);

    let mw = theirs.pd.create_mw().expect("an MW");
    let part = (target.base, 8);
    assert_eq!(theirs.qp.bind(4, &mw, &target.mr, part, NDK_OP_FLAG_ALLOW_REMOTE_READ), STATUS_SUCCESS);
    theirs.expect(4, STATUS_SUCCESS);
    assert_eq!(ours.qp.read(5, &sges, target.base, mw.token(), 0), STATUS_SUCCESS);
    ours.expect(5, STATUS_SUCCESS);
    // Builds and releases a logical address mapping, and initialises the region.
    let fast = FastRegion::new(adapter, &theirs.pd, 1, true);
    fast.register(&theirs, 0);
    assert_eq!(theirs.qp.invalidate(6, &fast.mr, 0), STATUS_SUCCESS);
    theirs.expect(6, STATUS_SUCCESS);
    assert_eq!(theirs.qp.receive(7, &[]), STATUS_SUCCESS);
    fast.register(&theirs, 0);
    assert_eq!(ours.qp.send_and_invalidate(7, &[], 0, fast.mr.token()), STATUS_SUCCESS);
    ours.expect(7, STATUS_SUCCESS);
    theirs.expect_receive(7, STATUS_SUCCESS);
    fast.close();
    mw.close_now();
    ours.qp.flush();

    let srq = ours.pd.create_srq(4, 1, 0).expect("an SRQ");
    srq.modify(8, 1).succeed();
    assert_eq!(srq.receive(8, &[]), STATUS_SUCCESS);
    let cq = ours.receive_cq;
    let qp = ours.pd.create_qp_with_srq(&cq, &cq, &srq, 3, QpSizes::default()).expect("a QP");
    qp.close_now();
    srq.close_now();
    local.close();
    target.close();
    assert!(adapter.info().MaxCqDepth > 0);
    pair.close();
}

/// NdkQueryExtension of each object: the one entry that may answer STATUS_NOT_SUPPORTED, as NDKPI defines no extension.
fn query_extensions(world: &World) {
    let pair = Pair::new(&world.adapter);
    let side = pair.active;
    let shared = world.adapter.create_shared_endpoint(loopback(0)).expect("a shared endpoint");
    let (mr, mw) = (side.pd.create_mr(false).expect("an MR"), side.pd.create_mw().expect("an MW"));
    let srq = side.pd.create_srq(1, 1, 0).expect("an SRQ");
    let answers = [
        world.adapter.query_extension(),
        side.pd.query_extension(),
        side.receive_cq.query_extension(),
        mr.query_extension(),
        mw.query_extension(),
        srq.query_extension(),
        side.qp.query_extension(),
        shared.query_extension(),
        side.connector.query_extension(),
        pair.listener.query_extension(),
    ];
    assert_eq!(answers, [STATUS_NOT_SUPPORTED; 10]);
    srq.close_now();
    mw.close_now();
    mr.close_now();
    shared.close_now();
    pair.close();
}

// Shows S102.
#[test]
fn every_entry_is_implemented() {
    let world = World::new();
    let declared = declared();
    assert_eq!(declared.len(), ENTRIES);
    let implemented = |calls: &[record::Called]| -> BTreeSet<_> {
        let works =
            |call: &&record::Called| call.entry == "NdkQueryExtension" || call.status != Some(STATUS_NOT_SUPPORTED);
        calls.iter().filter(works).map(|call| (call.table, call.entry)).collect()
    };
    record::start();
    query_extensions(&world);
    let calls = record::stop();
    assert!(implemented(&calls).len() < ENTRIES, "the other entries were not called yet");
    record::start();
    call_everything(&world);
    let calls = [calls, record::stop()].concat();
    let implemented = implemented(&calls);
    let missing: Vec<_> = declared.difference(&implemented).collect();
    println!("{} of {ENTRIES} entries are implemented", implemented.len());
    assert!(missing.is_empty(), "not called, or STATUS_NOT_SUPPORTED: {missing:?}");
    assert_eq!(implemented, declared);
    let refused = calls.iter().filter(|call| call.status == Some(STATUS_NOT_SUPPORTED));
    let refused: BTreeSet<_> = refused.map(|call| call.entry).collect();
    assert_eq!(refused, BTreeSet::from(["NdkQueryExtension"]));
}
