/* The functions and dispatch tables of NDKPI 2.1; see ndk_data.h. */
#ifndef NDK_H
#define NDK_H

#include "ndk_data.h"

typedef void NDK_FN_CLOSE_COMPLETION(void *context);
typedef void NDK_FN_REQUEST_COMPLETION(void *context, NTSTATUS status);
typedef void NDK_FN_CREATE_COMPLETION(void *context, NTSTATUS status, NDK_OBJECT_HEADER *object);
typedef void NDK_FN_CQ_NOTIFICATION_CALLBACK(void *cq_notification_context, NTSTATUS cq_status);
typedef void NDK_FN_SRQ_NOTIFICATION_CALLBACK(void *srq_notification_context, NTSTATUS srq_status);
typedef void NDK_FN_DISCONNECT_EVENT_CALLBACK(void *disconnect_event_context);
typedef void NDK_FN_DISCONNECT_EVENT_CALLBACK_EX(void *disconnect_event_context, ULONG provider_disconnect_reason);
typedef void NDK_FN_CONNECT_EVENT_CALLBACK(void *connect_event_context, NDK_CONNECTOR *connector);

typedef NTSTATUS NDK_FN_QUERY_EXTENSION_INTERFACE(NDK_OBJECT_HEADER *object, GUID *id,
    NDK_VERSION extension_interface_version, NDK_EXTENSION_INTERFACE *extension_interface);
typedef NTSTATUS NDK_FN_QUERY_ADAPTER_INFO(NDK_ADAPTER *adapter, NDK_ADAPTER_INFO *info, ULONG *buffer_size);
typedef NTSTATUS NDK_FN_CREATE_CQ(NDK_ADAPTER *adapter, ULONG cq_depth,
    NDK_FN_CQ_NOTIFICATION_CALLBACK *cq_notification, void *cq_notification_context, GROUP_AFFINITY *affinity,
    NDK_FN_CREATE_COMPLETION *create_completion, void *request_context, NDK_CQ **cq);
typedef NTSTATUS NDK_FN_CREATE_PD(NDK_ADAPTER *adapter, NDK_FN_CREATE_COMPLETION *create_completion,
    void *request_context, NDK_PD **pd);
typedef NTSTATUS NDK_FN_CREATE_SHARED_ENDPOINT(NDK_ADAPTER *adapter, const PSOCKADDR address, ULONG address_length,
    NDK_FN_CREATE_COMPLETION *create_completion, void *request_context, NDK_SHARED_ENDPOINT **shared_endpoint);
typedef NTSTATUS NDK_FN_CREATE_CONNECTOR(NDK_ADAPTER *adapter, NDK_FN_CREATE_COMPLETION *create_completion,
    void *request_context, NDK_CONNECTOR **connector);
typedef NTSTATUS NDK_FN_CREATE_LISTENER(NDK_ADAPTER *adapter, NDK_FN_CONNECT_EVENT_CALLBACK *connect_event,
    void *connect_event_context, NDK_FN_CREATE_COMPLETION *create_completion, void *request_context,
    NDK_LISTENER **listener);
typedef NTSTATUS NDK_FN_BUILD_LAM(NDK_ADAPTER *adapter, MDL *mdl, SIZE_T length,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context, NDK_LOGICAL_ADDRESS_MAPPING *mapping,
    ULONG *mapping_size, ULONG *first_byte_offset);
typedef void NDK_FN_RELEASE_LAM(NDK_ADAPTER *adapter, NDK_LOGICAL_ADDRESS_MAPPING *mapping);
typedef struct NDK_ADAPTER_DISPATCH {
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_QUERY_ADAPTER_INFO *NdkQueryAdapterInfo;
    NDK_FN_CREATE_CQ *NdkCreateCq;
    NDK_FN_CREATE_PD *NdkCreatePd;
    NDK_FN_CREATE_SHARED_ENDPOINT *NdkCreateSharedEndpoint;
    NDK_FN_CREATE_CONNECTOR *NdkCreateConnector;
    NDK_FN_CREATE_LISTENER *NdkCreateListener;
    NDK_FN_BUILD_LAM *NdkBuildLAM;
    NDK_FN_RELEASE_LAM *NdkReleaseLAM;
} NDK_ADAPTER_DISPATCH;

typedef NTSTATUS NDK_FN_CLOSE_OBJECT(NDK_OBJECT_HEADER *object, NDK_FN_CLOSE_COMPLETION *close_completion,
    void *request_context);
typedef NTSTATUS NDK_FN_CREATE_MR(NDK_PD *pd, BOOLEAN fast_register, NDK_FN_CREATE_COMPLETION *create_completion,
    void *request_context, NDK_MR **mr);
typedef NTSTATUS NDK_FN_CREATE_MW(NDK_PD *pd, NDK_FN_CREATE_COMPLETION *create_completion, void *request_context,
    NDK_MW **mw);
typedef NTSTATUS NDK_FN_CREATE_SRQ(NDK_PD *pd, ULONG srq_depth, ULONG max_receive_request_sge, ULONG notify_threshold,
    NDK_FN_SRQ_NOTIFICATION_CALLBACK *srq_notification, void *srq_notification_context, GROUP_AFFINITY *affinity,
    NDK_FN_CREATE_COMPLETION *create_completion, void *request_context, NDK_SRQ **srq);
typedef NTSTATUS NDK_FN_CREATE_QP(NDK_PD *pd, NDK_CQ *receive_cq, NDK_CQ *initiator_cq, void *qp_context,
    ULONG receive_queue_depth, ULONG initiator_queue_depth, ULONG max_receive_request_sge,
    ULONG max_initiator_request_sge, ULONG inline_data_size, NDK_FN_CREATE_COMPLETION *create_completion,
    void *request_context, NDK_QP **qp);
typedef NTSTATUS NDK_FN_CREATE_QP_WITH_SRQ(NDK_PD *pd, NDK_CQ *receive_cq, NDK_CQ *initiator_cq, NDK_SRQ *srq,
    void *qp_context, ULONG initiator_queue_depth, ULONG max_initiator_request_sge, ULONG inline_data_size,
    NDK_FN_CREATE_COMPLETION *create_completion, void *request_context, NDK_QP **qp);
typedef void NDK_FN_GET_PRIVILEGED_MEMORY_REGION_TOKEN(NDK_PD *pd, UINT32 *token);
typedef struct NDK_PD_DISPATCH {
    NDK_FN_CLOSE_OBJECT *NdkClosePd;
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_CREATE_MR *NdkCreateMr;
    NDK_FN_CREATE_MW *NdkCreateMw;
    NDK_FN_CREATE_SRQ *NdkCreateSrq;
    NDK_FN_CREATE_QP *NdkCreateQp;
    NDK_FN_CREATE_QP_WITH_SRQ *NdkCreateQpWithSrq;
    NDK_FN_GET_PRIVILEGED_MEMORY_REGION_TOKEN *NdkGetPrivilegedMemoryRegionToken;
} NDK_PD_DISPATCH;

typedef NTSTATUS NDK_FN_RESIZE_CQ(NDK_CQ *cq, ULONG cq_depth, NDK_FN_REQUEST_COMPLETION *request_completion,
    void *request_context);
typedef void NDK_FN_ARM_CQ(NDK_CQ *cq, ULONG type);
typedef ULONG NDK_FN_GET_CQ_RESULTS(NDK_CQ *cq, NDK_RESULT *results, ULONG count);
typedef NTSTATUS NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION(NDK_CQ *cq, ULONG moderation_interval,
    ULONG moderation_count);
typedef ULONG NDK_FN_GET_CQ_RESULTS_EX(NDK_CQ *cq, NDK_RESULT_EX *results, ULONG count);
typedef struct NDK_CQ_DISPATCH {
    NDK_FN_CLOSE_OBJECT *NdkCloseCq;
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_RESIZE_CQ *NdkResizeCq;
    NDK_FN_ARM_CQ *NdkArmCq;
    NDK_FN_GET_CQ_RESULTS *NdkGetCqResults;
    NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION *NdkControlCqInterruptModeration;
    NDK_FN_GET_CQ_RESULTS_EX *NdkGetCqResultsEx;
} NDK_CQ_DISPATCH;

typedef NTSTATUS NDK_FN_REGISTER_MR(NDK_MR *mr, MDL *mdl, SIZE_T length, ULONG flags,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef NTSTATUS NDK_FN_DEREGISTER_MR(NDK_MR *mr, NDK_FN_REQUEST_COMPLETION *request_completion,
    void *request_context);
typedef NTSTATUS NDK_FN_INITIALIZE_FAST_REGISTER_MR(NDK_MR *mr, ULONG adapter_page_count, BOOLEAN remote_access,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef UINT32 NDK_FN_GET_REMOTE_TOKEN_FROM_MR(NDK_MR *mr);
typedef UINT32 NDK_FN_GET_LOCAL_TOKEN_FROM_MR(NDK_MR *mr);
typedef struct NDK_MR_DISPATCH {
    NDK_FN_CLOSE_OBJECT *NdkCloseMr;
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_REGISTER_MR *NdkRegisterMr;
    NDK_FN_DEREGISTER_MR *NdkDeregisterMr;
    NDK_FN_INITIALIZE_FAST_REGISTER_MR *NdkInitializeFastRegisterMr;
    NDK_FN_GET_REMOTE_TOKEN_FROM_MR *NdkGetRemoteTokenFromMr;
    NDK_FN_GET_LOCAL_TOKEN_FROM_MR *NdkGetLocalTokenFromMr;
} NDK_MR_DISPATCH;

typedef UINT32 NDK_FN_GET_REMOTE_TOKEN_FROM_MW(NDK_MW *mw);
typedef struct NDK_MW_DISPATCH {
    NDK_FN_CLOSE_OBJECT *NdkCloseMw;
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_GET_REMOTE_TOKEN_FROM_MW *NdkGetRemoteTokenFromMw;
} NDK_MW_DISPATCH;

typedef NTSTATUS NDK_FN_MODIFY_SRQ(NDK_SRQ *srq, ULONG srq_depth, ULONG notify_threshold,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef NTSTATUS NDK_FN_SRQ_RECEIVE(NDK_SRQ *srq, void *request_context, const NDK_SGE *sges, ULONG sge_count);
typedef struct NDK_SRQ_DISPATCH {
    NDK_FN_CLOSE_OBJECT *NdkCloseSrq;
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_MODIFY_SRQ *NdkModifySrq;
    NDK_FN_SRQ_RECEIVE *NdkSrqReceive;
} NDK_SRQ_DISPATCH;

typedef void NDK_FN_FLUSH(NDK_QP *qp);
typedef NTSTATUS NDK_FN_SEND(NDK_QP *qp, void *request_context, const NDK_SGE *sges, ULONG sge_count, ULONG flags);
typedef NTSTATUS NDK_FN_RECEIVE(NDK_QP *qp, void *request_context, const NDK_SGE *sges, ULONG sge_count);
typedef NTSTATUS NDK_FN_BIND(NDK_QP *qp, void *request_context, NDK_MR *mr, NDK_MW *mw, void *virtual_address,
    SIZE_T length, ULONG flags);
typedef NTSTATUS NDK_FN_FAST_REGISTER(NDK_QP *qp, void *request_context, NDK_MR *mr, ULONG adapter_page_count,
    const NDK_LOGICAL_ADDRESS *adapter_page_array, ULONG first_byte_offset, SIZE_T length, void *base_virtual_address,
    ULONG flags);
typedef NTSTATUS NDK_FN_INVALIDATE(NDK_QP *qp, void *request_context, NDK_OBJECT_HEADER *mr_or_mw, ULONG flags);
typedef NTSTATUS NDK_FN_READ(NDK_QP *qp, void *request_context, const NDK_SGE *sges, ULONG sge_count,
    UINT64 remote_address, UINT32 remote_token, ULONG flags);
typedef NTSTATUS NDK_FN_WRITE(NDK_QP *qp, void *request_context, const NDK_SGE *sges, ULONG sge_count,
    UINT64 remote_address, UINT32 remote_token, ULONG flags);
typedef NTSTATUS NDK_FN_SEND_AND_INVALIDATE(NDK_QP *qp, void *request_context, const NDK_SGE *sges, ULONG sge_count,
    ULONG flags, UINT32 remote_token);
typedef struct NDK_QP_DISPATCH {
    NDK_FN_CLOSE_OBJECT *NdkCloseQp;
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_FLUSH *NdkFlush;
    NDK_FN_SEND *NdkSend;
    NDK_FN_RECEIVE *NdkReceive;
    NDK_FN_BIND *NdkBind;
    NDK_FN_FAST_REGISTER *NdkFastRegister;
    NDK_FN_INVALIDATE *NdkInvalidate;
    NDK_FN_READ *NdkRead;
    NDK_FN_WRITE *NdkWrite;
    NDK_FN_SEND_AND_INVALIDATE *NdkSendAndInvalidate;
} NDK_QP_DISPATCH;

typedef NTSTATUS NDK_FN_GET_SHARED_ENDPOINT_LOCAL_ADDRESS(NDK_SHARED_ENDPOINT *shared_endpoint, PSOCKADDR address,
    ULONG *address_length);
typedef struct NDK_SHARED_ENDPOINT_DISPATCH {
    NDK_FN_CLOSE_OBJECT *NdkCloseSharedEndpoint;
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_GET_SHARED_ENDPOINT_LOCAL_ADDRESS *NdkGetLocalAddress;
} NDK_SHARED_ENDPOINT_DISPATCH;

typedef NTSTATUS NDK_FN_CONNECT(NDK_CONNECTOR *connector, NDK_QP *qp, const PSOCKADDR src_address,
    ULONG src_address_length, const PSOCKADDR dest_address, ULONG dest_address_length, ULONG inbound_read_limit,
    ULONG outbound_read_limit, const void *private_data, ULONG private_data_length,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef NTSTATUS NDK_FN_CONNECT_WITH_SHARED_ENDPOINT(NDK_CONNECTOR *connector, NDK_QP *qp,
    NDK_SHARED_ENDPOINT *shared_endpoint, const PSOCKADDR dest_address, ULONG dest_address_length,
    ULONG inbound_read_limit, ULONG outbound_read_limit, const void *private_data, ULONG private_data_length,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef NTSTATUS NDK_FN_COMPLETE_CONNECT(NDK_CONNECTOR *connector, NDK_FN_DISCONNECT_EVENT_CALLBACK *disconnect_event,
    void *disconnect_event_context, NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef NTSTATUS NDK_FN_ACCEPT(NDK_CONNECTOR *connector, NDK_QP *qp, ULONG inbound_read_limit,
    ULONG outbound_read_limit, const void *private_data, ULONG private_data_length,
    NDK_FN_DISCONNECT_EVENT_CALLBACK *disconnect_event, void *disconnect_event_context,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef NTSTATUS NDK_FN_REJECT(NDK_CONNECTOR *connector, const void *private_data, ULONG private_data_length);
typedef NTSTATUS NDK_FN_GET_CONNECTION_DATA(NDK_CONNECTOR *connector, ULONG *inbound_read_limit,
    ULONG *outbound_read_limit, void *private_data, ULONG *private_data_length);
typedef NTSTATUS NDK_FN_GET_LOCAL_ADDRESS(NDK_CONNECTOR *connector, PSOCKADDR address, ULONG *address_length);
typedef NTSTATUS NDK_FN_GET_PEER_ADDRESS(NDK_CONNECTOR *connector, PSOCKADDR address, ULONG *address_length);
typedef NTSTATUS NDK_FN_DISCONNECT(NDK_CONNECTOR *connector, NDK_FN_REQUEST_COMPLETION *request_completion,
    void *request_context);
typedef NTSTATUS NDK_FN_COMPLETE_CONNECT_EX(NDK_CONNECTOR *connector,
    NDK_FN_DISCONNECT_EVENT_CALLBACK_EX *disconnect_event, void *disconnect_event_context,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef NTSTATUS NDK_FN_ACCEPT_EX(NDK_CONNECTOR *connector, NDK_QP *qp, ULONG inbound_read_limit,
    ULONG outbound_read_limit, const void *private_data, ULONG private_data_length,
    NDK_FN_DISCONNECT_EVENT_CALLBACK_EX *disconnect_event, void *disconnect_event_context,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef struct NDK_CONNECTOR_DISPATCH {
    NDK_FN_CLOSE_OBJECT *NdkCloseConnector;
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_CONNECT *NdkConnect;
    NDK_FN_CONNECT_WITH_SHARED_ENDPOINT *NdkConnectWithSharedEndpoint;
    NDK_FN_COMPLETE_CONNECT *NdkCompleteConnect;
    NDK_FN_ACCEPT *NdkAccept;
    NDK_FN_REJECT *NdkReject;
    NDK_FN_GET_CONNECTION_DATA *NdkGetConnectionData;
    NDK_FN_GET_LOCAL_ADDRESS *NdkGetLocalAddress;
    NDK_FN_GET_PEER_ADDRESS *NdkGetPeerAddress;
    NDK_FN_DISCONNECT *NdkDisconnect;
    NDK_FN_COMPLETE_CONNECT_EX *NdkCompleteConnectEx;
    NDK_FN_ACCEPT_EX *NdkAcceptEx;
} NDK_CONNECTOR_DISPATCH;

typedef NTSTATUS NDK_FN_LISTEN(NDK_LISTENER *listener, const PSOCKADDR address, ULONG address_length,
    NDK_FN_REQUEST_COMPLETION *request_completion, void *request_context);
typedef NTSTATUS NDK_FN_GET_LISTENER_LOCAL_ADDRESS(NDK_LISTENER *listener, PSOCKADDR address, ULONG *address_length);
typedef void NDK_FN_CONTROL_CONNECT_EVENTS(NDK_LISTENER *listener, BOOLEAN pause);
typedef struct NDK_LISTENER_DISPATCH {
    NDK_FN_CLOSE_OBJECT *NdkCloseListener;
    NDK_FN_QUERY_EXTENSION_INTERFACE *NdkQueryExtension;
    NDK_FN_LISTEN *NdkListen;
    NDK_FN_GET_LISTENER_LOCAL_ADDRESS *NdkGetLocalAddress;
    NDK_FN_CONTROL_CONNECT_EVENTS *NdkControlConnectEvents;
} NDK_LISTENER_DISPATCH;

#endif
