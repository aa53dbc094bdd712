/* A consumer's kit: waiting for callbacks, memory, and two sides of a connection. A failed check ends the program. */
#ifndef CONSUMER_H
#define CONSUMER_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ndk.h"
#include "softndk_sim.h"

#define FAIL(...) (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define CHECK(CONDITION) ((CONDITION) ? (void)0 : FAIL("%s does not hold", #CONDITION))
#define CHECK_EQUAL(VALUE, EXPECTED) check_equal(__FILE__, __LINE__, #VALUE, (uint64_t)(VALUE), (uint64_t)(EXPECTED))
#define CHECK_STATUS(CALL, EXPECTED) CHECK_EQUAL((uint32_t)(CALL), (uint32_t)(EXPECTED))

void check_equal(const char *file, int line, const char *what, uint64_t value, uint64_t expected);

/* Calls an entry of an object's table, with the object first. */
#define CALL(OBJECT, ENTRY, ...) ((OBJECT)->Dispatch->ENTRY((OBJECT), __VA_ARGS__))
#define CLOSE(OBJECT, ENTRY, WAITER) finish((WAITER), (OBJECT)->Dispatch->ENTRY(&(OBJECT)->Header, close_done, (WAITER)))
/* Makes an object; fails if that fails. The arguments end before the completion. */
#define CREATE(PARENT, ENTRY, OUT, ...) \
    do { \
        struct waiter made = WAITER; \
        CHECK_STATUS(finish(&made, (PARENT)->Dispatch->ENTRY((PARENT), ##__VA_ARGS__, create_done, &made, (OUT))), 0); \
        if (made.object != NULL) *(OUT) = (void *)made.object; \
    } while (0)

/* Counts callbacks, and remembers what the last one said. */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t called;
    unsigned calls, taken;
    NTSTATUS status;
    void *object;
};
#define WAITER { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, NULL }

NDK_FN_CLOSE_COMPLETION close_done;
NDK_FN_REQUEST_COMPLETION request_done;
NDK_FN_CREATE_COMPLETION create_done;
NDK_FN_CONNECT_EVENT_CALLBACK connect_event;
NDK_FN_DISCONNECT_EVENT_CALLBACK disconnected;
NDK_FN_DISCONNECT_EVENT_CALLBACK_EX disconnected_ex;

/* Waits for a callback that nobody has waited for yet; its status. */
NTSTATUS await(struct waiter *);
/* The status of a call that may be pending: what it returned, or what its one callback said. */
NTSTATUS finish(struct waiter *, NTSTATUS returned);
unsigned calls(struct waiter *);

/* A socket address in the layout of Windows. */
struct address {
    _Alignas(8) unsigned char bytes[28];
    ULONG length;
};
struct address ipv4(unsigned char last, USHORT port);
struct address ipv6(unsigned char last, USHORT port);
USHORT port_of(const struct address *);
void set_port(struct address *, USHORT port);
#define SOCKET_ADDRESS(ADDRESS) ((PSOCKADDR)(void *)(ADDRESS)->bytes)

NDK_ADAPTER *open_adapter(USHORT major, USHORT minor);

/* What one end of a connection needs: memory with all rights, a queue for both kinds of completions, a queue pair. */
struct side {
    NDK_ADAPTER *adapter;
    NDK_PD *pd;
    NDK_CQ *cq;
    NDK_QP *qp;
    NDK_CONNECTOR *connector;
    /* That the connector came from. */
    NDK_LISTENER *listener;
    NDK_MR *mr;
    unsigned char *memory;
    size_t size;
    MDL *mdl;
    UINT32 token, remote_token;
    struct waiter notified, disconnected;
};

void open_side(struct side *, NDK_ADAPTER *, size_t bytes);
/* In the order of a careful consumer. The connector may be NULL already. */
void close_side(struct side *);
NDK_SGE sge(struct side *, size_t offset, ULONG length);
/* Waits for a completion, whatever its status. */
NDK_RESULT_EX result(struct side *);
/* The next completion, which must be a success of that kind and request. */
NDK_RESULT_EX success(struct side *, NDK_OPERATION_TYPE, void *request);

/* Connects two sides through a listener at an address, with private data both ways. */
void connect_sides(struct side *active, struct side *passive, const struct address *local, const struct address *peer);
/* Disconnects: the first side asks, the other one is told. */
void disconnect_sides(struct side *first, struct side *second);

/* The last word of a program: everything was closed. */
int clean(void);

#endif
