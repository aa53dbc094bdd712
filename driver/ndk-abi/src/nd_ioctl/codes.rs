//! The control codes of the ND IOCTL protocol, with the input and output of each.

use super::nd_control_code;

c_consts! { RESOURCES: u32;
    /// Provider.
    ND_RESOURCE_PROVIDER = 0;
    /// Adapter.
    ND_RESOURCE_ADAPTER = 1;
    /// Protection domain.
    ND_RESOURCE_PD = 2;
    /// Completion queue.
    ND_RESOURCE_CQ = 3;
    /// Memory region.
    ND_RESOURCE_MR = 4;
    /// Memory window.
    ND_RESOURCE_MW = 5;
    /// Shared receive queue.
    ND_RESOURCE_SRQ = 6;
    /// Connector.
    ND_RESOURCE_CONNECTOR = 7;
    /// Listener.
    ND_RESOURCE_LISTENER = 8;
    /// Queue pair.
    ND_RESOURCE_QP = 9;
    /// Virtual partition.
    ND_RESOURCE_VIRTUAL_PARTITION = 10;
}

c_consts! { CODES: u32;
    /// In: ND_HANDLE (Handle=0). Out: nothing.
    IOCTL_ND_PROVIDER_INIT = nd_control_code(ND_RESOURCE_PROVIDER, 0);
    /// In: ND_HANDLE (Handle = user HANDLE of a 2nd, FILE_FLAG_OVERLAPPED open of the same device). Out: nothing.
    IOCTL_ND_PROVIDER_BIND_FILE = nd_control_code(ND_RESOURCE_PROVIDER, 1);
    /// In: ND_HANDLE (Handle=0). Out: SOCKADDR_INET array (28 B each).
    IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST = nd_control_code(ND_RESOURCE_PROVIDER, 2);
    /// In: ND_RESOLVE_ADDRESS. Out: UINT64 AdapterId.
    IOCTL_ND_PROVIDER_RESOLVE_ADDRESS = nd_control_code(ND_RESOURCE_PROVIDER, 3);
    /// In: ND_OPEN_ADAPTER and mappings. Out: ND_RESOURCE_DESCRIPTOR (then ND_MAPPING_RESULT array).
    IOCTL_ND_ADAPTER_OPEN = nd_control_code(ND_RESOURCE_ADAPTER, 0);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_ADAPTER_CLOSE = nd_control_code(ND_RESOURCE_ADAPTER, 1);
    /// In: ND_ADAPTER_QUERY. Out: ND2_ADAPTER_INFO (ND2_ADAPTER_INFO32 for WoW64 callers).
    IOCTL_ND_ADAPTER_QUERY = nd_control_code(ND_RESOURCE_ADAPTER, 2);
    /// In: ND_HANDLE (adapter). Out: SOCKADDR_INET array.
    IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST = nd_control_code(ND_RESOURCE_ADAPTER, 3);
    /// In: ND_HANDLE (adapter). Out: UINT64 PD handle.
    IOCTL_ND_PD_CREATE = nd_control_code(ND_RESOURCE_PD, 0);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_PD_FREE = nd_control_code(ND_RESOURCE_PD, 1);
    /// In: ND_CREATE_CQ and mappings. Out: ND_RESOURCE_DESCRIPTOR.
    IOCTL_ND_CQ_CREATE = nd_control_code(ND_RESOURCE_CQ, 0);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_CQ_FREE = nd_control_code(ND_RESOURCE_CQ, 1);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_CQ_CANCEL_IO = nd_control_code(ND_RESOURCE_CQ, 2);
    /// In: ND_HANDLE. Out: GROUP_AFFINITY (16 B).
    IOCTL_ND_CQ_GET_AFFINITY = nd_control_code(ND_RESOURCE_CQ, 3);
    /// In: ND_CQ_MODIFY and mappings. Out: ND_RESOURCE_DESCRIPTOR.
    IOCTL_ND_CQ_MODIFY = nd_control_code(ND_RESOURCE_CQ, 4);
    /// In: ND_CQ_NOTIFY (Type 0/1/2). Out: nothing.
    IOCTL_ND_CQ_NOTIFY = nd_control_code(ND_RESOURCE_CQ, 5);
    /// In: ND_HANDLE (PD). Out: UINT64 MR handle.
    IOCTL_ND_MR_CREATE = nd_control_code(ND_RESOURCE_MR, 0);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_MR_FREE = nd_control_code(ND_RESOURCE_MR, 1);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_MR_CANCEL_IO = nd_control_code(ND_RESOURCE_MR, 2);
    /// In: ND_MR_REGISTER. Out: driver-defined.
    IOCTL_ND_MR_REGISTER = nd_control_code(ND_RESOURCE_MR, 3);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_MR_DEREGISTER = nd_control_code(ND_RESOURCE_MR, 4);
    /// In: NDK_MR_REGISTER (kernel callers). Out: driver-defined.
    IOCTL_NDK_MR_REGISTER = nd_control_code(ND_RESOURCE_MR, 5);
    /// In: ND_HANDLE (PD). Out: UINT64 MW handle (+ vendor data: rkey).
    IOCTL_ND_MW_CREATE = nd_control_code(ND_RESOURCE_MW, 0);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_MW_FREE = nd_control_code(ND_RESOURCE_MW, 1);
    /// In: ND_CREATE_SRQ and mappings. Out: ND_RESOURCE_DESCRIPTOR.
    IOCTL_ND_SRQ_CREATE = nd_control_code(ND_RESOURCE_SRQ, 0);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_SRQ_FREE = nd_control_code(ND_RESOURCE_SRQ, 1);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_SRQ_CANCEL_IO = nd_control_code(ND_RESOURCE_SRQ, 2);
    /// In: ND_HANDLE. Out: GROUP_AFFINITY.
    IOCTL_ND_SRQ_GET_AFFINITY = nd_control_code(ND_RESOURCE_SRQ, 3);
    /// In: ND_SRQ_MODIFY and mappings. Out: ND_RESOURCE_DESCRIPTOR.
    IOCTL_ND_SRQ_MODIFY = nd_control_code(ND_RESOURCE_SRQ, 4);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_SRQ_NOTIFY = nd_control_code(ND_RESOURCE_SRQ, 5);
    /// In: ND_HANDLE (adapter). Out: UINT64.
    IOCTL_ND_CONNECTOR_CREATE = nd_control_code(ND_RESOURCE_CONNECTOR, 0);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_CONNECTOR_FREE = nd_control_code(ND_RESOURCE_CONNECTOR, 1);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_CONNECTOR_CANCEL_IO = nd_control_code(ND_RESOURCE_CONNECTOR, 2);
    /// In: ND_BIND. Out: nothing.
    IOCTL_ND_CONNECTOR_BIND = nd_control_code(ND_RESOURCE_CONNECTOR, 3);
    /// In: ND_CONNECT + private data at CbPrivateDataOffset. Out: nothing.
    IOCTL_ND_CONNECTOR_CONNECT = nd_control_code(ND_RESOURCE_CONNECTOR, 4);
    /// In: ND_HANDLE. Out: driver data (QP attributes in ndfltr).
    IOCTL_ND_CONNECTOR_COMPLETE_CONNECT = nd_control_code(ND_RESOURCE_CONNECTOR, 5);
    /// In: ND_ACCEPT + private data. Out: driver data.
    IOCTL_ND_CONNECTOR_ACCEPT = nd_control_code(ND_RESOURCE_CONNECTOR, 6);
    /// In: ND_REJECT + private data. Out: nothing.
    IOCTL_ND_CONNECTOR_REJECT = nd_control_code(ND_RESOURCE_CONNECTOR, 7);
    /// In: ND_HANDLE. Out: ND_READ_LIMITS.
    IOCTL_ND_CONNECTOR_GET_READ_LIMITS = nd_control_code(ND_RESOURCE_CONNECTOR, 8);
    /// In: ND_HANDLE. Out: bytes.
    IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA = nd_control_code(ND_RESOURCE_CONNECTOR, 9);
    /// In: ND_HANDLE. Out: SOCKADDR_INET.
    IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS = nd_control_code(ND_RESOURCE_CONNECTOR, 10);
    /// In: ND_HANDLE. Out: SOCKADDR_INET.
    IOCTL_ND_CONNECTOR_GET_ADDRESS = nd_control_code(ND_RESOURCE_CONNECTOR, 11);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT = nd_control_code(ND_RESOURCE_CONNECTOR, 12);
    /// In: ND_HANDLE. Out: driver data.
    IOCTL_ND_CONNECTOR_DISCONNECT = nd_control_code(ND_RESOURCE_CONNECTOR, 13);
    /// In: ND_HANDLE (adapter). Out: UINT64.
    IOCTL_ND_LISTENER_CREATE = nd_control_code(ND_RESOURCE_LISTENER, 0);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_LISTENER_FREE = nd_control_code(ND_RESOURCE_LISTENER, 1);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_LISTENER_CANCEL_IO = nd_control_code(ND_RESOURCE_LISTENER, 2);
    /// In: ND_BIND. Out: nothing.
    IOCTL_ND_LISTENER_BIND = nd_control_code(ND_RESOURCE_LISTENER, 3);
    /// In: ND_LISTEN. Out: nothing.
    IOCTL_ND_LISTENER_LISTEN = nd_control_code(ND_RESOURCE_LISTENER, 4);
    /// In: ND_HANDLE. Out: SOCKADDR_INET.
    IOCTL_ND_LISTENER_GET_ADDRESS = nd_control_code(ND_RESOURCE_LISTENER, 5);
    /// In: ND_GET_CONNECTION_REQUEST. Out: nothing.
    IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST = nd_control_code(ND_RESOURCE_LISTENER, 6);
    /// In: ND_CREATE_QP and mappings. Out: ND_RESOURCE_DESCRIPTOR.
    IOCTL_ND_QP_CREATE = nd_control_code(ND_RESOURCE_QP, 0);
    /// In: ND_CREATE_QP_WITH_SRQ and mappings. Out: ND_RESOURCE_DESCRIPTOR.
    IOCTL_ND_QP_CREATE_WITH_SRQ = nd_control_code(ND_RESOURCE_QP, 1);
    /// In: ND_HANDLE. Out: nothing.
    IOCTL_ND_QP_FREE = nd_control_code(ND_RESOURCE_QP, 2);
    /// In: ND_HANDLE. Out: driver data.
    IOCTL_ND_QP_FLUSH = nd_control_code(ND_RESOURCE_QP, 3);
    /// In: NDV_RESOLVE_ADAPTER_ID (kernel callers). Out: UINT64.
    IOCTL_NDV_PARTITION_RESOLVE_ADAPTER_ID = nd_control_code(ND_RESOURCE_VIRTUAL_PARTITION, 0);
    /// In: NDV_PARTITION_CREATE (kernel callers). Out: UINT64.
    IOCTL_NDV_PARTITION_CREATE = nd_control_code(ND_RESOURCE_VIRTUAL_PARTITION, 1);
    /// In: ND_HANDLE (kernel callers). Out: nothing.
    IOCTL_NDV_PARTITION_FREE = nd_control_code(ND_RESOURCE_VIRTUAL_PARTITION, 2);
    /// In: NDV_PARTITION_BIND_ADDRESS (kernel callers). Out: nothing.
    IOCTL_NDV_PARTITION_BIND = nd_control_code(ND_RESOURCE_VIRTUAL_PARTITION, 3);
    /// In: NDV_PARTITION_UNBIND_ADDRESS (= ND_BIND) (kernel callers). Out: nothing.
    IOCTL_NDV_PARTITION_UNBIND = nd_control_code(ND_RESOURCE_VIRTUAL_PARTITION, 4);
    /// In: NDV_PARTITION_BIND_LUID (kernel callers). Out: nothing.
    IOCTL_NDV_PARTITION_BIND_LUID = nd_control_code(ND_RESOURCE_VIRTUAL_PARTITION, 5);
}
