/* Frees an MDL while a region is registered with it. */
#include "../consumer.h"

int main(void) {
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    struct side side;
    open_side(&side, adapter, 100);
    softndk_sim_free_mdl(side.mdl);
    return 0;
}
