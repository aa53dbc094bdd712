//! IRP_MJ_CLEANUP with requests in flight, which a client of Windows can only bring about by dying.

use std::time::Duration;

use conformance::{
    Bench, Transport as _,
    client::{Arm, Request, Srq},
    pair::{Pair, Site},
    sim::Simulated,
};
use ndk_abi::status::STATUS_CANCELLED;

// Shows S906.
#[test]
fn closing_a_file_cancels_what_it_pended() {
    let simulated = Simulated::boot();
    let bench = Bench::new(&simulated, Duration::from_secs(10));
    let pair = Pair::new(&bench).unwrap();
    let site = Site::new(&bench).unwrap();
    let (listener, address) = site.listener().unwrap();
    let (waiting, connecting) = (site.end().unwrap(), site.end().unwrap());
    let srq = Srq::new(&site.pd, 8, 1, 2).unwrap();
    for context in 0..4 {
        srq.receive(context, &[]).unwrap();
    }
    connecting.connector.bind(site.address).unwrap();
    let mut requests = vec![
        ("errors", site.receive_cq.notify(Arm::Errors)),
        ("any", site.receive_cq.notify(Arm::Any)),
        ("solicited", site.initiator_cq.notify(Arm::Solicited)),
        ("SRQ", srq.notify()),
        ("connect", connecting.connector.connect(&connecting.qp, address, Default::default(), &[])),
        ("disconnect", pair.a.connector.notify_disconnect()),
    ];
    site.client.pended(6).unwrap();
    // The connect is in the listener's queue, so this request takes it; the next one waits.
    listener.connection_request(&waiting.connector).finish().unwrap();
    let more = site.end().unwrap();
    requests.push(("connection request", listener.connection_request(&more.connector)));
    site.client.pended(7).unwrap();

    // The files close with all of it.
    site.client.abandon();
    pair.a.site.client.abandon();
    drop((srq, listener, waiting, connecting, more, site, pair));
    for (what, request) in &mut requests {
        assert_eq!(Request::status(request), Ok(STATUS_CANCELLED), "{what}");
    }
    drop(requests);
    assert_eq!(bench.left_behind(), Vec::<String>::new());
    drop(bench);
    assert_eq!(Box::new(simulated).close(), Vec::<String>::new());
}
