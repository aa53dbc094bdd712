//! Overlapped files of a process without the driver.
//!
//! The file that a program gets is an end of a pipe: a handle that completion ports take. A request makes no I/O on it while it is under
//! way. When it is over, a read that takes the program's context is begun and ended at once, by a message from the other end, or by a
//! cancellation if the request has failed: the system has the packet for the port then. Who has the port only the system knows.
#![expect(unsafe_code, reason = "calls into ntdll and kernel32")]

use std::{
    cell::UnsafeCell,
    ffi::c_void,
    hash::{BuildHasher as _, RandomState},
    mem::offset_of,
    process, ptr,
    sync::Mutex,
};

use ndk_abi::{
    softndk_ioctl::SOFTNDK_DIAGNOSTICS,
    status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_PENDING},
};
use windows_sys::{
    Wdk::Storage::FileSystem::{NtCancelIoFileEx, NtReadFile},
    Win32::{
        Foundation::{GENERIC_READ, GENERIC_WRITE},
        Storage::FileSystem::{
            CreateFileW, FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, FILE_NAME_INFO, FileNameInfo,
            GetFileInformationByHandleEx, OPEN_EXISTING, PIPE_ACCESS_DUPLEX, WriteFile,
        },
        System::{
            IO::{IO_STATUS_BLOCK, IO_STATUS_BLOCK_0},
            Pipes::{
                CreateNamedPipeW, PIPE_READMODE_MESSAGE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_MESSAGE, PeekNamedPipe,
            },
        },
    },
};

use crate::core::{handle::Handle, lock};

/// Where names of pipes begin for those who open them; the pipes themselves have `\` there.
const FOLDER: &str = r"\\.\pipe\";

/// More bytes than any request with an overlapped file returns.
const MOST_RETURNED: usize = 256;
const _: () = assert!(size_of::<SOFTNDK_DIAGNOSTICS>() <= MOST_RETURNED);

/// The other end of a program's overlapped file.
#[derive(Debug)]
pub(super) struct Pipe {
    end: Mutex<Handle>,
}

impl Pipe {
    /// A new pipe: its name, and the end that is for the program.
    pub(super) fn create() -> Result<(String, Handle, Self), NTSTATUS> {
        // Another process may not guess it, and connect first.
        let name = format!("softnd.{}.{:016x}", process::id(), RandomState::new().hash_one(()));
        let path: Vec<u16> = FOLDER.encode_utf16().chain(name.encode_utf16()).chain([0]).collect();
        let access = PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE;
        let mode = PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE | PIPE_REJECT_REMOTE_CLIENTS;
        let room = MOST_RETURNED as u32;
        // SAFETY: a terminated string; no attributes.
        let file = unsafe { CreateNamedPipeW(path.as_ptr(), access, mode, 1, room, room, 0, ptr::null()) };
        // SAFETY: new.
        let file = unsafe { Handle::own(file) }.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let (access, nothing) = (GENERIC_READ | GENERIC_WRITE, ptr::null_mut());
        // SAFETY: the same.
        let end = unsafe { CreateFileW(path.as_ptr(), access, 0, ptr::null(), OPEN_EXISTING, 0, nothing) };
        // SAFETY: new.
        let end = unsafe { Handle::own(end) }.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        Ok((name, file, Self { end: Mutex::new(end) }))
    }

    /// Whether the program's end is closed, with all handles to it.
    pub(super) fn is_abandoned(&self) -> bool {
        let (end, nothing) = (lock(&self.end), ptr::null_mut());
        // SAFETY: an open handle; no bytes are taken.
        unsafe { PeekNamedPipe(end.as_raw(), nothing, 0, ptr::null_mut(), ptr::null_mut(), ptr::null_mut()) == 0 }
    }

    /// Sends a packet with `context` to the completion port of `file`, the program's end, if it has one: of a request that ended with
    /// `status`, and returned so many bytes. All failures are one in packets: ERROR_OPERATION_ABORTED.
    pub(super) fn send_packet(&self, file: &Handle, context: *const c_void, status: NTSTATUS, bytes: usize) {
        // One read at a time, so that each message is that of its read.
        let end = lock(&self.end);
        // SAFETY: an open handle; the sink is there for ever, and nobody reads it.
        let read = unsafe {
            NtReadFile(
                file.as_raw(),
                ptr::null_mut(),
                None,
                context,
                SINK.block.get(),
                SINK.room.get().cast(),
                MOST_RETURNED as u32,
                ptr::null(),
                ptr::null(),
            )
        };
        // Without memory for a read there is no way to the port.
        if read == STATUS_PENDING.0 && !(status.is_success() && write(&end, bytes)) {
            let mut block = IO_STATUS_BLOCK::default();
            // SAFETY: an open handle; the first block is only compared with that of the read, the second one outlives the call.
            unsafe { NtCancelIoFileEx(file.as_raw(), SINK.block.get(), &raw mut block) };
        }
    }
}

/// Where all reads go. Windows may write it late, when the program takes the packet from its port, so that it is nobody's but the
/// process's.
struct Sink {
    block: UnsafeCell<IO_STATUS_BLOCK>,
    room: UnsafeCell<[u8; MOST_RETURNED]>,
}

// SAFETY: only the system writes to it, and nobody reads it.
unsafe impl Sync for Sink {}

static SINK: Sink = Sink {
    block: UnsafeCell::new(IO_STATUS_BLOCK { Anonymous: IO_STATUS_BLOCK_0 { Status: 0 }, Information: 0 }),
    room: UnsafeCell::new([0; MOST_RETURNED]),
};

/// Sends a message of so many bytes.
fn write(end: &Handle, bytes: usize) -> bool {
    let message = [0u8; MOST_RETURNED];
    let (length, mut written) = (bytes.min(message.len()) as u32, 0);
    // SAFETY: an open handle; so many bytes, and a local.
    unsafe { WriteFile(end.as_raw(), message.as_ptr(), length, &raw mut written, ptr::null_mut()) != 0 }
}

/// The name of the pipe that a handle is an end of, without what is before the last `\`; of another file whatever it is. `None`: it has none.
pub(super) fn name(file: &Handle) -> Option<String> {
    /// More than names of ours have.
    const ROOM: usize = 128;
    #[repr(C)]
    struct Name {
        head: FILE_NAME_INFO,
        _more: [u16; ROOM],
    }
    let mut name = Name { head: FILE_NAME_INFO::default(), _more: [0; ROOM] };
    let (place, length) = (&raw mut name, size_of::<Name>() as u32);
    // SAFETY: an open handle, and a local of that length.
    let known = unsafe { GetFileInformationByHandleEx(file.as_raw(), FileNameInfo, place.cast(), length) } != 0;
    if !known {
        return None;
    }
    // SAFETY: a local.
    let bytes = unsafe { (*place).head.FileNameLength } as usize;
    let count = (bytes / size_of::<u16>()).min(ROOM);
    // SAFETY: within the local.
    let first = unsafe { place.byte_add(offset_of!(FILE_NAME_INFO, FileName)) }.cast::<u16>().cast_const();
    // SAFETY: the local has so many, all initialised.
    let path = unsafe { std::slice::from_raw_parts(first, count) };
    let path = String::from_utf16(path).ok()?;
    path.rsplit('\\').next().map(str::to_owned)
}
