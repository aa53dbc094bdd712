/* The whole path over both address families: connect, send, write, read, disconnect. */
#include "consumer.h"

static void fill(unsigned char *memory, size_t length, unsigned seed) {
    for (size_t at = 0; at < length; at++) memory[at] = (unsigned char)(seed + at * 31 + (at >> 8));
}

static void send_and_receive(struct side *from, struct side *to) {
    char request[2];
    NDK_SGE target[2] = { sge(to, 100, 40), sge(to, 8000, 200) };
    NDK_SGE source[3] = { sge(from, 1, 7), sge(from, 4090, 20), sge(from, 300, 53) };
    fill(from->memory, 5000, 7);
    memset(to->memory, 0, to->size);
    CHECK_STATUS(CALL(to->qp, NdkReceive, &request[0], target, 2), STATUS_SUCCESS);
    CHECK_STATUS(CALL(from->qp, NdkSend, &request[1], source, 3, 0), STATUS_SUCCESS);
    CHECK_EQUAL(success(to, NdkOperationTypeReceive, &request[0]).BytesTransferred, 80);
    success(from, NdkOperationTypeSend, &request[1]);
    unsigned char sent[80];
    memcpy(sent, from->memory + 1, 7);
    memcpy(sent + 7, from->memory + 4090, 20);
    memcpy(sent + 27, from->memory + 300, 53);
    CHECK(memcmp(to->memory + 100, sent, 40) == 0 && memcmp(to->memory + 8000, sent + 40, 40) == 0);
    CHECK(to->memory[99] == 0 && to->memory[140] == 0 && to->memory[8040] == 0);

    /* Inline: from memory that is nobody's region, free again at the return. */
    char text[] = "inline";
    NDK_SGE in = { { text }, sizeof text, 0 }, out = sge(to, 0, 64);
    CHECK_STATUS(CALL(to->qp, NdkReceive, &request[0], &out, 1), STATUS_SUCCESS);
    CHECK_STATUS(CALL(from->qp, NdkSend, &request[1], &in, 1, NDK_OP_FLAG_INLINE | NDK_OP_FLAG_SILENT_SUCCESS), 0);
    memset(text, 'x', sizeof text);
    CHECK_EQUAL(success(to, NdkOperationTypeReceive, &request[0]).BytesTransferred, sizeof text);
    CHECK(memcmp(to->memory, "inline", 7) == 0);
}

static void write_and_read(struct side *from, struct side *to) {
    char request[2];
    size_t half = from->size / 2;
    fill(from->memory, half, 3);
    memset(to->memory, 0, to->size);
    NDK_SGE all = sge(from, 0, (ULONG)half), rest = sge(from, half, (ULONG)half);
    UINT64 remote = (UINT64)(uintptr_t)to->memory;
    CHECK_STATUS(CALL(from->qp, NdkWrite, &request[0], &all, 1, remote + 5, to->remote_token, 0), STATUS_SUCCESS);
    success(from, NdkOperationTypeWrite, &request[0]);
    CHECK(memcmp(to->memory + 5, from->memory, half) == 0);
    CHECK_STATUS(CALL(from->qp, NdkRead, &request[1], &rest, 1, remote + 5, to->remote_token, 0), STATUS_SUCCESS);
    success(from, NdkOperationTypeRead, &request[1]);
    CHECK(memcmp(from->memory + half, from->memory, half) == 0);
}

static void refused_access(struct side *from, struct side *to) {
    char request[2];
    NDK_SGE all = sge(from, 0, 16), target = sge(to, 0, 16);
    UINT64 behind = (UINT64)(uintptr_t)to->memory + to->size - 15;
    CHECK_STATUS(CALL(to->qp, NdkReceive, &request[1], &target, 1), STATUS_SUCCESS);
    CHECK_STATUS(CALL(from->qp, NdkWrite, &request[0], &all, 1, behind, to->remote_token, 0), STATUS_SUCCESS);
    NDK_RESULT_EX failed = result(from);
    CHECK_STATUS(failed.Status, STATUS_ACCESS_VIOLATION);
    CHECK(failed.RequestContext == &request[0]);
    (void)await(&to->disconnected);
    CHECK_STATUS(CALL(from->qp, NdkSend, &request[1], &all, 1, 0), STATUS_SUCCESS);
    NDK_RESULT_EX late = result(from);
    CHECK_STATUS(late.Status, STATUS_CANCELLED);
    CHECK(late.RequestContext == &request[1]);
    to->qp->Dispatch->NdkFlush(to->qp);
    NDK_RESULT_EX flushed = result(to);
    CHECK_STATUS(flushed.Status, STATUS_CANCELLED);
    CHECK(flushed.RequestContext == &request[1]);
}

static void over(USHORT active_major, USHORT active_minor, struct address local, struct address peer, bool refuse) {
    NDK_ADAPTER *one = open_adapter(active_major, active_minor), *two = open_adapter(2, 1);
    CHECK(one != two);
    struct side active, passive;
    open_side(&active, one, 300000);
    open_side(&passive, two, 300000);
    connect_sides(&active, &passive, &local, &peer);
    for (int round = 0; round < 3; round++) {
        send_and_receive(&active, &passive);
        send_and_receive(&passive, &active);
        write_and_read(&active, &passive);
        write_and_read(&passive, &active);
    }
    if (refuse) {
        refused_access(&active, &passive);
    } else {
        disconnect_sides(&passive, &active);
    }
    close_side(&active);
    close_side(&passive);
    softndk_sim_close_adapter(one);
    softndk_sim_run_idle();
    CHECK_EQUAL(softndk_sim_outstanding(), 1);
    softndk_sim_close_adapter(two);
    CHECK_EQUAL(softndk_sim_outstanding(), 0);
}

/* An adapter with itself. */
static void with_itself(struct address at) {
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    struct side active, passive;
    open_side(&active, adapter, 70000);
    open_side(&passive, adapter, 70000);
    connect_sides(&active, &passive, &at, &at);
    send_and_receive(&active, &passive);
    disconnect_sides(&active, &passive);
    close_side(&passive);
    close_side(&active);
    softndk_sim_close_adapter(adapter);
}

int main(void) {
    struct address all[] = { ipv4(1, 0), ipv4(2, 0), ipv6(1, 0), ipv6(2, 0) };
    for (int at = 0; at < 4; at++) CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&all[at])), STATUS_SUCCESS);
    over(2, 1, all[0], all[1], false);
    over(2, 0, all[2], all[3], false);
    over(1, 1, all[1], all[0], true);
    over(1, 2, all[3], all[2], true);
    with_itself(all[0]);
    with_itself(all[2]);
    return clean();
}
