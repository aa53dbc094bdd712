/* Two connections from one shared local address, which is free again when all of them are gone. */
#include "consumer.h"

static NTSTATUS listen_at(NDK_ADAPTER *adapter, struct address at, NDK_LISTENER **listener, struct waiter *events) {
    struct waiter done = WAITER;
    CREATE(adapter, NdkCreateListener, listener, connect_event, events);
    return finish(&done, CALL(*listener, NdkListen, SOCKET_ADDRESS(&at), at.length, request_done, &done));
}

static void connect_over(NDK_SHARED_ENDPOINT *endpoint, struct side *active, struct side *passive, struct address at,
    struct waiter *events) {
    struct waiter connected = WAITER, accepted = WAITER, completed = WAITER;
    CREATE(active->adapter, NdkCreateConnector, &active->connector);
    NTSTATUS status = CALL(active->connector, NdkConnectWithSharedEndpoint, active->qp, endpoint, SOCKET_ADDRESS(&at),
        at.length, 1, 1, NULL, 0, request_done, &connected);
    CHECK_STATUS(status, STATUS_PENDING);
    (void)await(events);
    passive->connector = events->object;
    status = CALL(passive->connector, NdkAcceptEx, passive->qp, 1, 1, NULL, 0, disconnected_ex, &passive->disconnected,
        request_done, &accepted);
    CHECK_STATUS(status, STATUS_PENDING);
    CHECK_STATUS(await(&connected), STATUS_SUCCESS);
    status = CALL(active->connector, NdkCompleteConnect, disconnected, &active->disconnected, request_done, &completed);
    CHECK_STATUS(finish(&completed, status), STATUS_SUCCESS);
    CHECK_STATUS(await(&accepted), STATUS_SUCCESS);
}

int main(void) {
    struct address all[] = { ipv6(1, 0), ipv6(2, 700), ipv6(2, 701) };
    for (int at = 0; at < 2; at++) CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&all[at])), STATUS_SUCCESS);
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    NDK_SHARED_ENDPOINT *endpoint = NULL;
    CREATE(adapter, NdkCreateSharedEndpoint, &endpoint, SOCKET_ADDRESS(&all[0]), all[0].length);
    struct address local = { { 0 }, sizeof local.bytes }, seen = { { 0 }, sizeof seen.bytes };
    CHECK_STATUS(CALL(endpoint, NdkGetLocalAddress, SOCKET_ADDRESS(&local), &local.length), STATUS_SUCCESS);
    CHECK(port_of(&local) >= 49152);

    struct side active[2], passive[2];
    NDK_LISTENER *listeners[2] = { NULL, NULL };
    struct waiter events[2] = { WAITER, WAITER }, closed = WAITER;
    for (int at = 0; at < 2; at++) {
        open_side(&active[at], adapter, 64);
        open_side(&passive[at], adapter, 64);
        CHECK_STATUS(listen_at(adapter, all[at + 1], &listeners[at], &events[at]), STATUS_SUCCESS);
        connect_over(endpoint, &active[at], &passive[at], all[at + 1], &events[at]);
        seen.length = sizeof seen.bytes;
        NTSTATUS status = CALL(passive[at].connector, NdkGetPeerAddress, SOCKET_ADDRESS(&seen), &seen.length);
        CHECK_STATUS(status, STATUS_SUCCESS);
        CHECK(seen.length == local.length && memcmp(seen.bytes, local.bytes, seen.length) == 0);
    }
    for (int at = 0; at < 2; at++) {
        NDK_SGE to = sge(&passive[at], 0, 8), from = sge(&active[at], 8, 8);
        memset(active[at].memory, 'a' + at, 64);
        CHECK_STATUS(CALL(passive[at].qp, NdkReceive, &to, &to, 1), STATUS_SUCCESS);
        CHECK_STATUS(CALL(active[at].qp, NdkSend, &from, &from, 1, 0), STATUS_SUCCESS);
        success(&passive[at], NdkOperationTypeReceive, &to);
        success(&active[at], NdkOperationTypeSend, &from);
        CHECK_EQUAL(passive[at].memory[7], 'a' + at);
    }

    /* Taken, until the last connection over it is gone. */
    struct waiter endpoint_closed = WAITER, none = WAITER;
    NTSTATUS status = endpoint->Dispatch->NdkCloseSharedEndpoint(&endpoint->Header, close_done, &endpoint_closed);
    CHECK_STATUS(status, STATUS_PENDING);
    NDK_LISTENER *taken = NULL;
    CHECK_STATUS(listen_at(adapter, local, &taken, &none), STATUS_SHARING_VIOLATION);
    CHECK_STATUS(CLOSE(taken, NdkCloseListener, &closed), STATUS_SUCCESS);
    for (int at = 0; at < 2; at++) {
        CHECK_EQUAL(calls(&endpoint_closed), 0);
        disconnect_sides(&active[at], &passive[at]);
        close_side(&active[at]);
        close_side(&passive[at]);
        CHECK_STATUS(CLOSE(listeners[at], NdkCloseListener, &closed), STATUS_SUCCESS);
    }
    CHECK_STATUS(await(&endpoint_closed), STATUS_SUCCESS);
    CHECK_STATUS(listen_at(adapter, local, &taken, &none), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(taken, NdkCloseListener, &closed), STATUS_SUCCESS);
    softndk_sim_close_adapter(adapter);
    return clean();
}
