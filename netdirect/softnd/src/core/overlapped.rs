//! [`Overlapped`]: a program's OVERLAPPED, which reports the end of a request.
//!
//! The kernel writes the status block of the request to the start of the OVERLAPPED, then sets the event in it and
//! queues a packet to the completion port of the file, unless the low bit of the event says not to.
#![expect(unsafe_code, reason = "a structure that the kernel writes, given by a raw pointer")]

use std::{
    ffi::c_void,
    mem::offset_of,
    ptr::{self, NonNull},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use ndk_abi::status::{NTSTATUS, STATUS_PENDING};
use windows_sys::Win32::{
    Foundation::HANDLE,
    System::{
        IO::{IO_STATUS_BLOCK, OVERLAPPED},
        Threading::{INFINITE, WaitForSingleObject},
    },
};

use super::device;

const _: () = assert!(offset_of!(OVERLAPPED, Internal) == offset_of!(IO_STATUS_BLOCK, Anonymous));
const _: () = assert!(offset_of!(OVERLAPPED, InternalHigh) == offset_of!(IO_STATUS_BLOCK, Information));

/// An OVERLAPPED of the program.
#[derive(Clone)]
pub(crate) struct Overlapped(NonNull<OVERLAPPED>);

impl Overlapped {
    /// `None`: a null pointer.
    ///
    /// # Safety
    /// `pointer` stays valid until the request that uses it has ended, and serves no other request until then.
    pub(crate) unsafe fn new(pointer: *mut OVERLAPPED) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    /// The address of the OVERLAPPED, which identifies the request: an OVERLAPPED serves one request at a time.
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }

    pub(crate) fn status_block(&self) -> *mut IO_STATUS_BLOCK {
        self.0.cast().as_ptr()
    }

    /// Prepares the OVERLAPPED for a request. Returns its event, and the context of the completion packet, null for no
    /// packet.
    pub(crate) fn begin(&self) -> (HANDLE, *const c_void) {
        // SAFETY: valid, by contract of `new`; the kernel does not have the OVERLAPPED yet.
        unsafe { (*self.0.as_ptr()).InternalHigh = 0 };
        self.internal().store(STATUS_PENDING.0 as usize, Ordering::Relaxed);
        let context = if self.tag() & 1 == 0 { self.0.as_ptr().cast_const().cast() } else { ptr::null() };
        (self.event(), context)
    }

    /// Stores the status of a refused request, for which the kernel wrote nothing.
    pub(crate) fn refuse(&self, status: NTSTATUS) {
        self.internal().store(status.to_u32() as usize, Ordering::Relaxed);
    }

    /// Stores the status and the length of a request that the kernel never had. The caller drops the result when it has set
    /// the event too.
    pub(super) fn end(&self, status: NTSTATUS, information: usize) -> Ending {
        let ending = Ending::begin();
        // SAFETY: valid, by contract of `new`; no thread reads the field before the status says that the request has
        // ended.
        unsafe { (*self.0.as_ptr()).InternalHigh = information };
        self.internal().store(status.to_u32() as usize, Ordering::Release);
        ending
    }

    /// The status of the request. STATUS_PENDING: the request has not ended, and `wait` is false.
    pub(crate) fn result(&self, wait: bool) -> NTSTATUS {
        loop {
            let status = NTSTATUS(self.internal().load(Ordering::Acquire) as i32);
            if status != STATUS_PENDING || !wait {
                return status;
            }
            if device::uses_driver() {
                self.sleep();
            } else if hosted::serve_until(self.address(), || self.result(false) != STATUS_PENDING, || self.sleep()) {
                Ending::await_all();
                let event = self.event();
                if !event.is_null() {
                    // A wait for the event would have reset it, if it resets itself.
                    // SAFETY: an event of the program; an invalid handle is an error.
                    unsafe { WaitForSingleObject(event, 0) };
                }
            }
        }
    }

    fn sleep(&self) {
        let event = self.event();
        if event.is_null() {
            // There is no event, and the file is not signalled either (FILE_SKIP_SET_EVENT_ON_HANDLE): poll.
            thread::sleep(Duration::from_millis(1));
        } else {
            // SAFETY: an event of the program; an invalid handle is an error.
            unsafe { WaitForSingleObject(event, INFINITE) };
        }
    }

    /// The bytes that the request returned. Called after the request has ended.
    pub(crate) fn transferred(&self) -> usize {
        // SAFETY: valid, by contract of `new`; the kernel no longer writes the field.
        unsafe { (*self.0.as_ptr()).InternalHigh }
    }

    fn event(&self) -> HANDLE {
        ptr::without_provenance_mut(self.tag() & !1)
    }

    fn tag(&self) -> usize {
        // SAFETY: valid, by contract of `new`; the kernel does not write this field.
        unsafe { (*self.0.as_ptr()).hEvent }.addr()
    }

    fn internal(&self) -> &AtomicUsize {
        // SAFETY: valid, by contract of `new`.
        let internal = unsafe { &raw mut (*self.0.as_ptr()).Internal };
        // SAFETY: aligned, and valid as long as self; the kernel and other threads write it atomically.
        unsafe { AtomicUsize::from_ptr(internal) }
    }
}

/// A request that has a status, and whose event may not be set yet.
pub(super) struct Ending;

/// How many there are.
static ENDING: AtomicUsize = AtomicUsize::new(0);

impl Ending {
    fn begin() -> Self {
        ENDING.fetch_add(1, Ordering::SeqCst);
        Self
    }

    /// Waits until the events of all are set, which takes their threads a few calls, or until that has taken too long: an
    /// event that is set later wakes the next wait for nothing.
    fn await_all() {
        const MOST: u32 = 1000;
        for _ in 0..MOST {
            if ENDING.load(Ordering::SeqCst) == 0 {
                return;
            }
            thread::yield_now();
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        ENDING.fetch_sub(1, Ordering::SeqCst);
    }
}
