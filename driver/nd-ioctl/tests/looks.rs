//! Diagnostic requests: from any file, while other requests are stuck, without memory.

use std::{thread, time::Duration};

use ndk_abi::{describe::ZeroInit, nd_ioctl::*, sockaddr::SOCKADDR_INET, softndk_ioctl::*, status::*};
use simkernel::{boot, watchdog};
use users::{User, World, host::Cable, start, user::bind, world::Case};
use zerocopy::{FromBytes, IntoBytes};

const LIMIT: Duration = Duration::from_secs(60);

/// Sends each diagnostic request.
fn all_succeed(user: &User<'_>) {
    for Case { code, input, output, .. } in World::diagnostic_cases() {
        assert_eq!(user.send_bytes(code, &input, output).wait(), STATUS_SUCCESS, "{code:#x}");
    }
}

/// A part of the list of endpoints, with room for `most` of them.
fn part(user: &User<'_>, start: u32, most: usize) -> (SOFTNDK_LIST, Vec<SOFTNDK_ENDPOINT>) {
    let query = SOFTNDK_LIST_QUERY { Version: 1, Start: start };
    let room = size_of::<SOFTNDK_LIST>() + most * size_of::<SOFTNDK_ENDPOINT>();
    let answer = user.send_bytes(IOCTL_SOFTNDK_ENDPOINTS, query.as_bytes(), room);
    assert_eq!(answer.wait(), STATUS_SUCCESS);
    let output = answer.output();
    let (list, entries) = SOFTNDK_LIST::read(&output).expect("a list of endpoints");
    (list, entries.collect())
}

#[test]
fn wrong_inputs_and_short_outputs_are_refused() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let _world = World::listening(&user);
    for user in [&user, &User::stranger(&device)] {
        all_succeed(user);
        for Case { code, mut input, output, .. } in World::diagnostic_cases() {
            for length in 0..input.len() {
                let answer = user.send_bytes(code, &input[..length], output);
                assert_eq!(answer.wait(), STATUS_BUFFER_TOO_SMALL, "{code:#x}, {length} bytes");
            }
            // A list needs room for one entry only.
            let needed = match code {
                IOCTL_SOFTNDK_ENDPOINTS => size_of::<SOFTNDK_LIST>() + size_of::<SOFTNDK_ENDPOINT>(),
                IOCTL_SOFTNDK_COUNTERS => size_of::<SOFTNDK_LIST>() + size_of::<SOFTNDK_COUNTER>(),
                _ => output,
            };
            for length in 0..needed {
                let answer = user.send_bytes(code, &input, length);
                let expected = match code {
                    IOCTL_SOFTNDK_DIAGNOSTICS => (STATUS_BUFFER_TOO_SMALL, 0),
                    _ => (STATUS_BUFFER_OVERFLOW, needed),
                };
                answer.wait();
                let (status, information, _) = answer.shared.result().unwrap();
                assert_eq!((status, information), expected, "{code:#x}, room for {length} bytes");
            }
            for version in [0, 2, u32::MAX] {
                input[..4].copy_from_slice(&version.to_le_bytes());
                let answer = user.send_bytes(code, &input, output);
                assert_eq!(answer.wait(), STATUS_INVALID_DEVICE_REQUEST, "{code:#x}, version {version}");
            }
        }
    }
}

/// The cleanup of a program's file waits for a cancel routine that is stuck. Other files can still send diagnostic requests, which show the
/// program's objects.
// Shows S1504.
#[test]
fn who_is_stuck_can_be_looked_at() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let world = World::listening(&user);
        let request = user.get_request(world.listener, world.connector);
        let id = request.shared.begin_cancel().expect("it was pended");
        thread::scope(|scope| {
            let cleanup = scope.spawn(|| user.file.cleanup(&simkernel::passive()));
            let observer = User::stranger(&device);
            let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: 1, Reserved: 0 };
            all_succeed(&observer);
            let found: SOFTNDK_DIAGNOSTICS = observer.ask(IOCTL_SOFTNDK_DIAGNOSTICS, &query).unwrap();
            assert_eq!((found.Files, found.PendedRequests), (2, 1));
            let adapter: SOFTNDK_ADAPTER = observer.ask(IOCTL_SOFTNDK_ADAPTER, &query).unwrap();
            assert_eq!(adapter.State, SOFTNDK_ADAPTER_ENABLED);
            assert!(!cleanup.is_finished());
            user.file.cancel(id);
            cleanup.join().unwrap();
            assert!(part(&observer, 0, 8).1.is_empty(), "it is gone, and so is its listener");
        });
        assert_eq!(request.wait(), STATUS_CANCELLED);
    });
}

/// A diagnostic request is not counted; a code that differs only in its method or its access is.
#[test]
fn only_looks_are_not_counted() {
    let _session = boot();
    let device = start();
    let user = User::stranger(&device);
    let counted = || {
        let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: 1, Reserved: 0 };
        let found: SOFTNDK_DIAGNOSTICS = user.ask(IOCTL_SOFTNDK_DIAGNOSTICS, &query).unwrap();
        found.Requests
    };
    let before = counted();
    all_succeed(&user);
    assert_eq!(counted(), before);
    let mut sent = 0;
    for Case { code, input, output, .. } in World::diagnostic_cases() {
        for nearly in [1, 2, 3, 1 << 14, 1 << 15].map(|bits| code ^ bits) {
            let answer = user.send_bytes(nearly, &input, output);
            assert_eq!(answer.wait(), STATUS_INVALID_DEVICE_REQUEST, "{nearly:#x}");
            sent += 1;
        }
    }
    assert_eq!(counted(), before + sent);
}

// Shows S1504.
#[test]
fn looking_allocates_nothing() {
    let session = boot();
    let device = start();
    let user = User::new(&device);
    let _world = World::new(&user);
    let observer = User::stranger(&device);
    // No DPC may be left that allocates.
    session.flush_dpcs();
    let fault = session.fail_allocation(1);
    all_succeed(&observer);
    assert!(!fault.happened());
}

// Shows S1502.
#[test]
fn lists_go_on_where_they_ended() {
    const LISTENERS: usize = 70;
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let adapter = user.adapter();
    for _ in 0..LISTENERS {
        let listener = user.create(IOCTL_ND_LISTENER_CREATE, adapter);
        assert_eq!(user.call(IOCTL_ND_LISTENER_BIND, &bind(listener, "10.1.2.3:0")), STATUS_SUCCESS);
        let listen = ND_LISTEN { Version: 1, Backlog: 2, ListenerHandle: listener };
        assert_eq!(user.call(IOCTL_ND_LISTENER_LISTEN, &listen), STATUS_SUCCESS);
    }
    let observer = User::stranger(&device);
    let (whole, all) = part(&observer, 0, 100);
    assert_eq!((whole.Next, all.len()), (SOFTNDK_LIST_END, LISTENERS));
    for most in [1, 7, 70] {
        let (mut found, mut start) = (Vec::new(), 0);
        while start != SOFTNDK_LIST_END {
            let (list, entries) = part(&observer, start, most);
            assert!(entries.len() <= most && list.Next > start);
            found.extend(entries);
            start = list.Next;
        }
        assert_eq!(found, all, "{most} at a time");
    }
    for far in [SOFTNDK_LIST_PLACES, 1 << 30, SOFTNDK_LIST_END - 1, SOFTNDK_LIST_END] {
        let (list, entries) = part(&observer, far, 8);
        assert_eq!((list.Next, entries.len()), (SOFTNDK_LIST_END, 0), "from {far:#x} on");
    }
}

// Shows S1508.
#[test]
fn a_cable_is_shown_with_its_peers_and_its_forwarding_database() {
    let _session = boot();
    let device = start();
    let user = User::stranger(&device);
    let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: 1, Reserved: 0 };
    let look = || {
        let answer = user.send_bytes(IOCTL_SOFTNDK_CABLE, query.as_bytes(), SOFTNDK_CABLE_LENGTH);
        assert_eq!(answer.wait(), STATUS_SUCCESS);
        answer.output()
    };
    let none = SOFTNDK_CABLE { Version: 1, Size: size_of::<SOFTNDK_CABLE>() as u32, ..ZeroInit::ZERO };
    assert_eq!(look(), none.as_bytes());

    let peer = |host: u8| SOFTNDK_CABLE_PEER {
        Address: SOCKADDR_INET::new(([192, 0, 2, host], 0).into()),
        Reserved: 0,
        Sent: host.into(),
        Received: u64::from(host) << 40,
    };
    let entry = |station: u8| SOFTNDK_FDB_ENTRY {
        MacAddress: [2, 0, 0, 0, 0, station],
        Reserved: 0,
        Peer: 1,
        Age: station.into(),
    };
    let places = SOFTNDK_CABLE_FDB as usize;
    for (peers, fdb) in [
        (vec![], vec![]),
        (vec![peer(1), peer(2)], vec![None, Some(entry(1)), None, Some(entry(2))]),
        ((0..32).map(peer).collect(), (0..places).map(|place| Some(entry(place as u8))).collect()),
        // More than the output has room for is not shown.
        ((0..40).map(peer).collect(), vec![Some(entry(9)); places + 1]),
    ] {
        let head = SOFTNDK_CABLE { State: SOFTNDK_CABLE_PRESENT, Vni: 7, InStranger: 3, OutNotSent: 4, ..none };
        device.host().set_cable(Cable { head, peers: peers.clone(), fdb: fdb.clone() });
        let peers: Vec<_> = peers.into_iter().take(SOFTNDK_CABLE_PEERS as usize).collect();
        let entries: Vec<_> = fdb.into_iter().take(places).flatten().collect();
        let shown = look();
        let (found, rest) = SOFTNDK_CABLE::read_from_prefix(&shown).unwrap();
        let head = SOFTNDK_CABLE { PeerCount: peers.len() as u32, FdbCount: entries.len() as u32, ..head };
        assert_eq!(found, head);
        assert_eq!(rest, [peers.as_bytes(), entries.as_bytes()].concat());
    }
}
