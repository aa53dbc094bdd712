//! The return values that the documentation lists for the methods of completion queues and shared receive queues, and the
//! statuses that it lists for each kind of request.

use ndk_abi::status::{
    ND_ACCESS_VIOLATION, ND_BUFFER_OVERFLOW, ND_CANCELED, ND_DATA_OVERRUN, ND_DEVICE_REMOVED,
    ND_INSUFFICIENT_RESOURCES, ND_INTERNAL_ERROR, ND_INVALID_DEVICE_REQUEST, ND_INVALID_PARAMETER, ND_IO_TIMEOUT,
    ND_NO_MORE_ENTRIES, ND_NOT_SUPPORTED, ND_PENDING, ND_REMOTE_ERROR, ND_SUCCESS, ND_UNSUCCESSFUL, NTSTATUS,
};

/// One documented value.
#[derive(Clone, Copy)]
pub struct Documented {
    /// `Interface::Method`, or the kind of a request. A request that pends ends with its method's values.
    pub method: &'static str,
    /// The documentation's name of the value.
    pub name: &'static str,
    /// The value.
    pub value: NTSTATUS,
    /// Whether cases get it.
    pub shown: Shown,
}

/// Whether cases get a value.
#[derive(Clone, Copy)]
pub enum Shown {
    /// They do, on each path.
    ByCases,
    /// They do over rings, and do not by control codes; this is why.
    OverRings(&'static str),
    /// They do not, and this is why.
    Never(&'static str),
}

use Shown::{ByCases, Never, OverRings};

const NO_ALLOCATION: &str = "nothing is allocated";
const NOT_LOCKED: &str = "by control codes only when memory of the kernel runs out, as each allocation of the simulated kernel does \
     once (driver/nd-ioctl/tests/faults.rs)";
const REMOVED: &str = "an adapter has to go away while it is in use: `ndharness removed`, by a test of its own";
const ALWAYS_KNOWN: &str = "the affinity is always known";
const NO_HARDWARE: &str = "there is no hardware that fails";
const RESIZABLE: &str = "queues can be resized: IND2Adapter::Query says so";
const NO_WIRE: &str = "in loopback nothing is lost, so nothing times out";
const CAUSE: &str = "the requester is told the cause instead";
const REFUSED: &str = "refused by the call itself, with ND_BUFFER_OVERFLOW or ND_DATA_OVERRUN";
const WELL_FORMED: &str = "what is not well formed is refused by the call itself";
const V1_RESIZABLE: &str = "queues can be resized";
/// What version 2 calls [`ND_INTERNAL_ERROR`], word for word.
const ND_FAILURE: NTSTATUS = ND_INTERNAL_ERROR;

macro_rules! documented {
    ($table:ident; $($method:literal { $($value:ident: $shown:expr,)* })*) => {
        pub(super) const $table: &[Documented] = &[$($(Documented {
            method: $method,
            name: stringify!($value),
            value: $value,
            shown: $shown,
        },)*)*];
    };
}

documented! {
    V2_DOCUMENTED;
    "IND2CompletionQueue::GetNotifyAffinity" {
        ND_SUCCESS: ByCases,
        ND_INSUFFICIENT_RESOURCES: Never(NO_ALLOCATION),
        ND_INVALID_PARAMETER: ByCases,
        ND_DEVICE_REMOVED: Never(REMOVED),
        ND_NOT_SUPPORTED: Never(ALWAYS_KNOWN),
    }
    "IND2CompletionQueue::Resize" {
        ND_SUCCESS: ByCases,
        ND_BUFFER_OVERFLOW: ByCases,
        ND_INSUFFICIENT_RESOURCES: OverRings(NOT_LOCKED),
        ND_INVALID_PARAMETER: ByCases,
        ND_DEVICE_REMOVED: Never(REMOVED),
        ND_NOT_SUPPORTED: Never(RESIZABLE),
    }
    "IND2CompletionQueue::Notify" {
        ND_SUCCESS: ByCases,
        ND_PENDING: ByCases,
        ND_INTERNAL_ERROR: Never(NO_HARDWARE),
        ND_BUFFER_OVERFLOW: ByCases,
        ND_CANCELED: ByCases,
        ND_INSUFFICIENT_RESOURCES: ByCases,
        ND_DEVICE_REMOVED: Never(REMOVED),
    }
    "IND2SharedReceiveQueue::GetNotifyAffinity" {
        ND_SUCCESS: ByCases,
        ND_INSUFFICIENT_RESOURCES: Never(NO_ALLOCATION),
        ND_INVALID_PARAMETER: ByCases,
        ND_DEVICE_REMOVED: Never(REMOVED),
        ND_NOT_SUPPORTED: Never(ALWAYS_KNOWN),
    }
    "IND2SharedReceiveQueue::Modify" {
        ND_SUCCESS: ByCases,
        ND_INSUFFICIENT_RESOURCES: OverRings(NOT_LOCKED),
        ND_INVALID_PARAMETER: ByCases,
        ND_BUFFER_OVERFLOW: ByCases,
        ND_DEVICE_REMOVED: Never(REMOVED),
    }
    "IND2SharedReceiveQueue::Notify" {
        ND_SUCCESS: ByCases,
        ND_PENDING: ByCases,
        ND_UNSUCCESSFUL: Never(NO_HARDWARE),
        ND_CANCELED: ByCases,
        ND_INSUFFICIENT_RESOURCES: ByCases,
        ND_DEVICE_REMOVED: Never(REMOVED),
    }
    "IND2SharedReceiveQueue::Receive" {
        ND_SUCCESS: ByCases,
        ND_BUFFER_OVERFLOW: ByCases,
        ND_NO_MORE_ENTRIES: ByCases,
        ND_DATA_OVERRUN: ByCases,
    }
    "Send" {
        ND_SUCCESS: ByCases,
        ND_DATA_OVERRUN: Never(REFUSED),
        ND_ACCESS_VIOLATION: ByCases,
        ND_CANCELED: ByCases,
        ND_INVALID_DEVICE_REQUEST: Never(WELL_FORMED),
        ND_INTERNAL_ERROR: Never(NO_HARDWARE),
        ND_IO_TIMEOUT: ByCases,
        ND_REMOTE_ERROR: Never(CAUSE),
    }
    "Receive" {
        ND_SUCCESS: ByCases,
        ND_BUFFER_OVERFLOW: ByCases,
        ND_ACCESS_VIOLATION: ByCases,
        ND_CANCELED: ByCases,
        ND_INVALID_DEVICE_REQUEST: Never(WELL_FORMED),
        ND_INTERNAL_ERROR: Never(NO_HARDWARE),
        ND_IO_TIMEOUT: Never(NO_WIRE),
        ND_REMOTE_ERROR: Never(CAUSE),
    }
    "Bind" {
        ND_SUCCESS: ByCases,
        ND_CANCELED: ByCases,
        ND_INVALID_DEVICE_REQUEST: Never(WELL_FORMED),
        ND_INTERNAL_ERROR: Never(NO_HARDWARE),
    }
    "Invalidate" {
        ND_SUCCESS: ByCases,
        ND_CANCELED: ByCases,
        ND_INVALID_DEVICE_REQUEST: ByCases,
        ND_INTERNAL_ERROR: Never(NO_HARDWARE),
    }
    "Read" {
        ND_SUCCESS: ByCases,
        ND_DATA_OVERRUN: Never(REFUSED),
        ND_ACCESS_VIOLATION: ByCases,
        ND_CANCELED: ByCases,
        ND_INVALID_DEVICE_REQUEST: Never(WELL_FORMED),
        ND_INTERNAL_ERROR: Never(NO_HARDWARE),
        ND_IO_TIMEOUT: Never(NO_WIRE),
        ND_REMOTE_ERROR: Never(CAUSE),
    }
    "Write" {
        ND_SUCCESS: ByCases,
        ND_DATA_OVERRUN: Never(REFUSED),
        ND_ACCESS_VIOLATION: ByCases,
        ND_CANCELED: ByCases,
        ND_INVALID_DEVICE_REQUEST: Never(WELL_FORMED),
        ND_INTERNAL_ERROR: Never(NO_HARDWARE),
        ND_IO_TIMEOUT: Never(NO_WIRE),
        ND_REMOTE_ERROR: Never(CAUSE),
    }
}

documented! {
    V1_DOCUMENTED;
    "INDCompletionQueue::Resize" {
        ND_SUCCESS: ByCases,
        ND_BUFFER_OVERFLOW: ByCases,
        ND_INSUFFICIENT_RESOURCES: OverRings(NOT_LOCKED),
        ND_INVALID_PARAMETER: ByCases,
        ND_DEVICE_REMOVED: Never(REMOVED),
        ND_NOT_SUPPORTED: Never(V1_RESIZABLE),
    }
    "INDCompletionQueue::Notify" {
        ND_SUCCESS: ByCases,
        ND_PENDING: ByCases,
        ND_FAILURE: Never(NO_HARDWARE),
        ND_BUFFER_OVERFLOW: ByCases,
        ND_CANCELED: ByCases,
        ND_INSUFFICIENT_RESOURCES: ByCases,
        ND_DEVICE_REMOVED: Never(REMOVED),
    }
}
