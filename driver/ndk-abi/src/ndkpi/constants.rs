//! Enumerations and flags of NDKPI.

c_enum! { OBJECT_TYPES:
    /// The kind of an object, in its header. Page `ne-ndkpi-_ndk_object_type`.
    enum NDK_OBJECT_TYPE(i32) {
        /// No object.
        NdkObjectTypeUndefined = 0,
        /// Adapter.
        NdkObjectTypeAdapter = 1,
        /// Queue pair.
        NdkObjectTypeQp = 2,
        /// Completion queue.
        NdkObjectTypeCq = 3,
        /// Memory region.
        NdkObjectTypeMr = 4,
        /// Memory window.
        NdkObjectTypeMw = 5,
        /// Protection domain.
        NdkObjectTypePd = 6,
        /// Shared endpoint.
        NdkObjectTypeSharedEndpoint = 7,
        /// Connector.
        NdkObjectTypeConnector = 8,
        /// Listener.
        NdkObjectTypeListener = 9,
        /// Shared receive queue.
        NdkObjectTypeSrq = 10,
        /// One past the last.
        NdkObjectTypeMax = 11,
    }
}

c_enum! { OPERATION_TYPES:
    /// The kind of a completed work request; the values are bits. Since NDKPI 1.2, page
    /// `ne-ndkpi-_ndk_operation_type`.
    enum NDK_OPERATION_TYPE(i32) {
        /// Receive, also from an SRQ.
        NdkOperationTypeReceive = 0x1,
        /// Receive of a send-and-invalidate; the completion's output is the token.
        NdkOperationTypeReceiveAndInvalidate = 0x8001,
        /// Send, and on the sending side send-and-invalidate.
        NdkOperationTypeSend = 0x2,
        /// Fast registration.
        NdkOperationTypeFastRegister = 0x4,
        /// Bind of a memory window.
        NdkOperationTypeBind = 0x8,
        /// Local invalidate.
        NdkOperationTypeInvalidate = 0x10,
        /// RDMA read.
        NdkOperationTypeRead = 0x20,
        /// RDMA write.
        NdkOperationTypeWrite = 0x40,
    }
}

c_enum! { RDMA_TECHNOLOGIES:
    /// The wire protocol of an adapter. Since NDKPI 2.0; the INF keyword `*NetworkDirectTechnology` has the same
    /// numbers.
    enum NDK_RDMA_TECHNOLOGY(i32) {
        /// The provider does not state it.
        NdkUndefined = 0,
        /// iWARP: MPA, DDP and RDMAP over TCP.
        NdkiWarp = 1,
        /// InfiniBand.
        NdkInfiniBand = 2,
        /// RDMA over Converged Ethernet, version 1.
        NdkRoCE = 3,
        /// RDMA over Converged Ethernet, version 2 (UDP).
        NdkRoCEv2 = 4,
        /// One past the last.
        NdkMaxTechnology = 5,
    }
}

c_consts! { OP_FLAGS: u32;
    /// No completion if the request succeeds. All initiator requests.
    NDK_OP_FLAG_SILENT_SUCCESS = 0x0000_0001;
    /// Start only when all earlier reads have completed. All initiator requests.
    NDK_OP_FLAG_READ_FENCE = 0x0000_0002;
    /// The peer's receive completion counts as solicited. Sends.
    NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT = 0x0000_0004;
    /// Peers may read. Bind, fast register.
    NDK_OP_FLAG_ALLOW_REMOTE_READ = 0x0000_0008;
    /// The local adapter may write. Fast register.
    NDK_OP_FLAG_ALLOW_LOCAL_WRITE = 0x0000_0010;
    /// Peers may write; includes the local-write bit. Bind, fast register.
    NDK_OP_FLAG_ALLOW_REMOTE_WRITE = 0x0000_0030;
    /// The provider copies the data before the call returns, and ignores the tokens. Sends and writes.
    NDK_OP_FLAG_INLINE = 0x0000_0040;
    /// The region will be the sink of reads. Fast register.
    NDK_OP_FLAG_RDMA_READ_SINK = 0x0000_0080;
    /// A successful read invalidates the token of its first SGE. The Read page prints 0x200, which is
    /// [`NDK_OP_FLAG_DEFER`]: an error of that page.
    NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE = 0x0000_0100;
    /// More requests follow at once, so the provider may delay the start. Since NDKPI 1.2, all initiator requests.
    NDK_OP_FLAG_DEFER = 0x0000_0200;
}

c_consts! { MR_FLAGS: u32;
    /// Always granted.
    NDK_MR_FLAG_ALLOW_LOCAL_READ = 0x0000_0000;
    /// The local adapter may write.
    NDK_MR_FLAG_ALLOW_LOCAL_WRITE = 0x0000_0001;
    /// Peers may read.
    NDK_MR_FLAG_ALLOW_REMOTE_READ = 0x0000_0002;
    /// Peers may write. Includes the local-write bit, so test bit 2 (0x4), not equality.
    NDK_MR_FLAG_ALLOW_REMOTE_WRITE = 0x0000_0005;
    /// The region will be the sink of reads.
    NDK_MR_FLAG_RDMA_READ_SINK = 0x0000_0008;
}

c_consts! { CQ_NOTIFY_TYPES: u32;
    /// Only an error of the CQ itself causes a notification. Arm types are not bits.
    NDK_CQ_NOTIFY_ERRORS = 0;
    /// The next completion causes a notification.
    NDK_CQ_NOTIFY_ANY = 1;
    /// The next solicited receive completion causes a notification; error completions count as solicited.
    NDK_CQ_NOTIFY_SOLICITED = 2;
}

c_consts! { ADAPTER_FLAGS: u32;
    /// The last byte of a buffer is never written before the bytes ahead of it.
    NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED = 0x0000_0001;
    /// Sinks of RDMA reads need no special right, and a privileged token may name one.
    NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED = 0x0000_0002;
    /// NdkControlCqInterruptModeration is supported.
    NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED = 0x0000_0004;
    /// Several connections may be faster than one.
    NDK_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED = 0x0000_0008;
    /// [`NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE`] is honoured.
    NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE_SUPPORTED = 0x0000_0010;
    /// NdkResizeCq is supported.
    NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED = 0x0000_0100;
    /// An adapter can connect to itself.
    NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED = 0x0001_0000;
}
