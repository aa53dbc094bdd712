//! The connection variables of MS-SMBD 3.1.1.1 that are chosen here.

/// The choice of one end.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// The lowest and the highest version of SMB Direct that this end speaks.
    pub(crate) versions: (u16, u16),
    /// ReceiveCreditMax and SendCreditTarget. At least 2: the last credit is kept for messages that grant.
    pub(crate) credits: u16,
    /// MaxSendSize: bytes of one message.
    pub(crate) send_size: u32,
    /// MaxReceiveSize: bytes of one receive.
    pub(crate) receive_size: u32,
    /// MaxFragmentedRecvSize: bytes of one upper message.
    pub(crate) fragmented_size: u32,
    /// MaxReadWriteSize: bytes of one RDMA transfer of the server.
    pub(crate) read_write_size: u32,
    /// The depth of the initiator queue.
    pub(crate) initiator_depth: u32,
    /// The most outstanding sends.
    pub(crate) send_slots: u32,
    /// Time limits of the negotiation on the active and on the passive side, in microseconds.
    pub(crate) negotiation: (u32, u32),
    /// KeepaliveInterval, in microseconds.
    pub(crate) keepalive_interval: u32,
    /// Time limit for the peer's answer to a keepalive, in microseconds.
    pub(crate) keepalive_answer: u32,
}

impl Settings {
    /// The values seen with Windows clients; MaxReadWriteSize is the value of ksmbd.
    pub(crate) const DEFAULT: Self = Self {
        versions: (crate::wire::VERSION, crate::wire::VERSION),
        credits: 255,
        send_size: 1364,
        receive_size: 8192,
        fragmented_size: 1 << 20,
        read_write_size: 8 << 20,
        initiator_depth: 384,
        send_slots: 64,
        // MS-SMBD 3.1.4.1 and 3.1.7.2.
        negotiation: (120_000_000, 5_000_000),
        keepalive_interval: 120_000_000,
        // MS-SMBD leaves this value to the implementation: this is the value of Linux.
        keepalive_answer: 5_000_000,
    };
}
