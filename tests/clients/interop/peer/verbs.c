/*
 * The peer's end of rping's protocol where rping itself has no option for it: several reads and writes under way at once, of a part each;
 * messages with solicited event, and with invalidate of the token that was just used. By librdmacm and libibverbs, over siw.
 *
 *   verbs server|client ADDRESS PORT SIZE COUNT PARTS solicit|- invalidate|-
 *
 * A server says "listening". The exit status is 0 if COUNT rounds were done, and the client's data has come back.
 */
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* More than are ever under way. */
enum { DEPTH = 32, READS = 16 };

/* What each message says: where memory is. In network byte order. */
struct __attribute__((packed)) place {
    uint64_t address;
    uint32_t token;
    uint32_t size;
};

struct options {
    uint32_t size, count, parts;
    int solicit, invalidate;
};

static struct rdma_cm_id *id;
static struct place incoming, outgoing;
static struct ibv_mr *incoming_mr, *outgoing_mr;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void *registered(size_t size, struct ibv_mr **mr) {
    void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (!memory || !(*mr = ibv_reg_mr(id->pd, memory, size, access))) fail("ibv_reg_mr");
    return memory;
}

static void expect(void) {
    if (rdma_post_recv(id, NULL, &incoming, sizeof incoming, incoming_mr)) fail("rdma_post_recv");
}

static void prepare(void) {
    if (!(incoming_mr = rdma_reg_msgs(id, &incoming, sizeof incoming))) fail("rdma_reg_msgs");
    if (!(outgoing_mr = rdma_reg_msgs(id, &outgoing, sizeof outgoing))) fail("rdma_reg_msgs");
    expect();
}

/* The next message, in host byte order. What comes after it has a receive too. */
static struct place message(void) {
    struct ibv_wc done;
    if (rdma_get_recv_comp(id, &done) != 1) fail("rdma_get_recv_comp");
    if (done.status || done.byte_len != sizeof incoming) {
        fprintf(stderr, "a message: %s, %u bytes\n", ibv_wc_status_str(done.status), done.byte_len);
        exit(1);
    }
    struct place found = {be64toh(incoming.address), be32toh(incoming.token), be32toh(incoming.size)};
    expect();
    return found;
}

static void post(struct ibv_send_wr *request) {
    struct ibv_send_wr *bad;
    request->send_flags |= IBV_SEND_SIGNALED;
    if (ibv_post_send(id->qp, request, &bad)) fail("ibv_post_send");
}

static void await(const char *what) {
    struct ibv_wc done;
    if (rdma_get_send_comp(id, &done) != 1) fail("rdma_get_send_comp");
    if (done.status) {
        fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(done.status));
        exit(1);
    }
}

static void say(struct place place, const struct options *options) {
    outgoing = (struct place){htobe64(place.address), htobe32(place.token), htobe32(place.size)};
    struct ibv_sge sge = {(uintptr_t)&outgoing, sizeof outgoing, outgoing_mr->lkey};
    struct ibv_send_wr request = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    if (options->solicit) request.send_flags = IBV_SEND_SOLICITED;
    if (options->invalidate) {
        request.opcode = IBV_WR_SEND_WITH_INV;
        request.invalidate_rkey = place.token;
        /* The provider for siw takes it from here. */
        request.wr.rdma.rkey = place.token;
    }
    post(&request);
    await("a send");
}

/* Reads or writes all of it, in parts that are under way at once. */
static void carry(enum ibv_wr_opcode opcode, struct place place, struct ibv_mr *mr, const struct options *options) {
    for (uint32_t part = 0; part < options->parts; part++) {
        uint32_t start = (uint64_t)options->size * part / options->parts;
        uint32_t end = (uint64_t)options->size * (part + 1) / options->parts;
        struct ibv_sge sge = {(uintptr_t)mr->addr + start, end - start, mr->lkey};
        struct ibv_send_wr request = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};
        request.wr.rdma.remote_addr = place.address + start;
        request.wr.rdma.rkey = place.token;
        post(&request);
    }
    for (uint32_t part = 0; part < options->parts; part++) await(opcode == IBV_WR_RDMA_READ ? "a read" : "a write");
}

static void serve(const struct options *options) {
    struct ibv_mr *mr;
    registered(options->size, &mr);
    for (uint32_t round = 0; round < options->count; round++) {
        struct place source = message();
        carry(IBV_WR_RDMA_READ, source, mr, options);
        say(source, options);
        struct place sink = message();
        carry(IBV_WR_RDMA_WRITE, sink, mr, options);
        say(sink, options);
    }
    /* Until the client ends the connection, which flushes the receive. */
    struct ibv_wc done;
    if (rdma_get_recv_comp(id, &done) != 1 || !done.status) fail("the client goes on");
}

static void ping(const struct options *options) {
    static const struct options plain;
    struct ibv_mr *source_mr, *sink_mr;
    uint8_t *source = registered(options->size, &source_mr), *sink = registered(options->size, &sink_mr);
    for (uint32_t round = 0; round < options->count; round++) {
        for (uint32_t at = 0; at < options->size; at++) source[at] = at * 7 + at / 256 * 11 + round * 3 + 1;
        memset(sink, 0, options->size);
        say((struct place){(uintptr_t)source, source_mr->rkey, options->size}, &plain);
        message();
        say((struct place){(uintptr_t)sink, sink_mr->rkey, options->size}, &plain);
        message();
        if (memcmp(source, sink, options->size)) {
            fprintf(stderr, "data mismatch in round %u\n", round);
            exit(1);
        }
    }
    rdma_disconnect(id);
}

int main(int count, char **arguments) {
    if (count != 9) return 2;
    int serves = !strcmp(arguments[1], "server");
    struct options options = {atoi(arguments[4]), atoi(arguments[5]), atoi(arguments[6]),
                              !strcmp(arguments[7], "solicit"), !strcmp(arguments[8], "invalidate")};
    struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | (serves ? RAI_PASSIVE : 0), .ai_port_space = RDMA_PS_TCP};
    struct rdma_addrinfo *address;
    struct ibv_qp_init_attr queues = {
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}};
    struct rdma_conn_param reads = {.responder_resources = READS, .initiator_depth = READS};
    if (rdma_getaddrinfo(arguments[2], arguments[3], &hints, &address)) fail("rdma_getaddrinfo");
    struct rdma_cm_id *listener;
    if (rdma_create_ep(serves ? &listener : &id, address, NULL, &queues)) fail("rdma_create_ep");
    if (serves) {
        if (rdma_listen(listener, 1)) fail("rdma_listen");
        puts("listening");
        fflush(stdout);
        if (rdma_get_request(listener, &id)) fail("rdma_get_request");
    }
    prepare();
    if (serves ? rdma_accept(id, &reads) : rdma_connect(id, &reads)) fail("connecting");
    (serves ? serve : ping)(&options);
    return 0;
}
