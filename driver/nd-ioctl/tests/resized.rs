//! A ring of completions is replaced while completions wait in it.

use std::{mem::offset_of, ops::Range, sync::atomic::Ordering, thread, time::Duration};

use nd_rings::user::CompletionRing;
use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{boot, watchdog};
use users::{
    User, World,
    rings::{Ring, Ringed, create, create_cq, push, with_mappings},
    start,
    user::{handle, work},
};
use zerocopy::IntoBytes as _;

const LIMIT: Duration = Duration::from_secs(60);
const ROOM: usize = size_of::<ND_RESOURCE_DESCRIPTOR>() + size_of::<ND_MAPPING_RESULT>();
/// Completions that wait.
const WAITING: u32 = 5;
/// Completions that fill a ring.
const FIRST: u32 = 256;
/// More completions than one run of the CQ's deferred call moves into a ring.
const LATER: u32 = 200;

/// CQ_MODIFY with a new ring.
fn modify(user: &User<'_>, cq: u64, depth: u32) -> NTSTATUS {
    let input = ND_CQ_MODIFY {
        Version: 1,
        QueueDepth: depth,
        CeMappingCount: 1,
        CbMappingsOffset: size_of::<ND_CQ_MODIFY>() as u32,
        CqHandle: cq,
    };
    let input = with_mappings(input.as_bytes(), &[Ring::completions_for(user, depth).mapping()]);
    user.send_bytes(IOCTL_ND_CQ_MODIFY, &input, ROOM).wait()
}

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
        assert_eq!(modify(&user, ringed.cq, WAITING - 1), STATUS_BUFFER_OVERFLOW);
        assert_eq!(modify(&user, ringed.cq, WAITING), STATUS_SUCCESS);
        let mut contexts = Vec::new();
        ringed.completions().poll(16, |completion| contexts.push(completion.RequestContext));
        assert_eq!(contexts, [1, 2, 3, 4, 5], "they are where they were");
    });
}

/// The ring was full, so the CQ kept completions. The program has read the ring since, but rings no doorbell.
#[test]
fn a_depth_below_what_the_cq_keeps_is_refused() {
    let session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let world = World::new(&user);
        let ring = Ring::completions_for(&user, FIRST);
        let input = ND_CREATE_CQ { QueueDepth: FIRST, ..create_cq(&world) };
        let cq = create(&user, IOCTL_ND_CQ_CREATE, &input, &[ring.mapping()]).unwrap();
        let header = user.qp_header(world.pd, cq);
        let input = ND_CREATE_QP { Header: header, ReceiveQueueDepth: FIRST, MaxReceiveRequestSge: 1 };
        let qp = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE, &input).unwrap().Handle;
        let mut completions = CompletionRing::new(ring.start());
        let complete = |contexts: Range<u32>| {
            for context in contexts {
                assert_eq!(user.post(&work(NdkOperationTypeReceive, qp, context.into()), &[], b""), STATUS_SUCCESS);
            }
            assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(qp)), STATUS_SUCCESS);
            session.flush_dpcs();
        };
        let mut read = |contexts: Range<u32>| {
            let mut expected = contexts.map(u64::from);
            completions.poll(usize::MAX, |completion| assert_eq!(Some(completion.RequestContext), expected.next()));
            assert_eq!(expected.next(), None, "the ring has no more");
        };
        complete(0..FIRST);
        complete(FIRST..FIRST + LATER);
        read(0..FIRST);
        assert_eq!(modify(&user, cq, LATER - 1), STATUS_BUFFER_OVERFLOW);
        assert_eq!(modify(&user, cq, LATER), STATUS_SUCCESS);
        read(FIRST..FIRST + LATER);
    });
}
