//! Opens sockets of the host, with the options that the device needs.

use std::{io, net::SocketAddr, time::Duration};

use mio::net::{TcpListener, TcpStream};
use platform::SocketError;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{error, host};

/// The most connections of a listener that wait to be accepted; the host may allow fewer.
const BACKLOG: i32 = 1024;

/// Starts a connect; the stream may be connected already.
pub(super) fn connect(local: SocketAddr, remote: SocketAddr) -> Result<TcpStream, SocketError> {
    if local.is_ipv4() != remote.is_ipv4() {
        return Err(SocketError::Unreachable);
    }
    let bound = || {
        let socket = open(&local)?;
        set_options(&socket, local, remote)?;
        if local.port() != 0 {
            host::reserve(&socket)?;
        }
        if local.port() != 0 || !local.ip().is_unspecified() {
            socket.bind(&local.into())?;
        }
        Ok(socket)
    };
    let socket = bound().map_err(|error| error::of_bind(&error))?;
    match socket.connect(&remote.into()) {
        Err(error) if !host::is_connecting(&error) => Err(error::of_connect(&error)),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// A socket that listens.
pub(super) fn listen(local: SocketAddr) -> Result<TcpListener, SocketError> {
    let listening = || {
        let socket = open(&local)?;
        host::reserve(&socket)?;
        socket.bind(&local.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    listening().map_err(|error| error::of_bind(&error))
}

fn open(address: &SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Sets a connection's options: data is sent at once (TCP_NODELAY), and when the socket closes or the process ends,
/// unsent bytes are dropped and the peer gets a reset.
pub(super) fn set_options<'a>(stream: impl Into<SockRef<'a>>, local: SocketAddr, remote: SocketAddr) -> io::Result<()> {
    let stream = stream.into();
    if remote.ip().is_loopback() || remote.ip() == local.ip() {
        host::limit(&stream)?;
    }
    host::keep_from_children(&stream)?;
    stream.set_tcp_nodelay(true)?;
    stream.set_linger(Some(Duration::ZERO))
}

/// Makes the close send the unsent bytes, without a reset.
pub(super) fn close_gracefully(stream: &TcpStream) {
    // This may fail if the connection is gone, and then no bytes can be sent.
    let _gone = SockRef::from(stream).set_linger(None);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn connections_hold_nothing_back_and_close_by_a_reset() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let peer = std::net::TcpListener::bind(any).unwrap();
        let stream = connect(any, peer.local_addr().unwrap()).unwrap();
        let options = || (SockRef::from(&stream).tcp_nodelay().unwrap(), SockRef::from(&stream).linger().unwrap());
        assert_eq!(options(), (true, Some(Duration::ZERO)));
        close_gracefully(&stream);
        assert_eq!(options(), (true, None));
    }
}
