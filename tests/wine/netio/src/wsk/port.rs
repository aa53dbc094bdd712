//! The thread that does what may wait: one, whatever the number of sockets, on a completion port.

use std::{ffi::c_void, ptr::null_mut, sync::OnceLock};

use kernel::violation;
use windows_sys::Win32::{
    Foundation::{HANDLE, INVALID_HANDLE_VALUE},
    Networking::WinSock::SOCKET,
    System::IO::{CreateIoCompletionPort, GetQueuedCompletionStatus, OVERLAPPED, PostQueuedCompletionStatus},
};

use super::{operations, winsock};

/// Key of packets that carry a job. Those of overlapped operations have 0.
const JOB: usize = 1;

type Job = Box<dyn FnOnce() + Send>;

struct Port(HANDLE);

// SAFETY: handles are good on any thread.
unsafe impl Send for Port {}
// SAFETY: as above.
unsafe impl Sync for Port {}

/// The port; it is never closed, and its thread never ends.
fn port() -> HANDLE {
    static PORT: OnceLock<Port> = OnceLock::new();
    PORT.get_or_init(|| {
        kernel::pin();
        winsock::startup();
        // SAFETY: a new port without a file.
        let port = unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, null_mut(), 0, 1) };
        let shared = Port(port);
        std::thread::spawn(move || {
            let shared = shared;
            serve(shared.0);
        });
        Port(port)
    })
    .0
}

/// Makes Winsock ready.
pub(super) fn prepare() {
    port();
}

/// Has the thread learn of the overlapped operations of a socket.
pub(super) fn watch(socket: SOCKET) {
    // SAFETY: an open socket, which is not associated with a port yet.
    unsafe { CreateIoCompletionPort(socket as HANDLE, port(), 0, 0) };
}

/// Has the thread do something, after what was posted before.
pub(super) fn post(job: impl FnOnce() + Send + 'static) {
    let job: Box<Job> = Box::new(Box::new(job));
    // SAFETY: the port; the pointer is taken back by the thread.
    unsafe { PostQueuedCompletionStatus(port(), 0, JOB, Box::into_raw(job).cast()) };
}

fn serve(port: HANDLE) {
    loop {
        let (mut bytes, mut key, mut overlapped) = (0, 0, null_mut::<OVERLAPPED>());
        // SAFETY: the port, and places for what it has.
        unsafe { GetQueuedCompletionStatus(port, &mut bytes, &mut key, &mut overlapped, u32::MAX) };
        if overlapped.is_null() {
            violation("the completion port of the netio stand-in failed");
            return;
        }
        if key == JOB {
            // SAFETY: given by `post`, once.
            let job = unsafe { Box::from_raw(overlapped.cast::<c_void>().cast::<Job>()) };
            job();
        } else {
            // SAFETY: of an operation that has ended.
            unsafe { operations::ended(overlapped, bytes as usize) };
        }
    }
}
