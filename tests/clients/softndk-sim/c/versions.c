/* Versions, addresses, MDLs: what the library itself answers. */
#include "consumer.h"

static NTSTATUS add(struct address address) { return softndk_sim_add_address(SOCKET_ADDRESS(&address)); }

static void refused(USHORT major, USHORT minor) {
    void *adapter = &adapter;
    CHECK_STATUS(softndk_sim_open_adapter(major, minor, &adapter), NDIS_STATUS_BAD_VERSION);
    CHECK(adapter == NULL);
}

/* Every entry of every table is filled, whatever the version. */
static unsigned filled(const void *table, size_t size) {
    for (size_t at = 0; at < size / sizeof(void *); at++) CHECK(((void *const *)table)[at] != NULL);
    return (unsigned)(size / sizeof(void *));
}
#define FILLED(OBJECT) filled((OBJECT)->Dispatch, sizeof *(OBJECT)->Dispatch)

static void tables(NDK_ADAPTER *adapter) {
    struct side side;
    struct waiter events = WAITER, done = WAITER;
    NDK_LISTENER *listener = NULL;
    NDK_SRQ *srq = NULL;
    NDK_MW *mw = NULL;
    NDK_SHARED_ENDPOINT *endpoint = NULL;
    struct address at = ipv4(250, 0);
    open_side(&side, adapter, 64);
    CREATE(adapter, NdkCreateConnector, &side.connector);
    CREATE(adapter, NdkCreateListener, &listener, connect_event, &events);
    CREATE(side.pd, NdkCreateSrq, &srq, 1, 1, 0, NULL, NULL, NULL);
    CREATE(side.pd, NdkCreateMw, &mw);
    CREATE(adapter, NdkCreateSharedEndpoint, &endpoint, SOCKET_ADDRESS(&at), at.length);
    unsigned entries = FILLED(adapter) + FILLED(side.pd) + FILLED(side.cq) + FILLED(side.mr) + FILLED(mw) + FILLED(srq) +
        FILLED(side.qp) + FILLED(endpoint) + FILLED(side.connector) + FILLED(listener);
    CHECK_EQUAL(entries, 70);
    CHECK_STATUS(CLOSE(endpoint, NdkCloseSharedEndpoint, &done), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(mw, NdkCloseMw, &done), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(srq, NdkCloseSrq, &done), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(listener, NdkCloseListener, &done), STATUS_SUCCESS);
    close_side(&side);
    CHECK_EQUAL(softndk_sim_outstanding(), 1);
}

static void served(USHORT major, USHORT minor, USHORT as_minor) {
    NDK_ADAPTER *adapter = open_adapter(major, minor);
    CHECK_EQUAL(softndk_sim_outstanding(), 1);
    CHECK_EQUAL(adapter->Header.ObjectType, NdkObjectTypeAdapter);
    CHECK_EQUAL(adapter->Header.Version.Major, major);
    CHECK_EQUAL(adapter->Header.Version.Minor, as_minor);
    for (int word = 0; word < 4; word++) CHECK(adapter->Header.NdkReserved.rf[word] == NULL);

    NDK_ADAPTER_INFO info;
    memset(&info, 0xEE, sizeof info);
    ULONG size = 0, needed = major == 1 ? 0x60 : 0x68;
    CHECK_STATUS(CALL(adapter, NdkQueryAdapterInfo, NULL, &size), STATUS_BUFFER_TOO_SMALL);
    CHECK_EQUAL(size, needed);
    CHECK_STATUS(CALL(adapter, NdkQueryAdapterInfo, &info, &size), STATUS_SUCCESS);
    CHECK_EQUAL(info.Version.Major, major);
    CHECK_EQUAL(info.Version.Minor, as_minor);
    CHECK(info.FRMRPageCount >= 16);
    CHECK(info.AdapterFlags & NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED);
    if (major == 2) CHECK_EQUAL(info.RdmaTechnology, NdkiWarp);

    NDK_VERSION version = { 1, 0 };
    NDK_EXTENSION_INTERFACE extension = { NULL };
    uint32_t guid[4] = { 1, 2, 3, 4 };
    NTSTATUS status = adapter->Dispatch->NdkQueryExtension(&adapter->Header, (GUID *)guid, version, &extension);
    CHECK_STATUS(status, STATUS_NOT_SUPPORTED);

    NDK_PD *pd = NULL;
    CREATE(adapter, NdkCreatePd, &pd);
    CHECK_EQUAL(pd->Header.ObjectType, NdkObjectTypePd);
    CHECK_EQUAL(pd->Header.Version.Minor, as_minor);
    CHECK_EQUAL(softndk_sim_outstanding(), 2);
    struct waiter closed = WAITER;
    CHECK_STATUS(CLOSE(pd, NdkClosePd, &closed), STATUS_SUCCESS);
    CHECK_EQUAL(softndk_sim_outstanding(), 1);
    tables(adapter);
    softndk_sim_close_adapter(adapter);
    CHECK_EQUAL(softndk_sim_outstanding(), 0);
}

/* Listens on an address, on any free port. */
static NTSTATUS listen_on(NDK_ADAPTER *adapter, struct address address) {
    NDK_LISTENER *listener = NULL;
    struct waiter events = WAITER, done = WAITER;
    CREATE(adapter, NdkCreateListener, &listener, connect_event, &events);
    NTSTATUS status = CALL(listener, NdkListen, SOCKET_ADDRESS(&address), address.length, request_done, &done);
    status = finish(&done, status);
    CHECK_STATUS(CLOSE(listener, NdkCloseListener, &done), STATUS_SUCCESS);
    return status;
}

static void addresses(void) {
    struct address other = ipv4(1, 0), none = { { 2 }, 16 }, seventh = ipv4(7, 99);
    /* What AF_INET6 is on Linux. */
    other.bytes[0] = 10;
    CHECK_STATUS(add(other), STATUS_INVALID_PARAMETER);
    CHECK_STATUS(softndk_sim_add_address(NULL), STATUS_INVALID_PARAMETER);
    CHECK_STATUS(add(none), STATUS_INVALID_ADDRESS);
    CHECK_STATUS(add(ipv4(1, 0)), STATUS_SUCCESS);
    CHECK_STATUS(add(ipv4(1, 5)), STATUS_SUCCESS);

    /* At an odd address, as a C program may have packed it. */
    unsigned char packed[1 + 16];
    memcpy(packed + 1, seventh.bytes, 16);
    CHECK_STATUS(softndk_sim_add_address((void *)(packed + 1)), STATUS_SUCCESS);
    CHECK_EQUAL(softndk_sim_outstanding(), 0);

    NDK_ADAPTER *adapter = open_adapter(2, 1);
    CHECK_STATUS(listen_on(adapter, ipv4(1, 0)), STATUS_SUCCESS);
    CHECK_STATUS(listen_on(adapter, ipv4(7, 0)), STATUS_SUCCESS);
    CHECK_STATUS(listen_on(adapter, ipv4(2, 0)), STATUS_INVALID_ADDRESS);
    CHECK_STATUS(listen_on(adapter, ipv6(1, 0)), STATUS_INVALID_ADDRESS);
    CHECK_STATUS(add(ipv6(1, 0)), STATUS_SUCCESS);
    CHECK_STATUS(add(none), STATUS_INVALID_ADDRESS);
    CHECK_STATUS(listen_on(adapter, ipv6(1, 0)), STATUS_SUCCESS);
    softndk_sim_close_adapter(adapter);

    /* Those that came while an adapter was open stay as well. */
    adapter = open_adapter(1, 2);
    CHECK_STATUS(listen_on(adapter, ipv6(1, 0)), STATUS_SUCCESS);
    softndk_sim_close_adapter(adapter);
}

static void mdls(void) {
    static unsigned char memory[100];
    CHECK(softndk_sim_alloc_mdl(NULL, 1) == NULL);
    CHECK(softndk_sim_alloc_mdl(memory, (size_t)1 << 32) == NULL);
    void *some = softndk_sim_alloc_mdl(memory, sizeof memory), *none = softndk_sim_alloc_mdl(memory, 0);
    CHECK(some != NULL && none != NULL && some != none);
    CHECK_EQUAL(softndk_sim_outstanding(), 0);

    NDK_ADAPTER *adapter = open_adapter(2, 0);
    ULONG size = 0, offset = 0;
    NTSTATUS status = CALL(adapter, NdkBuildLAM, some, sizeof memory, NULL, NULL, NULL, &size, &offset);
    CHECK_STATUS(status, STATUS_BUFFER_TOO_SMALL);
    status = CALL(adapter, NdkBuildLAM, none, 1, NULL, NULL, NULL, &size, &offset);
    CHECK_STATUS(status, STATUS_INVALID_PARAMETER);
    CHECK_EQUAL(softndk_sim_outstanding(), 1);
    softndk_sim_close_adapter(adapter);

    softndk_sim_free_mdl(none);
    softndk_sim_free_mdl(NULL);
    CHECK_EQUAL(softndk_sim_outstanding(), 0);
    softndk_sim_free_mdl(some);
    softndk_sim_close_adapter(NULL);
}

int main(void) {
    CHECK_EQUAL(softndk_sim_outstanding(), 0);
    softndk_sim_run_idle();
    CHECK_STATUS(add(ipv4(250, 0)), STATUS_SUCCESS);
    served(1, 0, 2);
    served(1, 1, 2);
    served(1, 2, 2);
    served(2, 0, 1);
    served(2, 1, 1);
    refused(0, 9);
    refused(1, 3);
    refused(2, 2);
    refused(3, 0);
    CHECK_STATUS(softndk_sim_open_adapter(2, 1, NULL), STATUS_INVALID_PARAMETER);
    CHECK_EQUAL(softndk_sim_outstanding(), 0);
    addresses();
    mdls();
    return clean();
}
