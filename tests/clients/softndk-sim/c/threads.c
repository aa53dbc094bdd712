/* Several threads of a program, each with adapters of its own and one that they share, while adapters come and go. */
#include "consumer.h"

#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 6, MESSAGES = 100 };

static NDK_ADAPTER *shared;
static atomic_bool over;

static void ping_pong(struct side *one, struct side *two) {
    for (int message = 0; message < MESSAGES; message++) {
        NDK_SGE to = sge(two, 0, 64), from = sge(one, 64, 64);
        one->memory[64] = (unsigned char)message;
        CHECK_STATUS(CALL(two->qp, NdkReceive, &to, &to, 1), STATUS_SUCCESS);
        CHECK_STATUS(CALL(one->qp, NdkSend, &from, &from, 1, 0), STATUS_SUCCESS);
        CHECK_EQUAL(success(two, NdkOperationTypeReceive, &to).BytesTransferred, 64);
        success(one, NdkOperationTypeSend, &from);
        CHECK_EQUAL(two->memory[0], (unsigned char)message);
        struct side *other = one;
        one = two;
        two = other;
    }
}

static void *work(void *number) {
    struct address at = (uintptr_t)number % 2 ? ipv4(1, 0) : ipv6(1, 0);
    for (int round = 0; round < ROUNDS; round++) {
        NDK_ADAPTER *own = open_adapter(round % 2 ? 1 : 2, 1);
        struct side active, passive;
        open_side(&active, own, 4096);
        open_side(&passive, shared, 4096);
        connect_sides(&active, &passive, &at, &at);
        ping_pong(&active, &passive);
        if (round % 3 == 0) disconnect_sides(&active, &passive);
        close_side(&active);
        softndk_sim_close_adapter(own);
        close_side(&passive);
    }
    return NULL;
}

/* Flushes a queue pair while another thread posts to it: each receive is cancelled, once. */
static void *flush(void *qp) {
    while (!over) ((NDK_QP *)qp)->Dispatch->NdkFlush(qp);
    return NULL;
}

static void flushed(void) {
    struct side side;
    pthread_t thread;
    open_side(&side, shared, 64);
    CHECK(pthread_create(&thread, NULL, flush, side.qp) == 0);
    for (int at = 0; at < 1000; at++) {
        NDK_SGE to = sge(&side, 0, 8);
        CHECK_STATUS(CALL(side.qp, NdkReceive, &to, &to, 1), STATUS_SUCCESS);
        NDK_RESULT_EX one = result(&side);
        CHECK_STATUS(one.Status, STATUS_CANCELLED);
        CHECK(one.RequestContext == &to);
    }
    over = true;
    CHECK(pthread_join(thread, NULL) == 0);
    softndk_sim_run_idle();
    NDK_RESULT_EX none;
    CHECK_EQUAL(CALL(side.cq, NdkGetCqResultsEx, &none, 1), 0);
    close_side(&side);
}

int main(void) {
    struct address all[] = { ipv4(1, 0), ipv6(1, 0) };
    for (int at = 0; at < 2; at++) CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&all[at])), STATUS_SUCCESS);
    shared = open_adapter(2, 1);
    pthread_t threads[THREADS];
    for (uintptr_t at = 0; at < THREADS; at++) CHECK(pthread_create(&threads[at], NULL, work, (void *)at) == 0);
    for (int at = 0; at < THREADS; at++) CHECK(pthread_join(threads[at], NULL) == 0);
    flushed();
    softndk_sim_run_idle();
    CHECK_EQUAL(softndk_sim_outstanding(), 1);
    softndk_sim_close_adapter(shared);
    return clean();
}
