//! Adapter limits and flags, as the user-mode interface (NDSPI version 2) reports them.
#![allow(missing_docs, reason = "pure layouts, fields named as in the documentation")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

c_consts! { VERSIONS: u32;
    /// NDSPI version 1.
    ND_VERSION_1 = 0x1;
    /// NDSPI version 2; the `InfoVersion` of [`ND2_ADAPTER_INFO`].
    ND_VERSION_2 = 0x2_0000;
}

c_consts! { ND_ADAPTER_FLAGS: u32;
    /// The last byte of a buffer is never written before the bytes ahead of it.
    ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED = 0x0000_0001;
    /// Interrupt moderation can be set.
    ND_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED = 0x0000_0004;
    /// Several connections may be faster than one.
    ND_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED = 0x0000_0008;
    /// Completion queues can be resized.
    ND_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED = 0x0000_0100;
    /// An adapter can connect to itself.
    ND_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED = 0x0001_0000;
}

c_consts! { ND_MR_FLAGS: u32;
    /// The local adapter may write.
    ND_MR_FLAG_ALLOW_LOCAL_WRITE = 0x0000_0001;
    /// Peers may read.
    ND_MR_FLAG_ALLOW_REMOTE_READ = 0x0000_0002;
    /// Peers may write; includes the local-write bit.
    ND_MR_FLAG_ALLOW_REMOTE_WRITE = 0x0000_0005;
    /// The region will be the sink of reads.
    ND_MR_FLAG_RDMA_READ_SINK = 0x0000_0008;
    /// The caller promises not to unmap the memory.
    ND_MR_FLAG_DO_NOT_SECURE_VM = 0x8000_0000;
}

c_consts! { ND_OP_FLAGS: u32;
    /// No completion if the request succeeds.
    ND_OP_FLAG_SILENT_SUCCESS = 0x0000_0001;
    /// Start only when all earlier reads have completed.
    ND_OP_FLAG_READ_FENCE = 0x0000_0002;
    /// The peer's receive completion counts as solicited.
    ND_OP_FLAG_SEND_AND_SOLICIT_EVENT = 0x0000_0004;
    /// Bind: peers may read.
    ND_OP_FLAG_ALLOW_READ = 0x0000_0008;
    /// Bind: peers may write. Not NDKPI's value.
    ND_OP_FLAG_ALLOW_WRITE = 0x0000_0010;
    /// The provider copies the data before the call returns. Not NDKPI's value.
    ND_OP_FLAG_INLINE = 0x0000_0020;
}

c_consts! { ND_CQ_NOTIFY_TYPES: u32;
    /// Only an error of the completion queue itself causes a notification.
    ND_CQ_NOTIFY_ERRORS = 0;
    /// The next completion causes a notification.
    ND_CQ_NOTIFY_ANY = 1;
    /// The next solicited receive completion causes a notification; error completions count as solicited.
    ND_CQ_NOTIFY_SOLICITED = 2;
}

c_structs! { ND_ADAPTER_LAYOUTS:
    /// Limits of an adapter, as 64-bit callers get them. Sizes are bytes, depths entries.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND2_ADAPTER_INFO, size 0x60 {
        0x00 InfoVersion: u32,
        0x04 VendorId: u16,
        0x06 DeviceId: u16,
        0x08 AdapterId: u64,
        0x10 MaxRegistrationSize: u64,
        0x18 MaxWindowSize: u64,
        0x20 MaxInitiatorSge: u32,
        0x24 MaxReceiveSge: u32,
        0x28 MaxReadSge: u32,
        0x2c MaxTransferLength: u32,
        0x30 MaxInlineDataSize: u32,
        0x34 MaxInboundReadLimit: u32,
        0x38 MaxOutboundReadLimit: u32,
        0x3c MaxReceiveQueueDepth: u32,
        0x40 MaxInitiatorQueueDepth: u32,
        0x44 MaxSharedReceiveQueueDepth: u32,
        0x48 MaxCompletionQueueDepth: u32,
        0x4c InlineRequestThreshold: u32,
        0x50 LargeRequestThreshold: u32,
        0x54 MaxCallerData: u32,
        0x58 MaxCalleeData: u32,
        0x5c AdapterFlags: u32,
    }

    /// Limits of an adapter, as 32-bit callers get them.
    #[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    struct ND2_ADAPTER_INFO32, size 0x58 {
        0x00 InfoVersion: u32,
        0x04 VendorId: u16,
        0x06 DeviceId: u16,
        0x08 AdapterId: u64,
        0x10 MaxRegistrationSize: u32,
        0x14 MaxWindowSize: u32,
        0x18 MaxInitiatorSge: u32,
        0x1c MaxReceiveSge: u32,
        0x20 MaxReadSge: u32,
        0x24 MaxTransferLength: u32,
        0x28 MaxInlineDataSize: u32,
        0x2c MaxInboundReadLimit: u32,
        0x30 MaxOutboundReadLimit: u32,
        0x34 MaxReceiveQueueDepth: u32,
        0x38 MaxInitiatorQueueDepth: u32,
        0x3c MaxSharedReceiveQueueDepth: u32,
        0x40 MaxCompletionQueueDepth: u32,
        0x44 InlineRequestThreshold: u32,
        0x48 LargeRequestThreshold: u32,
        0x4c MaxCallerData: u32,
        0x50 MaxCalleeData: u32,
        0x54 AdapterFlags: u32,
    }
}
