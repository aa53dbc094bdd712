/* For the tests: NDIS_OID_REQUEST, whose parts have no names of their own, from the fact table of driver/ndk-abi. */
typedef unsigned char UCHAR;
typedef unsigned short USHORT;
typedef unsigned int ULONG;
typedef void *PVOID;

typedef struct {
    UCHAR Type, Revision;
    USHORT Size;
} NDIS_OBJECT_HEADER;

typedef struct {
    NDIS_OBJECT_HEADER Header;
    int RequestType;
    ULONG PortNumber, Timeout;
    PVOID RequestId, RequestHandle;
    union {
        struct {
            ULONG Oid;
            PVOID InformationBuffer;
            ULONG InformationBufferLength, BytesWritten, BytesNeeded;
        } QUERY_INFORMATION;
        struct {
            ULONG Oid;
            PVOID InformationBuffer;
            ULONG InformationBufferLength, BytesRead, BytesNeeded;
        } SET_INFORMATION;
        struct {
            ULONG Oid;
            PVOID InformationBuffer;
            ULONG InputBufferLength, OutputBufferLength, MethodId, BytesWritten, BytesRead, BytesNeeded;
        } METHOD_INFORMATION;
    } DATA;
    UCHAR NdisReserved[128], MiniportReserved[16], SourceReserved[16], SupportedRevision, Reserved1;
    USHORT Reserved2;
    ULONG SwitchId, VPortId, Flags;
} NDIS_OID_REQUEST;
