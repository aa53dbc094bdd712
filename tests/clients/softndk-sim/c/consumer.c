#include "consumer.h"

#include <errno.h>
#include <time.h>

/* Longer than anything takes; only to end what hangs. */
enum { LIMIT_SECONDS = 60 };

void check_equal(const char *file, int line, const char *what, uint64_t value, uint64_t expected) {
    if (value != expected) {
        fprintf(stderr, "%s:%d: %s is %#llx, not %#llx\n", file, line, what, (unsigned long long)value,
            (unsigned long long)expected);
        exit(1);
    }
}

static void called(struct waiter *waiter, NTSTATUS status, void *object) {
    pthread_mutex_lock(&waiter->lock);
    waiter->calls++;
    waiter->status = status;
    if (object != NULL) waiter->object = object;
    /* With the lock held: the waiter may be gone right after. */
    pthread_cond_broadcast(&waiter->called);
    pthread_mutex_unlock(&waiter->lock);
}

void close_done(void *context) { called(context, STATUS_SUCCESS, NULL); }
void request_done(void *context, NTSTATUS status) { called(context, status, NULL); }
void create_done(void *context, NTSTATUS status, NDK_OBJECT_HEADER *object) { called(context, status, object); }
void connect_event(void *context, NDK_CONNECTOR *connector) { called(context, STATUS_SUCCESS, connector); }
void disconnected(void *context) { called(context, STATUS_SUCCESS, NULL); }
void disconnected_ex(void *context, ULONG reason) { called(context, (NTSTATUS)reason, NULL); }

NTSTATUS await(struct waiter *waiter) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += LIMIT_SECONDS;
    pthread_mutex_lock(&waiter->lock);
    while (waiter->calls == waiter->taken) {
        if (pthread_cond_timedwait(&waiter->called, &waiter->lock, &end) == ETIMEDOUT) FAIL("a callback does not come");
    }
    waiter->taken++;
    NTSTATUS status = waiter->status;
    pthread_mutex_unlock(&waiter->lock);
    return status;
}

NTSTATUS finish(struct waiter *waiter, NTSTATUS returned) {
    if (returned == STATUS_PENDING) return await(waiter);
    CHECK_EQUAL(calls(waiter), waiter->taken);
    return returned;
}

unsigned calls(struct waiter *waiter) {
    pthread_mutex_lock(&waiter->lock);
    unsigned calls = waiter->calls;
    pthread_mutex_unlock(&waiter->lock);
    return calls;
}

void set_port(struct address *address, USHORT port) {
    address->bytes[2] = (unsigned char)(port >> 8);
    address->bytes[3] = (unsigned char)port;
}

USHORT port_of(const struct address *address) { return (USHORT)(address->bytes[2] << 8 | address->bytes[3]); }

struct address ipv4(unsigned char last, USHORT port) {
    struct address address = { { 2, 0, 0, 0, 10, 9, 8, last }, 16 };
    set_port(&address, port);
    return address;
}

struct address ipv6(unsigned char last, USHORT port) {
    struct address address = { { 23, 0, 0, 0, 0, 0, 0, 0, 0xFD, 0 }, 28 };
    address.bytes[8 + 15] = last;
    set_port(&address, port);
    return address;
}

NDK_ADAPTER *open_adapter(USHORT major, USHORT minor) {
    void *adapter = NULL;
    CHECK_STATUS(softndk_sim_open_adapter(major, minor, &adapter), STATUS_SUCCESS);
    CHECK(adapter != NULL);
    return adapter;
}

void open_side(struct side *side, NDK_ADAPTER *adapter, size_t bytes) {
    *side = (struct side){ .adapter = adapter, .size = bytes, .notified = WAITER, .disconnected = WAITER };
    CREATE(adapter, NdkCreatePd, &side->pd);
    CREATE(adapter, NdkCreateCq, &side->cq, 64, request_done, &side->notified, NULL);
    CREATE(side->pd, NdkCreateQp, &side->qp, side->cq, side->cq, side, 16, 16, 4, 4, 64);
    CREATE(side->pd, NdkCreateMr, &side->mr, 0);
    side->memory = calloc(1, bytes);
    side->mdl = softndk_sim_alloc_mdl(side->memory, bytes);
    CHECK(side->memory != NULL && side->mdl != NULL);
    struct waiter registered = WAITER;
    ULONG rights = NDK_MR_FLAG_ALLOW_REMOTE_READ | NDK_MR_FLAG_ALLOW_REMOTE_WRITE;
    NTSTATUS status = CALL(side->mr, NdkRegisterMr, side->mdl, bytes, rights, request_done, &registered);
    CHECK_STATUS(finish(&registered, status), STATUS_SUCCESS);
    side->token = side->mr->Dispatch->NdkGetLocalTokenFromMr(side->mr);
    side->remote_token = side->mr->Dispatch->NdkGetRemoteTokenFromMr(side->mr);
    CHECK(side->token != 0 && side->remote_token != 0);
}

void close_side(struct side *side) {
    struct waiter closed = WAITER, listener_closed = WAITER;
    NTSTATUS listener = STATUS_SUCCESS;
    if (side->listener != NULL) {
        listener = side->listener->Dispatch->NdkCloseListener(&side->listener->Header, close_done, &listener_closed);
        /* It goes with the connector that came from it. */
        if (side->connector != NULL) CHECK_STATUS(listener, STATUS_PENDING);
    }
    if (side->connector != NULL) CHECK_STATUS(CLOSE(side->connector, NdkCloseConnector, &closed), STATUS_SUCCESS);
    CHECK_STATUS(finish(&listener_closed, listener), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(side->qp, NdkCloseQp, &closed), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(side->cq, NdkCloseCq, &closed), STATUS_SUCCESS);
    CHECK_STATUS(finish(&closed, CALL(side->mr, NdkDeregisterMr, request_done, &closed)), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(side->mr, NdkCloseMr, &closed), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(side->pd, NdkClosePd, &closed), STATUS_SUCCESS);
    softndk_sim_free_mdl(side->mdl);
    free(side->memory);
}

NDK_SGE sge(struct side *side, size_t offset, ULONG length) {
    return (NDK_SGE){ { side->memory + offset }, length, side->token };
}

NDK_RESULT_EX result(struct side *side) {
    NDK_RESULT_EX results[2];
    time_t end = time(NULL) + LIMIT_SECONDS;
    while (CALL(side->cq, NdkGetCqResultsEx, results, 1) == 0) {
        if (time(NULL) > end) FAIL("a completion does not come");
        sched_yield();
    }
    CHECK(results[0].QPContext == side);
    return results[0];
}

NDK_RESULT_EX success(struct side *side, NDK_OPERATION_TYPE type, void *request) {
    NDK_RESULT_EX one = result(side);
    CHECK_STATUS(one.Status, STATUS_SUCCESS);
    CHECK_EQUAL(one.Type, type);
    CHECK(one.RequestContext == request);
    CHECK_EQUAL(one.ProviderErrorCode, 0);
    return one;
}

void connect_sides(struct side *active, struct side *passive, const struct address *local, const struct address *peer) {
    static const char asked[] = "caller", answered[] = "callee's";
    struct waiter events = WAITER, listened = WAITER, connected = WAITER, accepted = WAITER, completed = WAITER;
    struct address at = *peer, from = *local, seen = { { 0 }, sizeof seen.bytes };

    CREATE(passive->adapter, NdkCreateListener, &passive->listener, connect_event, &events);
    NDK_LISTENER *listener = passive->listener;
    NTSTATUS status = CALL(listener, NdkListen, SOCKET_ADDRESS(&at), at.length, request_done, &listened);
    CHECK_STATUS(finish(&listened, status), STATUS_SUCCESS);
    CHECK_STATUS(CALL(listener, NdkGetLocalAddress, SOCKET_ADDRESS(&seen), &seen.length), STATUS_SUCCESS);
    CHECK_EQUAL(seen.length, at.length);
    CHECK(port_of(&seen) >= 49152);
    set_port(&at, port_of(&seen));

    CREATE(active->adapter, NdkCreateConnector, &active->connector);
    status = CALL(active->connector, NdkConnect, active->qp, SOCKET_ADDRESS(&from), from.length, SOCKET_ADDRESS(&at),
        at.length, 4, 4, asked, sizeof asked, request_done, &connected);
    CHECK_STATUS(status, STATUS_PENDING);
    CHECK_STATUS(await(&events), STATUS_SUCCESS);
    passive->connector = events.object;

    char data[512];
    ULONG inbound = 0, outbound = 0, length = sizeof data;
    status = CALL(passive->connector, NdkGetConnectionData, &inbound, &outbound, data, &length);
    CHECK_STATUS(status, STATUS_SUCCESS);
    CHECK(length >= sizeof asked && memcmp(data, asked, sizeof asked) == 0);
    status = CALL(passive->connector, NdkAccept, passive->qp, 4, 4, answered, sizeof answered, disconnected,
        &passive->disconnected, request_done, &accepted);
    CHECK_STATUS(status, STATUS_PENDING);

    CHECK_STATUS(await(&connected), STATUS_SUCCESS);
    length = sizeof data;
    CHECK_STATUS(CALL(active->connector, NdkGetConnectionData, &inbound, &outbound, data, &length), STATUS_SUCCESS);
    CHECK(length >= sizeof answered && memcmp(data, answered, sizeof answered) == 0);
    CHECK_EQUAL(inbound, 4);
    CHECK_EQUAL(outbound, 4);
    status = CALL(active->connector, NdkCompleteConnectEx, disconnected_ex, &active->disconnected, request_done,
        &completed);
    CHECK_STATUS(finish(&completed, status), STATUS_SUCCESS);
    CHECK_STATUS(await(&accepted), STATUS_SUCCESS);

    seen.length = sizeof seen.bytes;
    CHECK_STATUS(CALL(active->connector, NdkGetPeerAddress, SOCKET_ADDRESS(&seen), &seen.length), STATUS_SUCCESS);
    CHECK(seen.length == at.length && memcmp(seen.bytes, at.bytes, at.length) == 0);
}

void disconnect_sides(struct side *first, struct side *second) {
    struct waiter done = WAITER;
    NTSTATUS status = CALL(first->connector, NdkDisconnect, request_done, &done);
    CHECK_STATUS(await(&second->disconnected), STATUS_SUCCESS);
    CHECK_STATUS(finish(&done, status), STATUS_SUCCESS);
    status = CALL(second->connector, NdkDisconnect, request_done, &done);
    CHECK_STATUS(finish(&done, status), STATUS_SUCCESS);
    CHECK_EQUAL(calls(&first->disconnected), 0);
    CHECK_EQUAL(calls(&second->disconnected), 1);
}

int clean(void) {
    softndk_sim_run_idle();
    CHECK_EQUAL(softndk_sim_outstanding(), 0);
    return 0;
}
