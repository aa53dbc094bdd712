//! A process that is connected to another machine, where the peer does nothing.

use std::time::Duration;

use iwarp::mpa::{FrameKind, RtrKinds};
use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, status::*};
use peer::{
    device::PORT,
    establish::at,
    frames,
    raw::{Door, Raw},
};
use simkernel::{Session, boot_seeded, seeds};
use users::{
    User, World, start,
    user::{Memory, handle, inet, work},
};

/// Connects the user's queue pair to a peer that sees each byte.
fn connected(user: &User<'_>, world: &World, door: &Door) -> Raw {
    let connect = user.connect(world.connector, world.qp, inet(&at(PORT).to_string()), b"");
    let raw = door.accept();
    assert!(raw.mpa_frame(FrameKind::Request).is_some());
    raw.send(&frames::mpa_frame(&frames::plain(FrameKind::Reply, frames::enhanced(RtrKinds::WRITE))));
    assert_eq!(connect.wait(), STATUS_SUCCESS);
    assert_eq!(user.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(world.connector)), STATUS_SUCCESS);
    assert_eq!(raw.ulpdu(), Some(frames::write(1, 0, &[])));
    raw.send_frames([&frames::write(1, 0, &[])]);
    raw
}

fn send(user: &User<'_>, world: &World, memory: &Memory, length: u32) -> NTSTATUS {
    let post = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeSend, world.qp, 7) };
    user.post(&post, &[memory.sge(0, length)], b"")
}

/// The process ends while the peer neither reads nor answers, and does not wait for the peer. Data that the process has sent still arrives
/// if the peer reads in time.
// Shows S912.
#[test]
fn a_dying_process_waits_for_no_peer() {
    for seed in seeds(20) {
        let kernel: Session = boot_seeded(seed);
        kernel.hold_clock();
        let device = start();
        let door = Door::listen(at(PORT));
        let user = User::new(&device);
        let world = World::new(&user);
        let memory = user.memory(world.pd, 1);
        let raw = connected(&user, &world, &door);
        let sockets = kernel.ledger().open_sockets;
        assert_eq!(send(&user, &world, &memory, 500), STATUS_SUCCESS);
        let sent = user.completions(world.cq, 1);
        assert_eq!(sent[0].Status, STATUS_SUCCESS);
        // The clock stands still: a wait for the peer would not end.
        drop(user);
        assert_eq!(device.host().pinned(), 0);
        assert_eq!(device.host().provider().object_counts(), ndk_provider::ObjectCounts::default());
        if seed % 2 == 0 {
            assert_eq!(raw.ulpdu().map(|ulpdu| ulpdu.len()), Some(frames::send(1, &[0; 500]).len()));
            assert_eq!(raw.rest(), (Vec::new(), Ok(())));
        } else {
            // The connection begins to end when its DPC has run; the 5 s count from there.
            kernel.flush_dpcs();
            kernel.advance(Duration::from_secs(5));
            device.host().provider().drain(&simkernel::passive());
            assert_eq!(kernel.ledger().open_sockets, sockets - 1, "the peer's is left");
        }
    }
}
