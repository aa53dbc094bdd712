//! NDK_PD: the creations, their limits, and what a domain keeps apart.

use ndk_abi::status::{
    STATUS_ACCESS_VIOLATION, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_SUCCESS,
};

use crate::kit::{Buffer, FastRegion, Pair, QpSizes, World};

#[test]
fn create_and_close() {
    let world = World::new();
    let pds: Vec<_> = (0..3).map(|_| world.adapter.create_pd().expect("a PD")).collect();
    assert_eq!(world.provider.object_counts().pds, 3);
    pds.into_iter().for_each(|pd| pd.close_now());
    assert_eq!(world.provider.object_counts().pds, 0);
}

#[test]
fn at_dispatch_level_too() {
    let world = World::new();
    simkernel::at_dispatch(|_| {
        let pd = world.adapter.create_pd().expect("a PD");
        let mr = pd.create_mr(true).expect("an MR");
        mr.close_now();
        pd.close_now();
    });
}

/// NDK_FN_CREATE_QP: INVALID_PARAMETER for each of the five sizes above NDK_ADAPTER_INFO.
// Shows S105.
#[test]
fn qp_sizes_are_limited() {
    let world = World::new();
    let info = world.adapter.info();
    let pd = world.adapter.create_pd().expect("a PD");
    let cq = world.adapter.create_cq(1).expect("a CQ");
    let most = QpSizes {
        receives: info.MaxReceiveQueueDepth,
        requests: info.MaxInitiatorQueueDepth,
        receive_sges: info.MaxReceiveRequestSge,
        request_sges: info.MaxInitiatorRequestSge,
        inline: info.MaxInlineDataSize,
    };
    pd.create_qp(&cq, &cq, 0, most).expect("a QP of the advertised limits").close_now();
    let too_large = [
        QpSizes { receives: most.receives + 1, ..most },
        QpSizes { requests: most.requests + 1, ..most },
        QpSizes { receive_sges: most.receive_sges + 1, ..most },
        QpSizes { request_sges: most.request_sges + 1, ..most },
        QpSizes { inline: most.inline + 1, ..most },
        QpSizes { inline: u32::MAX, ..most },
    ];
    for sizes in too_large {
        assert_eq!(pd.create_qp(&cq, &cq, 0, sizes).err(), Some(STATUS_INVALID_PARAMETER));
    }
    let srq = pd.create_srq(1, 1, 0).expect("an SRQ");
    let shared = |sizes| pd.create_qp_with_srq(&cq, &cq, &srq, 0, sizes);
    shared(most).expect("a QP of the advertised limits").close_now();
    for sizes in [too_large[1], too_large[3], too_large[4]] {
        assert_eq!(shared(sizes).err(), Some(STATUS_INVALID_PARAMETER));
    }
    assert_eq!(world.provider.object_counts().qps, 0);
    srq.close_now();
    cq.close_now();
    pd.close_now();
}

#[test]
fn srq_sizes_are_limited() {
    let world = World::new();
    let info = world.adapter.info();
    let pd = world.adapter.create_pd().expect("a PD");
    pd.create_srq(info.MaxSrqDepth, info.MaxReceiveRequestSge, 1).expect("an SRQ").close_now();
    assert_eq!(pd.create_srq(info.MaxSrqDepth + 1, 1, 0).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(pd.create_srq(1, info.MaxReceiveRequestSge + 1, 0).err(), Some(STATUS_INVALID_PARAMETER));
    pd.close_now();
}

#[test]
fn the_privileged_token_is_one_for_each_domain() {
    let world = World::new();
    let (one, two) = (world.adapter.create_pd().expect("a PD"), world.adapter.create_pd().expect("a PD"));
    assert_ne!(one.privileged_token(), 0);
    assert_eq!(one.privileged_token(), one.privileged_token());
    assert_ne!(one.privileged_token(), two.privileged_token());
    one.close_now();
    two.close_now();
}

/// Without memory for it there is no token, and a later try may get one.
#[test]
fn the_privileged_token_without_memory_is_none() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let fault = world.session.fail_allocation(1);
    assert_eq!(pd.privileged_token(), 0);
    assert!(fault.happened());
    drop(fault);
    let token = pd.privileged_token();
    assert_ne!(token, 0);
    // The domain has it from here on.
    let fault = world.session.fail_allocation(1);
    assert_eq!(pd.privileged_token(), token);
    drop(fault);
    pd.close_now();
}

/// NDIS_NDK_CAPABILITIES: the advertised count is what can be made, and one more fails cleanly.
// Shows S105.
#[test]
fn the_number_of_domains_is_limited() {
    let world = World::new();
    let most = ndk_provider::Provider::<simkernel::SimKernel>::capabilities().MaxPdCount;
    let pds: Vec<_> = (0..most).map(|_| world.adapter.create_pd().expect("a PD")).collect();
    assert_eq!(world.adapter.create_pd().err(), Some(STATUS_INSUFFICIENT_RESOURCES));
    assert_eq!(world.provider.object_counts().pds, most);
    pds.into_iter().for_each(|pd| pd.close_now());
    world.adapter.create_pd().expect("a PD").close_now();
}

/// Logical addresses under the privileged token: local read and write, never remote
/// (NDK_FN_GET_PRIVILEGED_MEMORY_REGION_TOKEN).
// Shows S508.
#[test]
fn the_privileged_token_is_local_only() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let remote = Buffer::full(&pair.passive.pd, 1);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 1, true);
    let token = pair.active.pd.privileged_token();
    let logical = region.lam.pages[0].QuadPart.cast_unsigned();
    region.pages.write(0, b"privileged");
    let sges = [crate::kit::sge(logical, 10, token)];
    assert_eq!(pair.active.qp.write(1, &sges, remote.base, remote.token, 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_SUCCESS);
    assert_eq!(remote.pages.read(0, 10), b"privileged");
    let sges = [crate::kit::sge(logical + 100, 10, token)];
    assert_eq!(pair.active.qp.read(2, &sges, remote.base, remote.token, 0), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    assert_eq!(region.pages.read(100, 10), b"privileged");
    // The peer names it, and is refused.
    assert_eq!(pair.passive.qp.read(3, &[remote.sge(0, 10)], logical, token, 0), STATUS_SUCCESS);
    pair.passive.expect(3, STATUS_ACCESS_VIOLATION);
    region.close();
    remote.close();
    pair.close();
    // Another domain's is refused locally.
    let pair = Pair::new(&world.adapter);
    let remote = Buffer::full(&pair.passive.pd, 1);
    let sges = [crate::kit::sge(logical, 10, pair.passive.pd.privileged_token())];
    assert_eq!(pair.active.qp.write(1, &sges, remote.base, remote.token, 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_ACCESS_VIOLATION);
    remote.close();
    pair.close();
}
