//! A ring of completions is replaced while completions wait in it.

use std::{mem::offset_of, sync::atomic::Ordering, thread, time::Duration};

use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{boot, watchdog};
use users::{
    User, World,
    rings::{Ring, Ringed, push, with_mappings},
    start,
    user::{handle, work},
};
use zerocopy::IntoBytes as _;

const LIMIT: Duration = Duration::from_secs(60);
const ROOM: usize = size_of::<ND_RESOURCE_DESCRIPTOR>() + size_of::<ND_MAPPING_RESULT>();
/// Completions that wait.
const WAITING: u32 = 5;

/// NDSPI refuses a depth below the number of waiting completions with ND_BUFFER_OVERFLOW. The completions stay where they are.
#[test]
fn a_depth_below_what_waits_is_refused() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let ringed = Ringed::new(&user, &World::new(&user)).unwrap();
        let [_, mut receives] = ringed.writers();
        for context in 1..=WAITING {
            assert!(push(&mut receives, &work(NdkOperationTypeReceive, 0, context.into()), &[]));
        }
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(ringed.qp)), STATUS_SUCCESS);
        while ringed.rings[0].word(offset_of!(SOFTNDK_RING, Tail)).load(Ordering::Acquire) < WAITING {
            thread::yield_now();
        }
        let modify = |depth| {
            let input = ND_CQ_MODIFY {
                Version: 1,
                QueueDepth: depth,
                CeMappingCount: 1,
                CbMappingsOffset: size_of::<ND_CQ_MODIFY>() as u32,
                CqHandle: ringed.cq,
            };
            let other = Ring::completions(&user);
            let input = with_mappings(input.as_bytes(), &[other.mapping()]);
            user.send_bytes(IOCTL_ND_CQ_MODIFY, &input, ROOM).wait()
        };
        assert_eq!(modify(WAITING - 1), STATUS_BUFFER_OVERFLOW);
        assert_eq!(modify(WAITING), STATUS_SUCCESS);
        let mut contexts = Vec::new();
        ringed.completions().poll(16, |completion| contexts.push(completion.RequestContext));
        assert_eq!(contexts, [1, 2, 3, 4, 5], "they are where they were");
    });
}
