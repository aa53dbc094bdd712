/* Every order of closing the six objects of a connected side: each close completes once, an antecedent after its successors. */
#include "consumer.h"

enum { OBJECTS = 6, LISTENER = 0, CONNECTOR, QP, CQ, MR, PD };

/* What must be gone before an object can be, as bits. */
static const unsigned successors[OBJECTS] = {
    [LISTENER] = 1 << CONNECTOR, [QP] = 1 << CONNECTOR, [CQ] = 1 << QP | 1 << CONNECTOR,
    [PD] = 1 << QP | 1 << MR | 1 << CONNECTOR,
};

static struct waiter waiters[OBJECTS];

static NTSTATUS close_one(struct side *side, int object) {
    struct waiter *waiter = &waiters[object];
    *waiter = (struct waiter)WAITER;
    switch (object) {
    case LISTENER: return side->listener->Dispatch->NdkCloseListener(&side->listener->Header, close_done, waiter);
    case CONNECTOR: return side->connector->Dispatch->NdkCloseConnector(&side->connector->Header, close_done, waiter);
    case QP: return side->qp->Dispatch->NdkCloseQp(&side->qp->Header, close_done, waiter);
    case CQ: return side->cq->Dispatch->NdkCloseCq(&side->cq->Header, close_done, waiter);
    case MR: return side->mr->Dispatch->NdkCloseMr(&side->mr->Header, close_done, waiter);
    default: return side->pd->Dispatch->NdkClosePd(&side->pd->Header, close_done, waiter);
    }
}

static void close_in(const int order[OBJECTS], NDK_ADAPTER *adapter, const struct address *at) {
    struct side active, passive;
    open_side(&active, adapter, 64);
    open_side(&passive, adapter, 64);
    connect_sides(&active, &passive, at, at);
    uint64_t others = softndk_sim_outstanding() - OBJECTS;
    NDK_SGE to = sge(&passive, 0, 8);
    CHECK_STATUS(CALL(passive.qp, NdkReceive, NULL, &to, 1), STATUS_SUCCESS);

    unsigned closed = 0, pending = 0;
    for (int step = 0; step < OBJECTS; step++) {
        int object = order[step];
        NTSTATUS status = close_one(&passive, object);
        if (status == STATUS_PENDING) {
            pending |= 1u << object;
        } else {
            CHECK_STATUS(status, STATUS_SUCCESS);
        }
        /* What cannot be gone yet is not. */
        if (successors[object] & ~closed) {
            CHECK_STATUS(status, STATUS_PENDING);
            if (object != CONNECTOR) CHECK_EQUAL(calls(&waiters[object]), 0);
        }
        closed |= 1u << object;
    }
    for (int object = 0; object < OBJECTS; object++) {
        if (pending & 1u << object) CHECK_STATUS(await(&waiters[object]), STATUS_SUCCESS);
    }
    softndk_sim_run_idle();
    for (int object = 0; object < OBJECTS; object++) {
        CHECK_EQUAL(calls(&waiters[object]), pending >> object & 1);
    }
    softndk_sim_free_mdl(passive.mdl);
    free(passive.memory);
    CHECK_EQUAL(softndk_sim_outstanding(), others);
    (void)await(&active.disconnected);
    close_side(&active);
}

/* All orders, by exchanging the rest with each of it in turn. */
static void permute(int order[OBJECTS], int from, NDK_ADAPTER *adapter, const struct address *at) {
    if (from == OBJECTS) {
        close_in(order, adapter, at);
        return;
    }
    for (int other = from; other < OBJECTS; other++) {
        int one = order[from];
        order[from] = order[other];
        order[other] = one;
        permute(order, from + 1, adapter, at);
        order[other] = order[from];
        order[from] = one;
    }
}

/* A CQ callback that closes everything, its own queue as well, which cannot be gone before it returns. */
static void close_all(void *context, NTSTATUS status) {
    struct side *side = context;
    CHECK_STATUS(status, STATUS_SUCCESS);
    for (int object = OBJECTS - 1; object >= 0; object--) {
        NTSTATUS closed = close_one(side, object);
        if (object == CQ) CHECK_STATUS(closed, STATUS_PENDING);
        if (closed != STATUS_PENDING) close_done(&waiters[object]);
    }
    CHECK_EQUAL(calls(&waiters[CQ]), 0);
}

static void in_a_callback(NDK_ADAPTER *adapter, const struct address *at) {
    struct side active, passive;
    struct waiter closed = WAITER;
    open_side(&active, adapter, 64);
    open_side(&passive, adapter, 64);
    CHECK_STATUS(CLOSE(passive.qp, NdkCloseQp, &closed), STATUS_SUCCESS);
    CHECK_STATUS(CLOSE(passive.cq, NdkCloseCq, &closed), STATUS_SUCCESS);
    CREATE(adapter, NdkCreateCq, &passive.cq, 64, close_all, &passive, NULL);
    CREATE(passive.pd, NdkCreateQp, &passive.qp, passive.cq, passive.cq, &passive, 16, 16, 1, 1, 0);
    connect_sides(&active, &passive, at, at);
    passive.cq->Dispatch->NdkArmCq(passive.cq, NDK_CQ_NOTIFY_ANY);
    NDK_SGE to = sge(&passive, 0, 8), from = sge(&active, 0, 8);
    CHECK_STATUS(CALL(passive.qp, NdkReceive, NULL, &to, 1), STATUS_SUCCESS);
    CHECK_STATUS(CALL(active.qp, NdkSend, NULL, &from, 1, 0), STATUS_SUCCESS);
    success(&active, NdkOperationTypeSend, NULL);
    (void)await(&active.disconnected);
    softndk_sim_run_idle();
    for (int object = 0; object < OBJECTS; object++) CHECK_EQUAL(calls(&waiters[object]), 1);
    softndk_sim_free_mdl(passive.mdl);
    free(passive.memory);
    close_side(&active);
}

/* The close of an adapter waits for its objects, which another thread closes. */
static void *close_pd(void *context) {
    NDK_PD *pd = context;
    struct waiter closed = WAITER;
    CHECK_STATUS(CLOSE(pd, NdkClosePd, &closed), STATUS_SUCCESS);
    return NULL;
}

int main(void) {
    struct address at = ipv4(1, 0);
    CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&at)), STATUS_SUCCESS);
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    int order[OBJECTS] = { LISTENER, CONNECTOR, QP, CQ, MR, PD };
    permute(order, 0, adapter, &at);
    in_a_callback(adapter, &at);
    softndk_sim_run_idle();
    CHECK_EQUAL(softndk_sim_outstanding(), 1);

    NDK_PD *pd = NULL;
    CREATE(adapter, NdkCreatePd, &pd);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, close_pd, pd) == 0);
    softndk_sim_close_adapter(adapter);
    CHECK(pthread_join(thread, NULL) == 0);
    return clean();
}
