//! A file for each buffer, with its address as its name.
#![expect(unsafe_code, reason = "maps memory")]

use std::{
    fs::{self, File},
    io,
    os::windows::io::AsRawHandle as _,
    path::{Path, PathBuf},
    ptr::{self, NonNull},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use windows_sys::Win32::{
    Foundation::CloseHandle,
    System::Memory::{
        CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFileEx, PAGE_READWRITE,
        UnmapViewOfFile,
    },
};

/// Where the first one is: far from what else there is.
const START: usize = 1 << 37;
/// What addresses of views are multiples of.
const GRANULARITY: usize = 0x1_0000;

static ARENA: OnceLock<Arena> = OnceLock::new();
/// The folder of another process.
static JOINED: OnceLock<PathBuf> = OnceLock::new();

/// The arena of this process's buffers, if they are shared.
pub(crate) fn arena() -> Option<&'static Arena> {
    ARENA.get()
}

/// A folder.
pub(crate) struct Arena {
    folder: PathBuf,
    /// Addresses are not used again.
    next: AtomicUsize,
}

impl Arena {
    /// Zeroed pages, with unmapped addresses behind them. `None`: there are no more.
    pub(crate) fn allocate(&self, length: usize) -> Option<NonNull<u8>> {
        let start = self.next.fetch_add((length + 1).next_multiple_of(GRANULARITY), Ordering::Relaxed);
        let file = File::options().read(true).write(true).create_new(true).open(path(&self.folder, start)).ok()?;
        file.set_len(length as u64).ok()?;
        map(&file, start).ok()
    }

    /// Gives pages back to the system. False: they are not its own.
    pub(crate) fn free(&self, start: NonNull<u8>) -> bool {
        if start.addr().get() < START || start.addr().get() >= self.next.load(Ordering::Relaxed) {
            return false;
        }
        give_back(start);
        fs::remove_file(path(&self.folder, start.addr().get())).expect("to delete the file of a buffer");
        true
    }
}

fn path(folder: &Path, start: usize) -> PathBuf {
    folder.join(format!("{start:x}"))
}

/// Shares the buffers that this process makes from now on, in that folder, which is made.
///
/// # Errors
/// It is there already, or cannot be made.
///
/// # Panics
/// They are shared already.
pub fn share(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let arena = Arena { folder: folder.to_owned(), next: AtomicUsize::new(START) };
    assert!(ARENA.set(arena).is_ok(), "shared twice");
    Ok(())
}

/// Maps buffers of the process that shares them in that folder, as soon as it says what they are.
///
/// # Errors
/// There is no such folder.
///
/// # Panics
/// A process was joined already.
pub fn join(folder: &str) -> io::Result<()> {
    fs::read_dir(folder)?;
    assert!(JOINED.set(folder.into()).is_ok(), "joined twice");
    Ok(())
}

/// Maps a buffer of the other process. None: it was freed.
///
/// # Panics
/// It cannot be had there.
pub(super) fn lend(start: usize, length: usize) -> Option<NonNull<u8>> {
    let folder = JOINED.get().expect("buffers that were joined");
    let file = match File::options().read(true).write(true).open(path(folder, start)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        file => file.expect("the file of a buffer"),
    };
    assert_eq!(file.metadata().expect("its size").len(), length as u64, "the buffer at {start:#x}");
    Some(map(&file, start).expect("the place of a buffer"))
}

/// All of a file, at that address.
fn map(file: &File, start: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: an open file; no attributes and no name.
    let section = unsafe { CreateFileMappingW(file.as_raw_handle(), ptr::null(), PAGE_READWRITE, 0, 0, ptr::null()) };
    if section.is_null() {
        return Err(io::Error::last_os_error());
    }
    let place = ptr::without_provenance(start);
    // SAFETY: nothing that is mapped is replaced.
    let view = unsafe { MapViewOfFileEx(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, 0, place) }.Value;
    let error = io::Error::last_os_error();
    // SAFETY: the view keeps the section; the handle is closed once.
    unsafe { CloseHandle(section) };
    NonNull::new(view.cast()).ok_or(error)
}

/// Unmaps what is at that address.
pub(crate) fn give_back(start: NonNull<u8>) {
    let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: start.as_ptr().cast() };
    // SAFETY: a view that was mapped for a buffer that goes.
    assert_ne!(unsafe { UnmapViewOfFile(view) }, 0, "to unmap a buffer");
}
