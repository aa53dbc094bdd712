#include "../consumer.h"

int main(void) {
    NDK_ADAPTER *adapter = open_adapter(2, 1), *other = open_adapter(2, 1);
    softndk_sim_close_adapter(adapter);
    (void)other;
    softndk_sim_close_adapter(adapter);
    return 0;
}
