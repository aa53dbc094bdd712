//! A TAP interface: each read is a frame that Linux sends, each write a frame that it receives.
#![expect(unsafe_code, reason = "an ioctl takes a structure of the kernel's")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::ioctl::{Setter, ioctl, opcode};
use vxlan::ethernet::MacAddress;

/// `ifreq` of linux/if.h, as TUNSETIFF reads it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    _rest: [u8; 22],
}

/// IFF_TAP and IFF_NO_PI of linux/if_tun.h: frames, with nothing before them.
const FLAGS: u16 = 0x0002 | 0x1000;
const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);

pub(crate) struct Tap {
    file: File,
    /// The address that Linux gave the interface.
    pub(crate) address: MacAddress,
}

impl Tap {
    /// Opens an interface that `ip tuntap add` has made.
    pub(crate) fn open(name: &str) -> Result<Self> {
        let mut request = Request { name: [0; 16], flags: FLAGS, _rest: [0; 22] };
        ensure!(name.len() < request.name.len(), "{name} is longer than a name may be");
        request.name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        let file =
            OpenOptions::new().read(true).write(true).open("/dev/net/tun").context("cannot open /dev/net/tun")?;
        // SAFETY: TUNSETIFF reads an `ifreq`, which `Request` is.
        let setter = unsafe { Setter::<TUNSETIFF, Request>::new(request) };
        // SAFETY: as above.
        unsafe { ioctl(&file, setter) }.with_context(|| format!("cannot attach to the TAP interface {name}"))?;
        let text = fs::read_to_string(Path::new("/sys/class/net").join(name).join("address"))?;
        let mut address = MacAddress::default();
        for (byte, digits) in address.0.iter_mut().zip(text.trim().split(':')) {
            *byte = u8::from_str_radix(digits, 16)?;
        }
        Ok(Self { file, address })
    }

    pub(crate) fn read(&self, frame: &mut [u8]) -> Result<usize> {
        Ok((&self.file).read(frame)?)
    }

    pub(crate) fn write(&self, frame: &[u8]) -> Result<()> {
        // The interface may be down.
        (&self.file).write_all(frame).context("the TAP interface takes no frame")
    }
}
