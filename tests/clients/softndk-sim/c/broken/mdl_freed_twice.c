#include "../consumer.h"

int main(void) {
    static unsigned char memory[4096];
    void *mdl = softndk_sim_alloc_mdl(memory, sizeof memory);
    softndk_sim_free_mdl(mdl);
    softndk_sim_free_mdl(mdl);
    return 0;
}
