/* Fault rules: the requests that fail by them, and those that do not. */
#include "consumer.h"

#define STATUS_INVALID_DEVICE_STATE 0xC0000184u

static NTSTATUS write_to(struct side *from, struct side *to, ULONG length) {
    char request;
    NDK_SGE source = sge(from, 0, length);
    UINT64 remote = (UINT64)(uintptr_t)to->memory;
    CHECK_STATUS(CALL(from->qp, NdkWrite, &request, &source, 1, remote, to->remote_token, 0), STATUS_SUCCESS);
    NDK_RESULT_EX ended = result(from);
    CHECK(ended.RequestContext == &request);
    return ended.Status;
}

int main(void) {
    struct address one = ipv4(1, 0), other = ipv4(2, 0);
    CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&one)), STATUS_SUCCESS);
    CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&other)), STATUS_SUCCESS);
    CHECK_STATUS(softndk_sim_set_fault_rules("on send do reset"), STATUS_INVALID_DEVICE_STATE);
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    struct side active, passive;
    open_side(&active, adapter, 70000);
    open_side(&passive, adapter, 70000);
    connect_sides(&active, &passive, &one, &other);

    CHECK_STATUS(softndk_sim_set_fault_rules(NULL), STATUS_INVALID_PARAMETER);
    CHECK_STATUS(softndk_sim_set_fault_rules("on sends do reset"), STATUS_INVALID_PARAMETER);
    CHECK_STATUS(softndk_sim_set_fault_rules("on read do reset\n"
                                             "on write where bytes>=100 role=active after 1 do fail STATUS_ACCESS_VIOLATION"),
                 STATUS_SUCCESS);
    CHECK_STATUS(write_to(&active, &passive, 100), STATUS_SUCCESS);
    CHECK_STATUS(write_to(&active, &passive, 99), STATUS_SUCCESS);
    CHECK_STATUS(write_to(&passive, &active, 100), STATUS_SUCCESS);
    CHECK_EQUAL(softndk_sim_faults(2), 0);
    CHECK_STATUS(write_to(&active, &passive, 70000), STATUS_ACCESS_VIOLATION);
    CHECK_EQUAL(softndk_sim_faults(2), 1);
    CHECK_EQUAL(softndk_sim_faults(1), 0);
    CHECK_EQUAL(softndk_sim_faults(0), 0);
    CHECK_EQUAL(softndk_sim_faults(3), 0);
    (void)await(&passive.disconnected);

    CHECK_STATUS(softndk_sim_set_fault_rules(""), STATUS_SUCCESS);
    CHECK_EQUAL(softndk_sim_faults(2), 0);
    close_side(&active);
    close_side(&passive);
    softndk_sim_close_adapter(adapter);
    return clean();
}
