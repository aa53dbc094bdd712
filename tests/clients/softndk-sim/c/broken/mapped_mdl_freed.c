/* Frees an MDL before its logical address mapping is released. */
#include "../consumer.h"

int main(void) {
    static unsigned char memory[100];
    static NDK_LOGICAL_ADDRESS_MAPPING mapping[2];
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    void *mdl = softndk_sim_alloc_mdl(memory, sizeof memory);
    ULONG size = sizeof mapping, offset = 0;
    NTSTATUS status = CALL(adapter, NdkBuildLAM, mdl, sizeof memory, NULL, NULL, mapping, &size, &offset);
    CHECK_STATUS(status, STATUS_SUCCESS);
    softndk_sim_free_mdl(mdl);
    return 0;
}
