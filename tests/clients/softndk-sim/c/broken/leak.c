/* Never closes a protection domain. The close of the adapter says so and gives up; the program sees it. */
#include "../consumer.h"

int main(void) {
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    NDK_PD *pd = NULL;
    CREATE(adapter, NdkCreatePd, &pd);
    CHECK_EQUAL(softndk_sim_outstanding(), 2);
    softndk_sim_close_adapter(adapter);
    CHECK_EQUAL(softndk_sim_outstanding(), 2);

    /* Late, but not too late. */
    struct waiter closed = WAITER;
    CHECK_STATUS(CLOSE(pd, NdkClosePd, &closed), STATUS_SUCCESS);
    while (softndk_sim_outstanding() != 0) sched_yield();
    return clean();
}
