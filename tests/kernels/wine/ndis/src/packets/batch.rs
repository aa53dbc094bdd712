//! Frames in the memory that NDIS describes them with.

use std::ffi::c_void;

use ndk_abi::{describe::ZeroInit, ndis::*, status::*, wdm::MDL};

/// NDIS 6.85's NET_BUFFER_LIST and NET_BUFFER are this long; drivers see the fields at their beginning.
#[repr(C, align(16))]
pub(super) struct List {
    pub(super) head: NET_BUFFER_LIST,
    pub(super) rest: [u8; 0x170 - size_of::<NET_BUFFER_LIST>()],
}

#[repr(C, align(16))]
pub(super) struct Buffer {
    pub(super) head: NET_BUFFER,
    pub(super) rest: [u8; 0xB0 - size_of::<NET_BUFFER>()],
}

/// Shortest Ethernet frame, without its check sum, and the header of one.
pub(super) const FRAME: usize = 60;
pub(super) const HEADER: usize = 14;
/// Bytes before a frame in its memory, which a miniport must skip.
const BEFORE: usize = 7;
/// Frames are cut into two pieces of memory here, in their destination.
const CUT: usize = 3;

pub(super) const BROADCAST: [u8; 6] = [0xFF; 6];
pub(super) const MULTICAST: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];
pub(super) const DIRECTED: [u8; 6] = [0x02, 0x53, 0x4F, 0x46, 0x54, 0x02];

/// A frame of `length` bytes, with an experimental Ethernet type (IEEE 802, local experimental 1).
pub(super) fn frame(destination: [u8; 6], source: [u8; 6], length: usize) -> Vec<u8> {
    let header = [&destination[..], &source, &[0x88, 0xB5]].concat();
    (0..length).map(|at| header.get(at).copied().unwrap_or(at as u8)).collect()
}

/// What a transport leaves to the miniport for the frames of a list (NET_BUFFER_LIST_INFO), and the bytes of headers, if it asks for a large send:
/// they are in one piece.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) checksums: u32,
    pub(super) large_send: u32,
    pub(super) headers: Option<usize>,
}

/// Lists of frames, linked, and all that belongs to them.
pub(super) struct Batch {
    pub(super) lists: Vec<*mut List>,
    buffers: Vec<*mut Buffer>,
    mdls: Vec<*mut MDL>,
    _memory: Vec<Box<[u8]>>,
}

// SAFETY: memory that belongs to the batch, whichever thread has it.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn new(lists: &[Vec<Vec<u8>>]) -> Self {
        Self::with_info(lists.iter().map(|frames| (&frames[..], Info::default())))
    }

    pub(super) fn with_info<'a>(lists: impl IntoIterator<Item = (&'a [Vec<u8>], Info)>) -> Self {
        let mut batch = Self { lists: vec![], buffers: vec![], mdls: vec![], _memory: vec![] };
        for (frames, info) in lists {
            let mut first: *mut NET_BUFFER = std::ptr::null_mut();
            for frame in frames.iter().rev() {
                first = batch.buffer(frame, info.headers.unwrap_or(CUT), first);
            }
            // A status that says whether the miniport has set another.
            let mut head =
                NET_BUFFER_LIST { FirstNetBuffer: first, Status: NDIS_STATUS_PENDING, ..NET_BUFFER_LIST::ZERO };
            for (place, value) in
                [(TcpIpChecksumNetBufferListInfo, info.checksums), (TcpLargeSendNetBufferListInfo, info.large_send)]
            {
                head.NetBufferListInfo[place] = std::ptr::without_provenance_mut(value as usize);
            }
            batch.lists.push(Box::into_raw(Box::new(List { head, rest: [0; _] })));
        }
        for pair in batch.lists.windows(2) {
            // SAFETY: two lists just made.
            unsafe { (*pair[0]).head.Next = pair[1].cast() };
        }
        batch
    }

    /// A NET_BUFFER for the bytes of a frame, in two pieces where it is long enough.
    fn buffer(&mut self, frame: &[u8], cut: usize, next: *mut NET_BUFFER) -> *mut NET_BUFFER {
        let (head, tail) = frame.split_at(cut.min(frame.len()));
        let mut following = std::ptr::null_mut();
        for (bytes, before) in [(tail, 0), (head, BEFORE)] {
            if bytes.is_empty() {
                continue;
            }
            let mut memory = [&[0xEE].repeat(before)[..], bytes].concat().into_boxed_slice();
            let length = memory.len() as u32;
            // SAFETY: the memory outlives its descriptor.
            let mdl = unsafe { IoAllocateMdl(memory.as_mut_ptr().cast(), length, 0, 0, std::ptr::null_mut()) };
            // SAFETY: a new descriptor of this process's memory.
            unsafe {
                MmBuildMdlForNonPagedPool(mdl);
                (*mdl).Next = following;
            }
            following = mdl;
            self.mdls.push(mdl);
            self._memory.push(memory);
        }
        let head = NET_BUFFER {
            Next: next,
            CurrentMdl: following,
            MdlChain: following,
            CurrentMdlOffset: BEFORE as u32,
            DataOffset: BEFORE as u32,
            DataLength: frame.len() as u32,
            ..NET_BUFFER::ZERO
        };
        let buffer = Box::into_raw(Box::new(Buffer { head, rest: [0; _] }));
        self.buffers.push(buffer);
        buffer.cast()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: the miniport has given all of it back; each was allocated here.
        unsafe {
            self.lists.iter().for_each(|list| drop(Box::from_raw(*list)));
            self.buffers.iter().for_each(|buffer| drop(Box::from_raw(*buffer)));
            self.mdls.iter().for_each(|mdl| IoFreeMdl(*mdl));
        }
    }
}

/// Descriptors of memory, with their bytes from an offset on that may lie beyond the first: the descriptor, where its bytes start, how many
/// they are.
///
/// # Safety
/// `mdl` is a chain of descriptors of memory that is mapped.
pub(super) unsafe fn pieces(mut mdl: *mut MDL, mut offset: usize) -> Vec<(*mut MDL, usize, usize)> {
    let mut found = vec![];
    while !mdl.is_null() {
        // SAFETY: passed on to the caller.
        let bytes = unsafe { (*mdl).ByteCount } as usize;
        if offset < bytes {
            found.push((mdl, offset, bytes - offset));
        }
        offset = offset.saturating_sub(bytes);
        // SAFETY: as above.
        mdl = unsafe { (*mdl).Next };
    }
    found
}

pub(super) fn frames_of(list: &NET_BUFFER_LIST) -> Vec<usize> {
    let mut frames = vec![];
    let mut next = list.FirstNetBuffer;
    while !next.is_null() {
        frames.push(next as usize);
        // SAFETY: a chain of this module's, which drivers leave as it is.
        next = unsafe { (*next).Next };
    }
    frames
}

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    pub(super) fn IoAllocateMdl(
        address: *mut c_void,
        length: u32,
        secondary: u8,
        quota: u8,
        irp: *mut c_void,
    ) -> *mut MDL;
    pub(super) fn MmBuildMdlForNonPagedPool(mdl: *mut MDL);
    pub(super) fn IoFreeMdl(mdl: *mut MDL);
}
