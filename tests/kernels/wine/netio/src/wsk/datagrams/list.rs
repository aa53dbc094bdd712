//! The memory of a list of datagrams: one block has the indications, their MDLs, addresses and bytes.
//!
//! When the client has given a list back, the block is filled with a pattern: a pointer of the pattern faults, a length of it is too long. The
//! block is freed after some more lists, or when the client is deregistered; a client that has written to it by then is reported.

use std::{
    collections::VecDeque,
    ptr::null_mut,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use kernel::{object, violation};
use ndk_abi::{
    sockaddr::SOCKADDR_INET,
    wdm::{MDL, MDL_MAPPED_TO_SYSTEM_VA, MDL_PAGES_LOCKED, MDL_SOURCE_IS_NONPAGED_POOL},
    wsk::{WSK_BUF, WSK_DATAGRAM_INDICATION},
};

use super::Datagram;
use crate::{lock, parameter};

const OBJECT: &str = "WSK datagram list";
const PATTERN: u64 = 0xDEAD_A7A6_DEAD_A7A6;
const PAGE: usize = 0x1000;

/// Lists that are kept after the client has given them back.
const KEPT: usize = 64;

static ENDED: Mutex<VecDeque<List>> = Mutex::new(VecDeque::new());

/// Where the first MDL of a datagram ends.
#[derive(Clone, Copy)]
enum Split {
    Never,
    Behind(usize),
    Middle,
}

/// How the bytes of a datagram lie: bytes before them in the first MDL, where that MDL ends, bytes behind them in the last MDL, and by how
/// much the memory of each MDL misses an aligned address.
struct Shape {
    before: usize,
    split: Split,
    behind: usize,
    misaligned: usize,
}

const SHAPES: [Shape; 6] = [
    Shape { before: 0, split: Split::Never, behind: 0, misaligned: 0 },
    Shape { before: 42, split: Split::Never, behind: 4, misaligned: 2 },
    Shape { before: 0, split: Split::Middle, behind: 0, misaligned: 0 },
    Shape { before: 8, split: Split::Behind(1), behind: 0, misaligned: 1 },
    Shape { before: 28, split: Split::Behind(14), behind: 60, misaligned: 0 },
    Shape { before: 1, split: Split::Middle, behind: 1, misaligned: 3 },
];

/// Kinds of MDL that the system can read: of pool, and of memory that was mapped.
const FLAGS: [u16; 2] = [MDL_SOURCE_IS_NONPAGED_POOL, MDL_MAPPED_TO_SYSTEM_VA | MDL_PAGES_LOCKED];

/// Indications in memory of their own.
pub(super) struct List {
    memory: *mut [u64],
    head: *mut WSK_DATAGRAM_INDICATION,
}

// SAFETY: the block belongs to the list, on whichever thread the list is.
unsafe impl Send for List {}

impl List {
    pub(super) fn new(datagrams: &[Datagram]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let words: usize = datagrams.iter().map(|datagram| most_bytes(datagram.bytes.len()) / size_of::<u64>()).sum();
        let memory = Box::into_raw(vec![PATTERN; words].into_boxed_slice());
        let mut room = Room { next: memory.cast(), left: words * size_of::<u64>() };
        let mut head = null_mut();
        // From the last to the first, so that each knows the next.
        for datagram in datagrams.iter().rev() {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            head = room.indication(
                datagram,
                &SHAPES[count % SHAPES.len()],
                FLAGS[count / SHAPES.len() % FLAGS.len()],
                head,
            );
        }
        object(OBJECT, 1);
        Self { memory, head }
    }

    /// The first indication, which is what the client gets.
    pub(super) fn head(&self) -> *mut WSK_DATAGRAM_INDICATION {
        self.head
    }

    /// The client does not have it any more.
    pub(super) fn end(self) {
        if is_unchecked() {
            object(OBJECT, -1);
            // SAFETY: made by `new`, and not in use.
            return drop(unsafe { Box::from_raw(self.memory) });
        }
        // SAFETY: its memory; the client has given it back.
        unsafe { (*self.memory).fill(PATTERN) };
        object(OBJECT, -1);
        let mut ended = lock(&ENDED);
        ended.push_back(self);
        let oldest = if ended.len() > KEPT { ended.pop_front() } else { None };
        drop(ended);
        oldest.into_iter().for_each(Self::free);
    }

    fn free(self) {
        // SAFETY: made by `new`, and not in use.
        let memory = unsafe { Box::from_raw(self.memory) };
        if memory.iter().any(|word| *word != PATTERN) {
            violation("the client has written to datagrams that it had given back");
        }
    }
}

/// For benchmarks: the parameter `Unchecked`. What the client gives back is freed at once.
fn is_unchecked() -> bool {
    static UNCHECKED: OnceLock<bool> = OnceLock::new();
    *UNCHECKED.get_or_init(|| parameter("Unchecked").is_some_and(|value| value == "1"))
}

/// Whether the client had this list, and has given it back a short time ago.
pub(super) fn is_ended(head: usize) -> bool {
    lock(&ENDED).iter().any(|list| list.head as usize == head)
}

/// A client goes: what it has given back has not changed since.
pub(in crate::wsk) fn check() {
    let ended = std::mem::take(&mut *lock(&ENDED));
    ended.into_iter().for_each(List::free);
}

fn mdl_bytes(bytes: usize) -> usize {
    size_of::<MDL>() + (bytes / PAGE + 2) * size_of::<usize>()
}

/// What a datagram takes at most: of the shapes, all that comes beside its bytes is less than a page.
fn most_bytes(bytes: usize) -> usize {
    let beside = size_of::<WSK_DATAGRAM_INDICATION>() + size_of::<SOCKADDR_INET>() + PAGE / 4;
    (bytes + beside + 2 * mdl_bytes(bytes)).next_multiple_of(size_of::<u64>())
}

/// What is left of a block.
struct Room {
    next: *mut u8,
    left: usize,
}

impl Room {
    /// A place that is aligned for all that lies in a list.
    fn take(&mut self, bytes: usize) -> *mut u8 {
        let bytes = bytes.next_multiple_of(size_of::<u64>());
        assert!(bytes <= self.left, "a list of datagrams is longer than its block");
        let place = self.next;
        self.next = place.wrapping_add(bytes);
        self.left -= bytes;
        place
    }

    /// A datagram, in this shape.
    fn indication(
        &mut self,
        datagram: &Datagram,
        shape: &Shape,
        flags: u16,
        next: *mut WSK_DATAGRAM_INDICATION,
    ) -> *mut WSK_DATAGRAM_INDICATION {
        let length = datagram.bytes.len();
        let first = match shape.split {
            Split::Never => length,
            Split::Behind(count) => count.min(length),
            Split::Middle => length.div_ceil(2),
        };
        let (first, second) = datagram.bytes.split_at(first);
        let behind = if second.is_empty() { shape.behind } else { 0 };
        // A datagram without bytes has no MDL.
        let mut mdl = null_mut();
        if length > 0 {
            mdl = self.mdl(shape, shape.before, first, behind, flags);
        }
        if !second.is_empty() {
            let second = self.mdl(shape, 0, second, shape.behind, flags);
            // SAFETY: the MDL that was written.
            unsafe { (*mdl).Next = second };
        }
        let address = self.take(size_of::<SOCKADDR_INET>()).cast::<SOCKADDR_INET>();
        let indication = self.take(size_of::<WSK_DATAGRAM_INDICATION>()).cast::<WSK_DATAGRAM_INDICATION>();
        let offset = if length > 0 { shape.before as u32 } else { 0 };
        // SAFETY: places of these sizes, aligned.
        unsafe {
            address.write(datagram.from);
            indication.write(WSK_DATAGRAM_INDICATION {
                Next: next,
                Buffer: WSK_BUF { Mdl: mdl, Offset: offset, Length: length },
                ControlInfo: null_mut(),
                ControlInfoLength: 0,
                RemoteAddress: address.cast(),
            });
        }
        indication
    }

    /// Bytes, with other bytes before and behind them, and their MDL.
    fn mdl(&mut self, shape: &Shape, before: usize, bytes: &[u8], behind: usize, flags: u16) -> *mut MDL {
        let count = before + bytes.len() + behind;
        let start = self.take(shape.misaligned + count).wrapping_add(shape.misaligned);
        // SAFETY: within this block.
        unsafe { start.add(before).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        let in_page = start as usize % PAGE;
        let pages = (in_page + count).div_ceil(PAGE);
        let size = size_of::<MDL>() + pages * size_of::<usize>();
        let mdl = self.take(size).cast::<MDL>();
        // SAFETY: a place for an MDL and the numbers of its pages, aligned.
        unsafe {
            mdl.write(MDL {
                Next: null_mut(),
                Size: size as u16,
                MdlFlags: flags,
                Process: null_mut(),
                MappedSystemVa: start.cast(),
                StartVa: start.wrapping_sub(in_page).cast(),
                ByteCount: count as u32,
                ByteOffset: in_page as u32,
            });
            for page in 0..pages {
                mdl.add(1).cast::<usize>().add(page).write(start as usize / PAGE + page);
            }
        }
        mdl
    }
}
