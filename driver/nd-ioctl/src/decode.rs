//! Reads inputs, writes outputs, completes requests.

use ndk_abi::nd_ioctl::ND_IOCTL_VERSION;
use ndk_abi::softndk_ioctl::SOFTNDK_IOCTL_VERSION;
use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER,
    STATUS_SUCCESS,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Request;

// Both protocols start each input with the same number.
const _: () = assert!(ND_IOCTL_VERSION == SOFTNDK_IOCTL_VERSION);

/// The result of a request that does not pend: the number of output bytes, or a failure.
pub(crate) type Reply = Result<usize, Failure>;

/// The status of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: NTSTATUS,
    /// With STATUS_BUFFER_OVERFLOW the length needed, else 0.
    pub(crate) information: usize,
}

impl From<NTSTATUS> for Failure {
    fn from(status: NTSTATUS) -> Self {
        Self { status, information: 0 }
    }
}

/// STATUS_BUFFER_OVERFLOW: the output needs `length` bytes.
pub(crate) fn overflow(length: usize) -> Failure {
    Failure { status: STATUS_BUFFER_OVERFLOW, information: length }
}

/// Completes a request in its dispatch routine. Returns the status that the dispatch routine has to return.
///
/// A request that ends with a warning is marked pending: without that, if the file is for overlapped requests, the I/O manager would report
/// the warning twice, as the call's status and, as for a success, by event and completion packet.
pub(crate) fn finish(request: impl Request, reply: Reply) -> NTSTATUS {
    let (status, information) = match reply {
        Ok(length) => (STATUS_SUCCESS, length),
        Err(Failure { status, information }) => (status, information),
    };
    if status.is_warning() {
        request.complete_pending(status, information)
    } else {
        request.complete(status, information)
    }
}

/// A copy of the structure at the start of the input. STATUS_BUFFER_TOO_SMALL: the input is shorter (WdfRequestRetrieveInputBuffer returns
/// that status too). STATUS_INVALID_DEVICE_REQUEST: the version is wrong.
pub(crate) fn input<T: FromBytes>(request: &impl Request) -> Result<T, NTSTATUS> {
    let bytes = request.input();
    let (structure, _) = T::read_from_prefix(bytes).map_err(|_| STATUS_BUFFER_TOO_SMALL)?;
    let (version, _) = u32::read_from_prefix(bytes).map_err(|_| STATUS_BUFFER_TOO_SMALL)?;
    if version != ND_IOCTL_VERSION {
        return Err(STATUS_INVALID_DEVICE_REQUEST);
    }
    Ok(structure)
}

/// `length` bytes at `offset` of the input. STATUS_INVALID_PARAMETER: they are not inside the input.
pub(crate) fn range(request: &impl Request, offset: u32, length: u32) -> Result<&[u8], NTSTATUS> {
    if length == 0 {
        return Ok(&[]);
    }
    let start = offset as usize;
    let end = start.checked_add(length as usize).ok_or(STATUS_INVALID_PARAMETER)?;
    request.input().get(start..end).ok_or(STATUS_INVALID_PARAMETER)
}

/// Checks, before anything changes, that a `T` fits into the output. Else STATUS_BUFFER_TOO_SMALL (WdfRequestRetrieveOutputBuffer returns
/// that status too).
pub(crate) fn room_for<T>(request: &impl Request) -> Result<(), NTSTATUS> {
    if request.output_length() < size_of::<T>() { Err(STATUS_BUFFER_TOO_SMALL) } else { Ok(()) }
}

/// Writes `value` to the output and returns its size.
pub(crate) fn output<T: IntoBytes + Immutable>(request: &mut impl Request, value: &T) -> Reply {
    value.write_to_prefix(request.output()).map_err(|_| STATUS_BUFFER_TOO_SMALL)?;
    Ok(size_of::<T>())
}
