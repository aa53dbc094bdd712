//! UDP of Linux. What a socket has no room for when it arrives is lost, as UDP may lose it.

use kernel::linux::{Errno, Syscall, call};
use ndk_abi::{
    describe::ZeroInit,
    sockaddr::{AF_INET6, SOCKADDR_INET},
    status::{STATUS_INVALID_ADDRESS_COMPONENT, STATUS_INVALID_BUFFER_SIZE},
};

use super::{
    File, LINUX_AF_INET6, MSG_NOSIGNAL, Message, PARTS, Part, Result, SOL_SOCKET, close, of_linux, open, set,
    unless_later,
};

const SOCK_DGRAM: usize = 2;
const IPPROTO_UDP: usize = 17;
const SO_RCVBUF: usize = 8;

/// Room for a burst of long datagrams; Linux gives as much of it as net.core.rmem_max allows.
const RECEIVE_BUFFER: u32 = 4 << 20;

/// No datagram is longer.
pub(in crate::wsk) const LONGEST: usize = 0xFFFF;

/// A datagram socket.
pub(in crate::wsk) fn socket(family: u16) -> Result<File> {
    let socket = open(family, SOCK_DGRAM, IPPROTO_UDP)?;
    set(socket, SOL_SOCKET, SO_RCVBUF, &RECEIVE_BUFFER).inspect_err(|_| close(socket, false))?;
    Ok(socket)
}

/// Sends the parts as one datagram, or says that the socket is told of when there is room.
///
/// # Safety
/// The parts are good to be read.
pub(in crate::wsk) unsafe fn send(socket: File, parts: &[Part], to: SOCKADDR_INET) -> Result<Option<usize>> {
    if parts.len() > PARTS {
        return Err(STATUS_INVALID_BUFFER_SIZE.0);
    }
    let (to, length) = of_linux(to);
    let message = Message {
        name: (&raw const to).expose_provenance(),
        name_length: length as u32,
        parts: parts.as_ptr(),
        count: parts.len(),
        control: 0,
        control_length: 0,
        flags: 0,
    };
    let message = (&raw const message).expose_provenance();
    // SAFETY: an address of that length; the rest is passed on to the caller.
    match unsafe { call(Syscall::SendMsg, [socket as usize, message, MSG_NOSIGNAL, 0, 0, 0]) } {
        Err(Errno::EMSGSIZE) => Err(STATUS_INVALID_BUFFER_SIZE.0),
        // Port 0, or another computer's address for a socket at the loopback address.
        Err(Errno::EINVAL) => Err(STATUS_INVALID_ADDRESS_COMPONENT.0),
        result => unless_later(result),
    }
}

/// The next datagram: how long it is, and where it comes from.
pub(in crate::wsk) fn receive(socket: File, place: &mut [u8; LONGEST]) -> Result<Option<(usize, SOCKADDR_INET)>> {
    let mut from = SOCKADDR_INET { Ipv6: ZeroInit::ZERO };
    let part = Part { start: place.as_mut_ptr(), length: place.len() };
    let mut message = Message {
        name: (&raw mut from).expose_provenance(),
        name_length: size_of::<SOCKADDR_INET>() as u32,
        parts: &raw const part,
        count: 1,
        control: 0,
        control_length: 0,
        flags: 0,
    };
    let message = (&raw mut message).expose_provenance();
    // SAFETY: places for an address, and for the bytes of the longest datagram.
    let received = unless_later(unsafe { call(Syscall::RecvMsg, [socket as usize, message, 0, 0, 0, 0]) })?;
    if from.si_family() == LINUX_AF_INET6 {
        from.Ipv6.sin6_family = AF_INET6;
    }
    Ok(received.map(|length| (length, from)))
}
