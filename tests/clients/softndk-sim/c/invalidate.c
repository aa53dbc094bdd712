/* Fast-registered regions, as a storage client uses them: register, hand the token to the peer, have it invalidated. */
#include "consumer.h"

#include <sys/mman.h>

enum { PAGES = 4, PAGE = 4096, OFFSET = 100, LENGTH = 3 * PAGE };

struct region {
    NDK_MR *mr;
    unsigned char *memory;
    void *mdl;
    NDK_LOGICAL_ADDRESS_MAPPING *mapping;
    ULONG offset;
    UINT32 token;
    UINT64 base;
};

static void open_region(struct region *region, struct side *side, bool in_chain) {
    struct waiter done = WAITER;
    *region = (struct region){ .memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
    CHECK(region->memory != MAP_FAILED);
    unsigned char *start = region->memory + OFFSET;
    void *rest = NULL;
    size_t first = in_chain ? 2 * PAGE - OFFSET : LENGTH;
    region->mdl = softndk_sim_alloc_mdl(start, first);
    if (in_chain) {
        /* The first member of an MDL is the next one. */
        rest = softndk_sim_alloc_mdl(start + first, LENGTH - first);
        *(void **)region->mdl = rest;
    }
    ULONG size = 0;
    NTSTATUS status = CALL(side->adapter, NdkBuildLAM, region->mdl, LENGTH, request_done, &done, NULL, &size,
        &region->offset);
    CHECK_STATUS(status, STATUS_BUFFER_TOO_SMALL);
    CHECK_EQUAL(size, offsetof(NDK_LOGICAL_ADDRESS_MAPPING, AdapterPageArray) + PAGES * sizeof(NDK_LOGICAL_ADDRESS));
    region->mapping = malloc(size);
    status = CALL(side->adapter, NdkBuildLAM, region->mdl, LENGTH, request_done, &done, region->mapping, &size,
        &region->offset);
    CHECK_STATUS(finish(&done, status), STATUS_SUCCESS);
    CHECK_EQUAL(region->mapping->AdapterPageCount, PAGES);
    CHECK_EQUAL(region->offset, OFFSET);

    CREATE(side->pd, NdkCreateMr, &region->mr, 1);
    status = CALL(region->mr, NdkInitializeFastRegisterMr, PAGES, 1, request_done, &done);
    CHECK_STATUS(finish(&done, status), STATUS_SUCCESS);
    region->token = region->mr->Dispatch->NdkGetRemoteTokenFromMr(region->mr);
    CHECK(region->token != 0);
    region->base = 0xABCD000000000000 + OFFSET;
}

static void close_region(struct region *region, struct side *side) {
    struct waiter closed = WAITER;
    void *rest = *(void **)region->mdl;
    CHECK_STATUS(CLOSE(region->mr, NdkCloseMr, &closed), STATUS_SUCCESS);
    side->adapter->Dispatch->NdkReleaseLAM(side->adapter, region->mapping);
    softndk_sim_free_mdl(region->mdl);
    softndk_sim_free_mdl(rest);
    free(region->mapping);
    munmap(region->memory, PAGES * PAGE);
}

static void fast_register(struct region *region, struct side *side) {
    NTSTATUS status = CALL(side->qp, NdkFastRegister, region, region->mr, PAGES, region->mapping->AdapterPageArray,
        region->offset, LENGTH, (void *)region->base, NDK_OP_FLAG_ALLOW_REMOTE_READ | NDK_OP_FLAG_ALLOW_REMOTE_WRITE);
    CHECK_STATUS(status, STATUS_SUCCESS);
    success(side, NdkOperationTypeFastRegister, region);
}

/* The peer writes into the region, and says so with the invalidation of its token. */
static void served(struct region *region, struct side *client, struct side *server, bool plain) {
    char ask, answer;
    NDK_SGE to = sge(client, 0, 8), from = sge(server, 0, 8), all = sge(server, 8, LENGTH);
    fast_register(region, client);
    CHECK_STATUS(CALL(client->qp, NdkReceive, &ask, &to, 1), STATUS_SUCCESS);
    for (int at = 0; at < LENGTH; at++) server->memory[8 + at] = (unsigned char)(at * 7 + (at >> 8));
    CHECK_STATUS(CALL(server->qp, NdkWrite, NULL, &all, 1, region->base, region->token, NDK_OP_FLAG_SILENT_SUCCESS), 0);
    NTSTATUS status = CALL(server->qp, NdkSendAndInvalidate, &answer, &from, 1, 0, region->token);
    CHECK_STATUS(status, STATUS_SUCCESS);
    if (plain) {
        /* A 1.1 consumer is not told, but the token is as invalid. */
        softndk_sim_run_idle();
        NDK_RESULT one;
        CHECK_EQUAL(CALL(client->cq, NdkGetCqResults, &one, 1), 1);
        CHECK_STATUS(one.Status, STATUS_SUCCESS);
        CHECK(one.RequestContext == &ask && one.QPContext == client);
        CHECK_EQUAL(one.BytesTransferred, 8);
    } else {
        NDK_RESULT_EX one = success(client, NdkOperationTypeReceiveAndInvalidate, &ask);
        CHECK_EQUAL(one.BytesTransferred, 8);
        CHECK_EQUAL(one.TypeSpecificCompletionOutput, region->token);
    }
    CHECK_EQUAL(success(server, NdkOperationTypeSend, &answer).TypeSpecificCompletionOutput, 0);
    CHECK(memcmp(region->memory + OFFSET, server->memory + 8, LENGTH) == 0);
    CHECK(region->memory[OFFSET - 1] == 0 && region->memory[OFFSET + LENGTH] == 0);
    memset(region->memory, 0, PAGES * PAGE);
}

int main(void) {
    struct address at = ipv4(1, 0);
    CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&at)), STATUS_SUCCESS);
    NDK_ADAPTER *adapter = open_adapter(1, 2);
    struct side client, server;
    struct region region, chained;
    open_side(&client, adapter, 4096);
    open_side(&server, adapter, 2 * LENGTH);
    connect_sides(&client, &server, &at, &at);
    open_region(&region, &client, false);
    open_region(&chained, &client, true);
    for (int round = 0; round < 3; round++) {
        served(&region, &client, &server, false);
        served(&chained, &client, &server, true);
    }

    /* Invalidated by its owner. */
    fast_register(&region, &client);
    CHECK_STATUS(CALL(client.qp, NdkInvalidate, &region, &region.mr->Header, 0), STATUS_SUCCESS);
    success(&client, NdkOperationTypeInvalidate, &region);

    /* The peer's token is worth nothing now. */
    NDK_SGE any = sge(&server, 0, 8);
    CHECK_STATUS(CALL(server.qp, NdkRead, &any, &any, 1, region.base, region.token, 0), STATUS_SUCCESS);
    CHECK(result(&server).Status != STATUS_SUCCESS);
    (void)await(&client.disconnected);

    close_region(&region, &client);
    close_side(&server);
    close_region(&chained, &client);
    close_side(&client);
    softndk_sim_close_adapter(adapter);
    return clean();
}
