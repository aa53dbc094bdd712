//! A TAP interface of Linux behind the adapter: TCP/IP of Linux is then the protocol that is bound to the miniport.
//!
//! Linux leaves to the miniport what the miniport takes: TCP checksums, and large sends (struct virtio_net_hdr before each frame). What Linux leaves
//! beyond that, as UDP's checksums, this module does.
//!
//! It is there if the adapter has a parameter `TapInterface`, the name of an interface, from the end of the checks until the adapter is halted.
//! Linux makes the interface, unless it has one of that name (networking/tuntap). A thread sends the frames that Linux sends; frames that
//! the miniport indicates go to Linux within the indication. Where the interface is full, or down, they are lost, as on a cable.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, atomic::Ordering},
    thread::JoinHandle,
};

use kernel::{
    linux::{Errno, File, Syscall, call, plain},
    violation,
};

use super::{
    batch::{Batch, HEADER, Info},
    begin,
    coalesced::Unit,
    finish, is_back, unchecked,
    virtio::{self, VirtioHeader},
};
use crate::{
    adapter::{Adapter, State},
    lock,
    offload::{IPV4, IPV6, Offloads},
    registry,
};

const KEYWORD: &str = "TapInterface";
/// Frames that go to the miniport in one call, at most.
const BURST: usize = 32;
/// Calls whose frames the miniport may have before the thread waits for the first of them.
const OUTSTANDING: usize = 64;
/// No frame of an interface is longer.
const ROOM: usize = 0x1_0000;

const O_RDWR: usize = 2;
/// Not for the programs that Wine starts; and no call waits. The numbers are those of eventfd2 too.
const CLOEXEC: usize = 0o2_000_000;
const NONBLOCK: usize = 0o4_000;
const TUNSETIFF: usize = 0x4004_54CA;
/// Of linux/sockios.h, and the family of an Ethernet address (linux/if_arp.h).
const SIOCSIFHWADDR: usize = 0x8924;
const ARPHRD_ETHER: u16 = 1;
const IFF_TAP: u16 = 2;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const TUNSETOFFLOAD: usize = 0x4004_54D0;
const TUN_F_CSUM: usize = 1;
const TUN_F_TSO4: usize = 2;
const TUN_F_TSO6: usize = 4;
const TUN_F_TSO_ECN: usize = 8;
const POLLIN: i16 = 1;

/// struct ifreq. `kind`: its flags, or the family of its address.
#[repr(C)]
struct Request {
    name: [u8; 16],
    kind: u16,
    rest: [u8; 22],
}

/// struct iovec.
#[repr(C)]
struct Part {
    start: *const u8,
    length: usize,
}

/// struct pollfd.
#[repr(C)]
struct Polled {
    file: File,
    events: i16,
    happened: i16,
}

/// A file that is closed when it is dropped.
struct Owned(File);

impl Drop for Owned {
    fn drop(&mut self) {
        let _closed_anyhow = plain(Syscall::Close, self.0, [0, 0]);
    }
}

/// An open interface.
pub(super) struct Tap {
    file: Owned,
    /// Ends the wait for frames for good.
    bell: Owned,
}

impl Tap {
    /// Opens an interface, and gives it the adapter's address.
    fn open(name: &str, address: [u8; 6]) -> Result<Self, Errno> {
        const EINVAL: Errno = Errno(22);
        let mut request = Request { name: [0; 16], kind: IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, rest: [0; 22] };
        // With a NUL behind it.
        let place = request.name[..15].get_mut(..name.len()).ok_or(EINVAL)?;
        place.copy_from_slice(name.as_bytes());
        let device = c"/dev/net/tun".as_ptr().expose_provenance();
        // SAFETY: a NUL-terminated path.
        let file = unsafe { call(Syscall::Open, [device, O_RDWR | CLOEXEC | NONBLOCK, 0, 0, 0, 0]) }?;
        let file = Owned(file as File);
        let control = |code: usize, request: &mut Request| {
            let request = (&raw mut *request).expose_provenance();
            // SAFETY: a request, which is read and written.
            unsafe { call(Syscall::Ioctl, [file.0 as usize, code, request, 0, 0, 0]) }
        };
        control(TUNSETIFF, &mut request)?;
        request.kind = ARPHRD_ETHER;
        request.rest[..6].copy_from_slice(&address);
        control(SIOCSIFHWADDR, &mut request)?;
        let bell = plain(Syscall::EventFd2, 0, [CLOEXEC | NONBLOCK, 0])?;
        Ok(Self { file, bell: Owned(bell as File) })
    }

    /// Hands a frame to Linux, if Linux takes it. Linux looks at the checksums of a frame that is no unit.
    pub(super) fn write(&self, frame: &[u8], unit: Option<&Unit>) {
        self.write_parts(&[frame], unit);
    }

    /// As [`Self::write`], of a frame in parts, the first of which has all headers.
    pub(super) fn write_parts(&self, frame: &[&[u8]], unit: Option<&Unit>) {
        let length = frame.iter().map(|part| part.len()).sum();
        let (start, others) = frame.split_first().map_or((&[][..], frame), |(start, others)| (*start, others));
        let (headers, payload) = start.split_at(unit.map_or(0, |unit| unit.headers));
        let mut headers = headers.to_vec();
        let header = unit.map_or([0; virtio::HEADER], |unit| virtio::to_linux(unit, &mut headers, length));
        let parts = [&header[..], &headers, payload].into_iter().chain(others.iter().copied());
        let parts = parts.map(|part| Part { start: part.as_ptr(), length: part.len() }).collect::<Vec<_>>();
        let place = parts.as_ptr().expose_provenance();
        // SAFETY: parts, which are read.
        let _lost = unsafe { call(Syscall::WriteV, [self.file.0 as usize, place, parts.len(), 0, 0, 0]) };
    }

    /// Tells Linux what it may leave to the miniport.
    fn offload(&self, offloads: &Offloads) {
        let large =
            [(IPV4, TUN_F_TSO4), (IPV6, TUN_F_TSO6)].map(|(version, flag)| match offloads.large_send[version] {
                Some(_) => flag | TUN_F_TSO_ECN,
                None => 0,
            });
        let large = large[0] | large[1];
        let checksums = offloads.tcp_checksum.contains(&true) || large != 0;
        let flags = large | if checksums { TUN_F_CSUM } else { 0 };
        if plain(Syscall::Ioctl, self.file.0, [TUNSETOFFLOAD, flags]).is_err() {
            violation("stand-in: Linux does not take the offloads");
        }
    }

    /// The next frame, if Linux has sent one.
    fn read<'a>(&self, room: &'a mut [u8]) -> Option<&'a [u8]> {
        let place = room.as_mut_ptr().expose_provenance();
        // SAFETY: as many bytes, which are written.
        let length = unsafe { call(Syscall::Read, [self.file.0 as usize, place, room.len(), 0, 0, 0]) };
        room.get(..length.ok()?)
    }

    /// Waits for a frame. False: the bell has rung, or there will be none.
    fn wait(&self) -> bool {
        let polled = |file: &Owned| Polled { file: file.0, events: POLLIN, happened: 0 };
        let mut files = [polled(&self.file), polled(&self.bell)];
        let place = files.as_mut_ptr().expose_provenance();
        // SAFETY: the number of files is the array's; -1: without a limit of time.
        let result = unsafe { call(Syscall::Poll, [place, files.len(), usize::MAX, 0, 0, 0]) };
        if files[1].happened != 0 {
            return false;
        }
        if result.is_err() || files[0].happened & !POLLIN != 0 {
            violation(&format!("stand-in: the TAP interface has gone: poll says {:#x}", files[0].happened));
            return false;
        }
        true
    }

    fn ring(&self) {
        let one = 1_u64;
        let place = (&raw const one).expose_provenance();
        // SAFETY: eight bytes, which are read.
        let _rung = unsafe { call(Syscall::Write, [self.bell.0 as usize, place, 8, 0, 0, 0]) };
    }
}

/// The interface of an adapter, if the adapter has one.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Option<(Arc<Tap>, JoinHandle<()>)>>);

impl Slot {
    pub(super) fn get(&self) -> Option<Arc<Tap>> {
        lock(&self.0).as_ref().map(|(tap, _)| Arc::clone(tap))
    }

    /// Opens what the adapter's configuration names. PASSIVE_LEVEL.
    pub(crate) fn open(&self, adapter: &Arc<Adapter>) {
        let Some(name) = registry::text_parameter(&adapter.driver.service, adapter.number, KEYWORD) else { return };
        if name.is_empty() {
            return;
        }
        let address = lock(&adapter.attributes).mac_address;
        adapter.packets.unchecked.store(unchecked::is_wanted(adapter), Ordering::Relaxed);
        match Tap::open(&name, address) {
            Ok(tap) => {
                let (tap, adapter) = (Arc::new(tap), Arc::clone(adapter));
                let sender = Arc::clone(&tap);
                let thread = std::thread::spawn(move || send(&adapter, &sender));
                *lock(&self.0) = Some((tap, thread));
                kernel::trace(&format!("ndis: TAP interface {name} opened"));
            }
            Err(Errno(errno)) => violation(&format!("stand-in: the TAP interface {name}: errno {errno}")),
        }
    }

    /// Closes it, when the miniport has completed all that came from it. PASSIVE_LEVEL.
    pub(crate) fn close(&self) {
        let Some((tap, thread)) = lock(&self.0).take() else { return };
        tap.ring();
        if thread.join().is_err() {
            violation("stand-in: the thread of the TAP interface panicked");
        }
    }
}

/// Sends what Linux sends, three times in four at DISPATCH_LEVEL, with one to three frames in a list. While the adapter is not running it is
/// lost.
fn send(adapter: &Adapter, tap: &Tap) {
    let longest = lock(&adapter.attributes).mtu as usize + HEADER;
    let mut room = vec![0; ROOM];
    let (mut sent, mut bursts) = (VecDeque::new(), 0_usize);
    // Linux may remember what another run has told it.
    let mut told = None;
    let (mut large_sends, mut checksums) = (0_u64, 0_u64);
    while tap.wait() {
        let current = lock(&adapter.attributes).offloads.map(|state| state.current).unwrap_or_default();
        if told != Some(current) {
            told = Some(current);
            tap.offload(&current);
        }
        let mut frames: Vec<(Vec<u8>, Info)> = vec![];
        while frames.len() < BURST
            && let Some(read) = tap.read(&mut room)
        {
            let Some((header, frame)) = VirtioHeader::of(read) else { continue };
            let mut frame = frame.to_vec();
            let info = header.info(&mut frame, &current);
            let most = current.large_send.iter().flatten().min();
            if let Some(headers) = info.headers
                && most.is_none_or(|most| frame.len() - headers > *most as usize)
            {
                violation("stand-in: Linux leaves more to a large send than the miniport takes");
            }
            large_sends += u64::from(info.large_send != 0);
            checksums += u64::from(info.checksums != 0);
            let fits = info.large_send != 0 || (HEADER..=longest).contains(&frame.len());
            if fits {
                frames.push((frame, info));
            }
        }
        if frames.is_empty() || adapter.state() != State::Running {
            continue;
        }
        // What the transport asks for is for all frames of a list, and a large send is one frame.
        let most = 1 + bursts % 3;
        let lists: Vec<(Vec<Vec<u8>>, Info)> = frames
            .chunk_by(|(_, one), (_, other)| one == other && one.large_send == 0)
            .flat_map(|alike| alike.chunks(most))
            .map(|chunk| (chunk.iter().map(|(frame, _)| frame.clone()).collect(), chunk[0].1))
            .collect();
        let batch = Batch::with_info(lists.iter().map(|(frames, info)| (&frames[..], *info)));
        begin(adapter, &batch, !bursts.is_multiple_of(4));
        bursts += 1;
        sent.push_back(batch);
        while sent.front().is_some_and(|first| sent.len() >= OUTSTANDING || is_back(adapter, first)) {
            sent.pop_front().map(|batch| finish(adapter, batch));
        }
    }
    for batch in sent {
        finish(adapter, batch);
    }
    kernel::trace(&format!("ndis: left to the miniport: {large_sends} {checksums} large sends and checksums"));
}
