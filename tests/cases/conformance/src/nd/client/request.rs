//! Overlapped requests.
#![expect(unsafe_code, reason = "an OVERLAPPED that the system writes when it likes, and calls into kernel32")]

use std::{mem, ptr, rc::Rc, time::Duration};

use nd_com::{v1::INDOverlapped, v2::IND2Overlapped};
use ndk_abi::status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS};
use windows_core::HRESULT;
use windows_sys::{
    Wdk::Storage::FileSystem::{FileIoCompletionNotificationInformation, NtQueryInformationFile},
    Win32::{
        Foundation::{
            CloseHandle, DUPLICATE_SAME_ACCESS, DuplicateHandle, HANDLE, INVALID_HANDLE_VALUE, WAIT_OBJECT_0,
        },
        System::{
            IO::{CreateIoCompletionPort, GetQueuedCompletionStatus, IO_STATUS_BLOCK, OVERLAPPED},
            Threading::{CreateEventW, GetCurrentProcess, ResetEvent, WaitForSingleObject},
        },
    },
};

use super::{accepted, began, call, saw};
use crate::error::{Error, Result};

/// How long a cancelled request may take to end before its memory is given up.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);

/// A kernel handle of our own.
pub(crate) struct Handle(pub(super) HANDLE);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: owned by self, and not used again.
        unsafe { CloseHandle(self.0) };
    }
}

impl Handle {
    /// Another handle to the object.
    pub(super) fn duplicate(&self) -> Self {
        let mut copy = ptr::null_mut();
        // SAFETY: a pseudo handle, which is not to be closed.
        let process = unsafe { GetCurrentProcess() };
        // SAFETY: an open handle, and a local.
        let done = unsafe { DuplicateHandle(process, self.0, process, &raw mut copy, 0, 0, DUPLICATE_SAME_ACCESS) };
        assert!(done != 0, "DuplicateHandle");
        Self(copy)
    }

    pub(super) fn event() -> Self {
        // SAFETY: no attributes and no name; a manual-reset event, not signalled.
        Self(unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) })
    }

    fn is_signalled_within(&self, timeout: Duration) -> bool {
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX - 1);
        // SAFETY: the handle is open as long as self.
        unsafe { WaitForSingleObject(self.0, milliseconds) == WAIT_OBJECT_0 }
    }
}

/// How a request says that it is over, besides what its file's completion port gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// An event.
    Event,
    /// An event whose handle has its low bit set: the port gets no packet.
    EventOnly,
    /// Nothing but the completion port.
    Port,
}

/// A completion port.
pub(crate) struct Port(Handle);

impl Port {
    /// A new one that gets what requests of `file` end with.
    pub(crate) fn of(file: HANDLE) -> Self {
        // SAFETY: a new port. A file that is not open gets none.
        Self(Handle(unsafe { CreateIoCompletionPort(file, ptr::null_mut(), PORT_KEY, 1) }))
    }

    /// Whether there is one.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.0.is_null() && self.0.0 != INVALID_HANDLE_VALUE
    }

    /// The next packet: the address of the OVERLAPPED. None after `timeout`.
    pub(crate) fn next(&self, timeout: Duration) -> Option<usize> {
        let (mut bytes, mut key, mut overlapped) = (0, 0, ptr::null_mut());
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX - 1);
        // SAFETY: the port is open, and the locals outlive the call.
        unsafe { GetQueuedCompletionStatus(self.0.0, &raw mut bytes, &raw mut key, &raw mut overlapped, milliseconds) };
        (!overlapped.is_null()).then_some(overlapped.addr())
    }
}

/// What a file does when a request of it is over as soon as it is issued: FILE_SKIP_*.
pub(crate) fn completion_modes(file: HANDLE) -> Result<u32> {
    let (mut modes, mut block) = (0_u32, IO_STATUS_BLOCK::default());
    let length = size_of_val(&modes) as u32;
    let class = FileIoCompletionNotificationInformation;
    // SAFETY: both outlive the call; the information is that number.
    let status = unsafe { NtQueryInformationFile(file, &raw mut block, (&raw mut modes).cast(), length, class) };
    accepted("NtQueryInformationFile", NTSTATUS(status)).map(|()| modes)
}

/// What packets of our files are marked with.
const PORT_KEY: usize = 7;

const _: () = assert!(mem::offset_of!(OVERLAPPED, Internal) == 0);

/// What a request is of, by the interface that has its end.
#[derive(Clone)]
pub(crate) enum Overlapped {
    /// Version 1.
    V1(INDOverlapped),
    /// Version 2.
    V2(IND2Overlapped),
}

impl From<INDOverlapped> for Overlapped {
    fn from(object: INDOverlapped) -> Self {
        Self::V1(object)
    }
}

impl From<IND2Overlapped> for Overlapped {
    fn from(object: IND2Overlapped) -> Self {
        Self::V2(object)
    }
}

impl Overlapped {
    fn cancel(&self) {
        match self {
            Self::V1(object) => call!(INDOverlapped::CancelOverlappedRequests, object),
            Self::V2(object) => call!(IND2Overlapped::CancelOverlappedRequests, object),
        };
    }

    /// GetOverlappedResult; version 1 also has a number of bytes.
    fn result(&self, overlapped: *mut OVERLAPPED, waits: bool) -> (NTSTATUS, Option<usize>) {
        let waits = i32::from(waits);
        match self {
            Self::V1(object) => {
                let mut bytes = usize::MAX;
                let result =
                    call!(INDOverlapped::GetOverlappedResult, object, overlapped.cast(), &raw mut bytes, waits);
                (result, Some(bytes))
            }
            Self::V2(object) => (call!(IND2Overlapped::GetOverlappedResult, object, overlapped.cast(), waits), None),
        }
    }
}

/// A request that was accepted. Dropping it before it is over cancels what its object has pending.
pub(crate) struct Request {
    method: &'static str,
    object: Option<Overlapped>,
    overlapped: *mut OVERLAPPED,
    event: Rc<Handle>,
    signal: Signal,
    /// How it ended, once that was seen.
    ended: Option<NTSTATUS>,
    patience: Duration,
}

impl Request {
    /// Issues one. It must pend: clients wait for it without looking at what the call returned. Another provider's may be over at once.
    pub(super) fn begin(
        method: &'static str,
        object: Overlapped,
        signal: Signal,
        patience: Duration,
        issue: impl FnOnce(*mut OVERLAPPED) -> HRESULT,
    ) -> Result<Self> {
        let event = Handle::event();
        let mut overlapped = Box::new(OVERLAPPED::default());
        overlapped.hEvent = match signal {
            Signal::Event => event.0,
            Signal::EventOnly => event.0.map_addr(|address| address | 1),
            Signal::Port => ptr::null_mut(),
        };
        let mut request = Self {
            method,
            object: Some(object),
            overlapped: Box::into_raw(overlapped),
            event: Rc::new(event),
            signal,
            ended: None,
            patience,
        };
        let status = saw(method, NTSTATUS(issue(request.overlapped).0));
        let goes_on = began(method, status);
        request.ended = (status != STATUS_PENDING).then_some(status);
        if goes_on {
            return Ok(request);
        }
        Err(Error::Refused { request: method, status })
    }

    /// Waits for the end of the request, as its OVERLAPPED alone has it, and issues another one with that OVERLAPPED.
    pub(super) fn reissue(
        &mut self,
        method: &'static str,
        issue: impl FnOnce(*mut OVERLAPPED) -> HRESULT,
    ) -> Result<()> {
        let object = self.object.take();
        accepted(self.method, self.status()?)?;
        (self.method, self.object, self.ended) = (method, object, None);
        // SAFETY: the handle is open as long as self.
        unsafe { ResetEvent(self.event.0) };
        let status = saw(method, NTSTATUS(issue(self.overlapped).0));
        self.ended = (status != STATUS_PENDING).then_some(status);
        if began(method, status) {
            return Ok(());
        }
        Err(Error::Refused { request: method, status })
    }

    /// The address of its OVERLAPPED, as packets of a completion port have it.
    pub(crate) fn address(&self) -> usize {
        self.overlapped.addr()
    }

    /// What GetOverlappedResult says now.
    pub(crate) fn result_now(&self) -> NTSTATUS {
        self.object.as_ref().map_or(STATUS_PENDING, |object| object.result(self.overlapped, false).0)
    }

    /// What it says when it is told to wait, which needs an event.
    pub(crate) fn result_awaited(&self) -> NTSTATUS {
        self.object.as_ref().map_or(STATUS_PENDING, |object| object.result(self.overlapped, true).0)
    }

    /// Version 1: the status and the number of bytes that it says now, [`usize::MAX`] if it says none.
    pub(crate) fn bytes_now(&self) -> (NTSTATUS, usize) {
        let result = self.object.as_ref().map(|object| object.result(self.overlapped, false));
        result.map_or((STATUS_PENDING, usize::MAX), |(status, bytes)| (status, bytes.unwrap_or(usize::MAX)))
    }

    /// Gives up the reference to the object: the OVERLAPPED alone says how the request ends.
    pub(crate) fn let_object_go(&mut self) {
        self.object = None;
    }

    /// Waits for the end of the request, with any status.
    pub(crate) fn status(&mut self) -> Result<NTSTATUS> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        if self.signal != Signal::Port && !self.event.is_signalled_within(self.patience) {
            let awaited = format!("{} to complete", self.method);
            return Err(Error::Stalled { awaited, after: self.patience });
        }
        let status = match &self.object {
            Some(_) => self.result_now(),
            None => self.internal(),
        };
        if status == STATUS_PENDING {
            let awaited = format!("the result of {}, which was said to be over", self.method);
            return Err(Error::Stalled { awaited, after: self.patience });
        }
        self.ended = Some(saw(self.method, status));
        Ok(status)
    }

    /// Waits for the end of the request, which must be a success.
    pub(crate) fn finish(mut self) -> Result<()> {
        match self.status()? {
            STATUS_SUCCESS => Ok(()),
            status => Err(Error::Refused { request: self.method, status }),
        }
    }

    /// As [`Request::finish`], for a request that will not end if `cause` fails; then that is the error.
    pub(crate) fn finish_unless_failed(mut self, cause: &mut Self) -> Result<()> {
        let deadline = std::time::Instant::now() + self.patience;
        while std::time::Instant::now() < deadline && !self.is_over() {
            if cause.event.is_signalled_within(Duration::from_millis(1)) && !self.is_over() {
                let status = cause.status()?;
                if status != STATUS_SUCCESS {
                    return Err(Error::Refused { request: cause.method, status });
                }
            }
        }
        self.finish()
    }

    /// Whether it is over by now.
    pub(crate) fn is_over(&mut self) -> bool {
        self.is_over_within(Duration::ZERO)
    }

    /// Waits so long at most; whether it is over then.
    pub(crate) fn is_over_within(&mut self, limit: Duration) -> bool {
        self.ended.is_some() || self.event.is_signalled_within(limit)
    }

    /// OVERLAPPED.Internal.
    pub(crate) fn internal(&self) -> NTSTATUS {
        // SAFETY: allocated by begin, and given up only when the request is over.
        let internal = unsafe { self.overlapped.cast::<usize>().read_volatile() };
        NTSTATUS::from_u32(internal as u32)
    }
}

/// How a request ended, whether it was refused at once or later. What the driver refuses at once is an end like any other under
/// Wine, whose requests of a device always pend.
pub(crate) fn end_of(request: Result<Request>) -> Result<NTSTATUS> {
    match request {
        Ok(mut request) => request.status(),
        Err(Error::Refused { status, .. }) => Ok(status),
        Err(error) => Err(error),
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.ended.is_none() {
            if let Some(object) = &self.object {
                object.cancel();
            }
            let over = match self.signal {
                Signal::Event | Signal::EventOnly => self.event.is_signalled_within(CANCEL_LIMIT),
                Signal::Port => self.internal() != STATUS_PENDING,
            };
            if !over {
                // The system may still write to it, and set the event.
                mem::forget(self.event.clone());
                return;
            }
        }
        // SAFETY: allocated by begin; nobody writes to it any more.
        drop(unsafe { Box::from_raw(self.overlapped) });
    }
}
