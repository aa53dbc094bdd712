//! Objects that are freed while requests in a ring name them.

use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, status::*};
use simkernel::{boot_seeded, pause, seeds};
use users::{
    User, World,
    rings::{Ringed, push},
    start,
    user::{handle, work},
};

/// The post of a request may hold the last reference to the region, and drops it without the lock of the ring: the host checks that when
/// memory is unlocked.
// Shows T15.
#[test]
fn a_region_is_freed_while_requests_name_it() {
    for seed in seeds(200) {
        let session = boot_seeded(seed);
        let device = start();
        let user = User::new(&device);
        let world = World::new(&user);
        let ringed = Ringed::new(&user, &world).unwrap();
        let create = SOFTNDK_FAST_MR_CREATE {
            Version: 1,
            RemoteAccess: 0,
            PdHandle: world.pd,
            Address: world.pages.address(0).addr().get() as u64,
            Length: 4096,
        };
        let region: SOFTNDK_FAST_MR = user.ask(IOCTL_SOFTNDK_FAST_MR_CREATE, &create).unwrap();
        let operations = [NdkOperationTypeInvalidate, NdkOperationTypeFastRegister];
        let operation = operations[seed as usize % operations.len()];
        let named = SOFTNDK_POST { ObjectHandle: region.MrHandle, ..work(operation, 0, 1) };
        assert!(push(&mut ringed.writers()[0], &named, &[]));
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_SUCCESS);
        (0..seed % 8).for_each(|_| pause());
        assert_eq!(user.call(IOCTL_ND_MR_FREE, &handle(region.MrHandle)), STATUS_SUCCESS);
        session.flush_dpcs();
        drop(user);
        assert_eq!(device.host().pinned(), 0);
    }
}
