//! Who has our ends of SMB Direct: the device of this process, as the kernel of `tests/clients/smb-direct`, or the test consumer in softndk.sys.
#![expect(unsafe_code, reason = "implements the unsafe trait Kernel: memory goes by pointer")]

use std::{
    net::{IpAddr, SocketAddr},
    ptr::NonNull,
    sync::Arc,
};

use anyhow::Result;
use hosted::{Hosted, Mdl, passive};
use ndk_abi::{status::NTSTATUS, wdm::MDL};
use ndk_consumer::Pinned;
use smb_direct::{Access, Done, Failure, Kernel, Options};

use super::{
    driver::{self, Consumer},
    failed,
};
use crate::{
    device::{Device, Source},
    status::Named,
};

/// Who has them.
#[derive(Clone)]
pub(crate) enum On {
    /// A device of this process, with CRCs or without.
    Here { crc: bool },
    /// The driver.
    Driver(Arc<Consumer>),
}

impl On {
    /// Connects a client. What is left of the device is for [`Rest::close`].
    pub(super) fn connect(
        &self,
        addresses: (IpAddr, SocketAddr),
        options: Options,
    ) -> Result<(Box<dyn End>, Wake, Rest)> {
        match self {
            Self::Here { crc } => {
                let device = Device::new(addresses.0, *crc)?;
                let adapter = device.open()?;
                let wake = smb_direct::Wake::new().named("a wake")?;
                let link = Link::connect(&adapter, &wake, addresses, options, &passive()).map_err(failed)?;
                Ok((Box::new(link), Wake::Here(wake), Rest(Some(device))))
            }
            Self::Driver(consumer) => {
                let wake = driver::Wake::default();
                let link = consumer.connect(addresses, options, &wake).map_err(failed)?;
                Ok((Box::new(link), Wake::Driver(wake), Rest(None)))
            }
        }
    }

    /// Listens.
    pub(super) fn listen(&self, local: SocketAddr, options: Options) -> Result<(Port, Wake, Rest)> {
        match self {
            Self::Here { crc } => {
                let device = Device::new(local.ip(), *crc)?;
                let adapter = device.open()?;
                let wake = smb_direct::Wake::new().named("a wake")?;
                let port = smb_direct::Port::listen(&adapter, &wake, local, &passive()).map_err(failed)?;
                Ok((Port::Here(port, options), Wake::Here(wake), Rest(Some(device))))
            }
            Self::Driver(consumer) => {
                let wake = driver::Wake::default();
                let port = consumer.listen(local, options, &wake).map_err(failed)?;
                Ok((Port::Driver(port), Wake::Driver(wake), Rest(None)))
            }
        }
    }
}

/// What is left when links and ports are gone.
pub(super) struct Rest(Option<Device>);

impl Rest {
    pub(super) fn close(self) -> Result<()> {
        self.0.map_or(Ok(()), Device::close)
    }
}

/// Where clients connect to.
pub(super) enum Port {
    Here(smb_direct::Port<Source>, Options),
    Driver(driver::Link),
}

impl Port {
    pub(super) fn accept(&self) -> Result<Box<dyn End>> {
        match self {
            Self::Here(port, options) => Ok(Box::new(port.accept(*options, &passive()).map_err(failed)?)),
            Self::Driver(port) => Ok(Box::new(port.accept().map_err(failed)?)),
        }
    }
}

/// What wakes the thread that has a link or a port.
#[derive(Clone)]
pub(crate) enum Wake {
    Here(smb_direct::Wake<Source>),
    Driver(driver::Wake),
}

impl Wake {
    /// Ends a wait, or the next one.
    pub(super) fn ring(&self) {
        match self {
            Self::Here(wake) => wake.ring(),
            Self::Driver(wake) => wake.ring(),
        }
    }

    /// Ends all waits from now on.
    pub(super) fn stop(&self) {
        match self {
            Self::Here(wake) => wake.stop(),
            Self::Driver(wake) => wake.stop(),
        }
    }
}

/// A message that came.
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    pub(super) invalidated: Option<u32>,
}

/// An end of a connection: what [`smb_direct::Link`] does.
pub(super) trait End {
    fn negotiate(&self) -> Result<(), Failure>;
    fn wait(&self) -> Result<(), Failure>;
    fn receive(&self) -> Option<Message>;
    fn done(&self) -> Option<Done>;
    fn send(&self, message: &[u8], invalidate: Option<u32>) -> Result<(), NTSTATUS>;
    fn transfer_size(&self) -> u32;
    fn keepalives(&self) -> u64;
    fn lend(&mut self, place: u32, length: usize, access: Access) -> Result<([u8; 16], u32), NTSTATUS>;
    fn take_back(&self, place: u32) -> Result<(), NTSTATUS>;
    fn read(&self, place: u32, length: u32, memory: (u64, u32)) -> Result<(), NTSTATUS>;
    fn write(&self, place: u32, length: u32, memory: (u64, u32)) -> Result<(), NTSTATUS>;
    fn fill(&self, place: u32, bytes: &[u8]) -> Result<(), NTSTATUS>;
    fn copy(&self, place: u32, bytes: &mut [u8]) -> Result<(), NTSTATUS>;
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

type Link = smb_direct::Link<Source>;

impl End for Link {
    fn negotiate(&self) -> Result<(), Failure> {
        self.negotiate(&passive())
    }

    fn wait(&self) -> Result<(), Failure> {
        self.wait(&passive())
    }

    fn receive(&self) -> Option<Message> {
        let smb_direct::Message { bytes, invalidated } = self.receive()?;
        Some(Message { bytes: bytes.to_vec(), invalidated })
    }

    fn done(&self) -> Option<Done> {
        self.done()
    }

    fn send(&self, message: &[u8], invalidate: Option<u32>) -> Result<(), NTSTATUS> {
        self.send(message, invalidate)
    }

    fn transfer_size(&self) -> u32 {
        self.transfer_size()
    }

    fn keepalives(&self) -> u64 {
        self.keepalives()
    }

    fn lend(&mut self, place: u32, length: usize, access: Access) -> Result<([u8; 16], u32), NTSTATUS> {
        self.lend(place, length, access)
    }

    fn take_back(&self, place: u32) -> Result<(), NTSTATUS> {
        self.take_back(place)
    }

    fn read(&self, place: u32, length: u32, memory: (u64, u32)) -> Result<(), NTSTATUS> {
        self.read(place, length, memory)
    }

    fn write(&self, place: u32, length: u32, memory: (u64, u32)) -> Result<(), NTSTATUS> {
        self.write(place, length, memory)
    }

    fn fill(&self, place: u32, bytes: &[u8]) -> Result<(), NTSTATUS> {
        self.fill(place, 0, bytes)
    }

    fn copy(&self, place: u32, bytes: &mut [u8]) -> Result<(), NTSTATUS> {
        self.copy(place, 0, bytes)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        (*self).close(&passive())
    }
}

// SAFETY: the MDL is of the memory that was given.
unsafe impl Kernel for Source {
    type Platform = Hosted;
    type Mdl = Described;

    unsafe fn describe(memory: NonNull<u8>, length: usize) -> Option<Described> {
        // SAFETY: the caller keeps the memory for longer than the MDL.
        Some(Described(unsafe { Mdl::lock(memory, length) }))
    }

    fn address(&self) -> Option<IpAddr> {
        None
    }
}

/// An MDL.
pub(crate) struct Described(Mdl);

// SAFETY: the first of a chain that lives until it is dropped.
unsafe impl Pinned for Described {
    fn mdl(&self) -> NonNull<MDL> {
        // SAFETY: never null.
        unsafe { NonNull::new_unchecked(self.0.as_ptr()) }
    }
}
