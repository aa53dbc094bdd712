//! Overlapped files of a process without the driver.
//!
//! The file that a program gets is one end of a named pipe: a handle that can have a completion port. A pending request
//! does no I/O on the pipe. When the request ends, the DLL starts a read on the program's end, with the program's
//! context, and completes that read at once: by a message from the other end, or, if the request failed, by a
//! cancellation. Then the system queues a packet to the port. Only the system knows the port of the handle.
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

/// The prefix of a pipe's path for the calls that create and open it. The system stores the name with a `\` before it.
const FOLDER: &str = r"\\.\pipe\";

/// An upper bound of the bytes that a request on an overlapped file returns.
const MOST_RETURNED: usize = 256;
const _: () = assert!(size_of::<SOFTNDK_DIAGNOSTICS>() <= MOST_RETURNED);

/// The other end of a program's overlapped file.
#[derive(Debug)]
pub(super) struct Pipe {
    end: Mutex<Handle>,
}

impl Pipe {
    /// Makes a pipe. Also returns its name and the program's end.
    pub(super) fn create() -> Result<(String, Handle, Self), NTSTATUS> {
        // The name is random: a process that could guess it could connect first.
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
        // SAFETY: a terminated string; no attributes.
        let end = unsafe { CreateFileW(path.as_ptr(), access, 0, ptr::null(), OPEN_EXISTING, 0, nothing) };
        // SAFETY: new.
        let end = unsafe { Handle::own(end) }.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        Ok((name, file, Self { end: Mutex::new(end) }))
    }

    /// Whether all handles to the program's end are closed.
    pub(super) fn is_abandoned(&self) -> bool {
        let (end, nothing) = (lock(&self.end), ptr::null_mut());
        // SAFETY: an open handle; no buffers.
        unsafe { PeekNamedPipe(end.as_raw(), nothing, 0, ptr::null_mut(), ptr::null_mut(), ptr::null_mut()) == 0 }
    }

    /// Queues a packet with `context` to the completion port of `file`, the program's end, if the file has a port: for
    /// a request that ended with `status` and returned `bytes` bytes. If the request failed, the packet has
    /// ERROR_OPERATION_ABORTED.
    pub(super) fn send_packet(&self, file: &Handle, context: *const c_void, status: NTSTATUS, bytes: usize) {
        // One read at a time, so that each read gets its own message.
        let end = lock(&self.end);
        // SAFETY: an open handle; the sink is static, and no code reads it.
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
        // If the system has no memory for the read, there is no packet.
        if read == STATUS_PENDING.0 && !(status.is_success() && write(&end, bytes)) {
            let mut block = IO_STATUS_BLOCK::default();
            // SAFETY: an open handle; the first block only selects the read to cancel, the second block outlives the
            // call.
            unsafe { NtCancelIoFileEx(file.as_raw(), SINK.block.get(), &raw mut block) };
        }
    }
}

/// The status block and buffer of all reads. They are static because Windows may write to them late, when the program
/// takes the packet from its port.
struct Sink {
    block: UnsafeCell<IO_STATUS_BLOCK>,
    room: UnsafeCell<[u8; MOST_RETURNED]>,
}

// SAFETY: only the system writes to the sink, and no code reads it.
unsafe impl Sync for Sink {}

static SINK: Sink = Sink {
    block: UnsafeCell::new(IO_STATUS_BLOCK { Anonymous: IO_STATUS_BLOCK_0 { Status: 0 }, Information: 0 }),
    room: UnsafeCell::new([0; MOST_RETURNED]),
};

/// Sends a message of `bytes` bytes.
fn write(end: &Handle, bytes: usize) -> bool {
    let message = [0u8; MOST_RETURNED];
    let (length, mut written) = (bytes.min(message.len()) as u32, 0);
    // SAFETY: an open handle; the message has `length` bytes; a local.
    unsafe { WriteFile(end.as_raw(), message.as_ptr(), length, &raw mut written, ptr::null_mut()) != 0 }
}

/// The last component of a file's name: the pipe's name, if the file is an end of a pipe. `None`: the file has no name,
/// or a longer name than this DLL's pipes have.
pub(super) fn name(file: &Handle) -> Option<String> {
    /// More characters than the names of this DLL's pipes have.
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
    // SAFETY: the local has `count` characters, all initialised.
    let path = unsafe { std::slice::from_raw_parts(first, count) };
    let path = String::from_utf16(path).ok()?;
    path.rsplit('\\').next().map(str::to_owned)
}
