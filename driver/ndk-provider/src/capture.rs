//! Captures, as the control device gives them to programs.

use ndk_abi::{
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        SOFTNDK_CAPTURE, SOFTNDK_CAPTURE_BYTES, SOFTNDK_CAPTURE_DATA, SOFTNDK_CAPTURE_RECORD, SOFTNDK_IOCTL_VERSION,
        SOFTNDK_START_CAPTURE,
    },
    status::{
        NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_DEVICE_BUSY, STATUS_INSUFFICIENT_RESOURCES,
        STATUS_INVALID_DEVICE_STATE, STATUS_SUCCESS,
    },
};
use platform::Platform;
use soft_rdma::{CaptureError, CaptureOptions, MAX_CAPTURE_BYTES, RECORD_BYTES};
use zerocopy::IntoBytes as _;

use crate::Provider;

const _: () = assert!(SOFTNDK_CAPTURE_DATA as usize == RECORD_BYTES);
const _: () = assert!(SOFTNDK_CAPTURE_BYTES as usize == MAX_CAPTURE_BYTES);

/// Bytes of the longest record with its data.
const LONGEST: usize = size_of::<SOFTNDK_CAPTURE_RECORD>() + RECORD_BYTES.next_multiple_of(8);

impl<P: Platform> Provider<P> {
    /// Starts a capture, whose owner is the file with this number. STATUS_DEVICE_BUSY: there is one already; STATUS_INSUFFICIENT_RESOURCES. IRQL <=
    /// DISPATCH; the time is linear in its memory.
    pub fn start_capture(&self, file: u64, what: &SOFTNDK_START_CAPTURE) -> NTSTATUS {
        let options = CaptureOptions { port: what.Port, snap: what.Snap, bytes: what.Bytes as usize };
        match self.0.start_capture(file, &options) {
            Ok(()) => STATUS_SUCCESS,
            Err(CaptureError::Busy) => STATUS_DEVICE_BUSY,
            Err(CaptureError::OutOfMemory) => STATUS_INSUFFICIENT_RESOURCES,
        }
    }

    /// Ends the capture of a file, if it has one. IRQL <= DISPATCH.
    pub fn end_capture(&self, file: u64) {
        self.0.end_capture(file);
    }

    /// Takes the oldest records of a file's capture, as far as `output` has room for the longest, and returns the bytes written: SOFTNDK_CAPTURE, and
    /// the records. STATUS_INVALID_DEVICE_STATE: the file has no capture; STATUS_BUFFER_TOO_SMALL. A lock is held for one record at a time.
    pub fn read_capture(&self, file: u64, output: &mut [u8]) -> Result<usize, NTSTATUS> {
        let capture = self.0.capture_of(file).ok_or(STATUS_INVALID_DEVICE_STATE)?;
        let (head, records) =
            output.split_at_mut_checked(size_of::<SOFTNDK_CAPTURE>()).ok_or(STATUS_BUFFER_TOO_SMALL)?;
        if records.len() < LONGEST {
            return Err(STATUS_BUFFER_TOO_SMALL);
        }
        let (mut used, mut count) = (0_usize, 0_u32);
        while let Some(room) = records.get_mut(used..used.saturating_add(LONGEST)) {
            let (place, data) =
                room.split_at_mut_checked(size_of::<SOFTNDK_CAPTURE_RECORD>()).ok_or(STATUS_BUFFER_TOO_SMALL)?;
            let Some(record) = capture.take(data) else { break };
            let written = SOFTNDK_CAPTURE_RECORD {
                Time: record.time,
                Kind: record.kind as u32,
                Value: record.value,
                Captured: record.captured,
                Left: record.left,
                Source: SOCKADDR_INET::new(record.source),
                Destination: SOCKADDR_INET::new(record.destination),
            };
            place.copy_from_slice(written.as_bytes());
            let captured = usize::try_from(record.captured).unwrap_or(0).next_multiple_of(8);
            used = used.saturating_add(size_of::<SOFTNDK_CAPTURE_RECORD>()).saturating_add(captured);
            count = count.saturating_add(1);
        }
        let written = SOFTNDK_CAPTURE { Version: SOFTNDK_IOCTL_VERSION, Count: count, Dropped: capture.dropped() };
        head.copy_from_slice(written.as_bytes());
        Ok(used.saturating_add(size_of::<SOFTNDK_CAPTURE>()))
    }
}
