/*
 * NDKPI 2.1 for a C consumer on the host: structures, tables and numbers under their documented names, written from the fact
 * table of driver/ndk-abi, which tests/c compares every declaration with. 1.x consumers see a shorter NDK_ADAPTER_INFO (0x60
 * bytes), nothing else differs.
 */
#ifndef NDK_DATA_H
#define NDK_DATA_H

#include <stddef.h>
#include <stdint.h>

typedef uint8_t BOOLEAN, UCHAR;
typedef uint16_t USHORT;
typedef int32_t NTSTATUS;
typedef uint32_t ULONG, UINT32;
typedef int64_t LONGLONG;
typedef uint64_t UINT64;
typedef size_t SIZE_T;
typedef uintptr_t ULONG_PTR;
typedef void VOID, *PVOID;

/* Only named by pointers. */
typedef struct GUID GUID;
typedef struct MDL MDL;
typedef struct GROUP_AFFINITY GROUP_AFFINITY;
typedef struct sockaddr SOCKADDR, *PSOCKADDR;

typedef enum NDK_OBJECT_TYPE {
    NdkObjectTypeUndefined = 0,
    NdkObjectTypeAdapter = 1,
    NdkObjectTypeQp = 2,
    NdkObjectTypeCq = 3,
    NdkObjectTypeMr = 4,
    NdkObjectTypeMw = 5,
    NdkObjectTypePd = 6,
    NdkObjectTypeSharedEndpoint = 7,
    NdkObjectTypeConnector = 8,
    NdkObjectTypeListener = 9,
    NdkObjectTypeSrq = 10,
    NdkObjectTypeMax = 11,
} NDK_OBJECT_TYPE;

typedef enum NDK_OPERATION_TYPE {
    NdkOperationTypeReceive = 0x1,
    NdkOperationTypeReceiveAndInvalidate = 0x8001,
    NdkOperationTypeSend = 0x2,
    NdkOperationTypeFastRegister = 0x4,
    NdkOperationTypeBind = 0x8,
    NdkOperationTypeInvalidate = 0x10,
    NdkOperationTypeRead = 0x20,
    NdkOperationTypeWrite = 0x40,
} NDK_OPERATION_TYPE;

typedef enum NDK_RDMA_TECHNOLOGY {
    NdkUndefined = 0,
    NdkiWarp = 1,
    NdkInfiniBand = 2,
    NdkRoCE = 3,
    NdkRoCEv2 = 4,
    NdkMaxTechnology = 5,
} NDK_RDMA_TECHNOLOGY;

enum {
    NDK_CQ_NOTIFY_ERRORS = 0x0,
    NDK_CQ_NOTIFY_ANY = 0x1,
    NDK_CQ_NOTIFY_SOLICITED = 0x2,
    NDK_MR_FLAG_ALLOW_LOCAL_READ = 0x0,
    NDK_MR_FLAG_ALLOW_LOCAL_WRITE = 0x1,
    NDK_MR_FLAG_ALLOW_REMOTE_READ = 0x2,
    NDK_MR_FLAG_ALLOW_REMOTE_WRITE = 0x5,
    NDK_MR_FLAG_RDMA_READ_SINK = 0x8,
    NDK_OP_FLAG_SILENT_SUCCESS = 0x1,
    NDK_OP_FLAG_READ_FENCE = 0x2,
    NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT = 0x4,
    NDK_OP_FLAG_ALLOW_REMOTE_READ = 0x8,
    NDK_OP_FLAG_ALLOW_LOCAL_WRITE = 0x10,
    NDK_OP_FLAG_ALLOW_REMOTE_WRITE = 0x30,
    NDK_OP_FLAG_INLINE = 0x40,
    NDK_OP_FLAG_RDMA_READ_SINK = 0x80,
    NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE = 0x100,
    NDK_OP_FLAG_DEFER = 0x200,
    NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED = 0x1,
    NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED = 0x2,
    NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED = 0x4,
    NDK_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED = 0x8,
    NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE_SUPPORTED = 0x10,
    NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED = 0x100,
    NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED = 0x10000,
};

#define STATUS_SUCCESS ((NTSTATUS)0x00000000)
#define STATUS_PENDING ((NTSTATUS)0x00000103)
#define STATUS_BUFFER_OVERFLOW ((NTSTATUS)0x80000005)
#define STATUS_ACCESS_VIOLATION ((NTSTATUS)0xC0000005)
#define STATUS_INVALID_PARAMETER ((NTSTATUS)0xC000000D)
#define STATUS_BUFFER_TOO_SMALL ((NTSTATUS)0xC0000023)
#define STATUS_INVALID_PARAMETER_MIX ((NTSTATUS)0xC0000030)
#define STATUS_SHARING_VIOLATION ((NTSTATUS)0xC0000043)
#define STATUS_INSUFFICIENT_RESOURCES ((NTSTATUS)0xC000009A)
#define STATUS_IO_TIMEOUT ((NTSTATUS)0xC00000B5)
#define STATUS_NOT_SUPPORTED ((NTSTATUS)0xC00000BB)
#define STATUS_INTERNAL_ERROR ((NTSTATUS)0xC00000E5)
#define STATUS_CANCELLED ((NTSTATUS)0xC0000120)
#define STATUS_REMOTE_RESOURCES ((NTSTATUS)0xC000013D)
#define STATUS_INVALID_ADDRESS ((NTSTATUS)0xC0000141)
#define STATUS_TOO_MANY_ADDRESSES ((NTSTATUS)0xC0000209)
#define STATUS_ADDRESS_ALREADY_EXISTS ((NTSTATUS)0xC000020A)
#define STATUS_CONNECTION_REFUSED ((NTSTATUS)0xC0000236)
#define STATUS_CONNECTION_INVALID ((NTSTATUS)0xC000023A)
#define STATUS_NETWORK_UNREACHABLE ((NTSTATUS)0xC000023C)
#define STATUS_HOST_UNREACHABLE ((NTSTATUS)0xC000023D)
#define STATUS_CONNECTION_ABORTED ((NTSTATUS)0xC0000241)
#define STATUS_IMPLEMENTATION_LIMIT ((NTSTATUS)0xC000042B)
#define NDIS_STATUS_BAD_VERSION ((NTSTATUS)0xC0010004)
#define NDIS_STATUS_ADAPTER_NOT_READY ((NTSTATUS)0xC0010011)
#define NDIS_STATUS_RESOURCES ((NTSTATUS)0xC000009A)

typedef struct NDK_VERSION {
    USHORT Major;
    USHORT Minor;
} NDK_VERSION;

typedef struct NDK_OBJECT_HEADER_RESERVED_BLOCK {
    void *rf[4];
} NDK_OBJECT_HEADER_RESERVED_BLOCK;

typedef struct NDK_OBJECT_HEADER {
    NDK_VERSION Version;
    NDK_OBJECT_TYPE ObjectType;
    NDK_OBJECT_HEADER_RESERVED_BLOCK NdkReserved;
} NDK_OBJECT_HEADER;

/* All objects look alike: the head, then the table. */
#define NDK_OBJECT(NAME) \
    typedef struct NAME { \
        NDK_OBJECT_HEADER Header; \
        const struct NAME##_DISPATCH *Dispatch; \
    } NAME
NDK_OBJECT(NDK_ADAPTER);
NDK_OBJECT(NDK_PD);
NDK_OBJECT(NDK_CQ);
NDK_OBJECT(NDK_MR);
NDK_OBJECT(NDK_MW);
NDK_OBJECT(NDK_SRQ);
NDK_OBJECT(NDK_QP);
NDK_OBJECT(NDK_CONNECTOR);
NDK_OBJECT(NDK_LISTENER);
NDK_OBJECT(NDK_SHARED_ENDPOINT);

typedef struct NDK_RESULT {
    NTSTATUS Status;
    ULONG BytesTransferred;
    void *QPContext;
    void *RequestContext;
} NDK_RESULT;

typedef struct NDK_RESULT_EX {
    NTSTATUS Status;
    ULONG BytesTransferred;
    void *QPContext;
    void *RequestContext;
    NDK_OPERATION_TYPE Type;
    ULONG ProviderErrorCode;
    ULONG_PTR TypeSpecificCompletionOutput;
} NDK_RESULT_EX;

typedef struct NDK_LOGICAL_ADDRESS {
    LONGLONG QuadPart;
} NDK_LOGICAL_ADDRESS;

typedef struct NDK_LOGICAL_ADDRESS_MAPPING {
    void *AdapterContext;
    ULONG AdapterPageCount;
    NDK_LOGICAL_ADDRESS AdapterPageArray[1];
} NDK_LOGICAL_ADDRESS_MAPPING;

typedef struct NDK_SGE {
    union {
        void *VirtualAddress;
        NDK_LOGICAL_ADDRESS LogicalAddress;
    };
    ULONG Length;
    UINT32 MemoryRegionToken;
} NDK_SGE;

typedef struct NDK_EXTENSION_INTERFACE {
    const void *Dispatch;
} NDK_EXTENSION_INTERFACE;

typedef struct NDK_ADAPTER_INFO {
    NDK_VERSION Version;
    UINT32 VendorId;
    UINT32 DeviceId;
    SIZE_T MaxRegistrationSize;
    SIZE_T MaxWindowSize;
    ULONG FRMRPageCount;
    ULONG MaxInitiatorRequestSge;
    ULONG MaxReceiveRequestSge;
    ULONG MaxReadRequestSge;
    ULONG MaxTransferLength;
    ULONG MaxInlineDataSize;
    ULONG MaxInboundReadLimit;
    ULONG MaxOutboundReadLimit;
    ULONG MaxReceiveQueueDepth;
    ULONG MaxInitiatorQueueDepth;
    ULONG MaxSrqDepth;
    ULONG MaxCqDepth;
    ULONG LargeRequestThreshold;
    ULONG MaxCallerData;
    ULONG MaxCalleeData;
    ULONG AdapterFlags;
    NDK_RDMA_TECHNOLOGY RdmaTechnology;
} NDK_ADAPTER_INFO;

#endif
