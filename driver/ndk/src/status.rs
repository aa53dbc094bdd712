//! The NTSTATUS of each outcome. `docs/decisions.md` says why, where NDKPI does not name one.

use ndk_abi::status::{
    NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_ADDRESS_ALREADY_EXISTS, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED,
    STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_ACTIVE, STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED,
    STATUS_DATA_ERROR, STATUS_DATA_OVERRUN, STATUS_DEVICE_BUSY, STATUS_IMPLEMENTATION_LIMIT,
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INTERNAL_ERROR, STATUS_INVALID_ADDRESS, STATUS_INVALID_BUFFER_SIZE,
    STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4, STATUS_INVALID_PARAMETER_MIX,
    STATUS_IO_TIMEOUT, STATUS_NETWORK_UNREACHABLE, STATUS_NO_MORE_ENTRIES, STATUS_PENDING, STATUS_REMOTE_RESOURCES,
    STATUS_SHARING_VIOLATION, STATUS_SUCCESS, STATUS_TOO_MANY_ADDRESSES,
};
use soft_rdma::{Error, Outcome, Status};

pub(crate) fn error(error: Error) -> NTSTATUS {
    match error {
        Error::InsufficientResources => STATUS_INSUFFICIENT_RESOURCES,
        Error::InvalidParameter => STATUS_INVALID_PARAMETER,
        Error::InvalidParameterMix => STATUS_INVALID_PARAMETER_MIX,
        Error::InvalidFlags => STATUS_INVALID_PARAMETER_4,
        Error::QueueFull => STATUS_NO_MORE_ENTRIES,
        Error::TooManySges => STATUS_DATA_OVERRUN,
        Error::BufferOverflow => STATUS_BUFFER_OVERFLOW,
        Error::InvalidBufferSize => STATUS_INVALID_BUFFER_SIZE,
        Error::AccessViolation => STATUS_ACCESS_VIOLATION,
        Error::RemoteResources => STATUS_REMOTE_RESOURCES,
        Error::DataError => STATUS_DATA_ERROR,
        Error::InvalidDeviceRequest => STATUS_INVALID_DEVICE_REQUEST,
        Error::DeviceBusy => STATUS_DEVICE_BUSY,
        Error::ImplementationLimit => STATUS_IMPLEMENTATION_LIMIT,
        Error::Canceled => STATUS_CANCELLED,
        Error::ConnectionInvalid => STATUS_CONNECTION_INVALID,
        Error::ConnectionActive => STATUS_CONNECTION_ACTIVE,
        Error::ConnectionAborted => STATUS_CONNECTION_ABORTED,
        Error::ConnectionRefused => STATUS_CONNECTION_REFUSED,
        Error::InvalidAddress => STATUS_INVALID_ADDRESS,
        Error::SharingViolation => STATUS_SHARING_VIOLATION,
        Error::AddressAlreadyExists => STATUS_ADDRESS_ALREADY_EXISTS,
        Error::TooManyAddresses => STATUS_TOO_MANY_ADDRESSES,
        Error::TimedOut => STATUS_IO_TIMEOUT,
        Error::NetworkUnreachable => STATUS_NETWORK_UNREACHABLE,
        Error::InternalError => STATUS_INTERNAL_ERROR,
    }
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
