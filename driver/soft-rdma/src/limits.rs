//! The limits of the device: advertised in NDK_ADAPTER_INFO and NDIS_NDK_CAPABILITIES, enforced at create and post.

/// Bytes of a page, in an MDL and in a fast-register page list.
pub const PAGE_SIZE: u64 = 4096;
/// Entries of one completion queue.
pub const CQ_DEPTH: u32 = 65_536;
/// Requests of one receive queue.
pub const RECEIVE_QUEUE_DEPTH: u32 = 4_096;
/// Requests of one initiator queue.
pub const INITIATOR_QUEUE_DEPTH: u32 = 4_096;
/// Requests of one shared receive queue.
pub const SRQ_DEPTH: u32 = 16_384;
/// Scatter/gather entries of one request, reads included.
pub const SGES: u32 = 16;
/// Bytes of one inline request.
pub const INLINE_DATA: u32 = 1_024;
/// Bytes of one send, receive, read or write.
pub const TRANSFER_LENGTH: u32 = 1 << 30;
/// Bytes of one memory region.
pub const REGISTRATION_SIZE: u64 = 1 << 32;
/// Pages of one fast-register memory region: 8 MiB, as an SMB Direct read or write asks for at once.
pub const FAST_REGISTER_PAGES: u32 = 2_048;
/// Bytes of private data: MPA carries 512, of which enhanced negotiation takes 4 (RFC 6581 section 6).
pub const PRIVATE_DATA: usize = 508;
/// Reads under way per queue pair, in each direction (IRD and ORD).
pub const READ_LIMIT: u32 = 64;
/// Local addresses of the device.
pub const ADDRESSES: usize = 256;
/// Completion queues of the device.
pub const CQS: u32 = 32_768;
/// Protection domains of the device.
pub const PDS: u32 = 4_096;
/// Memory regions of the device.
pub const MRS: u32 = 1 << 20;
/// Memory windows of the device.
pub const MWS: u32 = 65_536;
/// Queue pairs of the device.
pub const QPS: u32 = 32_768;
/// Shared receive queues of the device.
pub const SRQS: u32 = 1_024;
/// Connectors of the device: one for each queue pair, and as many that are not connected.
pub const CONNECTORS: u32 = 2 * QPS;
/// Listeners of the device.
pub const LISTENERS: u32 = 1_024;
/// Shared endpoints of the device: more than there are ephemeral ports, so that the ports run out first.
pub const SHARED_ENDPOINTS: u32 = 32_768;
/// Half-open connections of one listener: TCP has accepted the connection, and its MPA Request has not arrived.
pub const HALF_OPEN: usize = 1_024;
/// Connection requests of one listener that the consumer has neither accepted nor rejected.
pub const BACKLOG: u32 = 1_024;
/// Connections of other machines that were refused and are not closed yet, in the whole device.
pub const REFUSED: usize = 128;
/// Connections with other machines that have ended and are not closed yet, in the whole device.
pub const ENDED: usize = 4_096;
/// Fault rules of the device.
pub const FAULT_RULES: usize = 32;
/// Seconds that a send of a program's queue pair waits for a receive of its peer, unless
/// [`crate::Device::set_send_timeout`] sets another time. Microsoft's ndmemorytest wants the timeout within 5.
pub const SEND_TIMEOUT_SECONDS: u32 = 4;
/// Microseconds that an ended connection with another machine has to send the rest and to get the peer's FIN; then the wire is reset.
pub const LINGER_MICROSECONDS: u32 = 5_000_000;
