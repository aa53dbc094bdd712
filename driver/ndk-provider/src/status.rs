//! The NTSTATUS of each result of the device. `docs/decisions.md` gives the reason where NDKPI names none.

use ndk_abi::status::{
    NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_ADDRESS_ALREADY_EXISTS, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED,
    STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_ACTIVE, STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED,
    STATUS_DATA_ERROR, STATUS_DATA_OVERRUN, STATUS_DEVICE_BUSY, STATUS_HOST_UNREACHABLE, STATUS_IMPLEMENTATION_LIMIT,
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INTERNAL_ERROR, STATUS_INVALID_ADDRESS, STATUS_INVALID_BUFFER_SIZE,
    STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4, STATUS_INVALID_PARAMETER_MIX,
    STATUS_IO_TIMEOUT, STATUS_NETWORK_UNREACHABLE, STATUS_NO_MORE_ENTRIES, STATUS_PENDING, STATUS_REMOTE_RESOURCES,
    STATUS_SHARING_VIOLATION, STATUS_SUCCESS, STATUS_TOO_MANY_ADDRESSES,
};
use soft_rdma::{Error, Outcome, Status};

/// Checks that each error of the device has the number of its NTSTATUS.
macro_rules! numbers {
    ($($error:ident = $status:ident;)*) => {
        const _: () = { $(assert!(Error::$error as u32 == $status.to_u32());)* };

        /// Does not compile if an error is missing above.
        const fn _is_complete(error: Error) {
            match error { $(Error::$error => {})* }
        }
    };
}

numbers! {
    InsufficientResources = STATUS_INSUFFICIENT_RESOURCES;
    InvalidParameter = STATUS_INVALID_PARAMETER;
    InvalidParameterMix = STATUS_INVALID_PARAMETER_MIX;
    InvalidFlags = STATUS_INVALID_PARAMETER_4;
    QueueFull = STATUS_NO_MORE_ENTRIES;
    TooManySges = STATUS_DATA_OVERRUN;
    BufferOverflow = STATUS_BUFFER_OVERFLOW;
    InvalidBufferSize = STATUS_INVALID_BUFFER_SIZE;
    AccessViolation = STATUS_ACCESS_VIOLATION;
    RemoteResources = STATUS_REMOTE_RESOURCES;
    DataError = STATUS_DATA_ERROR;
    InvalidDeviceRequest = STATUS_INVALID_DEVICE_REQUEST;
    DeviceBusy = STATUS_DEVICE_BUSY;
    ImplementationLimit = STATUS_IMPLEMENTATION_LIMIT;
    Canceled = STATUS_CANCELLED;
    ConnectionInvalid = STATUS_CONNECTION_INVALID;
    ConnectionActive = STATUS_CONNECTION_ACTIVE;
    ConnectionAborted = STATUS_CONNECTION_ABORTED;
    ConnectionRefused = STATUS_CONNECTION_REFUSED;
    InvalidAddress = STATUS_INVALID_ADDRESS;
    SharingViolation = STATUS_SHARING_VIOLATION;
    AddressAlreadyExists = STATUS_ADDRESS_ALREADY_EXISTS;
    TooManyAddresses = STATUS_TOO_MANY_ADDRESSES;
    TimedOut = STATUS_IO_TIMEOUT;
    NetworkUnreachable = STATUS_NETWORK_UNREACHABLE;
    HostUnreachable = STATUS_HOST_UNREACHABLE;
    InternalError = STATUS_INTERNAL_ERROR;
}

pub(crate) fn error(error: Error) -> NTSTATUS {
    NTSTATUS::from_u32(error as u32)
}

pub(crate) fn status(status: Status) -> NTSTATUS {
    status.map_or_else(error, |()| STATUS_SUCCESS)
}

pub(crate) fn outcome(result: Result<Outcome, Error>) -> NTSTATUS {
    match result {
        Ok(Outcome::Done) => STATUS_SUCCESS,
        Ok(Outcome::Pending) => STATUS_PENDING,
        Err(error) => self::error(error),
    }
}
