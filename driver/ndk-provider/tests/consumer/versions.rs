//! The version rule at open, and consumers of older versions.

use ndk_abi::{
    ndkpi::{NDK_RESULT, NDK_VERSION},
    status::{NDIS_STATUS_BAD_VERSION, STATUS_CANCELLED, STATUS_SUCCESS},
};

use crate::kit::{Adapter, Options, Pair, QpSizes, Side, Unconnected, Waiter, World, adapter_info_sized, loopback};

/// OPEN_NDK_ADAPTER_HANDLER: an unknown major is refused, and a minor above the highest; any other minor is served the highest.
// Shows S101.
#[test]
fn every_version() {
    let world = World::new();
    let numbers = (0..8).chain([255, 256, 257, 258, 0x7FFF, 0x8000, u16::MAX - 1, u16::MAX]);
    let mut served = Vec::new();
    for (major, minor) in numbers.clone().flat_map(|major| numbers.clone().map(move |minor| (major, minor))) {
        match world.open(major, minor) {
            Ok(adapter) => {
                let version = adapter.header().Version;
                served.push(((major, minor), (version.Major, version.Minor)));
                assert_eq!(info_version(&adapter), version, "the information says the same");
                world.close_adapter(adapter);
            }
            Err(status) => assert_eq!(status, NDIS_STATUS_BAD_VERSION, "{major}.{minor}"),
        }
    }
    let all = [((1, 0), (1, 2)), ((1, 1), (1, 2)), ((1, 2), (1, 2)), ((2, 0), (2, 1)), ((2, 1), (2, 1))];
    assert_eq!(served, all);
}

fn info_version(adapter: &Adapter) -> NDK_VERSION {
    let (status, _, written) = adapter_info_sized(adapter, Some(0x68));
    assert_eq!(status, STATUS_SUCCESS);
    let number = |at: usize| u16::from_le_bytes([written[at], written[at + 1]]);
    NDK_VERSION { Major: number(0), Minor: number(2) }
}

/// Each object has the version of the adapter that made it; the connector of a connect event has its listener's version.
// Shows S103.
#[test]
fn objects_of_every_version() {
    let world = World::new();
    for (asked, served) in [((1, 0), (1, 2)), ((1, 1), (1, 2)), ((2, 0), (2, 1))] {
        let adapter = world.open(asked.0, asked.1).expect("an adapter");
        let version = NDK_VERSION { Major: served.0, Minor: served.1 };
        let side = Unconnected::new(&adapter, 1, Options::default());
        let (mr, mw) = (side.pd.create_mr(true).expect("an MR"), side.pd.create_mw().expect("an MW"));
        let srq = side.pd.create_srq(1, 1, 0).expect("an SRQ");
        let cq = side.receive_cq;
        let qp = side.pd.create_qp_with_srq(&cq, &cq, &srq, 0, QpSizes::default()).expect("a QP");
        let shared = adapter.create_shared_endpoint(loopback(0)).expect("a shared endpoint");
        let listener = adapter.create_listener().expect("a listener");
        assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
        // A consumer of 2.1 connects to it.
        let other = Unconnected::new(&world.adapter, 2, Options::default());
        let connector = world.adapter.create_connector().expect("a connector");
        let remote = listener.local_address().expect("it listens");
        let request = connector.connect(&other.qp, loopback(0), remote, (1, 1), &[]);
        let passive = listener.take();
        let versions = [
            side.pd.header(),
            cq.header(),
            mr.header(),
            mw.header(),
            srq.header(),
            side.qp.header(),
            qp.header(),
            shared.header(),
            listener.header(),
            passive.header(),
        ];
        assert!(versions.iter().all(|header| header.Version == version), "{asked:?}");
        assert_eq!(connector.header().Version, NDK_VERSION { Major: 2, Minor: 1 });
        passive.close_now();
        request.wait();
        connector.close_now();
        other.close();
        listener.close_now();
        shared.close_now();
        qp.close_now();
        srq.close_now();
        mw.close_now();
        mr.close_now();
        side.close();
        world.close_adapter(adapter);
    }
}

/// Consumers of different versions reach each other, each with the calls of its version: what a consumer of 1.x sees of the
/// connection, the completions and the end is what NDKPI 1.1 has.
// Shows S103.
#[test]
fn versions_meet() {
    let world = World::new();
    for (ours, theirs) in [((1, 1), (2, 1)), ((2, 0), (1, 2)), ((1, 0), (1, 2))] {
        let adapters = [ours, theirs].map(|(major, minor)| world.open(major, minor).expect("an adapter"));
        let [active, passive] = [0, 1].map(|index| Unconnected::new(&adapters[index], index, Options::default()));
        let events = ["disconnect event, active", "disconnect event, passive"].map(Waiter::deferred);
        let listener = adapters[1].create_listener().expect("a listener");
        assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
        let connector = adapters[0].create_connector().expect("a connector");
        let remote = listener.local_address().expect("it listens");
        let request = connector.connect(&active.qp, loopback(0), remote, (1, 1), &[]);
        let incoming = listener.take();
        let accept = match theirs.0 {
            1 => incoming.accept(&passive.qp, (1, 1), &[], Some(events[1])),
            _ => incoming.accept_ex(&passive.qp, (1, 1), &[], Some(events[1])),
        };
        request.succeed();
        let complete = match ours.0 {
            1 => connector.complete(Some(events[0])),
            _ => connector.complete_ex(Some(events[0])),
        };
        complete.succeed();
        accept.succeed();
        let (active, passive) = (active.with(connector, events[0]), passive.with(incoming, events[1]));
        let pair = Pair { active, passive, listener };
        for (view, (major, _)) in [(pair, theirs), (pair.swapped(), ours)] {
            view.message(1, true);
            if major == 1 {
                let result = plain_result(&view.passive);
                assert_eq!((result.Status, result.RequestContext.addr()), (STATUS_SUCCESS, 1));
            } else {
                view.passive.expect_receive(1, STATUS_SUCCESS);
            }
            // NDK_RESULT_EX has no ProviderErrorCode before 2.1: the member must be 0, with any status.
            assert_eq!(view.passive.qp.receive(2, &[]), STATUS_SUCCESS);
            view.passive.qp.flush();
            assert_eq!(view.passive.expect_receive(2, STATUS_CANCELLED).ProviderErrorCode, 0);
        }
        pair.passive.disconnect();
        // Only the event of 2.1 has a reason.
        let reason = if ours.0 == 1 { usize::MAX } else { 0 };
        assert_eq!(pair.active.disconnected.wait_for(1)[0].value, reason, "{ours:?}");
        pair.close();
        adapters.into_iter().for_each(|adapter| world.close_adapter(adapter));
    }
}

/// The next receive, by NdkGetCqResults.
fn plain_result(side: &Side) -> NDK_RESULT {
    loop {
        if let Some(result) = side.receive_cq.results(1).pop() {
            return result;
        }
        simkernel::pause();
    }
}
