//! Links: each end of SMB Direct by itself.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ndk_abi::status::{
    NTSTATUS, STATUS_CONNECTION_DISCONNECTED, STATUS_INVALID_PARAMETER, STATUS_IO_TIMEOUT, STATUS_QUOTA_EXCEEDED,
};
use ndk_consumer::OpenAdapters;
use simkernel::{Session, SimKernel, boot, passive, pause, scope, watchdog};
use smb_direct::{Access, Done, Failure, Options, Step};

use crate::host::Host;

pub(crate) type Link = smb_direct::Link<Host>;
pub(crate) type Port = smb_direct::Port<Host>;
pub(crate) type Wake = smb_direct::Wake<Host>;

const LIMIT: Duration = Duration::from_secs(120);
const SECOND: Duration = Duration::from_secs(1);
const LONG: Options = Options { places: 2, length: 65_536, keepalive: 120_000_000 };
const SHORT: Options = Options { keepalive: 1_000_000, ..LONG };

/// Connects two links, a client and a server, which have not negotiated; nothing may be left when `code` is done.
fn connected(options: [Options; 2], code: impl FnOnce(&Session, Link, Link)) {
    let session = boot();
    session.hold_clock();
    watchdog(LIMIT, || {
        let (host, adapters) = (Host::new(), OpenAdapters::<SimKernel>::default());
        let adapter = adapters.open(&host, None, &passive()).unwrap();
        let (of_client, of_server) = (Wake::new().unwrap(), Wake::new().unwrap());
        let address = SocketAddr::new(host.address(), 5445);
        let port = Port::listen(&adapter, &of_server, address, &passive()).unwrap();
        let (client, server) = scope(|scope| {
            let client = scope.spawn(|| {
                Link::connect(&adapter, &of_client, (address.ip(), address), options[0], &passive()).unwrap()
            });
            let server = port.accept(options[1], &passive()).unwrap();
            (client.join().unwrap(), server)
        });
        code(&session, client, server);
        drop((port, adapter));
        adapters.close_all(&host, &passive());
        assert!(!host.is_used());
    });
}

/// The same, and they have negotiated.
fn established(options: [Options; 2], code: impl FnOnce(&Session, Link, Link)) {
    connected(options, |session, client, server| {
        scope(|scope| {
            let of_server = scope.spawn(|| server.negotiate(&passive()));
            assert_eq!(client.negotiate(&passive()), Ok(()));
            assert_eq!(of_server.join().unwrap(), Ok(()));
        });
        code(session, client, server);
    });
}

/// Ends both.
pub(crate) fn close(links: [Link; 2]) {
    for link in links {
        assert_eq!(link.close(&passive()), Ok(()));
    }
}

/// What comes within `work`, while the clock goes on.
fn in_time<T: Send>(session: &Session, work: impl FnOnce() -> T + Send) -> T {
    let done = AtomicBool::new(false);
    scope(|scope| {
        let worker = scope.spawn(|| {
            let result = work();
            done.store(true, Ordering::Release);
            result
        });
        while !done.load(Ordering::Acquire) {
            session.advance(SECOND);
            pause();
        }
        worker.join().unwrap()
    })
}

/// Waits for what `next` finds.
pub(crate) fn await_next<T>(link: &Link, mut next: impl FnMut(&Link) -> Option<T>) -> T {
    loop {
        if let Some(found) = next(link) {
            return found;
        }
        link.wait(&passive()).unwrap();
    }
}

pub(crate) fn message(link: &Link) -> (Vec<u8>, Option<u32>) {
    await_next(link, |link| link.receive().map(|message| (message.bytes.to_vec(), message.invalidated)))
}

/// Where a descriptor says that memory is: address and token.
pub(crate) fn place(descriptor: &[u8]) -> (u64, u32) {
    let (address, token) = (descriptor[..8].try_into().unwrap(), descriptor[8..12].try_into().unwrap());
    (u64::from_le_bytes(address), u32::from_le_bytes(token))
}

// Shows S980.
#[test]
fn messages_and_memory_go_both_ways() {
    established([LONG; 2], |_, mut client, server| {
        let data: Vec<u8> = (0..50_000_u32).map(|number| (number / 3) as u8).collect();
        client.fill(1, 0, &data).unwrap();
        let (descriptor, token) = client.lend(1, data.len(), Access::Read).unwrap();
        client.send(&descriptor, None).unwrap();
        let (asked, None) = message(&server) else { panic!("invalidated") };
        assert_eq!((asked.as_slice(), place(&asked).1), (&descriptor[..], token));
        server.read(0, data.len() as u32, place(&asked)).unwrap();
        assert_eq!(await_next(&server, Link::done), Done::Read(0));
        let mut copy = vec![0; data.len()];
        server.copy(0, 0, &mut copy).unwrap();
        assert!(copy == data);
        // Not invalidated: the client takes it back.
        server.send(b"read", None).unwrap();
        assert_eq!(message(&client), (b"read".to_vec(), None));
        client.take_back(1).unwrap();
        assert_eq!(await_next(&client, Link::done), Done::TakenBack(1));

        let (descriptor, token) = client.lend(1, data.len(), Access::Write).unwrap();
        client.fill(1, 0, &vec![0; data.len()]).unwrap();
        client.send(&descriptor, None).unwrap();
        let (asked, _) = message(&server);
        server.fill(1, 0, &data).unwrap();
        server.write(1, data.len() as u32, place(&asked)).unwrap();
        server.send(b"written", Some(token)).unwrap();
        assert_eq!(message(&client), (b"written".to_vec(), Some(token)));
        client.copy(1, 0, &mut copy).unwrap();
        assert!(copy == data);
        assert_eq!(await_next(&server, Link::done), Done::Written(1));
        close([client, server]);
    });
}

// Shows S980.
#[test]
fn places_that_are_none_are_refused() {
    established([LONG; 2], |_, mut client, server| {
        let refused = Err::<(), NTSTATUS>(STATUS_INVALID_PARAMETER);
        for (number, length) in [(2, 1), (0, 0), (0, 65_537)] {
            assert_eq!(client.lend(number, length, Access::Read).map(drop), refused);
        }
        for (number, length) in [(2, 1), (0, 65_537)] {
            assert_eq!(server.read(number, length, (0, 0)), refused);
            assert_eq!(server.write(number, length, (0, 0)), refused);
            for link in [&client, &server] {
                assert_eq!(link.fill(number, 0, &vec![0; length as usize]), refused);
                assert_eq!(link.copy(number, 0, &mut vec![0; length as usize]), refused);
            }
        }
        assert_eq!(client.take_back(2), refused);
        // Each end has calls of its own.
        assert_eq!(client.read(0, 1, (0, 0)), refused);
        assert_eq!(server.take_back(0), refused);
        close([client, server]);
    });
}

/// Both used to see their receive come back, and called it STATUS_CANCELLED.
// Shows S981.
#[test]
fn a_peer_that_disconnects_instead_of_negotiating_is_said_to() {
    let disconnected = Err(Failure { step: Step::Negotiate, status: STATUS_CONNECTION_DISCONNECTED });
    for server_leaves in [false, true] {
        connected([LONG; 2], |_, client, server| {
            let (leaves, stays) = if server_leaves { (server, client) } else { (client, server) };
            scope(|scope| {
                let stays = &stays;
                let result = scope.spawn(move || stays.negotiate(&passive()));
                assert_eq!(leaves.close(&passive()), Ok(()));
                assert_eq!(result.join().unwrap(), disconnected, "server leaves: {server_leaves}");
            });
            assert_eq!(stays.close(&passive()), Ok(()));
        });
    }
}

// Shows S981.
#[test]
fn a_peer_that_does_not_negotiate_has_a_time_to_do_so() {
    let late = Err(Failure { step: Step::Negotiate, status: STATUS_IO_TIMEOUT });
    connected([LONG; 2], |session, client, server| {
        assert_eq!(in_time(session, || server.negotiate(&passive())), late);
        close([server, client]);
    });
    connected([LONG; 2], |session, client, server| {
        assert_eq!(in_time(session, || client.negotiate(&passive())), late);
        close([client, server]);
    });
}

/// A program may leave messages lie, and send more than the peer takes: neither end has pool for that without a limit.
// Shows S973, T85.
#[test]
fn messages_that_wait_are_bounded_in_bytes() {
    const MIB: usize = 1 << 20;
    established([LONG; 2], |session, client, server| {
        let bytes = vec![1; MIB];
        for _ in 0..17 {
            assert_eq!(client.send(&bytes, None), Ok(()));
            session.flush_dpcs();
        }
        // The server has ended it, and takes nothing more; the client has the last one still.
        let mut waiting = 0;
        let refused = loop {
            match client.send(&bytes, None) {
                Ok(()) => waiting += 1,
                Err(status) => break status,
            }
        };
        assert_eq!((refused, waiting), (STATUS_QUOTA_EXCEEDED, 15));
        for _ in 0..16 {
            assert_eq!(message(&server).0.len(), MIB);
        }
        assert!(server.receive().is_none());
        let over = Failure { step: Step::Transport, status: STATUS_QUOTA_EXCEEDED };
        assert_eq!(server.wait(&passive()), Err(over));
        close([server, client]);
    });
}

/// The clock goes on until it is over.
// Shows S972.
#[test]
fn a_server_that_never_accepts_is_given_up() {
    let session = boot();
    session.hold_clock();
    watchdog(LIMIT, || {
        let (host, adapters) = (Host::new(), OpenAdapters::<SimKernel>::default());
        let adapter = adapters.open(&host, None, &passive()).unwrap();
        let (of_client, of_server) = (Wake::new().unwrap(), Wake::new().unwrap());
        let address = SocketAddr::new(host.address(), 5445);
        let port = Port::listen(&adapter, &of_server, address, &passive()).unwrap();
        let connect = || Link::connect(&adapter, &of_client, (address.ip(), address), LONG, &passive()).map(drop);
        let late = Failure { step: Step::Connect, status: STATUS_IO_TIMEOUT };
        assert_eq!(in_time(&session, connect), Err(late));
        // The wake is good for more.
        assert_eq!(in_time(&session, connect), Err(late));
        drop((port, adapter));
        adapters.close_all(&host, &passive());
        assert!(!host.is_used());
    });
}

// Shows S981.
#[test]
fn a_peer_that_is_silent_is_asked_for_a_sign_of_life() {
    established([SHORT, LONG], |session, client, server| {
        for _ in 0..3 {
            session.advance(SECOND);
            await_next(&client, |client| (client.keepalives() == 1).then_some(()));
        }
        // A message is one too.
        session.advance(SECOND / 2);
        server.send(b"a message", None).unwrap();
        assert_eq!(message(&client).0, b"a message");
        session.advance(SECOND / 2);
        session.flush_dpcs();
        assert_eq!(client.keepalives(), 0);
        close([client, server]);
    });
}

/// A client that has sent nothing has granted nothing, so the server cannot ask it.
// Shows S981.
#[test]
fn a_peer_that_gives_none_is_left() {
    established([LONG, SHORT], |session, client, server| {
        session.advance(SECOND);
        session.advance(4 * SECOND);
        session.flush_dpcs();
        assert_eq!(server.send(b"still there", None), Ok(()));
        let over = Err(Failure { step: Step::Transport, status: STATUS_IO_TIMEOUT });
        let wait = || -> Result<(), Failure> {
            loop {
                server.wait(&passive())?;
            }
        };
        assert_eq!(in_time(session, wait), over);
        close([server, client]);
    });
}
