//! Plug and Play events, from NDIS to the miniport and from the miniport to NDIS.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use super::{NDIS_OBJECT_HEADER, NDIS_PORT_NUMBER};

c_enum! { DEVICE_PNP_EVENTS:
    /// A PnP event of the device.
    enum NDIS_DEVICE_PNP_EVENT(i32) {
        NdisDevicePnPEventQueryRemoved = 0,
        NdisDevicePnPEventRemoved = 1,
        NdisDevicePnPEventSurpriseRemoved = 2,
        NdisDevicePnPEventQueryStopped = 3,
        NdisDevicePnPEventStopped = 4,
        NdisDevicePnPEventPowerProfileChanged = 5,
        NdisDevicePnPEventFilterListChanged = 6,
    }
}

c_enum! { NET_PNP_EVENTS:
    /// The two PnP events of NDK.
    enum NET_PNP_EVENT_CODE(i32) {
        NetEventNDKEnable = 13,
        NetEventNDKDisable = 14,
    }
}

c_structs! { PNP_LAYOUTS:
    /// The event that NDIS passes to the miniport.
    struct NET_DEVICE_PNP_EVENT, size 0x30 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 PortNumber: NDIS_PORT_NUMBER,
        0x08 DevicePnPEvent: NDIS_DEVICE_PNP_EVENT,
        0x10 InformationBuffer: *mut c_void,
        0x18 InformationBufferLength: u32,
        0x1c NdisReserved: [u8; 16],
    }

    /// The event in a NET_PNP_EVENT_NOTIFICATION.
    struct NET_PNP_EVENT, size 0x98 {
        0x00 NetEvent: NET_PNP_EVENT_CODE,
        0x08 Buffer: *mut c_void,
        0x10 BufferLength: u32,
        0x18 NdisReserved: [usize; 4],
        0x38 TransportReserved: [usize; 4],
        0x58 TdiReserved: [usize; 4],
        0x78 TdiClientReserved: [usize; 4],
    }

    /// The event that the miniport passes to NDIS, by NdisMNetPnPEvent at PASSIVE_LEVEL. For NetEventNDKDisable the
    /// call returns when all NDK adapters are closed.
    struct NET_PNP_EVENT_NOTIFICATION, size 0xb0 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x04 PortNumber: NDIS_PORT_NUMBER,
        0x08 NetPnPEvent: NET_PNP_EVENT,
        0xa0 Flags: u32,
        0xa4 SwitchId: u32,
        0xa8 VPortId: u32,
    }
}
