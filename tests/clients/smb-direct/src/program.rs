//! A link for a program, which requests one step at a time by IOCTL_SOFTNDK_TEST_LINK. The program is not trusted.

use core::net::SocketAddr;

use ndk_abi::sockaddr::SOCKADDR_INET;
use ndk_abi::softndk_ioctl::{
    SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_LINK, SOFTNDK_TEST_LINK_ACCEPT, SOFTNDK_TEST_LINK_CLOSE,
    SOFTNDK_TEST_LINK_CONNECT, SOFTNDK_TEST_LINK_COPY, SOFTNDK_TEST_LINK_FILL, SOFTNDK_TEST_LINK_HAS_READ,
    SOFTNDK_TEST_LINK_HAS_WRITTEN, SOFTNDK_TEST_LINK_LEND, SOFTNDK_TEST_LINK_LISTEN, SOFTNDK_TEST_LINK_MESSAGE,
    SOFTNDK_TEST_LINK_NEGOTIATE, SOFTNDK_TEST_LINK_NEXT, SOFTNDK_TEST_LINK_NOTHING, SOFTNDK_TEST_LINK_PLACE_BYTES,
    SOFTNDK_TEST_LINK_PLACES, SOFTNDK_TEST_LINK_READ, SOFTNDK_TEST_LINK_RESULT, SOFTNDK_TEST_LINK_SEND,
    SOFTNDK_TEST_LINK_TAKE_BACK, SOFTNDK_TEST_LINK_TAKEN_BACK, SOFTNDK_TEST_LINK_WRITE,
};
use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_ADDRESS, STATUS_INVALID_DEVICE_STATE, STATUS_INVALID_PARAMETER,
    STATUS_PENDING, STATUS_SUCCESS,
};
use ndk_consumer::OpenAdapters;
use platform::Passive;

use crate::report::{Failure, Step};
use crate::{Access, Done, Kernel, Link, Options, PlatformOf, Port, Wake};

/// A request of the program, with its input bytes or with room for output bytes; no operation has both.
pub(crate) struct Ask<'a> {
    pub(crate) ask: &'a SOFTNDK_TEST_LINK,
    pub(crate) bytes: &'a [u8],
    pub(crate) room: &'a mut [u8],
}

/// The link of a program, or its port and the link that was accepted there.
pub(crate) struct Held<K: Kernel> {
    // In the order of their release.
    link: Option<Link<K>>,
    port: Option<Port<K>>,
    /// The negotiation of the link has begun.
    negotiates: bool,
    options: Options,
    pub(crate) wake: Wake<K>,
    adapters: OpenAdapters<PlatformOf<K>>,
}

/// Why a request has failed: with an NTSTATUS and no result, or with the failed step as its result.
enum Refused {
    Request(NTSTATUS),
    Step(Failure),
}

impl From<NTSTATUS> for Refused {
    fn from(status: NTSTATUS) -> Self {
        Self::Request(status)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Step(failure)
    }
}

fn result() -> SOFTNDK_TEST_LINK_RESULT {
    SOFTNDK_TEST_LINK_RESULT {
        Version: SOFTNDK_IOCTL_VERSION,
        Status: STATUS_SUCCESS,
        Step: Step::Done as u32,
        Kind: SOFTNDK_TEST_LINK_NOTHING,
        Place: 0,
        Token: 0,
        Value: 0,
        Length: 0,
        Reserved: 0,
    }
}

/// Whether a request makes the link or the port on which later requests work.
pub(crate) fn makes(ask: &SOFTNDK_TEST_LINK) -> bool {
    matches!(ask.Operation, SOFTNDK_TEST_LINK_CONNECT | SOFTNDK_TEST_LINK_LISTEN)
}

fn address(address: &SOCKADDR_INET) -> Result<SocketAddr, NTSTATUS> {
    address.socket_addr().ok_or(STATUS_INVALID_ADDRESS)
}

fn options(ask: &SOFTNDK_TEST_LINK) -> Result<Options, NTSTATUS> {
    let good = (1..=SOFTNDK_TEST_LINK_PLACES).contains(&ask.Place)
        && (1..=SOFTNDK_TEST_LINK_PLACE_BYTES).contains(&ask.Length)
        && ask.Keepalive > 0;
    let options = Options { places: ask.Place, length: ask.Length, keepalive: ask.Keepalive };
    if good { Ok(options) } else { Err(STATUS_INVALID_PARAMETER) }
}

impl<K: Kernel> Held<K> {
    /// Makes the state for a connect or a listen, without a link and a port.
    pub(crate) fn new(ask: &SOFTNDK_TEST_LINK) -> Result<Self, NTSTATUS> {
        let (options, wake) = (options(ask)?, Wake::new()?);
        Ok(Self { link: None, port: None, negotiates: false, options, wake, adapters: OpenAdapters::default() })
    }

    /// Ends the link and the port without a disconnect, and closes the adapters.
    pub(crate) fn end(self, kernel: &K, passive: &Passive<'_>) {
        let Self { link, port, adapters, .. } = self;
        drop((link, port));
        adapters.close_all(kernel, passive);
    }

    /// Whether there is neither a link nor a port.
    pub(crate) fn is_over(&self) -> bool {
        self.link.is_none() && self.port.is_none()
    }

    /// Performs a request.
    pub(crate) fn serve(
        &mut self,
        kernel: &K,
        ask: Ask<'_>,
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_LINK_RESULT, NTSTATUS> {
        match self.work(kernel, ask, passive) {
            Ok(result) => Ok(result),
            Err(Refused::Step(Failure { step, status })) => {
                Ok(SOFTNDK_TEST_LINK_RESULT { Status: status, Step: step as u32, ..result() })
            }
            Err(Refused::Request(status)) => Err(status),
        }
    }

    fn work(
        &mut self,
        kernel: &K,
        Ask { ask, bytes, room }: Ask<'_>,
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_LINK_RESULT, Refused> {
        match ask.Operation {
            SOFTNDK_TEST_LINK_CONNECT => return self.connect(kernel, ask, passive),
            SOFTNDK_TEST_LINK_LISTEN => return self.listen(kernel, ask, passive),
            SOFTNDK_TEST_LINK_ACCEPT => return self.accept(passive),
            SOFTNDK_TEST_LINK_CLOSE => return self.close(passive),
            _ => {}
        }
        let link = self.link.as_mut().ok_or(STATUS_INVALID_DEVICE_STATE)?;
        if ask.Operation == SOFTNDK_TEST_LINK_NEGOTIATE {
            if !core::mem::replace(&mut self.negotiates, true) {
                link.begin_negotiation();
            }
            return match link.negotiated() {
                Some(Ok(())) => Ok(SOFTNDK_TEST_LINK_RESULT { Value: link.transfer_size().into(), ..result() }),
                Some(Err(failure)) => Err(failure.into()),
                None => Ok(SOFTNDK_TEST_LINK_RESULT { Status: STATUS_PENDING, ..result() }),
            };
        }
        let (remote, at) = ((ask.Address, ask.Token), u32::try_from(ask.Address));
        let at = at.map_err(|_| STATUS_INVALID_PARAMETER);
        let done = match ask.Operation {
            SOFTNDK_TEST_LINK_NEXT => return Ok(next(link, room)?),
            SOFTNDK_TEST_LINK_LEND => return Ok(lend(link, ask, room)?),
            SOFTNDK_TEST_LINK_COPY => {
                let room = room.get_mut(..ask.Length as usize).ok_or(STATUS_BUFFER_TOO_SMALL)?;
                link.copy(ask.Place, at?, room)?;
                return Ok(SOFTNDK_TEST_LINK_RESULT { Length: ask.Length, ..result() });
            }
            SOFTNDK_TEST_LINK_SEND => link.send(bytes, (ask.Access == 1).then_some(ask.Token)),
            SOFTNDK_TEST_LINK_TAKE_BACK => link.take_back(ask.Place),
            SOFTNDK_TEST_LINK_READ => link.read(ask.Place, ask.Length, remote),
            SOFTNDK_TEST_LINK_WRITE => link.write(ask.Place, ask.Length, remote),
            SOFTNDK_TEST_LINK_FILL => link.fill(ask.Place, at?, bytes),
            _ => Err(STATUS_INVALID_PARAMETER),
        };
        Ok(done.map(|()| result())?)
    }

    fn connect(
        &mut self,
        kernel: &K,
        ask: &SOFTNDK_TEST_LINK,
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_LINK_RESULT, Refused> {
        let (local, remote) = (address(&ask.Local)?, address(&ask.Remote)?);
        let adapter = self.adapters.open(kernel, None, passive)?;
        self.link = Some(Link::connect(&adapter, &self.wake, (local.ip(), remote), self.options, passive)?);
        Ok(result())
    }

    fn listen(
        &mut self,
        kernel: &K,
        ask: &SOFTNDK_TEST_LINK,
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_LINK_RESULT, Refused> {
        let local = address(&ask.Local)?;
        let adapter = self.adapters.open(kernel, None, passive)?;
        self.port = Some(Port::listen(&adapter, &self.wake, local, passive)?);
        Ok(result())
    }

    fn accept(&mut self, passive: &Passive<'_>) -> Result<SOFTNDK_TEST_LINK_RESULT, Refused> {
        let (Some(port), None) = (&self.port, &self.link) else { return Err(STATUS_INVALID_DEVICE_STATE.into()) };
        self.link = port.accept_waiting(self.options, passive)?;
        self.negotiates = false;
        let status = if self.link.is_some() { STATUS_SUCCESS } else { STATUS_PENDING };
        Ok(SOFTNDK_TEST_LINK_RESULT { Status: status, ..result() })
    }

    fn close(&mut self, passive: &Passive<'_>) -> Result<SOFTNDK_TEST_LINK_RESULT, Refused> {
        self.link.take().ok_or(STATUS_INVALID_DEVICE_STATE)?.close(passive)?;
        Ok(result())
    }
}

/// Returns the next event: a message, else a completion, else the end of the connection.
fn next<K: Kernel>(link: &Link<K>, room: &mut [u8]) -> Result<SOFTNDK_TEST_LINK_RESULT, NTSTATUS> {
    // Read first: messages and completions that came before the end are then found below.
    let ended = link.ended();
    let mut result = SOFTNDK_TEST_LINK_RESULT { Value: link.keepalives(), ..result() };
    if let Some(length) = link.message_length() {
        let room = room.get_mut(..length).ok_or(STATUS_BUFFER_TOO_SMALL)?;
        let message = link.receive().ok_or(STATUS_INVALID_DEVICE_STATE)?;
        room.copy_from_slice(&message.bytes);
        result.Kind = SOFTNDK_TEST_LINK_MESSAGE;
        result.Place = message.invalidated.is_some().into();
        result.Token = message.invalidated.unwrap_or(0);
        result.Length = u32::try_from(length).map_err(|_| STATUS_INVALID_PARAMETER)?;
    } else if let Some(done) = link.done() {
        (result.Kind, result.Place) = match done {
            Done::TakenBack(place) => (SOFTNDK_TEST_LINK_TAKEN_BACK, place),
            Done::Read(place) => (SOFTNDK_TEST_LINK_HAS_READ, place),
            Done::Written(place) => (SOFTNDK_TEST_LINK_HAS_WRITTEN, place),
        };
    } else if let Some(Failure { step, status }) = ended {
        (result.Status, result.Step) = (status, step as u32);
    }
    Ok(result)
}

fn lend<K: Kernel>(
    link: &mut Link<K>,
    ask: &SOFTNDK_TEST_LINK,
    room: &mut [u8],
) -> Result<SOFTNDK_TEST_LINK_RESULT, NTSTATUS> {
    let access = match ask.Access {
        1 => Access::Read,
        2 => Access::Write,
        _ => return Err(STATUS_INVALID_PARAMETER),
    };
    let room = room.first_chunk_mut().ok_or(STATUS_BUFFER_TOO_SMALL)?;
    let (descriptor, token) = link.lend(ask.Place, ask.Length as usize, access)?;
    *room = descriptor;
    Ok(SOFTNDK_TEST_LINK_RESULT { Token: token, Length: descriptor.len() as u32, ..result() })
}
