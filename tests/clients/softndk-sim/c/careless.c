/* A consumer that is careless, unless its argument is "careful". A sweep of fault rules has to find each carelessness, and nothing in the
 * careful one, which ends with 1 when something has failed. */
#include "consumer.h"

static bool careful;

struct peer {
    unsigned messages;
};

/* Careless: connects, though the listen has failed, and goes on with a connection that was refused. */
static struct peer *connect_to_peer(struct side *active, struct side *passive, struct address *from, struct address *at) {
    static struct peer peer;
    struct waiter events = WAITER, listened = WAITER, connected = WAITER, accepted = WAITER, completed = WAITER;
    CREATE(passive->adapter, NdkCreateListener, &passive->listener, connect_event, &events);
    NTSTATUS status = CALL(passive->listener, NdkListen, SOCKET_ADDRESS(at), at->length, request_done, &listened);
    status = finish(&listened, status);
    if (careful) CHECK_STATUS(status, STATUS_SUCCESS);
    CREATE(active->adapter, NdkCreateConnector, &active->connector);
    status = CALL(active->connector, NdkConnect, active->qp, SOCKET_ADDRESS(from), from->length, SOCKET_ADDRESS(at), at->length,
        4, 4, NULL, 0, request_done, &connected);
    while (calls(&events) == 0) {
        if (careful) CHECK_EQUAL(calls(&connected), 0);
        if (status != STATUS_PENDING || calls(&connected) > 0) return NULL;
        sched_yield();
    }
    await(&events);
    passive->connector = events.object;
    status = CALL(passive->connector, NdkAccept, passive->qp, 4, 4, NULL, 0, disconnected, &passive->disconnected, request_done,
        &accepted);
    if (careful) CHECK_STATUS(status, STATUS_PENDING);
    if (await(&connected) != STATUS_SUCCESS) return NULL;
    status = CALL(active->connector, NdkCompleteConnectEx, disconnected_ex, &active->disconnected, request_done, &completed);
    CHECK_STATUS(finish(&completed, status), STATUS_SUCCESS);
    CHECK_STATUS(await(&accepted), STATUS_SUCCESS);
    return &peer;
}

/* Careless: waits for the completion of a request, though the peer has disconnected, and does not look at its status. */
static void complete(struct side *side, NTSTATUS posted) {
    if (!careful) {
        result(side);
        return;
    }
    CHECK_STATUS(posted, STATUS_SUCCESS);
    NDK_RESULT_EX one;
    while (CALL(side->cq, NdkGetCqResultsEx, &one, 1) == 0) {
        CHECK_EQUAL(calls(&side->disconnected), 0);
        sched_yield();
    }
    CHECK_STATUS(one.Status, STATUS_SUCCESS);
}

int main(int count, char **arguments) {
    careful = count > 1 && strcmp(arguments[1], "careful") == 0;
    struct address one = ipv4(1, 0), other = ipv4(2, 5445);
    CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&one)), STATUS_SUCCESS);
    CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&other)), STATUS_SUCCESS);
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    struct side active, passive;
    open_side(&active, adapter, 4096);
    open_side(&passive, adapter, 4096);
    struct peer *peer = connect_to_peer(&active, &passive, &one, &other);

    char request;
    NDK_SGE from = sge(&active, 0, 64), to = sge(&passive, 0, 64);
    UINT64 remote = (UINT64)(uintptr_t)passive.memory;
    UINT32 token = passive.remote_token;
    peer->messages++;
    CHECK_STATUS(CALL(passive.qp, NdkReceive, &request, &to, 1), STATUS_SUCCESS);
    complete(&active, CALL(active.qp, NdkSend, &request, &from, 1, 0));
    complete(&active, CALL(active.qp, NdkRead, &request, &from, 1, remote, token, 0));
    complete(&active, CALL(active.qp, NdkWrite, &request, &from, 1, remote, token, 0));

    close_side(&active);
    close_side(&passive);
    softndk_sim_close_adapter(adapter);
    return clean();
}
