//! The limits of registered memory: each is reached, and more is refused.

use std::collections::BTreeSet;

use ndk_abi::{
    ndkpi::{
        NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_MR_FLAG_ALLOW_REMOTE_READ, NDK_MR_FLAG_ALLOW_REMOTE_WRITE,
        NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
    },
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_IMPLEMENTATION_LIMIT, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER,
        STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};
use ndk_provider::Provider;
use simkernel::{Pages, SimKernel};

use crate::kit::{Buffer, FastRegion, Lam, Pair, World, sge};

/// MaxMrCount and MaxMwCount of NDIS_NDK_CAPABILITIES, both at once: each region has a token of its own, and each window a
/// place for one.
// Shows S105.
#[test]
fn regions_and_windows() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let most = Provider::<SimKernel>::capabilities();
    let mut windows: Vec<_> = (0..most.MaxMwCount).map(|_| pd.create_mw().expect("a window")).collect();
    let mut regions: Vec<_> = (0..most.MaxMrCount).map(|_| pd.create_mr(true).expect("a region")).collect();
    // Not all of them, for the sake of time: `cargo xtask bench` registers a million.
    regions.iter().step_by(16).for_each(|mr| mr.initialize_fast(1, true).succeed());
    let tokens: BTreeSet<_> = regions.iter().step_by(16).map(|mr| mr.token()).collect();
    assert_eq!(tokens.len(), regions.len() / 16);
    assert!(!tokens.contains(&0) && !tokens.contains(&pd.privileged_token()));
    assert_eq!(pd.create_mr(true).err(), Some(STATUS_INSUFFICIENT_RESOURCES));
    assert_eq!(pd.create_mw().err(), Some(STATUS_INSUFFICIENT_RESOURCES));
    // After one window and one region are closed, one of each can be created.
    windows.swap_remove(7).close_now();
    regions.swap_remove(7).close_now();
    windows.push(pd.create_mw().expect("room for one"));
    regions.push(pd.create_mr(false).expect("room for one"));
    windows.into_iter().for_each(|mw| mw.close_now());
    regions.into_iter().for_each(|mr| mr.close_now());
    pd.close_now();
}

/// MaxRegistrationSize and MaxWindowSize: the peer reaches all of it. The MDLs describe one piece of memory many times.
// Shows S105.
#[test]
fn registration_and_window_size() {
    const LINK: usize = 64 << 20;
    let world = World::new();
    let info = world.adapter.info();
    let pair = Pair::new(&world.adapter);
    let pages = Pages::new(LINK / 4096);
    let links = info.MaxRegistrationSize / LINK;
    let link = |index: usize| pages.mdl(0, LINK, Buffer::INDEX + (index * LINK) as u64);
    let chain = (1..=links).fold(link(0), |chain, index| chain.chain(link(index)));
    let mr = pair.passive.pd.create_mr(false).expect("a region");
    let flags = NDK_MR_FLAG_ALLOW_LOCAL_WRITE | NDK_MR_FLAG_ALLOW_REMOTE_WRITE;
    assert_eq!(mr.register(&chain, info.MaxRegistrationSize + 1, flags).wait(), STATUS_INVALID_PARAMETER);
    mr.register(&chain, info.MaxRegistrationSize, flags).succeed();

    let (mw, local) = (pair.passive.pd.create_mw().expect("a window"), Buffer::full(&pair.active.pd, 1));
    let bind = |length| {
        let part = (chain.virtual_address(), length);
        pair.passive.qp.bind(1, &mw, &mr, part, NDK_OP_FLAG_ALLOW_REMOTE_WRITE)
    };
    assert_eq!(bind(info.MaxWindowSize + 1), STATUS_ACCESS_VIOLATION);
    assert_eq!(bind(info.MaxWindowSize), STATUS_SUCCESS);
    pair.passive.expect(1, STATUS_SUCCESS);
    let last = chain.virtual_address() + info.MaxWindowSize as u64 - 4;
    for (token, text) in [(mr.token(), b"last"), (mw.token(), b"LAST")] {
        local.pages.write(0, text);
        assert_eq!(pair.active.qp.write(2, &[local.sge(0, 4)], last, token, 0), STATUS_SUCCESS);
        pair.active.expect(2, STATUS_SUCCESS);
        assert_eq!(pages.read(LINK - 4, 4), text);
    }
    assert_eq!(pair.active.qp.write(3, &[local.sge(0, 4)], last + 1, mw.token(), 0), STATUS_SUCCESS);
    pair.active.expect(3, STATUS_ACCESS_VIOLATION);
    mw.close_now();
    mr.close_now();
    local.close();
    pair.close();
}

/// FRMRPageCount: as many pages are one region, to the last byte; a list of one more is refused.
#[test]
fn pages_of_a_fast_region() {
    let world = World::new();
    let most = world.adapter.info().FRMRPageCount as usize;
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.passive.pd, most, true);
    let longer = Lam { pages: vec![region.lam.pages[0]; most + 1], first_byte_offset: 0 };
    let refused = pair.passive.qp.fast_register(1, &region.mr, &longer, (most + 1) * PAGE_SIZE, region.base, 0);
    assert_eq!(refused, STATUS_IMPLEMENTATION_LIMIT);
    region.register(&pair.passive, NDK_OP_FLAG_ALLOW_REMOTE_WRITE);
    let (local, token) = (Buffer::full(&pair.active.pd, 1), region.mr.token());
    local.pages.write(0, b"last");
    let last = most * PAGE_SIZE - 4;
    let write = |offset| pair.active.qp.write(2, &[local.sge(0, 4)], region.base + offset as u64, token, 0);
    assert_eq!(write(last), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    assert_eq!(region.pages.read(last, 4), b"last");
    assert_eq!(write(last + 1), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_ACCESS_VIOLATION);
    local.close();
    region.close();
    pair.close();
}

/// MaxTransferLength, by MaxInitiatorRequestSge entries: as much moves at once, each way, to the last byte.
// Shows S105.
#[test]
fn transfer_length() {
    const LINK: usize = 4 << 20;
    let world = World::new();
    let info = world.adapter.info();
    let (most, sges) = (info.MaxTransferLength as usize, info.MaxInitiatorRequestSge as usize);
    let pair = Pair::new(&world.adapter);
    let flags = NDK_MR_FLAG_ALLOW_LOCAL_WRITE | NDK_MR_FLAG_ALLOW_REMOTE_WRITE | NDK_MR_FLAG_ALLOW_REMOTE_READ;
    let sides = [&pair.active, &pair.passive].map(|side| {
        let pages = Pages::new(LINK / 4096);
        let link = |index: usize| pages.mdl(0, LINK, Buffer::INDEX + (index * LINK) as u64);
        let chain = (1..most / LINK).fold(link(0), |chain, index| chain.chain(link(index)));
        let mr = side.pd.create_mr(false).expect("a region");
        mr.register(&chain, most, flags).succeed();
        let part = most / sges;
        let at = |index: usize| sge(Buffer::INDEX + (index * part) as u64, part, mr.token());
        let list: Vec<_> = (0..sges).map(at).collect();
        (pages, chain, mr, list)
    });
    let [(from, _, local, source), (to, _, remote, target)] = &sides;
    let (qp, token) = (&pair.active.qp, remote.token());
    for (round, text) in [b"one", b"two"].into_iter().enumerate() {
        from.write(LINK - 3, text);
        let posted = if round == 0 {
            qp.write(1, source, Buffer::INDEX, token, 0)
        } else {
            assert_eq!(pair.passive.qp.receive(2, target), STATUS_SUCCESS);
            qp.send(1, source, 0)
        };
        assert_eq!(posted, STATUS_SUCCESS);
        pair.active.expect(1, STATUS_SUCCESS);
        assert_eq!(to.read(LINK - 3, 3), text);
    }
    let received = pair.passive.receive_cq.wait_one();
    assert_eq!((received.Status, received.BytesTransferred as usize), (STATUS_SUCCESS, most));
    to.write(LINK - 3, b"six");
    assert_eq!(qp.read(1, source, Buffer::INDEX, token, 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    assert_eq!(from.read(LINK - 3, 3), b"six");
    [local, remote].into_iter().for_each(|mr| mr.close_now());
    pair.close();
}
