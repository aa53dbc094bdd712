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
const UDP_SEGMENT: i32 = 103;

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

/// Has Linux divide what is sent (struct cmsghdr, and UDP_SEGMENT's number).
#[repr(C)]
struct Segment {
    length: usize,
    level: i32,
    kind: i32,
    size: u16,
    padding: [u16; 3],
}

/// Sends the parts as one datagram, or as several of `size` bytes, or some of them. `None`: the socket is told of when there is room.
///
/// # Safety
/// The parts are good to be read.
pub(in crate::wsk) unsafe fn send(
    socket: File,
    parts: &[Part],
    size: Option<u32>,
    to: SOCKADDR_INET,
) -> Result<Option<usize>> {
    let length = parts.iter().map(|part| part.length).sum::<usize>();
    let size = size.map(|size| size as usize).filter(|size| *size < length);
    // SAFETY: passed on to the caller.
    let sent = unsafe { send_message(socket, parts, size.and_then(|size| u16::try_from(size).ok()), to) };
    match (size, sent) {
        // Linux divides into what fits into the network only, and not into more than 64.
        (Some(size), Err(Errno::EINVAL)) => {
            // SAFETY: as above.
            status(unsafe { send_message(socket, &first(parts, size), None, to) })
        }
        (_, sent) => status(sent),
    }
}

/// The first bytes of the parts.
fn first(parts: &[Part], mut length: usize) -> Vec<Part> {
    let mut first = Vec::new();
    for part in parts {
        let here = part.length.min(length);
        if here > 0 {
            first.push(Part { start: part.start, length: here });
        }
        length -= here;
    }
    first
}

fn status(sent: std::result::Result<usize, Errno>) -> Result<Option<usize>> {
    match sent {
        Err(Errno::EMSGSIZE) => Err(STATUS_INVALID_BUFFER_SIZE.0),
        // Port 0, or another computer's address for a socket at the loopback address.
        Err(Errno::EINVAL) => Err(STATUS_INVALID_ADDRESS_COMPONENT.0),
        result => unless_later(result),
    }
}

/// # Safety
/// As for [`send`].
unsafe fn send_message(
    socket: File,
    parts: &[Part],
    size: Option<u16>,
    to: SOCKADDR_INET,
) -> std::result::Result<usize, Errno> {
    if parts.len() > PARTS {
        return Err(Errno::EMSGSIZE);
    }
    let segment = Segment {
        length: size_of::<usize>() + 2 * size_of::<i32>() + size_of::<u16>(),
        level: IPPROTO_UDP as i32,
        kind: UDP_SEGMENT,
        size: size.unwrap_or(0),
        padding: [0; 3],
    };
    let (control, control_length) =
        size.map_or((0, 0), |_| ((&raw const segment).expose_provenance(), size_of::<Segment>()));
    let (to, length) = of_linux(to);
    let message = Message {
        name: (&raw const to).expose_provenance(),
        name_length: length as u32,
        parts: parts.as_ptr(),
        count: parts.len(),
        control,
        control_length,
        flags: 0,
    };
    let message = (&raw const message).expose_provenance();
    // SAFETY: an address and control information of these lengths; the rest is passed on to the caller.
    unsafe { call(Syscall::SendMsg, [socket as usize, message, MSG_NOSIGNAL, 0, 0, 0]) }
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
