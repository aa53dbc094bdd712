//! NDK_ADAPTER: opening, information, logical address mappings.

use ndk_abi::{
    ndkpi::{
        NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED, NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED,
        NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED, NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE_SUPPORTED,
        NDK_ADAPTER_INFO, NDK_VERSION, NdkObjectTypeAdapter, NdkUndefined,
    },
    status::{
        NDIS_STATUS_BAD_VERSION, STATUS_BUFFER_TOO_SMALL, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER,
        STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};
use simkernel::Pages;

use crate::kit::{Buffer, QpSizes, World, adapter_info_sized, lam_sized, mapping};

/// OPEN_NDK_ADAPTER_HANDLER: the lowest minor that the consumer can live with is asked for, the highest is served.
// Shows S101.
#[test]
fn open_serves_the_highest_minor_of_the_major() {
    let world = World::new();
    let served = [((1, 0), (1, 2)), ((1, 1), (1, 2)), ((1, 2), (1, 2)), ((2, 0), (2, 1)), ((2, 1), (2, 1))];
    for ((major, minor), (served_major, served_minor)) in served {
        let adapter = world.open(major, minor).expect("an adapter");
        let version = NDK_VERSION { Major: served_major, Minor: served_minor };
        assert_eq!(adapter.header().Version, version);
        assert_eq!(adapter.header().ObjectType, NdkObjectTypeAdapter);
        // Objects carry the version that their adapter was opened with.
        let pd = adapter.create_pd().expect("a PD");
        assert_eq!(pd.header().Version, version);
        pd.close_now();
        world.close_adapter(adapter);
    }
}

// Shows S101.
#[test]
fn open_refuses_versions_above_and_unknown() {
    let world = World::new();
    for (major, minor) in [(0, 0), (1, 3), (2, 2), (3, 0), (u16::MAX, u16::MAX)] {
        assert_eq!(world.open(major, minor).err(), Some(NDIS_STATUS_BAD_VERSION), "{major}.{minor}");
    }
}

// Shows S109.
#[test]
fn open_without_memory_leaves_no_trace() {
    let world = World::new();
    for nth in 1.. {
        let fault = world.session.fail_allocation(nth);
        let opened = world.open(2, 0);
        if !fault.happened() {
            drop(fault);
            world.close_adapter(opened.expect("an adapter"));
            assert!(nth > 2, "at least the adapter and its head are allocated");
            break;
        }
        assert_eq!(opened.err(), Some(STATUS_INSUFFICIENT_RESOURCES));
        drop(fault);
        assert_eq!(world.provider.object_counts().adapters, 1, "allocation {nth}");
    }
}

// Shows S104.
#[test]
fn info_of_version_2_is_0x68_bytes() {
    let world = World::new();
    let (status, size, written) = adapter_info_sized(&world.adapter, None);
    assert_eq!((status, size), (STATUS_BUFFER_TOO_SMALL, 0x68));
    assert!(written.is_empty());
    let (status, size, written) = adapter_info_sized(&world.adapter, Some(0x67));
    assert_eq!((status, size), (STATUS_BUFFER_TOO_SMALL, 0x68));
    assert!(written.is_empty());
    let (status, size, written) = adapter_info_sized(&world.adapter, Some(0x80));
    assert_eq!((status, size, written.len()), (STATUS_SUCCESS, 0x68, 0x68));
    assert_ne!(world.adapter.info().RdmaTechnology, NdkUndefined);
}

/// The structure ended before RdmaTechnology until NDKPI 2.0.
// Shows S104.
#[test]
fn info_of_version_1_is_0x60_bytes() {
    let world = World::new();
    let adapter = world.open(1, 1).expect("an adapter");
    let (status, size, written) = adapter_info_sized(&adapter, Some(0x5F));
    assert_eq!((status, size), (STATUS_BUFFER_TOO_SMALL, 0x60));
    assert!(written.is_empty());
    for room in [0x60, 0x68] {
        let (status, size, written) = adapter_info_sized(&adapter, Some(room));
        assert_eq!((status, size), (STATUS_SUCCESS, 0x60));
        assert!(written.len() <= 0x60, "nothing is written past the old structure");
        assert_eq!(written[..4], [1, 0, 2, 0], "version 1.2");
    }
    world.close_adapter(adapter);
}

// Shows S104.
#[test]
fn info_is_plausible() {
    let world = World::new();
    let info: NDK_ADAPTER_INFO = world.adapter.info();
    assert_eq!(info.Version, NDK_VERSION { Major: 2, Minor: 1 });
    // What SMB Direct needs.
    assert!(info.FRMRPageCount >= 16 && info.MaxReadRequestSge >= 1 && info.MaxInitiatorRequestSge >= 6);
    assert!(info.MaxReceiveQueueDepth >= 256 && info.MaxInitiatorQueueDepth >= 511 && info.MaxCqDepth >= 512);
    assert!(info.MaxInboundReadLimit >= 32 && info.MaxOutboundReadLimit >= 8);
    // What is advertised, and what is not.
    assert_ne!(info.AdapterFlags & NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED, 0);
    assert_ne!(info.AdapterFlags & NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED, 0);
    assert_ne!(info.AdapterFlags & NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED, 0);
    assert_ne!(info.AdapterFlags & NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE_SUPPORTED, 0);
    assert_eq!(info.MaxWindowSize, info.MaxRegistrationSize);
}

/// For each connection, in the order in which Microsoft's NDKPerf.sys asks for it (docs/interop.md).
#[test]
fn what_ndkperf_asks_for_is_granted() {
    const DEPTH: u32 = 512;
    const REGIONS: u32 = 512;
    let world = World::new();
    let adapter = world.open(2, 0).expect("an adapter");
    let info = adapter.info();
    let pd = adapter.create_pd().expect("a PD");
    let regions = (0..REGIONS).map(|_| {
        let region = pd.create_mr(true).expect("a region");
        region.initialize_fast(info.FRMRPageCount, true).succeed();
        region
    });
    let regions = regions.collect::<Vec<_>>();
    let cqs = [adapter.create_cq(DEPTH).expect("a CQ"), adapter.create_cq(DEPTH).expect("a CQ")];
    for cq in &cqs {
        assert_eq!(cq.moderate(20, u32::MAX), STATUS_SUCCESS);
    }
    let sizes = QpSizes {
        receives: DEPTH,
        requests: DEPTH,
        receive_sges: info.MaxReceiveRequestSge,
        request_sges: info.MaxInitiatorRequestSge,
        inline: 0,
    };
    let qp = pd.create_qp(&cqs[0], &cqs[1], 1, sizes).expect("a QP");
    qp.close_now();
    cqs.into_iter().for_each(|cq| cq.close_now());
    regions.into_iter().for_each(|region| region.close_now());
    pd.close_now();
    world.close_adapter(adapter);
}

/// NDK_FN_BUILD_LAM: every page of the range, and where in the first one it begins.
// Shows S112.
#[test]
fn lam_names_each_page_once() {
    let world = World::new();
    let pages = Pages::new(4);
    let address = |page: usize| pages.address(page * PAGE_SIZE).addr().get() as i64;
    for (offset, length, expected) in [
        (0, 1, 0..1),
        (0, PAGE_SIZE, 0..1),
        (0, PAGE_SIZE + 1, 0..2),
        (100, PAGE_SIZE - 100, 0..1),
        (100, PAGE_SIZE - 99, 0..2),
        (PAGE_SIZE - 1, 2, 0..2),
        (PAGE_SIZE, 3 * PAGE_SIZE, 1..4),
        (PAGE_SIZE + 5, 2 * PAGE_SIZE, 1..4),
    ] {
        let mdl = pages.mdl(offset, length, Buffer::INDEX);
        let lam = mapping(&world.adapter, &mdl, length).expect("a mapping");
        let found: Vec<i64> = lam.pages.iter().map(|page| page.QuadPart).collect();
        assert_eq!(found, expected.map(address).collect::<Vec<_>>(), "{length} bytes at {offset}");
        assert_eq!(lam.first_byte_offset as usize, offset % PAGE_SIZE);
    }
}

/// NDK_FN_BUILD_LAM: too short a buffer, or none, gets the size needed and nothing else.
// Shows S112.
#[test]
fn lam_needs_room_for_all_of_it() {
    let world = World::new();
    let pages = Pages::new(3);
    let mdl = pages.mdl(100, 2 * PAGE_SIZE, Buffer::INDEX);
    let needed = 0x10 + 3 * 8;
    for size in [None, Some(0), Some(0x10), Some(0x18), Some(needed - 1)] {
        let (status, reported, written) = lam_sized(&world.adapter, &mdl, 2 * PAGE_SIZE, size);
        assert_eq!((status, reported), (STATUS_BUFFER_TOO_SMALL, needed), "{size:?}");
        assert!(written.is_empty(), "{size:?}");
    }
    for size in [needed, needed + 1, needed + 100] {
        let (status, reported, written) = lam_sized(&world.adapter, &mdl, 2 * PAGE_SIZE, Some(size));
        assert_eq!((status, reported), (STATUS_SUCCESS, needed), "{size}");
        assert_eq!((written[8..12].to_vec(), written.len()), (vec![3, 0, 0, 0], needed as usize));
    }
}

#[test]
fn lam_of_a_chain_joins_pages_that_two_mdls_share() {
    let world = World::new();
    let pages = Pages::new(3);
    let address = |page: usize| pages.address(page * PAGE_SIZE).addr().get() as i64;
    let middle = PAGE_SIZE + 700;
    let chain = pages.mdl(50, middle - 50, Buffer::INDEX).chain(pages.mdl(middle, 0, Buffer::INDEX));
    let chain = chain.chain(pages.mdl(middle, pages.size() - middle, Buffer::INDEX));
    let lam = mapping(&world.adapter, &chain, pages.size() - 50).expect("a mapping");
    let found: Vec<i64> = lam.pages.iter().map(|page| page.QuadPart).collect();
    assert_eq!(found, (0..3).map(address).collect::<Vec<_>>());
    assert_eq!(lam.first_byte_offset, 50);
    // Only as much as was asked for.
    let lam = mapping(&world.adapter, &chain, PAGE_SIZE - 50).expect("a mapping");
    assert_eq!(lam.pages.len(), 1);
}

// Shows S112.
#[test]
fn lam_refuses_what_it_cannot_map() {
    let world = World::new();
    let pages = Pages::new(3);
    let whole = pages.mdl(0, pages.size(), Buffer::INDEX);
    assert_eq!(mapping(&world.adapter, &whole, 0).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(mapping(&world.adapter, &whole, pages.size() + 1).err(), Some(STATUS_INVALID_PARAMETER));
    let hole = pages.mdl(0, PAGE_SIZE, Buffer::INDEX).chain(pages.mdl(2 * PAGE_SIZE, PAGE_SIZE, Buffer::INDEX));
    assert_eq!(mapping(&world.adapter, &hole, 2 * PAGE_SIZE).err(), Some(STATUS_INVALID_PARAMETER));
    let fault = world.session.fail_mapping(1);
    let fresh = pages.mdl(0, PAGE_SIZE, Buffer::INDEX);
    assert_eq!(mapping(&world.adapter, &fresh, PAGE_SIZE).err(), Some(STATUS_INSUFFICIENT_RESOURCES));
    assert!(fault.happened());
}
