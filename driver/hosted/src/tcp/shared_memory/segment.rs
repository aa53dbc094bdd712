//! [`Segment`]: memory that the two processes of a connection map, of a file.
//!
//! The connecting side makes the file, with a [`Header`] only; the accepting side adds the rings. The file's name is the connection's addresses,
//! which one connection has at a time. The file is of the user alone (Linux: mode 0600, and the accepting side checks the
//! owner; Windows: the user's folder for temporary files). On Linux its maker holds a lock of it while it is offered, which tells it from
//! the file of a process that was killed; Windows deletes such a file.
#![expect(unsafe_code, reason = "memory that another process changes")]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek as _, SeekFrom, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Mutex, Once, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use memmap2::{MmapOptions, MmapRaw};

use super::Wants;

/// The bytes of a ring; there is one for each direction.
pub(super) const RING: usize = 512 << 10;
/// The bytes before the rings.
const HEADER: usize = 4 << 10;
const SIZE: usize = HEADER + 2 * RING;
/// The most segments of a process, of 1 MiB each. Further connections go by TCP.
const SEGMENTS: usize = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"SoftNDK1");
const PREFIX: &str = "softndk-";

/// Of [`SenderWords::unused`]: no bytes.
pub(super) const NOWHERE: u64 = u64::MAX;

/// The states of an offer. A mapped file begins with zeros.
const OFFERED: u32 = 0;
const ACCEPTED: u32 = 1;
const REFUSED: u32 = 2;

/// Of [`SenderWords::by_tcp`]: more bytes may follow by TCP.
const UNKNOWN: u64 = u64::MAX;

/// A side of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Connecting,
    Accepting,
}

/// Words of their own cache lines.
#[repr(C, align(128))]
pub(super) struct Lines<T>(pub(super) T);

/// What one side tells the other.
#[repr(C)]
pub(super) struct Words {
    pub(super) sender: Lines<SenderWords>,
    /// The position in the other side's ring up to which this side has read.
    pub(super) received: Lines<AtomicU64>,
    /// Why this side has to be woken: bits of `shared_memory::Wants`. The other side clears them.
    pub(super) wants: Lines<AtomicU32>,
}

#[repr(C)]
pub(super) struct SenderWords {
    /// The position in its ring up to which this side has written.
    pub(super) sent: AtomicU64,
    /// The bytes that this side sent by TCP, before all that it writes to its ring; what it sends by TCP after them are bells.
    pub(super) by_tcp: AtomicU64,
    /// The position in its ring from which on this side has left the bytes up to the ring's end unused, the last time.
    pub(super) unused: AtomicU64,
    /// Not 0: this side writes no more.
    pub(super) finished: AtomicU32,
}

#[repr(C)]
struct Header {
    magic: AtomicU64,
    state: AtomicU32,
    sides: [Words; 2],
}
const _: () = assert!(size_of::<Header>() <= HEADER);

/// The segments of this process.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// One of the segments that a process may have.
struct Counted;

impl Counted {
    fn new() -> Option<Self> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Its drop takes it back.
        Some(Self).filter(|_| count < SEGMENTS)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The file of an offer, deleted when dropped.
struct Offer {
    /// Holds the lock.
    file: File,
    path: PathBuf,
}

impl Drop for Offer {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.path);
    }
}

/// Two rings, and the words about them.
pub(super) struct Segment {
    header: MmapRaw,
    rings: OnceLock<MmapRaw>,
    side: Side,
    /// Of the connecting side, until the offer is accepted or refused.
    offer: Mutex<Option<Offer>>,
    _counted: Counted,
}

impl Segment {
    fn new(file: &File, side: Side, offer: Option<Offer>) -> Option<Self> {
        let _counted = Counted::new()?;
        let header = MmapOptions::new().len(HEADER).map_raw(file).ok()?;
        Some(Self { header, rings: OnceLock::new(), side, offer: Mutex::new(offer), _counted })
    }

    /// Makes and offers a segment, before the first byte of the connection is sent.
    pub(super) fn offer(local: SocketAddr, remote: SocketAddr) -> Option<Self> {
        static SWEPT: Once = Once::new();
        let folder = system::folder();
        SWEPT.call_once(|| sweep(&folder));
        let path = folder.join(name(local, remote)?);
        let create = || system::owned(OpenOptions::new().read(true).write(true).create_new(true)).open(&path);
        // One that exists is of an earlier connection: a stopped process has not noticed its end.
        let mut file = create().or_else(|_| fs::remove_file(&path).and_then(|()| create())).ok()?;
        let offer = Offer { file: file.try_clone().ok()?, path };
        if system::HAS_LOCKS {
            offer.file.try_lock().ok()?;
        }
        reserve(&mut file, HEADER).ok()?;
        let segment = Self::new(&file, Side::Connecting, Some(offer))?;
        for words in &segment.header().sides {
            words.wants.0.store(Wants::Data as u32, Ordering::Relaxed);
            words.sender.0.by_tcp.store(UNKNOWN, Ordering::Relaxed);
            words.sender.0.unused.store(NOWHERE, Ordering::Relaxed);
        }
        segment.header().magic.store(MAGIC, Ordering::Release);
        Some(segment)
    }

    /// Accepts what the peer has offered, before the first byte is sent to it. `None`: it has offered nothing.
    pub(super) fn accept(local: SocketAddr, remote: SocketAddr) -> Option<Self> {
        let path = system::folder().join(name(remote, local)?);
        let mut file = system::owned(OpenOptions::new().read(true).write(true)).open(&path).ok()?;
        let is_stale = || system::HAS_LOCKS && file.try_lock().is_ok();
        if !system::is_own(&file).ok()? || file.metadata().ok()?.len() != HEADER as u64 || is_stale() {
            return None;
        }
        let segment = Self::new(&file, Side::Accepting, None)?;
        if segment.header().magic.load(Ordering::Acquire) != MAGIC {
            return None;
        }
        file.seek(SeekFrom::Start(HEADER as u64)).ok()?;
        reserve(&mut file, SIZE - HEADER).ok()?;
        segment.map_rings(&file)?;
        if !segment.decide(ACCEPTED) {
            return None;
        }
        // The peer does so too, unless it is killed before it sees the acceptance.
        let _gone = fs::remove_file(path);
        Some(segment)
    }

    fn map_rings(&self, file: &File) -> Option<()> {
        let rings = MmapOptions::new().offset(HEADER as u64).len(SIZE - HEADER).map_raw(file).ok()?;
        self.rings.set(rings).ok()
    }

    /// The connecting side has seen the acceptance. `None`: there are no rings, so the connection is lost.
    pub(super) fn join(&self) -> Option<()> {
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.rings.get().is_some() {
            return Some(());
        }
        let offer = offer.take()?;
        if offer.file.metadata().ok()?.len() != SIZE as u64 {
            return None;
        }
        self.map_rings(&offer.file)
    }

    /// Takes the offer back. False: the peer has accepted it.
    pub(super) fn refuse(&self) -> bool {
        let refused = self.decide(REFUSED) || self.is_refused();
        if refused {
            drop(self.offer.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        refused
    }

    fn decide(&self, decision: u32) -> bool {
        self.header().state.compare_exchange(OFFERED, decision, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.header().state.load(Ordering::Acquire) == ACCEPTED
    }

    pub(super) fn is_refused(&self) -> bool {
        self.header().state.load(Ordering::Acquire) == REFUSED
    }

    /// The number of bytes that this side, or the peer, sent by TCP before all others, once it is known.
    pub(super) fn by_tcp(words: &Words) -> Option<u64> {
        let by_tcp = words.sender.0.by_tcp.load(Ordering::Acquire);
        Some(by_tcp).filter(|by_tcp| *by_tcp != UNKNOWN)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping has more bytes, begins at a page, and consists of atomics, for which all bytes are valid.
        unsafe { &*self.header.as_ptr().cast::<Header>() }
    }

    pub(super) fn ours(&self) -> &Words {
        let [connecting, accepting] = &self.header().sides;
        if self.side == Side::Connecting { connecting } else { accepting }
    }

    pub(super) fn theirs(&self) -> &Words {
        let [connecting, accepting] = &self.header().sides;
        if self.side == Side::Connecting { accepting } else { connecting }
    }

    /// The first byte of the ring that `side` writes, once the rings are there.
    fn ring(&self, side: Side) -> Option<*mut u8> {
        let first = self.rings.get()?.as_mut_ptr();
        Some(first.wrapping_add(if side == Side::Connecting { 0 } else { RING }))
    }

    /// The first byte of the ring that this side writes.
    pub(super) fn our_ring(&self) -> Option<*mut u8> {
        self.ring(self.side)
    }

    /// The first byte of the ring that the peer writes.
    pub(super) fn their_ring(&self) -> Option<*const u8> {
        let side = if self.side == Side::Connecting { Side::Accepting } else { Side::Connecting };
        self.ring(side).map(<*mut u8>::cast_const)
    }
}

/// Adds `size` bytes to a file, and takes the memory for them: a write to a mapping that has none kills the process.
fn reserve(file: &mut File, size: usize) -> io::Result<()> {
    let zeros = [0; 16 << 10];
    let mut left = size;
    while left > 0 {
        left -= file.write(zeros.get(..left).unwrap_or(&zeros))?;
    }
    Ok(())
}

/// The name of the file of a connection from `connecting`. `None`: the machine cannot say in which network it is.
fn name(connecting: SocketAddr, accepting: SocketAddr) -> Option<String> {
    let address = |address: SocketAddr| format!("{}-{}", address.ip().to_string().replace(':', "."), address.port());
    let network = system::network().ok()?;
    Some(format!("{PREFIX}{network}-{}-{}", address(connecting), address(accepting)))
}

/// Deletes what processes of this user have left that were killed while they offered.
fn sweep(folder: &Path) {
    if !system::HAS_LOCKS {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(file) = system::owned(OpenOptions::new().read(true).write(true)).open(entry.path()) else { continue };
        if system::is_own(&file).unwrap_or(false) && file.try_lock().is_ok() {
            let _gone = fs::remove_file(entry.path());
        }
    }
}

#[cfg(unix)]
mod system {
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

    use super::{File, OpenOptions, Path, PathBuf, fs, io};

    pub(super) const HAS_LOCKS: bool = true;

    /// Memory, where there is such a folder.
    pub(super) fn folder() -> PathBuf {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
    }

    pub(super) fn owned(options: &mut OpenOptions) -> &OpenOptions {
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW)
    }

    /// Whether the file is this user's, and nobody else may open it.
    pub(super) fn is_own(file: &File) -> io::Result<bool> {
        let (file, own) = (file.metadata()?, fs::metadata("/proc/self")?);
        Ok(file.is_file() && file.uid() == own.uid() && file.mode() & 0o077 == 0)
    }

    /// The same addresses may be in use in several network namespaces.
    pub(super) fn network() -> io::Result<u64> {
        Ok(fs::metadata("/proc/self/ns/net")?.ino())
    }
}

#[cfg(windows)]
mod system {
    use std::os::windows::fs::OpenOptionsExt as _;

    use windows_sys::Win32::Storage::FileSystem::{FILE_ATTRIBUTE_TEMPORARY, FILE_FLAG_DELETE_ON_CLOSE};

    use super::{File, OpenOptions, PathBuf, io};

    pub(super) const HAS_LOCKS: bool = false;

    pub(super) fn folder() -> PathBuf {
        std::env::temp_dir()
    }

    /// Deleted with the last handle, also if the process is killed. Windows writes a temporary file to the disk only when it
    /// lacks memory.
    pub(super) fn owned(options: &mut OpenOptions) -> &OpenOptions {
        options.attributes(FILE_ATTRIBUTE_TEMPORARY).custom_flags(FILE_FLAG_DELETE_ON_CLOSE)
    }

    /// The folder is the user's.
    pub(super) fn is_own(_: &File) -> io::Result<bool> {
        Ok(true)
    }

    pub(super) fn network() -> io::Result<u64> {
        Ok(0)
    }
}
