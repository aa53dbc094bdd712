//! Connecting, listening, accepting.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
};

use platform::SocketError;
use socket2::{Domain, Socket, Type};

use crate::raw::{Op, Raw, accepted, any, any_v6, connected, listener, unused};

fn exchange(raw: &Raw, peer: &mut TcpStream) {
    raw.send_all(b"there");
    let mut room = [0; 5];
    peer.read_exact(&mut room).unwrap();
    assert_eq!(&room, b"there");
    peer.write_all(b"back").unwrap();
    assert_eq!(raw.receive_all(4), b"back");
}

#[test]
fn a_connection_has_both_addresses() {
    for at in [Some(any()), any_v6()].into_iter().flatten() {
        for (raw, mut peer) in [connected(at), accepted(at)] {
            assert_eq!(raw.addresses(), (peer.peer_addr().unwrap(), peer.local_addr().unwrap()));
            exchange(&raw, &mut peer);
        }
    }
}

#[test]
fn two_of_ours_are_connected() {
    for at in [Some(any()), any_v6()].into_iter().flatten() {
        let (listener, at) = listener(at);
        let (ours, theirs) = (Raw::new(), Raw::new());
        let (connect, accept) = (Op::new(), Op::new());
        ours.connect(&connect, SocketAddr::new(at.ip(), 0), at);
        theirs.accept(&accept, &listener);
        assert_eq!((connect.wait(), accept.wait()), (Ok(0), Ok(0)));
        let (local, remote) = ours.addresses();
        assert_eq!((remote, (remote, local)), (at, theirs.addresses()));
        ours.send_all(b"there");
        assert_eq!(theirs.receive_all(5), b"there");
    }
}

#[test]
fn the_own_address_may_be_any() {
    let peer = TcpListener::bind(any()).unwrap();
    let (raw, op) = (Raw::new(), Op::new());
    raw.connect(&op, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), peer.local_addr().unwrap());
    assert_eq!(op.wait(), Ok(0));
    assert_eq!(raw.addresses().0, peer.accept().unwrap().1);
}

#[test]
fn a_port_may_be_asked_for() {
    let free = unused();
    for _ in 0..2 {
        let peer = TcpListener::bind(any()).unwrap();
        let (raw, op) = (Raw::new(), Op::new());
        raw.connect(&op, free, peer.local_addr().unwrap());
        assert_eq!(op.wait(), Ok(0));
        assert_eq!(raw.addresses().0, free);
        // This end is the first to finish: its address stays in TIME_WAIT, and can be used again.
        let mut peer = peer.accept().unwrap().0;
        assert_eq!(raw.finish(), Ok(0));
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        drop(peer);
        assert_eq!(raw.receive_all(1), []);
        raw.close();
    }
}

#[test]
fn nobody_listens() {
    for at in [Some(any()), any_v6()].into_iter().flatten() {
        let taken = Socket::new(Domain::for_address(at), Type::STREAM, None).unwrap();
        taken.bind(&at.into()).unwrap();
        let nobody = taken.local_addr().unwrap().as_socket().unwrap();
        let (raw, op) = (Raw::new(), Op::new());
        raw.connect(&op, at, nobody);
        assert_eq!(op.wait(), Err(SocketError::Refused));
        raw.close();
    }
}

/// TCP would connect a port with itself.
#[test]
fn nobody_listens_at_the_own_address() {
    let own = unused();
    let (raw, op) = (Raw::new(), Op::new());
    raw.connect(&op, own, own);
    assert_eq!(op.wait(), Err(SocketError::Refused));
}

#[test]
fn no_way_there() {
    let [v4, v6] = [any(), SocketAddr::from((Ipv6Addr::LOCALHOST, 1))];
    // An address for documentation (RFC 5737), which no host has.
    let foreign = SocketAddr::from(([192, 0, 2, 77], 0));
    for (local, remote) in [(v4, v6), (v6, v4), (foreign, SocketAddr::new(any().ip(), 1))] {
        let (raw, op) = (Raw::new(), Op::new());
        raw.connect(&op, local, remote);
        assert_eq!(op.wait(), Err(SocketError::Unreachable), "{local} to {remote}");
    }
    let (raw, op) = (Raw::new(), Op::new());
    raw.listen(&op, foreign);
    assert_eq!(op.wait(), Err(SocketError::Unreachable));
}

#[test]
fn an_address_that_is_taken() {
    let peer = TcpListener::bind(any()).unwrap();
    let (first, at) = listener(any());
    for taken in [peer.local_addr().unwrap(), at] {
        let (second, op) = (Raw::new(), Op::new());
        second.listen(&op, taken);
        assert_eq!(op.wait(), Err(SocketError::AddressInUse));
        let (connection, op) = (Raw::new(), Op::new());
        connection.connect(&op, taken, peer.local_addr().unwrap());
        assert_eq!(op.wait(), Err(SocketError::AddressInUse));
    }
    let (whole, op) = (Raw::new(), Op::new());
    whole.listen(&op, SocketAddr::from((Ipv4Addr::UNSPECIFIED, at.port())));
    assert_eq!(op.wait(), Err(SocketError::AddressInUse));
    first.close();
    let (again, op) = (Raw::new(), Op::new());
    again.listen(&op, at);
    assert_eq!(op.wait(), Ok(0));
}

/// The listening end finishes first, so its address stays in TIME_WAIT; a new listener can still use the address.
#[test]
fn connections_that_are_over_do_not_take_an_address() {
    let (first, at) = listener(any());
    let (raw, op) = (Raw::new(), Op::new());
    raw.accept(&op, &first);
    let mut peer = TcpStream::connect(at).unwrap();
    assert_eq!(op.wait(), Ok(0));
    assert_eq!(raw.finish(), Ok(0));
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    drop(peer);
    assert_eq!(raw.receive_all(1), []);
    raw.close();
    first.close();
    let (again, op) = (Raw::new(), Op::new());
    again.listen(&op, at);
    assert_eq!(op.wait(), Ok(0));
}

/// One port number gives two addresses, of IPv4 and of IPv6.
#[test]
fn ipv6_is_ipv6_only() {
    let Some(_) = any_v6() else { return };
    // IPv4 first: on a busy host many of its ports belong to connections that are over.
    let (_four, at) = listener(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let (six, op) = (Raw::new(), Op::new());
    six.listen(&op, SocketAddr::from((Ipv6Addr::UNSPECIFIED, at.port())));
    assert_eq!(op.wait(), Ok(0));
    assert!(TcpStream::connect(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), at.port())).is_ok());
}

#[test]
fn an_accept_may_come_before_or_after_its_connection() {
    let (listener, at) = listener(any());
    let op = Op::new();
    let early = Raw::new();
    early.accept(&op, &listener);
    assert!(!op.is_over());
    let mut peers = vec![TcpStream::connect(at).unwrap()];
    assert_eq!(op.wait(), Ok(0));
    // These connections wait in the host's backlog, for the accepts below.
    peers.extend((0..20).map(|_| TcpStream::connect(at).unwrap()));
    let mut ours = vec![early];
    for _ in 0..20 {
        let late = Raw::new();
        late.accept(&op, &listener);
        assert_eq!(op.wait(), Ok(0));
        ours.push(late);
    }
    for raw in &ours {
        let peer = peers.iter_mut().find(|peer| peer.local_addr().unwrap() == raw.addresses().1);
        exchange(raw, peer.expect("a peer of its own"));
    }
}
