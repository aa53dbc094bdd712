// The published interfaces of NetworkDirect 2 as a C++ program declares them: abstract classes, methods in the order of the
// interface definition. Nothing of Windows' headers.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int HRESULT;
typedef void *HANDLE;

struct GUID {
    u32 a;
    u16 b, c;
    u8 d[8];
};
struct OVERLAPPED {
    u64 Internal, InternalHigh;
    void *Pointer;
    HANDLE hEvent;
};
struct SockAddrIn {
    u16 family, port;
    u8 address[4], zero[8];
};
struct SocketAddress {
    SockAddrIn *address;
    int length;
};
struct SocketAddressList {
    int count;
    SocketAddress entries[1];
};
struct AdapterInfo {
    u32 InfoVersion;
    u16 VendorId, DeviceId;
    u64 AdapterId, MaxRegistrationSize, MaxWindowSize;
    u32 MaxInitiatorSge, MaxReceiveSge, MaxReadSge, MaxTransferLength, MaxInlineDataSize, MaxInboundReadLimit,
        MaxOutboundReadLimit, MaxReceiveQueueDepth, MaxInitiatorQueueDepth, MaxSharedReceiveQueueDepth,
        MaxCompletionQueueDepth, InlineRequestThreshold, LargeRequestThreshold, MaxCallerData, MaxCalleeData, AdapterFlags;
};
struct Result {
    HRESULT Status;
    u32 BytesTransferred;
    void *QueuePairContext, *RequestContext;
    u32 RequestType;
};
struct Sge {
    void *Buffer;
    u32 BufferLength, MemoryRegionToken;
};
static_assert(sizeof(OVERLAPPED) == 32 && sizeof(AdapterInfo) == 96 && sizeof(Result) == 32 && sizeof(Sge) == 16, "layouts");

struct IUnknown {
    virtual HRESULT QueryInterface(const GUID &, void **) = 0;
    virtual u32 AddRef() = 0;
    virtual u32 Release() = 0;
};
struct IClassFactory : IUnknown {
    virtual HRESULT CreateInstance(IUnknown *, const GUID &, void **) = 0;
    virtual HRESULT LockServer(int) = 0;
};
struct IND2Overlapped : IUnknown {
    virtual HRESULT CancelOverlappedRequests() = 0;
    virtual HRESULT GetOverlappedResult(OVERLAPPED *, int) = 0;
};
struct IND2CompletionQueue : IND2Overlapped {
    virtual HRESULT GetNotifyAffinity(u16 *, u64 *) = 0;
    virtual HRESULT Resize(u32) = 0;
    virtual HRESULT Notify(u32, OVERLAPPED *) = 0;
    virtual u32 GetResults(Result *, u32) = 0;
};
struct IND2MemoryRegion : IND2Overlapped {
    virtual HRESULT Register(const void *, u64, u32, OVERLAPPED *) = 0;
    virtual HRESULT Deregister(OVERLAPPED *) = 0;
    virtual u32 GetLocalToken() = 0;
    virtual u32 GetRemoteToken() = 0;
};
struct IND2QueuePair : IUnknown {
    virtual HRESULT Flush() = 0;
    virtual HRESULT Send(void *, const Sge *, u32, u32) = 0;
    virtual HRESULT Receive(void *, const Sge *, u32) = 0;
    virtual HRESULT Bind(void *, IUnknown *, IUnknown *, const void *, u64, u32) = 0;
    virtual HRESULT Invalidate(void *, IUnknown *, u32) = 0;
    virtual HRESULT Read(void *, const Sge *, u32, u64, u32, u32) = 0;
    virtual HRESULT Write(void *, const Sge *, u32, u64, u32, u32) = 0;
};
struct IND2Connector : IND2Overlapped {
    virtual HRESULT Bind(const void *, u32) = 0;
    virtual HRESULT Connect(IUnknown *, const void *, u32, u32, u32, const void *, u32, OVERLAPPED *) = 0;
    virtual HRESULT CompleteConnect(OVERLAPPED *) = 0;
    virtual HRESULT Accept(IUnknown *, u32, u32, const void *, u32, OVERLAPPED *) = 0;
    virtual HRESULT Reject(const void *, u32) = 0;
    virtual HRESULT GetReadLimits(u32 *, u32 *) = 0;
    virtual HRESULT GetPrivateData(void *, u32 *) = 0;
    virtual HRESULT GetLocalAddress(void *, u32 *) = 0;
    virtual HRESULT GetPeerAddress(void *, u32 *) = 0;
    virtual HRESULT NotifyDisconnect(OVERLAPPED *) = 0;
    virtual HRESULT Disconnect(OVERLAPPED *) = 0;
};
struct IND2Listener : IND2Overlapped {
    virtual HRESULT Bind(const void *, u32) = 0;
    virtual HRESULT Listen(u32) = 0;
    virtual HRESULT GetLocalAddress(void *, u32 *) = 0;
    virtual HRESULT GetConnectionRequest(IUnknown *, OVERLAPPED *) = 0;
};
struct IND2Adapter : IUnknown {
    virtual HRESULT CreateOverlappedFile(HANDLE *) = 0;
    virtual HRESULT Query(AdapterInfo *, u32 *) = 0;
    virtual HRESULT QueryAddressList(SocketAddressList *, u32 *) = 0;
    virtual HRESULT CreateCompletionQueue(const GUID &, HANDLE, u32, u16, u64, void **) = 0;
    virtual HRESULT CreateMemoryRegion(const GUID &, HANDLE, void **) = 0;
    virtual HRESULT CreateMemoryWindow(const GUID &, void **) = 0;
    virtual HRESULT CreateSharedReceiveQueue(const GUID &, HANDLE, u32, u32, u32, u16, u64, void **) = 0;
    virtual HRESULT CreateQueuePair(const GUID &, IUnknown *, IUnknown *, void *, u32, u32, u32, u32, u32, void **) = 0;
    virtual HRESULT CreateQueuePairWithSrq(const GUID &, IUnknown *, IUnknown *, IUnknown *, void *, u32, u32, u32, void **) = 0;
    virtual HRESULT CreateConnector(const GUID &, HANDLE, void **) = 0;
    virtual HRESULT CreateListener(const GUID &, HANDLE, void **) = 0;
};
struct IND2Provider : IUnknown {
    virtual HRESULT QueryAddressList(SocketAddressList *, u32 *) = 0;
    virtual HRESULT ResolveAddress(const void *, u32, u64 *) = 0;
    virtual HRESULT OpenAdapter(const GUID &, u64, void **) = 0;
};

#define ND_GUID(name, a, b, c, d, e, f, g, h, i, j, k) static const GUID name = {a, b, c, {d, e, f, g, h, i, j, k}}
ND_GUID(IID_IClassFactory, 1, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0x46);
ND_GUID(IID_IND2Provider, 0x49EAE6C1, 0x76C4, 0x46D0, 0x80, 0x03, 0x5C, 0x2E, 0xAA, 0x2C, 0x9A, 0x8E);
ND_GUID(IID_IND2Adapter, 0xD89C798C, 0x4823, 0x4D69, 0x84, 0x6C, 0xDF, 0xDC, 0xCF, 0xF9, 0xE5, 0xF3);
ND_GUID(IID_IND2CompletionQueue, 0x20CC445E, 0x64A0, 0x4CBB, 0xAA, 0x75, 0xF6, 0xA7, 0x25, 0x1F, 0xDA, 0x9E);
ND_GUID(IID_IND2MemoryRegion, 0x55DFEA2F, 0xBC56, 0x4982, 0x8A, 0x45, 0x03, 0x01, 0xBE, 0x46, 0xC4, 0x13);
ND_GUID(IID_IND2QueuePair, 0xEEF2F332, 0xB75D, 0x4063, 0xBC, 0xE3, 0x3A, 0x0B, 0xAD, 0x2D, 0x02, 0xCE);
ND_GUID(IID_IND2Connector, 0x7DD615C4, 0x6B4C, 0x4866, 0x95, 0x0C, 0xF3, 0xB1, 0xD2, 0x5A, 0x53, 0x02);
ND_GUID(IID_IND2Listener, 0x65D23D83, 0x3A57, 0x4E02, 0x86, 0xA4, 0x35, 0x01, 0x65, 0xC2, 0xD1, 0x30);
// The entry of SoftNDK in the Winsock catalog, and the class of its provider.
ND_GUID(SOFTND_PROVIDER, 0x3d1c7a52, 0x9b0e, 0x4c6f, 0x8a, 0x47, 0x2f, 0x6b, 0x5e, 0x90, 0xd1, 0xc3);

static const HRESULT ND_SUCCESS = 0, ND_PENDING = 0x103, ND_BUFFER_OVERFLOW = (HRESULT)0x80000005;
static const u32 ND_VERSION_2 = 0x20000, ND_CQ_NOTIFY_ANY = 1;
static const u32 ND_MR_FLAG_ALLOW_LOCAL_WRITE = 1, ND_MR_FLAG_ALLOW_REMOTE_READ = 2, ND_MR_FLAG_ALLOW_REMOTE_WRITE = 5;
enum RequestType { Receive, Send, Bind, Invalidate, Read, Write };
