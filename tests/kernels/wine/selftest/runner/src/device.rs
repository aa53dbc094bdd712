//! The test driver's device.

use std::{
    ffi::c_void,
    time::{Duration, Instant},
};

use windows_sys::Win32::{
    Foundation::{
        CloseHandle, ERROR_IO_PENDING, ERROR_MORE_DATA, ERROR_OPERATION_ABORTED, GetLastError, HANDLE,
        INVALID_HANDLE_VALUE, STATUS_PENDING,
    },
    Storage::FileSystem::{CreateFileW, FILE_FLAG_OVERLAPPED, FILE_GENERIC_READ, FILE_GENERIC_WRITE, OPEN_EXISTING},
    System::{
        IO::{CancelIoEx, DeviceIoControl, GetOverlappedResult, OVERLAPPED},
        Threading::CreateEventW,
    },
};

use crate::protocol::{BLOCK, CLOSES, DEVICE, PEND, RUN, WARN};

/// An open file of the device, for overlapped requests.
pub(crate) struct Device(HANDLE);

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { CloseHandle(self.0) };
    }
}

fn last_error(what: &str) -> String {
    // SAFETY: no preconditions.
    format!("{what}: error {}", unsafe { GetLastError() })
}

impl Device {
    pub(crate) fn open() -> Result<Self, String> {
        Self::open_with(FILE_FLAG_OVERLAPPED)
    }

    fn open_with(flags: u32) -> Result<Self, String> {
        let name: Vec<u16> = format!(r"\\.\{DEVICE}").encode_utf16().chain([0]).collect();
        // SAFETY: a NUL-terminated name.
        let handle = unsafe {
            CreateFileW(
                name.as_ptr(),
                FILE_GENERIC_READ | FILE_GENERIC_WRITE,
                0,
                std::ptr::null(),
                OPEN_EXISTING,
                flags,
                std::ptr::null_mut(),
            )
        };
        if handle == INVALID_HANDLE_VALUE { Err(last_error("open")) } else { Ok(Self(handle)) }
    }

    /// Opens the device once it has appeared: the adapter starts after the service.
    pub(crate) fn wait() -> Result<Self, String> {
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            match Self::open() {
                Err(_) if Instant::now() < limit => std::thread::sleep(Duration::from_millis(2)),
                result => return result,
            }
        }
    }

    /// One request; its output.
    pub(crate) fn call(&self, code: u32, input: &[u8], output: usize) -> Result<Vec<u8>, String> {
        let pending = self.begin(code, input, output)?;
        pending.finish()
    }

    /// Starts a request.
    pub(crate) fn begin(&self, code: u32, input: &[u8], output: usize) -> Result<Pending<'_>, String> {
        // SAFETY: an event without a name.
        let event = unsafe { CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
        let overlapped = Box::new(OVERLAPPED { hEvent: event, ..OVERLAPPED::default() });
        let mut pending = Pending { device: self, overlapped, input: input.into(), output: vec![0; output] };
        // SAFETY: the buffers and the overlapped structure do not move and live until the request has ended.
        let done = unsafe {
            DeviceIoControl(
                self.0,
                code,
                pending.input.as_ptr().cast::<c_void>(),
                pending.input.len() as u32,
                pending.output.as_mut_ptr().cast(),
                output as u32,
                std::ptr::null_mut(),
                &mut *pending.overlapped,
            )
        };
        // SAFETY: no preconditions.
        if done == 0 && unsafe { GetLastError() } != ERROR_IO_PENDING {
            return Err(last_error("DeviceIoControl"));
        }
        Ok(pending)
    }

    /// Runs a group of checks in the driver; what it says went wrong.
    pub(crate) fn run(&self, number: u32) -> Result<(), String> {
        let text = self.call(RUN, &number.to_le_bytes(), 1024)?;
        if text.is_empty() { Ok(()) } else { Err(String::from_utf8_lossy(&text).into_owned()) }
    }

    /// IRP_MJ_CLEANUP, IRP_MJ_CLOSE, pended requests.
    pub(crate) fn counts(&self) -> Result<[u32; 3], String> {
        let bytes = self.call(CLOSES, &[], 12)?;
        let mut numbers = bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        match [numbers.next(), numbers.next(), numbers.next()] {
            [Some(cleanups), Some(closes), Some(pended)] => Ok([cleanups, closes, pended]),
            _ => Err("short answer".into()),
        }
    }
}

/// A request that has been started.
pub(crate) struct Pending<'a> {
    device: &'a Device,
    overlapped: Box<OVERLAPPED>,
    input: Box<[u8]>,
    output: Vec<u8>,
}

impl Pending<'_> {
    fn is_over(&self) -> bool {
        // SAFETY: a field that the kernel writes when the request ends.
        let status = unsafe { (&raw const self.overlapped.Internal).read_volatile() };
        status != STATUS_PENDING as usize
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, String> {
        let mut transferred = 0;
        // SAFETY: the overlapped structure of a request of this file.
        let done = unsafe { GetOverlappedResult(self.device.0, &*self.overlapped, &mut transferred, 1) };
        let result = if done == 0 { Err(last_error("request")) } else { Ok(()) };
        // SAFETY: created for this request, closed once.
        unsafe { CloseHandle(self.overlapped.hEvent) };
        self.output.truncate(transferred as usize);
        result.map(|()| self.output)
    }
}

/// A dispatch routine runs on the thread that sends the request, so that it has returned before that can send another one: a
/// request must not overtake one that blocks, on whatever file.
pub(crate) fn order(device: &Device) -> Result<(), String> {
    let other = Device::open()?;
    let blocks = device.begin(BLOCK, &200_u32.to_le_bytes(), 0)?;
    other.call(BLOCK, &0_u32.to_le_bytes(), 0)?;
    let was_over = blocks.is_over();
    blocks.finish()?;
    if was_over { Ok(()) } else { Err("a request overtook one of its thread".into()) }
}

/// A pended request must be cancelled by CancelIoEx, and not before.
pub(crate) fn cancel() -> Result<(), String> {
    let device = Device::open()?;
    let pending = device.begin(PEND, &[0; 4], 0)?;
    std::thread::sleep(Duration::from_millis(100));
    let [_, _, pended] = device.counts()?;
    if pended != 1 {
        return Err(format!("{pended} requests are pended"));
    }
    // SAFETY: the overlapped structure of a request of this file.
    if unsafe { CancelIoEx(device.0, &*pending.overlapped) } == 0 {
        return Err(last_error("CancelIoEx"));
    }
    match pending.finish() {
        Err(error) if error.ends_with(&format!("error {ERROR_OPERATION_ABORTED}")) => Ok(()),
        other => Err(format!("ended with {other:?}")),
    }
}

/// A file for requests that are waited for may be told of a warning.
pub(crate) fn warn_synchronous() -> Result<(), String> {
    warn(&Device::open_with(0)?)
}

/// One for overlapped requests would be told twice.
pub(crate) fn warn_overlapped() -> Result<(), String> {
    warn(&Device::open()?)
}

fn warn(device: &Device) -> Result<(), String> {
    match device.call(WARN, &[], 0) {
        Err(error) if error.ends_with(&format!("error {ERROR_MORE_DATA}")) => Ok(()),
        other => Err(format!("ended with {other:?}")),
    }
}

/// A file that is closed gets IRP_MJ_CLEANUP, then IRP_MJ_CLOSE.
pub(crate) fn cleanup(device: &Device) -> Result<(), String> {
    let [cleanups, closes, _] = device.counts()?;
    drop(Device::open()?);
    let limit = Instant::now() + Duration::from_secs(5);
    loop {
        let now = device.counts()?;
        if now == [cleanups + 1, closes + 1, 0] {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err(format!("cleanups and closes went from {cleanups}, {closes} to {now:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
