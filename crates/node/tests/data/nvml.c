/* A substitute for NVIDIA's management library, with the functions that agents use: three GPUs, of which the third is divided into two MIG
 * instances and cannot read its power limit. FOLDER is where it looks for files: while `lost` is there, the second GPU is lost; while `start`
 * is there, all calls return the digit in it. Every start adds a character to `starts`. With OLD it lacks what older libraries lack. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, GPUS = 3, ALL = 5 };

typedef struct {
    const char *uuid, *name;
    unsigned domain, bus, id, utilization;
    unsigned long long used, total;
} thing;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { char legacy[16]; unsigned domain, bus, device, ids[2]; char address[32]; } pci;

static thing things[ALL] = {
    {"GPU-aaaa", "Fake 80GB", 0, 0x3b, 0, 70, 100, 400},
    {"GPU-bbbb", "Fake 80GB", 0, 0x5e, 0, 71, 200, 400},
    {"GPU-cccc", "Fake 80GB", 0x10000, 0xaf, 0, 0, 300, 400},
    {"MIG-1111", "Fake 80GB MIG 1g.10gb", 0, 0, 7, 0, 100, 400},
    {"MIG-2222", "Fake 80GB MIG 1g.10gb", 0, 0, 8, 0, 50, 400},
};

static int is_whole(thing *d) { return d < things + GPUS; }

static int state(void) {
    FILE *f = fopen(FOLDER "/start", "r");
    int code = f ? fgetc(f) - '0' : 0;
    if (f) fclose(f);
    return code;
}

static int state_of(thing *d) {
    int code = state();
    if (code == 0 && d == things + 1 && access(FOLDER "/lost", F_OK) == 0) return GPU_IS_LOST;
    return code;
}

static int text(thing *d, const char *from, char *to, unsigned length) {
    if (strlen(from) >= length) return 7;
    strcpy(to, from);
    return state_of(d);
}

static int give(thing *d, thing **out) {
    *out = d;
    return state_of(d);
}

int nvmlInit_v2(void) {
    FILE *f = fopen(FOLDER "/starts", "a");
    if (f) { fputc('x', f); fclose(f); }
    return state();
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) {
    switch (code) {
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

int nvmlDeviceGetCount_v2(unsigned *count) { *count = GPUS; return state(); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, thing **out) { return i < GPUS ? give(things + i, out) : INVALID_ARGUMENT; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, thing **out) {
    unsigned domain, bus, device, function;
    if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) return INVALID_ARGUMENT;
    for (thing *d = things; d < things + GPUS; d++)
        if (d->domain == domain && d->bus == bus && device == 0) return give(d, out);
    return NOT_FOUND;
}
int nvmlDeviceGetUUID(thing *d, char *to, unsigned length) { return text(d, d->uuid, to, length); }
int nvmlDeviceGetName(thing *d, char *to, unsigned length) { return text(d, d->name, to, length); }
int nvmlDeviceGetPciInfo_v3(thing *d, pci *p) {
    memset(p, 'x', sizeof *p);
    p->domain = d->domain, p->bus = d->bus, p->device = 0;
    return state_of(d);
}
int nvmlDeviceGetUtilizationRates(thing *d, utilization *u) {
    if (d >= things + 2) return NOT_SUPPORTED;
    u->gpu = d->utilization, u->memory = 20;
    return state_of(d);
}
int nvmlDeviceGetMemoryInfo(thing *d, memory *m) {
    m->total = d->total, m->used = d->used, m->free = d->total - d->used;
    return state_of(d);
}
int nvmlDeviceGetPowerUsage(thing *d, unsigned *mw) { *mw = 350000; return state_of(d); }
int nvmlDeviceGetEnforcedPowerLimit(thing *d, unsigned *mw) {
    *mw = 700000;
    return d == things + 2 ? NOT_SUPPORTED : state_of(d);
}
int nvmlDeviceGetTemperature(thing *d, unsigned sensor, unsigned *celsius) { *celsius = 40 + sensor; return state_of(d); }

#ifndef OLD
int nvmlDeviceGetHandleByUUID(const char *uuid, thing **out) {
    for (thing *d = things; d < things + ALL; d++)
        if (strcmp(d->uuid, uuid) == 0) return give(d, out);
    return NOT_FOUND;
}
int nvmlDeviceGetMigMode(thing *d, unsigned *current, unsigned *pending) {
    *current = *pending = d == things + 2;
    return is_whole(d) ? 0 : INVALID_ARGUMENT;
}
int nvmlDeviceGetMaxMigDeviceCount(thing *d, unsigned *count) { *count = d == things + 2 ? 7 : 0; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(thing *d, unsigned i, thing **out) {
    /* Places may be empty. */
    if (d != things + 2 || (i != 0 && i != 3)) return NOT_FOUND;
    return give(things + (i == 0 ? 3 : 4), out);
}
int nvmlDeviceGetGpuInstanceId(thing *d, unsigned *id) { *id = d->id; return is_whole(d) ? NOT_SUPPORTED : 0; }
#endif
