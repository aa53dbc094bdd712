/* A shared receive queue under two queue pairs, with its notification. */
#include "consumer.h"

static void post(NDK_SRQ *srq, struct side *side, int count) {
    NDK_SGE to = sge(side, 0, 16);
    for (int at = 0; at < count; at++) CHECK_STATUS(CALL(srq, NdkSrqReceive, srq, &to, 1), STATUS_SUCCESS);
}

static void send(struct side *from, struct side *to, NDK_SRQ *srq) {
    NDK_SGE data = sge(from, 0, 16);
    CHECK_STATUS(CALL(from->qp, NdkSend, &data, &data, 1, 0), STATUS_SUCCESS);
    success(from, NdkOperationTypeSend, &data);
    /* The queue pair's context tells which one it was for. */
    CHECK_EQUAL(success(to, NdkOperationTypeReceive, srq).BytesTransferred, 16);
    softndk_sim_run_idle();
}

static void modify(NDK_SRQ *srq, ULONG depth, ULONG threshold, NTSTATUS expected) {
    struct waiter done = WAITER;
    CHECK_STATUS(finish(&done, CALL(srq, NdkModifySrq, depth, threshold, request_done, &done)), expected);
    softndk_sim_run_idle();
}

int main(void) {
    struct address at = ipv4(1, 0);
    CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&at)), STATUS_SUCCESS);
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    struct side senders[2], receivers[2];
    struct waiter low = WAITER, closed = WAITER;
    NDK_SRQ *srq = NULL;
    open_side(&receivers[0], adapter, 64);
    CREATE(receivers[0].pd, NdkCreateSrq, &srq, 8, 1, 0, request_done, &low, NULL);
    for (int at_side = 0; at_side < 2; at_side++) {
        struct side *receiver = &receivers[at_side];
        if (at_side > 0) open_side(receiver, adapter, 64);
        CHECK_STATUS(CLOSE(receiver->qp, NdkCloseQp, &closed), STATUS_SUCCESS);
        /* All in the domain of the shared queue. */
        CREATE(receivers[0].pd, NdkCreateQpWithSrq, &receiver->qp, receiver->cq, receiver->cq, srq, receiver, 4, 1, 0);
        open_side(&senders[at_side], adapter, 64);
        connect_sides(&senders[at_side], receiver, &at, &at);
    }

    post(srq, &receivers[0], 5);
    send(&senders[0], &receivers[0], srq);
    send(&senders[1], &receivers[1], srq);
    CHECK_EQUAL(calls(&low), 0);
    modify(srq, 0, 3, STATUS_SUCCESS);
    CHECK_EQUAL(calls(&low), 0);
    send(&senders[1], &receivers[1], srq);
    CHECK_EQUAL(calls(&low), 1);
    /* One for each time it is armed; at once, if the queue is below. */
    send(&senders[0], &receivers[0], srq);
    CHECK_EQUAL(calls(&low), 1);
    modify(srq, 0, 3, STATUS_SUCCESS);
    CHECK_EQUAL(calls(&low), 2);
    CHECK_STATUS(low.status, STATUS_SUCCESS);
    post(srq, &receivers[0], 7);
    NDK_SGE to = sge(&receivers[0], 0, 16);
    CHECK(CALL(srq, NdkSrqReceive, srq, &to, 1) != STATUS_SUCCESS);
    modify(srq, 16, 0, STATUS_SUCCESS);
    post(srq, &receivers[0], 8);
    modify(srq, 1u << 30, 0, STATUS_INVALID_PARAMETER);

    struct waiter srq_closed = WAITER;
    CHECK_STATUS(srq->Dispatch->NdkCloseSrq(&srq->Header, close_done, &srq_closed), STATUS_PENDING);
    close_side(&receivers[1]);
    for (int at_side = 0; at_side < 2; at_side++) close_side(&senders[at_side]);
    NTSTATUS status = receivers[0].connector->Dispatch->NdkCloseConnector(&receivers[0].connector->Header, close_done, &closed);
    CHECK_STATUS(finish(&closed, status), STATUS_SUCCESS);
    receivers[0].connector = NULL;
    close_side(&receivers[0]);
    CHECK_STATUS(await(&srq_closed), STATUS_SUCCESS);
    softndk_sim_close_adapter(adapter);
    return clean();
}
