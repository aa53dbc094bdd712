//! The driver's events for Event Tracing for Windows. They are TraceLogging events, which carry the names and types of their fields.
//! docs/events.md has a table of them, which a test compares with this file.
#![expect(unsafe_code, reason = "ETW calls the provider back for as long as it is registered")]

use core::net::SocketAddr;

use ndk_abi::{
    sockaddr::{AF_INET, SOCKADDR_IN, SOCKADDR_INET},
    status::NTSTATUS,
};
use platform::{Ending, Notice, Passive};
use tracelogging::{Level, define_provider, write_event};
use zerocopy::IntoBytes;

// The provider's GUID is a hash of its name.
define_provider!(PROVIDER, "SoftNDK");

/// Connections and listeners.
const CONNECTION: u64 = 0x1;
/// Failures.
const ERROR: u64 = 0x2;
/// The adapter, and whether RDMA is on.
const STATE: u64 = 0x4;
/// Posts and completions.
const DATA: u64 = 0x8;

/// Writes an event: name, level, keywords, fields. If no session wants the event, this costs one check. Any IRQL.
macro_rules! event {
    ($name:tt, $level:ident, $keywords:expr, $($fields:tt)*) => {{
        // The write fails if a session's buffers are full, for example; the session counts the lost events.
        let _status = write_event!(PROVIDER, $name, level($level), keyword($keywords), $($fields)*);
    }};
}

/// Registers the provider. Called once, before any event. If the registration fails, for lack of memory, no event is written.
pub(crate) fn register(_passive: &Passive<'_>) {
    // SAFETY: `unregister` is called before this image is unloaded.
    let _status = unsafe { PROVIDER.register() };
}

/// Unregisters the provider. After this returns, ETW does not call back, and events are not written.
pub(crate) fn unregister(_passive: &Passive<'_>) {
    let _status = PROVIDER.unregister();
}

/// An adapter was initialised.
pub(crate) fn adapter_started(luid: u64, rdma: bool) {
    event! { "AdapterStarted", Informational, STATE, u64_hex("NetLuid", &luid), bool8("Rdma", &rdma) }
}

/// An adapter could not be initialised.
pub(crate) fn adapter_failed(luid: u64, status: NTSTATUS) {
    event! { "AdapterFailed", Error, STATE | ERROR, u64_hex("NetLuid", &luid), win_ntstatus("Status", &status.0) }
}

/// TCP/IP refused to notify the driver of the addresses that an adapter is to have.
pub(crate) fn addresses_unknown(luid: u64, status: NTSTATUS) {
    event! { "AddressesUnknown", Warning, STATE | ERROR, u64_hex("NetLuid", &luid), win_ntstatus("Status", &status.0) }
}

/// An adapter's cable has its socket.
pub(crate) fn cable_up(luid: u64, local: SocketAddr) {
    event! {
        "CableUp", Informational, STATE,
        u64_hex("NetLuid", &luid), socketaddress("Local", &Address::of(local))
    }
}

/// An adapter's cable has no socket, and carries nothing.
pub(crate) fn cable_down(luid: u64, local: SocketAddr, status: NTSTATUS) {
    event! {
        "CableDown", Warning, STATE | ERROR,
        u64_hex("NetLuid", &luid), socketaddress("Local", &Address::of(local)), win_ntstatus("Status", &status.0)
    }
}

/// An adapter was halted.
pub(crate) fn adapter_stopped(luid: u64) {
    event! { "AdapterStopped", Informational, STATE, u64_hex("NetLuid", &luid) }
}

/// The value of an adapter's counter when the adapter was halted.
pub(crate) fn counted(luid: u64, counter: &str, value: u64) {
    event! {
        "Counted", Informational, STATE,
        u64_hex("NetLuid", &luid), str8("Counter", counter), u64("Value", &value)
    }
}

/// RDMA was turned on or off while the adapter ran.
pub(crate) fn rdma_changed(luid: u64, rdma: bool) {
    event! { "RdmaChanged", Informational, STATE, u64_hex("NetLuid", &luid), bool8("Rdma", &rdma) }
}

/// Whether a session wants the events of each post and completion.
#[inline]
pub(crate) fn wants_data() -> bool {
    PROVIDER.enabled(Level::Verbose, DATA)
}

/// Writes the event of a notice of the device.
pub(crate) fn write(notice: &Notice) {
    match *notice {
        Notice::Listening { local } => {
            event! { "Listening", Informational, CONNECTION, socketaddress("Local", &Address::of(local)) }
        }
        Notice::ListenFailed { local, status } => event! {
            "ListenFailed", Warning, CONNECTION | ERROR,
            socketaddress("Local", &Address::of(local)), win_ntstatus("Status", &status.cast_signed())
        },
        Notice::ListenEnded { local } => {
            event! { "ListenEnded", Informational, CONNECTION, socketaddress("Local", &Address::of(local)) }
        }
        Notice::Requested { addresses } => event! {
            "Requested", Informational, CONNECTION,
            socketaddress("Local", &Address::of(addresses.local)),
            socketaddress("Remote", &Address::of(addresses.remote))
        },
        Notice::Connected { addresses, queue_pair, active } => event! {
            "Connected", Informational, CONNECTION,
            socketaddress("Local", &Address::of(addresses.local)),
            socketaddress("Remote", &Address::of(addresses.remote)),
            u32("QueuePair", &queue_pair), bool8("Active", &active)
        },
        Notice::Rejected { addresses } => event! {
            "Rejected", Informational, CONNECTION,
            socketaddress("Local", &Address::of(addresses.local)),
            socketaddress("Remote", &Address::of(addresses.remote))
        },
        Notice::ConnectFailed { addresses, active, status } => event! {
            "ConnectFailed", Warning, CONNECTION | ERROR,
            socketaddress("Local", &Address::of(addresses.local)),
            socketaddress("Remote", &Address::of(addresses.remote)),
            bool8("Active", &active), win_ntstatus("Status", &status.cast_signed())
        },
        Notice::Disconnected { addresses, queue_pair, reason: reason @ (Ending::Local | Ending::Peer) } => event! {
            "Disconnected", Informational, CONNECTION,
            socketaddress("Local", &Address::of(addresses.local)),
            socketaddress("Remote", &Address::of(addresses.remote)),
            u32("QueuePair", &queue_pair), bool8("ByPeer", &(reason == Ending::Peer))
        },
        Notice::Disconnected { addresses, queue_pair, reason: Ending::Error } => event! {
            "ConnectionBroken", Error, CONNECTION | ERROR,
            socketaddress("Local", &Address::of(addresses.local)),
            socketaddress("Remote", &Address::of(addresses.remote)),
            u32("QueuePair", &queue_pair)
        },
        Notice::CompletionQueueFailed { depth, status } => event! {
            "CompletionQueueFailed", Error, ERROR,
            u32("Depth", &depth), win_ntstatus("Status", &status.cast_signed())
        },
        Notice::RequestFailed { queue_pair, operation, status } => event! {
            "RequestFailed", Error, ERROR,
            u32("QueuePair", &queue_pair), u16_hex("Operation", &operation),
            win_ntstatus("Status", &status.cast_signed())
        },
        Notice::Fault { rule, addresses, queue_pair, status } => event! {
            "Fault", Warning, ERROR,
            u32("Rule", &rule),
            socketaddress("Local", &Address::of(addresses.local)),
            socketaddress("Remote", &Address::of(addresses.remote)),
            u32("QueuePair", &queue_pair.unwrap_or(u32::MAX)), win_ntstatus("Status", &status.cast_signed())
        },
        Notice::Posted { queue_pair, operation, status } => event! {
            "Posted", Verbose, DATA,
            u32("QueuePair", &queue_pair), u16_hex("Operation", &operation),
            win_ntstatus("Status", &status.cast_signed())
        },
        Notice::PostedShared { shared_queue, status } => event! {
            "PostedShared", Verbose, DATA,
            u32("SharedQueue", &shared_queue), win_ntstatus("Status", &status.cast_signed())
        },
        Notice::Completed { queue_pair, operation, count, bytes, status } => event! {
            "Completed", Verbose, DATA,
            u32("QueuePair", &queue_pair), u16_hex("Operation", &operation), u32("Count", &count), u32("Bytes", &bytes),
            win_ntstatus("Status", &status.cast_signed())
        },
        Notice::TerminateSent { addresses, cause } => event! {
            "TerminateSent", Error, CONNECTION | ERROR,
            socketaddress("Local", &Address::of(addresses.local)),
            socketaddress("Remote", &Address::of(addresses.remote)),
            u8("Layer", &cause.layer), u8("Kind", &cause.kind), u8_hex("Code", &cause.code)
        },
        Notice::TerminateReceived { addresses, cause } => event! {
            "TerminateReceived", Error, CONNECTION | ERROR,
            socketaddress("Local", &Address::of(addresses.local)),
            socketaddress("Remote", &Address::of(addresses.remote)),
            u8("Layer", &cause.layer), u8("Kind", &cause.kind), u8_hex("Code", &cause.code)
        },
    }
}

/// An address as a field of an event: a SOCKADDR, or no bytes.
struct Address(Option<SOCKADDR_INET>);

impl Address {
    fn of(address: impl Into<Option<SocketAddr>>) -> Self {
        Self(address.into().map(SOCKADDR_INET::new))
    }
}

impl AsRef<[u8]> for Address {
    fn as_ref(&self) -> &[u8] {
        let Some(address) = &self.0 else { return &[] };
        let bytes = address.as_bytes();
        let used = if address.si_family() == AF_INET { size_of::<SOCKADDR_IN>() } else { bytes.len() };
        bytes.get(..used).unwrap_or_default()
    }
}
