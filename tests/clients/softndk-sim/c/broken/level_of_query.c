/* Calls from a callback, which runs at DISPATCH_LEVEL, the one entry that is for PASSIVE_LEVEL. */
#include "../consumer.h"

static void notified(void *adapter, NTSTATUS status) {
    (void)status;
    NDK_ADAPTER *opened = adapter;
    ULONG size = 0;
    (void)CALL(opened, NdkQueryAdapterInfo, NULL, &size);
}

int main(void) {
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    struct side side;
    open_side(&side, adapter, 4096);
    NDK_CQ *cq = NULL;
    NDK_QP *qp = NULL;
    CREATE(adapter, NdkCreateCq, &cq, 4, notified, adapter, NULL);
    CREATE(side.pd, NdkCreateQp, &qp, cq, cq, NULL, 4, 4, 1, 1, 0);
    cq->Dispatch->NdkArmCq(cq, NDK_CQ_NOTIFY_ANY);
    NDK_SGE target = sge(&side, 0, 1);
    CHECK_STATUS(CALL(qp, NdkReceive, NULL, &target, 1), STATUS_SUCCESS);
    qp->Dispatch->NdkFlush(qp);
    softndk_sim_run_idle();
    return 0;
}
