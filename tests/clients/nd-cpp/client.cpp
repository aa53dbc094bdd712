// A C++ program that uses softnd.dll as any NetworkDirect program would: it loads the DLL named on its command line, connects
// two queue pairs, sends, writes, reads, and checks the data. One end's memory is the system's pages, the other's lies in the heap.
// Prints "pass", or the line that failed.
#include "nd.h"

extern "C" {
void *LoadLibraryA(const char *);
int FreeLibrary(void *);
void *GetProcAddress(void *, const char *);
HANDLE CreateEventA(void *, int, int, const char *);
int ResetEvent(HANDLE);
u32 WaitForSingleObject(HANDLE, u32);
int CloseHandle(HANDLE);
void *VirtualAlloc(void *, u64, u32, u32);
int VirtualFree(void *, u64, u32);
void *malloc(u64);
void free(void *);
u64 GetTickCount64(void);
int SwitchToThread(void);
int printf(const char *, ...);
}

static const u32 PATIENCE = 20000; // milliseconds
static const u32 LENGTH = 256 * 1024;

#define CHECK(condition)                                                                                                        \
    do {                                                                                                                        \
        if (!(condition)) {                                                                                                     \
            printf("FAIL line %d: %s\n", __LINE__, #condition);                                                                 \
            return 1;                                                                                                           \
        }                                                                                                                       \
    } while (0)
#define EXPECT(expected, call)                                                                                                  \
    do {                                                                                                                        \
        HRESULT status = (call);                                                                                                \
        if (status != (expected)) {                                                                                             \
            printf("FAIL line %d: %s: 0x%08x\n", __LINE__, #call, (u32)status);                                                 \
            return 1;                                                                                                           \
        }                                                                                                                       \
    } while (0)
#define RELEASE(object) CHECK((object)->Release() == 0)

// One request that pends, with its event.
struct Request {
    OVERLAPPED overlapped = {};
    Request() { overlapped.hEvent = CreateEventA(nullptr, 1, 0, nullptr); }
    ~Request() { CloseHandle(overlapped.hEvent); }
    HRESULT wait(IND2Overlapped *object, HRESULT issued) {
        if (issued != ND_PENDING)
            return issued;
        if (WaitForSingleObject(overlapped.hEvent, PATIENCE) != 0) {
            object->CancelOverlappedRequests();
            object->GetOverlappedResult(&overlapped, 1);
            return -1;
        }
        HRESULT status = object->GetOverlappedResult(&overlapped, 0);
        ResetEvent(overlapped.hEvent);
        return status;
    }
};

// Takes one completion and checks it.
static int take(IND2CompletionQueue *queue, RequestType type, void *context, u32 bytes) {
    Result result = {};
    u64 deadline = GetTickCount64() + PATIENCE;
    while (queue->GetResults(&result, 1) == 0) {
        CHECK(GetTickCount64() < deadline);
        SwitchToThread();
    }
    CHECK(result.Status == ND_SUCCESS);
    CHECK(result.RequestType == (u32)type);
    CHECK(result.RequestContext == context);
    CHECK(type != Receive || result.BytesTransferred == bytes);
    return 0;
}

struct End {
    IND2CompletionQueue *queue;
    IND2QueuePair *pair;
    IND2Connector *connector;
    IND2MemoryRegion *region;
    u8 *memory;
    bool of_heap;
    Sge sge(u32 length) { return Sge{memory, length, region->GetLocalToken()}; }
};

static int create(IND2Adapter *adapter, HANDLE file, End &end, bool of_heap) {
    EXPECT(ND_SUCCESS, adapter->CreateCompletionQueue(IID_IND2CompletionQueue, file, 64, 0, 0, (void **)&end.queue));
    EXPECT(ND_SUCCESS, adapter->CreateQueuePair(IID_IND2QueuePair, end.queue, end.queue, &end, 16, 16, 2, 2, 0, (void **)&end.pair));
    EXPECT(ND_SUCCESS, adapter->CreateConnector(IID_IND2Connector, file, (void **)&end.connector));
    EXPECT(ND_SUCCESS, adapter->CreateMemoryRegion(IID_IND2MemoryRegion, file, (void **)&end.region));
    end.of_heap = of_heap;
    end.memory = (u8 *)(of_heap ? malloc(LENGTH) : VirtualAlloc(nullptr, LENGTH, 0x3000, 4));
    CHECK(end.memory);
    Request request;
    u32 rights = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ | ND_MR_FLAG_ALLOW_REMOTE_WRITE;
    EXPECT(ND_SUCCESS, request.wait(end.region, end.region->Register(end.memory, LENGTH, rights, &request.overlapped)));
    return 0;
}

static int destroy(End &end) {
    Request request;
    EXPECT(ND_SUCCESS, request.wait(end.region, end.region->Deregister(&request.overlapped)));
    RELEASE(end.connector);
    RELEASE(end.pair);
    RELEASE(end.region);
    RELEASE(end.queue);
    if (end.of_heap)
        free(end.memory);
    else
        VirtualFree(end.memory, 0, 0x8000);
    return 0;
}

static int connect(IND2Adapter *adapter, HANDLE file, const SockAddrIn &local, End &a, End &b) {
    IND2Listener *listener = nullptr;
    EXPECT(ND_SUCCESS, adapter->CreateListener(IID_IND2Listener, file, (void **)&listener));
    EXPECT(ND_SUCCESS, listener->Bind(&local, sizeof local));
    EXPECT(ND_SUCCESS, listener->Listen(0));
    SockAddrIn address = {};
    u32 length = sizeof address;
    EXPECT(ND_SUCCESS, listener->GetLocalAddress(&address, &length));
    Request asked, connecting, accepting, completing;
    EXPECT(ND_PENDING, listener->GetConnectionRequest(b.connector, &asked.overlapped));
    EXPECT(ND_SUCCESS, a.connector->Bind(&local, sizeof local));
    static const char hello[] = "hello";
    EXPECT(ND_PENDING, a.connector->Connect(a.pair, &address, sizeof address, 4, 4, hello, sizeof hello, &connecting.overlapped));
    EXPECT(ND_SUCCESS, asked.wait(listener, ND_PENDING));
    char data[1024];
    length = sizeof data;
    EXPECT(ND_SUCCESS, b.connector->GetPrivateData(data, &length));
    CHECK(length >= sizeof hello && data[0] == 'h' && data[4] == 'o');
    EXPECT(ND_PENDING, b.connector->Accept(b.pair, 4, 4, nullptr, 0, &accepting.overlapped));
    EXPECT(ND_SUCCESS, connecting.wait(a.connector, ND_PENDING));
    EXPECT(ND_SUCCESS, completing.wait(a.connector, a.connector->CompleteConnect(&completing.overlapped)));
    EXPECT(ND_SUCCESS, accepting.wait(b.connector, ND_PENDING));
    RELEASE(listener);
    return 0;
}

static void fill(u8 *memory, u32 length, u32 seed) {
    for (u32 at = 0; at < length; at++)
        memory[at] = (u8)((at + seed) * 2654435761u >> 13);
}

static bool same(const u8 *one, const u8 *other, u32 length) {
    for (u32 at = 0; at < length; at++)
        if (one[at] != other[at])
            return false;
    return true;
}

static int exchange(End &a, End &b) {
    // A send, whose receive is waited for by a notification.
    Request notified;
    EXPECT(ND_PENDING, b.queue->Notify(ND_CQ_NOTIFY_ANY, &notified.overlapped));
    Sge from = a.sge(1000), to = b.sge(LENGTH);
    fill(a.memory, 1000, 1);
    EXPECT(ND_SUCCESS, b.pair->Receive(&to, &to, 1));
    EXPECT(ND_SUCCESS, a.pair->Send(&from, &from, 1, 0));
    EXPECT(ND_SUCCESS, notified.wait(b.queue, ND_PENDING));
    CHECK(take(b.queue, Receive, &to, 1000) == 0);
    CHECK(take(a.queue, Send, &from, 0) == 0);
    CHECK(same(a.memory, b.memory, 1000));
    // A write of all of the memory, and a read of what the other side has changed since.
    Sge all = a.sge(LENGTH);
    fill(a.memory, LENGTH, 2);
    EXPECT(ND_SUCCESS, a.pair->Write(&all, &all, 1, (u64)b.memory, b.region->GetRemoteToken(), 0));
    CHECK(take(a.queue, Write, &all, 0) == 0);
    CHECK(same(a.memory, b.memory, LENGTH));
    fill(b.memory, LENGTH, 3);
    CHECK(!same(a.memory, b.memory, LENGTH));
    EXPECT(ND_SUCCESS, a.pair->Read(&all, &all, 1, (u64)b.memory, b.region->GetRemoteToken(), 0));
    CHECK(take(a.queue, Read, &all, 0) == 0);
    CHECK(same(a.memory, b.memory, LENGTH));
    return 0;
}

typedef HRESULT (*GetClassObject)(const GUID *, const GUID *, void **);
typedef HRESULT (*CanUnload)();

static int run(GetClassObject get, CanUnload can_unload) {
    IClassFactory *factory = nullptr;
    IND2Provider *provider = nullptr;
    EXPECT(ND_SUCCESS, get(&SOFTND_PROVIDER, &IID_IClassFactory, (void **)&factory));
    EXPECT(ND_SUCCESS, factory->CreateInstance(nullptr, IID_IND2Provider, (void **)&provider));
    RELEASE(factory);

    alignas(8) u8 buffer[4096];
    SocketAddressList *list = (SocketAddressList *)buffer;
    u32 length = 0;
    EXPECT(ND_BUFFER_OVERFLOW, provider->QueryAddressList(nullptr, &length));
    CHECK(length <= sizeof buffer);
    EXPECT(ND_SUCCESS, provider->QueryAddressList(list, &length));
    SockAddrIn local = {};
    for (int at = 0; at < list->count && local.family == 0; at++)
        if (list->entries[at].address->family == 2)
            local = *list->entries[at].address;
    CHECK(local.family == 2);
    local.port = 0;
    u64 id = 0;
    EXPECT(ND_SUCCESS, provider->ResolveAddress(&local, sizeof local, &id));
    IND2Adapter *adapter = nullptr;
    EXPECT(ND_SUCCESS, provider->OpenAdapter(IID_IND2Adapter, id, (void **)&adapter));
    RELEASE(provider);
    CHECK(can_unload() != 0);

    AdapterInfo info = {};
    info.InfoVersion = ND_VERSION_2;
    length = sizeof info;
    EXPECT(ND_SUCCESS, adapter->Query(&info, &length));
    CHECK(info.AdapterId == id && info.MaxTransferLength >= LENGTH && info.MaxReadSge > 0);
    HANDLE file = nullptr;
    EXPECT(ND_SUCCESS, adapter->CreateOverlappedFile(&file));

    End a = {}, b = {};
    CHECK(create(adapter, file, a, false) == 0 && create(adapter, file, b, true) == 0);
    CHECK(connect(adapter, file, local, a, b) == 0);
    CHECK(exchange(a, b) == 0 && exchange(b, a) == 0);
    Request ended, ending, ending_too;
    EXPECT(ND_PENDING, b.connector->NotifyDisconnect(&ended.overlapped));
    EXPECT(ND_SUCCESS, ending.wait(a.connector, a.connector->Disconnect(&ending.overlapped)));
    CHECK(WaitForSingleObject(ended.overlapped.hEvent, PATIENCE) == 0);
    EXPECT(ND_SUCCESS, ending_too.wait(b.connector, b.connector->Disconnect(&ending_too.overlapped)));
    CHECK(destroy(a) == 0 && destroy(b) == 0);
    CloseHandle(file);
    RELEASE(adapter);
    CHECK(can_unload() == 0);
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    void *library = LoadLibraryA(argv[1]);
    CHECK(library);
    GetClassObject get = (GetClassObject)GetProcAddress(library, "DllGetClassObject");
    CanUnload can_unload = (CanUnload)GetProcAddress(library, "DllCanUnloadNow");
    CHECK(get && can_unload);
    if (run(get, can_unload) != 0)
        return 1;
    CHECK(FreeLibrary(library));
    printf("pass\n");
    return 0;
}
