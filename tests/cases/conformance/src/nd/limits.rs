//! What an adapter's Query tells, field by field.

use nd_com::v1::ND_ADAPTER_INFO1;
use ndk_abi::nd_ioctl::ND2_ADAPTER_INFO;

macro_rules! fields {
    ($info:ident; $($field:ident)*) => {
        vec![$((stringify!($field), $info.$field as u64)),*]
    };
}

/// ND_ADAPTER_INFO.
pub(super) fn of_v1(info: &ND_ADAPTER_INFO1) -> Vec<(&'static str, u64)> {
    fields! {
        info; VendorId DeviceId MaxInboundSge MaxInboundRequests MaxInboundLength MaxOutboundSge MaxOutboundRequests MaxOutboundLength
        MaxInlineData MaxInboundReadLimit MaxOutboundReadLimit MaxCqEntries MaxRegistrationSize MaxWindowSize LargeRequestThreshold
        MaxCallerData MaxCalleeData
    }
}

/// ND2_ADAPTER_INFO.
pub(super) fn of_v2(info: &ND2_ADAPTER_INFO) -> Vec<(&'static str, u64)> {
    fields! {
        info; InfoVersion VendorId DeviceId AdapterId MaxRegistrationSize MaxWindowSize MaxInitiatorSge MaxReceiveSge MaxReadSge
        MaxTransferLength MaxInlineDataSize MaxInboundReadLimit MaxOutboundReadLimit MaxReceiveQueueDepth MaxInitiatorQueueDepth
        MaxSharedReceiveQueueDepth MaxCompletionQueueDepth InlineRequestThreshold LargeRequestThreshold MaxCallerData MaxCalleeData
        AdapterFlags
    }
}
