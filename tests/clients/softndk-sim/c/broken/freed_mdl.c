/* Maps a chain whose second MDL was freed. */
#include "../consumer.h"

int main(void) {
    static unsigned char memory[2 * 4096];
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    ULONG size = 0, offset = 0;
    void *mdl = softndk_sim_alloc_mdl(memory, 4096), *last = softndk_sim_alloc_mdl(memory + 4096, 4096);
    *(void **)mdl = last;
    softndk_sim_free_mdl(last);
    (void)CALL(adapter, NdkBuildLAM, mdl, sizeof memory, NULL, NULL, NULL, &size, &offset);
    return 0;
}
