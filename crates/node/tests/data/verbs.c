/* A substitute for libibverbs with the functions that memory servers use: two devices, `fake0` and `fake1`. FOLDER is where it looks for files:
 * while `fail` has the name of a call and a number, this call fails with the number; `device` has the largest region, READs in flight and atomic
 * operations; `port` has state and path MTU; `dead` has the number of a queue pair that is in error. It writes its arguments to `calls`. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { void *context, *user, *domain, *send, *receive, *shared; uint32_t handle, number; int state, kind; } pair;
typedef struct { void *context, *domain, *address; size_t length; uint32_t handle, lkey, rkey; } region;
typedef struct { uint32_t send, receive, send_parts, receive_parts, inline_bytes; } room;
typedef struct { void *context, *send, *receive, *shared; room cap; int kind, signals; } new_pair;
typedef struct { union { uint8_t raw[16]; struct { uint64_t prefix, id; } global; } to; uint32_t flow; uint8_t index, hops, class; } global_route;
typedef struct { global_route grh; uint16_t lid; uint8_t level, path, rate, is_global, port; } route;
typedef struct {
    int state, current, mtu, migration;
    uint32_t key, psn, own_psn, peer;
    unsigned access;
    room cap;
    route way, other;
    uint16_t partition, other_partition;
    uint8_t notify, draining, own_reads, reads, wait, port, timeout, retries, not_ready, other_port, other_timeout;
    uint32_t rate;
} attributes;
typedef struct {
    char firmware[64];
    uint64_t guid, system_guid, largest_region, pages;
    uint32_t vendor, part, version;
    int pairs, requests;
    unsigned flags;
    int parts, parts_read, queues, entries, regions, domains, reads, context_reads, all_reads, own_reads, own_context_reads, atomic;
    int rest[14];
    uint16_t keys;
    uint8_t delay, ports;
} device_attributes;
typedef struct { int state, most, mtu, gids; uint32_t rest[4]; uint16_t keys, lid, manager; uint8_t more[10]; } port_attributes;

_Static_assert(sizeof(device_attributes) == 232 && sizeof(attributes) == 144 && sizeof(new_pair) == 64, "the ABI");
_Static_assert(sizeof(port_attributes) == 48 && sizeof(region) == 48, "the ABI");

static const char *names[] = {"fake0", "fake1"};
static void *list[3];
static int objects, numbers = 16;

static FILE *file(const char *name, const char *mode) {
    char path[512];
    snprintf(path, sizeof path, FOLDER "/%s", name);
    return fopen(path, mode);
}

/* Whether this call is to fail. */
static int fails(const char *call) {
    char name[64] = "";
    int number = 0;
    FILE *f = file("fail", "r");
    if (!f) return 0;
    int read = fscanf(f, "%63s %d", name, &number);
    fclose(f);
    if (read != 2 || strcmp(name, call)) return 0;
    errno = number;
    return number;
}

#define SAY(...) do { FILE *f = file("calls", "a"); fprintf(f, __VA_ARGS__); fclose(f); } while (0)

static void *object(const char *call, size_t bytes) {
    if (fails(call)) return NULL;
    objects++;
    return calloc(1, bytes);
}

static int gone(void *object) {
    objects--;
    free(object);
    return 0;
}

void **ibv_get_device_list(int *count) {
    if (fails("list")) return NULL;
    *count = 2;
    list[0] = &names[0];
    list[1] = &names[1];
    return list;
}
void ibv_free_device_list(void **l) { SAY("free list %d\n", l == list); }
const char *ibv_get_device_name(void *device) { return *(const char **)device; }
void *ibv_open_device(void *device) { SAY("open %s\n", *(const char **)device); return object("open", 1); }
int ibv_close_device(void *context) { gone(context); SAY("close, objects: %d\n", objects); return 0; }
void *ibv_alloc_pd(void *context) { return object("domain", 1); }
int ibv_dealloc_pd(void *domain) { return gone(domain); }
void *ibv_create_cq(void *context, int entries, void *user, void *channel, int vector) { return object("queue", 1); }
int ibv_destroy_cq(void *queue) { return gone(queue); }

int ibv_query_device(void *context, device_attributes *a) {
    memset(a, 0xff, sizeof *a);
    unsigned long long largest = 1 << 30;
    a->pairs = 3, a->reads = 16, a->atomic = 1;
    FILE *f = file("device", "r");
    if (f) {
        if (fscanf(f, "%llu %d %d", &largest, &a->reads, &a->atomic) != 3) return EINVAL;
        fclose(f);
    }
    a->largest_region = largest;
    return fails("device");
}
int ibv_query_port(void *context, uint8_t port, port_attributes *a) {
    memset(a, 0xff, sizeof *a);
    a->state = 4, a->mtu = 4;
    FILE *f = file("port", "r");
    if (f) {
        if (fscanf(f, "%d %d", &a->state, &a->mtu) != 2) return EINVAL;
        fclose(f);
    }
    return fails("port");
}
region *ibv_reg_mr(void *domain, void *address, size_t length, int access) {
    region *r = object("region", sizeof *r);
    if (!r) return r;
    size_t zeros = 0;
    while (zeros < length && ((char *)address)[zeros] == 0) zeros++;
    SAY("region of %zu bytes, %zu zeros, access %d, aligned %d\n", length, zeros, access, (uintptr_t)address % 4096 == 0);
    r->lkey = 1, r->rkey = 0xbeef;
    return r;
}
int ibv_dereg_mr(region *r) { return gone(r); }
pair *ibv_create_qp(void *domain, new_pair *n) {
    pair *p = object("pair", sizeof *p);
    if (!p) return p;
    p->number = numbers++;
    SAY("pair %u: kind %d, room %u %u, queues %d\n", p->number, n->kind, n->cap.send, n->cap.receive, n->send && n->send == n->receive && !n->shared);
    return p;
}
int ibv_modify_qp(pair *p, attributes *a, int mask) {
    p->state = a->state;
    if (a->state == 1) SAY("init mask %#x: port %u, partition %u, access %u\n", mask, a->port, a->partition, a->access);
    else {
        SAY("answers mask %#x: mtu %d, peer %#x, psn %u, reads %u, wait %u, to ", mask, a->mtu, a->peer, a->psn, a->reads, a->wait);
        for (int i = 0; i < 16; i++) SAY("%02x", a->way.grh.to.raw[i]);
        SAY(", index %u, hops %u, global %u, port %u\n", a->way.grh.index, a->way.grh.hops, a->way.is_global, a->way.port);
    }
    return fails(a->state == 1 ? "init" : "answers");
}
int ibv_query_qp(pair *p, attributes *a, int mask, new_pair *n) {
    memset(a, 0, sizeof *a);
    memset(n, 0, sizeof *n);
    a->state = p->state;
    unsigned dead = 0;
    FILE *f = file("dead", "r");
    if (f) {
        if (fscanf(f, "%u", &dead) == 1 && dead == p->number) a->state = 6;
        fclose(f);
    }
    return 0;
}
int ibv_destroy_qp(pair *p) { SAY("end of %u\n", p->number); return gone(p); }
