//! The messages of SMB Direct (MS-SMBD 2.2), little-endian.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The only version of SMB Direct.
pub(crate) const VERSION: u16 = 0x0100;
/// MS-SMBD 3.1.5.6: the smallest MaxReceiveSize a peer may have.
pub(crate) const MIN_RECEIVE_SIZE: u32 = 128;
/// MS-SMBD 3.1.5.6: the smallest MaxFragmentedSize a peer may have.
pub(crate) const MIN_FRAGMENTED_SIZE: u32 = 131_072;
/// Bytes of a data transfer before its payload: the header, padded to a multiple of 8.
pub(crate) const DATA_OFFSET: u32 = 24;
/// Bytes of a data transfer without payload.
pub(crate) const EMPTY_LENGTH: u32 = 20;
/// MS-SMBD 2.2.3: the receiver has to send a message at once.
pub(crate) const RESPONSE_REQUESTED: u16 = 1;

/// MS-SMBD 2.2.1.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct NegotiateRequest {
    pub(crate) min_version: U16,
    pub(crate) max_version: U16,
    pub(crate) reserved: U16,
    pub(crate) credits_requested: U16,
    pub(crate) preferred_send_size: U32,
    pub(crate) max_receive_size: U32,
    pub(crate) max_fragmented_size: U32,
}

/// MS-SMBD 2.2.2.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct NegotiateResponse {
    pub(crate) min_version: U16,
    pub(crate) max_version: U16,
    pub(crate) negotiated_version: U16,
    pub(crate) reserved: U16,
    pub(crate) credits_requested: U16,
    pub(crate) credits_granted: U16,
    pub(crate) status: U32,
    pub(crate) max_read_write_size: U32,
    pub(crate) preferred_send_size: U32,
    pub(crate) max_receive_size: U32,
    pub(crate) max_fragmented_size: U32,
}

/// MS-SMBD 2.2.3, up to the padding.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DataTransfer {
    pub(crate) credits_requested: U16,
    pub(crate) credits_granted: U16,
    pub(crate) flags: U16,
    pub(crate) reserved: U16,
    pub(crate) remaining_data_length: U32,
    pub(crate) data_offset: U32,
    pub(crate) data_length: U32,
}

/// MS-SMBD 2.2.3.1: memory of the client.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BufferDescriptor {
    pub(crate) offset: U64,
    pub(crate) token: U32,
    pub(crate) length: U32,
}

const _: () = {
    assert!(size_of::<NegotiateRequest>() == 20);
    assert!(size_of::<NegotiateResponse>() == 32);
    assert!(size_of::<DataTransfer>() == EMPTY_LENGTH as usize);
    assert!(size_of::<BufferDescriptor>() == 16);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The request with the defaults of Windows.
    const REQUEST: [u8; 20] = [0, 1, 0, 1, 0, 0, 0xFF, 0, 0x54, 5, 0, 0, 0, 0x20, 0, 0, 0, 0, 0x10, 0];
    /// The response to the request.
    const RESPONSE: [u8; 32] = [
        0, 1, 0, 1, 0, 1, 0, 0, 0xFF, 0, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0x54, 5, 0, 0, 0x54, 5, 0, 0, 0, 0, 0x10,
        0,
    ];

    #[test]
    fn messages_are_laid_out_as_documented() {
        let request = NegotiateRequest {
            min_version: VERSION.into(),
            max_version: VERSION.into(),
            reserved: 0.into(),
            credits_requested: 255.into(),
            preferred_send_size: 1364.into(),
            max_receive_size: 8192.into(),
            max_fragmented_size: 1_048_576.into(),
        };
        assert_eq!(request.as_bytes(), REQUEST);
        let response = NegotiateResponse {
            min_version: VERSION.into(),
            max_version: VERSION.into(),
            negotiated_version: VERSION.into(),
            reserved: 0.into(),
            credits_requested: 255.into(),
            credits_granted: 255.into(),
            status: 0.into(),
            max_read_write_size: 1_048_576.into(),
            preferred_send_size: 1364.into(),
            max_receive_size: 1364.into(),
            max_fragmented_size: 1_048_576.into(),
        };
        assert_eq!(response.as_bytes(), RESPONSE);
        let data = DataTransfer {
            credits_requested: 255.into(),
            credits_granted: 10.into(),
            flags: 0.into(),
            reserved: 0.into(),
            remaining_data_length: 6.into(),
            data_offset: DATA_OFFSET.into(),
            data_length: 5.into(),
        };
        assert_eq!(data.as_bytes(), [255, 0, 10, 0, 0, 0, 0, 0, 6, 0, 0, 0, 24, 0, 0, 0, 5, 0, 0, 0]);
        let descriptor = BufferDescriptor { offset: 0x1000.into(), token: 0xAABB_CC01.into(), length: 8.into() };
        assert_eq!(descriptor.as_bytes(), [0, 0x10, 0, 0, 0, 0, 0, 0, 1, 0xCC, 0xBB, 0xAA, 8, 0, 0, 0]);
    }
}
