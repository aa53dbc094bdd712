/* Arming: how many callbacks, and when. After softndk_sim_run_idle all that were due have been made. */
#include "consumer.h"

#include <stdatomic.h>

static struct side active, passive;

static void send(int count, ULONG flags) {
    for (int at = 0; at < count; at++) {
        NDK_SGE to = sge(&passive, 0, 8), from = sge(&active, 0, 8);
        CHECK_STATUS(CALL(passive.qp, NdkReceive, NULL, &to, 1), STATUS_SUCCESS);
        CHECK_STATUS(CALL(active.qp, NdkSend, NULL, &from, 1, flags | NDK_OP_FLAG_SILENT_SUCCESS), STATUS_SUCCESS);
    }
    softndk_sim_run_idle();
}

static void drain(unsigned expected) {
    NDK_RESULT results[64];
    CHECK_EQUAL(CALL(passive.cq, NdkGetCqResults, results, 64), expected);
    for (unsigned at = 0; at < expected; at++) CHECK_STATUS(results[at].Status, STATUS_SUCCESS);
}

static void arm(ULONG type) {
    passive.cq->Dispatch->NdkArmCq(passive.cq, type);
    softndk_sim_run_idle();
}

#define CALLED(COUNT) \
    do { \
        CHECK_EQUAL(calls(&passive.notified), (expected += (COUNT))); \
        CHECK_STATUS(passive.notified.status, STATUS_SUCCESS); \
    } while (0)

static void counts(void) {
    unsigned expected = 0;
    send(3, 0);
    CALLED(0);
    drain(3);

    arm(NDK_CQ_NOTIFY_ANY);
    CALLED(0);
    send(3, 0);
    CALLED(1);
    drain(3);

    /* An entry that came since the last callback satisfies an arm at once. */
    send(1, 0);
    arm(NDK_CQ_NOTIFY_ANY);
    CALLED(1);
    drain(1);

    arm(NDK_CQ_NOTIFY_SOLICITED);
    send(4, 0);
    CALLED(0);
    send(2, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT);
    CALLED(1);
    drain(6);

    /* Merged with the arm before it: ANY stays. */
    arm(NDK_CQ_NOTIFY_ANY);
    arm(NDK_CQ_NOTIFY_SOLICITED);
    arm(NDK_CQ_NOTIFY_ERRORS);
    send(1, 0);
    CALLED(1);
    send(1, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT);
    CALLED(0);
    drain(2);

    arm(NDK_CQ_NOTIFY_ERRORS);
    send(1, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT);
    CALLED(0);
    drain(1);
    arm(NDK_CQ_NOTIFY_SOLICITED);
    send(1, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT);
    CALLED(1);
    drain(1);
}

/* Moderated by count, and by time, which the clock of the machine measures. */
static void moderated(void) {
    const ULONG unlimited = 0xFFFFFFFF;
    NTSTATUS mix = CALL(passive.cq, NdkControlCqInterruptModeration, unlimited, unlimited);
    CHECK_STATUS(mix, STATUS_INVALID_PARAMETER_MIX);
    CHECK_STATUS(CALL(passive.cq, NdkControlCqInterruptModeration, unlimited, 3), STATUS_SUCCESS);
    unsigned expected = calls(&passive.notified);
    arm(NDK_CQ_NOTIFY_ANY);
    send(2, 0);
    CALLED(0);
    send(1, 0);
    CALLED(1);
    drain(3);

    CHECK_STATUS(CALL(passive.cq, NdkControlCqInterruptModeration, 2000, unlimited), STATUS_SUCCESS);
    passive.notified.taken = expected;
    arm(NDK_CQ_NOTIFY_ANY);
    send(4, 0);
    CHECK_STATUS(await(&passive.notified), STATUS_SUCCESS);
    expected++;
    softndk_sim_run_idle();
    CALLED(0);
    drain(4);

    /* Nor does a long time keep the queue from being closed. */
    CHECK_STATUS(CALL(passive.cq, NdkControlCqInterruptModeration, unlimited - 1, unlimited), STATUS_SUCCESS);
    arm(NDK_CQ_NOTIFY_ANY);
    send(1, 0);
    CALLED(0);
    drain(1);
}

/* As consumers are written: the callback arms, then polls until there is nothing. */
static atomic_uint running, callbacks, received;
static NDK_CQ *served_cq;

static void serve(void *context, NTSTATUS status) {
    CHECK(context == &received);
    CHECK_STATUS(status, STATUS_SUCCESS);
    CHECK_EQUAL(atomic_fetch_add(&running, 1), 0);
    callbacks++;
    served_cq->Dispatch->NdkArmCq(served_cq, NDK_CQ_NOTIFY_ANY);
    NDK_RESULT_EX results[4];
    for (ULONG count; (count = CALL(served_cq, NdkGetCqResultsEx, results, 4)) != 0;) received += count;
    atomic_fetch_sub(&running, 1);
}

static void callback_driven(NDK_ADAPTER *adapter) {
    enum { MESSAGES = 2000, DEPTH = 8 };
    struct waiter closed = WAITER;
    struct side sender, receiver;
    struct address at = ipv6(1, 0);
    open_side(&sender, adapter, 64);
    open_side(&receiver, adapter, 64);
    CHECK_STATUS(CLOSE(receiver.qp, NdkCloseQp, &closed), STATUS_SUCCESS);
    CREATE(adapter, NdkCreateCq, &served_cq, 64, serve, &received, NULL);
    CREATE(receiver.pd, NdkCreateQp, &receiver.qp, served_cq, receiver.cq, &receiver, 16, 16, 1, 1, 0);
    connect_sides(&sender, &receiver, &at, &at);
    served_cq->Dispatch->NdkArmCq(served_cq, NDK_CQ_NOTIFY_ANY);
    NDK_SGE to = sge(&receiver, 0, 8), from = sge(&sender, 0, 8);
    for (unsigned at = 0; at < MESSAGES; at++) {
        while (at - received >= DEPTH) sched_yield();
        CHECK_STATUS(CALL(receiver.qp, NdkReceive, NULL, &to, 1), STATUS_SUCCESS);
        CHECK_STATUS(CALL(sender.qp, NdkSend, NULL, &from, 1, NDK_OP_FLAG_SILENT_SUCCESS), STATUS_SUCCESS);
    }
    while (received != MESSAGES) sched_yield();
    softndk_sim_run_idle();
    CHECK(callbacks >= 1 && callbacks <= MESSAGES);
    disconnect_sides(&sender, &receiver);
    struct waiter cq_closed = WAITER;
    NTSTATUS status = served_cq->Dispatch->NdkCloseCq(&served_cq->Header, close_done, &cq_closed);
    CHECK_STATUS(status, STATUS_PENDING);
    close_side(&receiver);
    CHECK_STATUS(await(&cq_closed), STATUS_SUCCESS);
    close_side(&sender);
}

/* A consumer that only polls has no callback to give: arms of its queue come to nothing, also when the queue dies. */
static void without_callback(NDK_ADAPTER *adapter) {
    NDK_CQ *cq;
    NDK_QP *qp;
    NDK_RESULT results[4];
    struct side side;
    struct waiter closed = WAITER;
    open_side(&side, adapter, 64);
    CREATE(adapter, NdkCreateCq, &cq, 2, NULL, NULL, NULL);
    CREATE(side.pd, NdkCreateQp, &qp, cq, cq, NULL, 4, 4, 1, 1, 0);
    for (unsigned count = 1; count <= 3; count++) {
        cq->Dispatch->NdkArmCq(cq, NDK_CQ_NOTIFY_ANY);
        for (unsigned at = 0; at < count; at++) CHECK_STATUS(CALL(qp, NdkReceive, NULL, NULL, 0), STATUS_SUCCESS);
        qp->Dispatch->NdkFlush(qp);
        softndk_sim_run_idle();
        if (count <= 2) CHECK_EQUAL(CALL(cq, NdkGetCqResults, results, 4), count);
    }
    CHECK_STATUS(CLOSE(qp, NdkCloseQp, &closed), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(cq, NdkCloseCq, &closed), STATUS_SUCCESS);
    close_side(&side);
}

int main(void) {
    struct address all[] = { ipv4(1, 0), ipv6(1, 0) };
    for (int at = 0; at < 2; at++) CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&all[at])), STATUS_SUCCESS);
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    open_side(&active, adapter, 64);
    open_side(&passive, adapter, 64);
    connect_sides(&active, &passive, &all[0], &all[0]);
    counts();
    moderated();
    disconnect_sides(&active, &passive);
    close_side(&active);
    close_side(&passive);
    callback_driven(adapter);
    without_callback(adapter);
    softndk_sim_close_adapter(adapter);
    return clean();
}
