//! Old tokens give access to nothing.

use std::collections::{HashMap, HashSet};

use simkernel::{Pages, SimKernel, boot};
use soft_rdma::{
    Access, BindRange, Connector, Error, Flags, MemoryRegion, MemoryWindow, Outcome, Post, ProtectionDomain, QueuePair,
};

use crate::common::{Arc, BASE, HOST, Side, accepted, machine};

/// Binds the window; gives its token.
fn bind(side: &Side, window: &Arc<MemoryWindow<SimKernel>>) -> u32 {
    let bind_range = BindRange { address: BASE, length: 64, access: Access::empty() };
    QueuePair::post(&side.queue_pair, 1, &[], Flags::empty(), Post::Bind(window, &side.region, bind_range)).unwrap();
    window.token()
}

fn registered(pd: &Arc<ProtectionDomain<SimKernel>>) -> Arc<MemoryRegion<SimKernel>> {
    let region = MemoryRegion::new(pd, false).unwrap();
    MemoryRegion::register(&region, BASE, 64, Access::empty(), crate::common::runs(64)).unwrap();
    region
}

/// Each bind gives a window a new key for its place in the table, so all keys have soon been used there.
#[test]
fn binds_do_not_bring_back_the_token_of_a_region() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (side, _peer) = accepted(&kernel, &pages);
    assert_eq!(Connector::complete_connect(&side.connector, None), Ok(Outcome::Done));
    let old = registered(&side.pd).token();
    // One for each shard of the table.
    let windows: Vec<_> = (0..64).map(|_| MemoryWindow::new(&side.pd).unwrap()).collect();
    for window in &windows {
        for _ in 0..254 {
            assert_ne!(bind(&side, window), old);
            kernel.flush_dpcs();
            assert_eq!(side.completions().len(), 1);
        }
    }
    drop(windows);
    let regions: Vec<_> = (0..64).map(|_| registered(&side.pd)).collect();
    assert!(regions.iter().all(|region| region.token() != old), "{old:#x} is back");
}

/// A refused bind uses up no key: otherwise the window's current token would be given out again soon.
#[test]
fn a_refused_bind_leaves_the_token_alone() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (side, peer) = accepted(&kernel, &pages);
    assert_eq!(Connector::complete_connect(&side.connector, None), Ok(Outcome::Done));
    let window = MemoryWindow::new(&side.pd).unwrap();
    let bound = bind(&side, &window);
    kernel.flush_dpcs();
    // They wait for receives, and fill the queue.
    let post = |post| QueuePair::post(&side.queue_pair, 2, &[], Flags::empty(), post);
    while post(Post::Send(None)).is_ok() {}
    for _ in 0..255 {
        let bind_range = BindRange { address: BASE, length: 64, access: Access::empty() };
        assert_eq!(post(Post::Bind(&window, &side.region, bind_range)), Err(Error::QueueFull));
        assert_eq!(window.token(), bound);
    }
    peer.queue_pair.post_receive(3, &[]).unwrap();
    kernel.flush_dpcs();
    assert_ne!(bind(&side, &window), bound);
}

/// Places in the table that are used in turn, by a region or a window that is alone: 64 in each of 64 shards.
const PLACES: usize = 64 * 64;

/// A peer's old token is refused until all keys of its place have been used, and a freed place is reused last.
// Shows S503.
#[test]
fn freed_places_rest() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (side, _peer) = accepted(&kernel, &pages);
    assert_eq!(Connector::complete_connect(&side.connector, None), Ok(Outcome::Done));
    let place = |token: u32| token >> 8;
    let regions: Vec<_> = (0..3 * PLACES).map(|_| place(registered(&side.pd).token())).collect();
    let window = |_| {
        let token = bind(&side, &MemoryWindow::new(&side.pd).unwrap());
        kernel.flush_dpcs();
        assert_eq!(side.completions().len(), 1);
        place(token)
    };
    let windows: Vec<_> = (0..2 * PLACES).map(window).collect();
    for places in [&regions, &windows] {
        let mut last = HashMap::new();
        for (now, place) in places.iter().enumerate() {
            let before = last.insert(place, now);
            assert!(
                before.is_none_or(|before| now - before >= PLACES - 64),
                "{place} again after {before:?}, at {now}"
            );
        }
    }
    let regions: HashSet<_> = regions.into_iter().collect();
    assert!(windows.iter().all(|place| !regions.contains(place)));
    assert!(regions.len() < 2 * PLACES, "the table does not grow without end");
}

/// Without memory for more places, a freed place is used before it has rested.
#[test]
fn a_freed_place_serves_if_the_table_cannot_grow() {
    let kernel = boot();
    let pd = ProtectionDomain::new(&machine(HOST)).unwrap();
    // All places that the 64 shards begin with.
    let regions: Vec<_> = (0..64 * 16).map(|_| registered(&pd)).collect();
    drop(regions);
    let region = MemoryRegion::new(&pd, false).unwrap();
    let runs = crate::common::runs(64);
    // The first allocation is the mapping.
    let fault = kernel.fail_allocation(2);
    assert_eq!(MemoryRegion::register(&region, BASE, 64, Access::empty(), runs), Ok(()));
    assert!(fault.happened());
}
