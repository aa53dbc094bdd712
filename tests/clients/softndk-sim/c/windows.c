/* Memory windows: bound over a registered region, used by the peer, invalidated by their owner or by the peer. */
#include "consumer.h"

static NDK_MW *open_window(struct side *side) {
    NDK_MW *mw = NULL;
    CREATE(side->pd, NdkCreateMw, &mw);
    CHECK_EQUAL(mw->Header.ObjectType, NdkObjectTypeMw);
    return mw;
}

static UINT32 bind(struct side *side, NDK_MW *mw, size_t offset, size_t length, ULONG rights) {
    CHECK_STATUS(CALL(side->qp, NdkBind, mw, side->mr, mw, side->memory + offset, length, rights), STATUS_SUCCESS);
    /* Good as soon as the bind has returned. */
    UINT32 token = mw->Dispatch->NdkGetRemoteTokenFromMw(mw);
    CHECK(token != 0);
    success(side, NdkOperationTypeBind, mw);
    return token;
}

int main(void) {
    struct address at = ipv6(1, 0);
    CHECK_STATUS(softndk_sim_add_address(SOCKET_ADDRESS(&at)), STATUS_SUCCESS);
    NDK_ADAPTER *adapter = open_adapter(2, 1);
    struct side owner, peer;
    open_side(&owner, adapter, 8192);
    open_side(&peer, adapter, 8192);
    connect_sides(&owner, &peer, &at, &at);
    NDK_MW *whole = open_window(&owner), *part = open_window(&owner);
    UINT64 start = (UINT64)(uintptr_t)owner.memory;

    UINT32 token = bind(&owner, whole, 0, owner.size, NDK_OP_FLAG_ALLOW_REMOTE_READ | NDK_OP_FLAG_ALLOW_REMOTE_WRITE);
    memset(peer.memory, 'w', 4096);
    NDK_SGE from = sge(&peer, 0, 4096), to = sge(&peer, 4096, 4096);
    CHECK_STATUS(CALL(peer.qp, NdkWrite, &from, &from, 1, start + 1000, token, 0), STATUS_SUCCESS);
    success(&peer, NdkOperationTypeWrite, &from);
    CHECK(owner.memory[999] == 0 && owner.memory[1000] == 'w' && owner.memory[5095] == 'w' && owner.memory[5096] == 0);
    CHECK_STATUS(CALL(peer.qp, NdkRead, &to, &to, 1, start + 1000, token, 0), STATUS_SUCCESS);
    success(&peer, NdkOperationTypeRead, &to);
    CHECK(memcmp(peer.memory, peer.memory + 4096, 4096) == 0);

    /* By the owner, then once more, then by the peer. */
    CHECK_STATUS(CALL(owner.qp, NdkInvalidate, whole, &whole->Header, 0), STATUS_SUCCESS);
    success(&owner, NdkOperationTypeInvalidate, whole);
    token = bind(&owner, whole, 0, owner.size, NDK_OP_FLAG_ALLOW_REMOTE_READ);
    NDK_SGE message = sge(&owner, 0, 8), said = sge(&peer, 0, 8);
    CHECK_STATUS(CALL(owner.qp, NdkReceive, &message, &message, 1), STATUS_SUCCESS);
    CHECK_STATUS(CALL(peer.qp, NdkSendAndInvalidate, &said, &said, 1, 0, token), STATUS_SUCCESS);
    NDK_RESULT_EX one = success(&owner, NdkOperationTypeReceiveAndInvalidate, &message);
    CHECK_EQUAL(one.TypeSpecificCompletionOutput, token);
    success(&peer, NdkOperationTypeSend, &said);

    /* A window that is narrower than its region. */
    token = bind(&owner, part, 100, 50, NDK_OP_FLAG_ALLOW_REMOTE_WRITE);
    said.Length = 50;
    CHECK_STATUS(CALL(peer.qp, NdkWrite, &said, &said, 1, start + 100, token, 0), STATUS_SUCCESS);
    success(&peer, NdkOperationTypeWrite, &said);
    CHECK_STATUS(CALL(peer.qp, NdkWrite, &said, &said, 1, start + 101, token, 0), STATUS_SUCCESS);
    CHECK_STATUS(result(&peer).Status, STATUS_ACCESS_VIOLATION);
    (void)await(&owner.disconnected);

    struct waiter closed = WAITER;
    CHECK_STATUS(CLOSE(part, NdkCloseMw, &closed), STATUS_SUCCESS);
    close_side(&peer);
    CHECK_STATUS(CLOSE(whole, NdkCloseMw, &closed), STATUS_SUCCESS);
    close_side(&owner);
    softndk_sim_close_adapter(adapter);
    return clean();
}
