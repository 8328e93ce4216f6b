/*
 * A stand-in for libcuda.so.1: the driver API as far as a client of cuFile and a reader through a
 * bounce buffer need it. Device memory is host memory, but a device pointer is not an address: it
 * lies in a range that nobody can touch, at a fixed distance from the bytes that it means, so that
 * a client that reads device memory as its own ends with SIGSEGV here, as it would fail on a GPU.
 *
 * STORLAB_SIM_CUDA orders what happens, read at each cuInit, "name=value" with commas between:
 *   gpus=N         (1)    how many devices
 *   memory=SIZE    (8G)   of each device; K, M, G are powers of 1024
 *   used=SIZE      (0)    what other processes hold of it
 *   compute=MAJOR  (9)    compute capability
 *   version=N      (12040)
 *   no_device=1           cuInit fails with CUDA_ERROR_NO_DEVICE
 *   oom=1                 no allocation of device memory succeeds
 *   lost_after=N          so many calls on a context and I/Os of cuFile succeed, and then none:
 *                         the error is sticky
 *   lost_code=N    (719)  with this code
 *   gone=1                a reset of the primary context does not bring the device back
 *   no_spin=1             ends the process where a wait would spin: on a stream, or on an event that
 *                         was not made for blocking
 *   held=N                device N cannot be opened, as where another process has it for itself
 *   lazy=1                a copy to the device of memory that is not pinned returns before it lies
 *                         there: it lands when the default stream is waited for, or does more
 *   copy_gb_s=X           copies between host and device take time, one after another each way
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "gpu.h"

#define DEVICES 16
#define RANGE_PER_DEVICE ((size_t)1 << 37)
#define GRAIN ((size_t)65536) /* a page of GPU memory */

struct Block {
    size_t start, size, room;
    bool live;
};

struct Context { /* the primary context of a device, and the device's memory */
    int users;
    atomic_int sticky;
    size_t allocated, top, blocks, blocks_room;
    struct Block *block;
    uint64_t copies_until_ns[2];
    char *staged, *lands_at; /* of a copy that has returned */
    size_t staged_bytes;
};

struct Pinned { /* memory of the host */
    char *start;
    size_t size;
    struct Pinned *next;
};

static struct {
    int gpus, compute, version, lost_code, held;
    size_t memory, used;
    long lost_after;
    bool no_device, oom, gone, no_spin, lazy;
    double copy_gb_s;
} order;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static atomic_long calls;
static char *untouchable, *bytes; /* device pointers, and the memory that they mean */
static struct Context contexts[DEVICES];
static struct Pinned *pinned;
static _Thread_local struct Context *current;

size_t storlab_sim_size(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end) : NULL;
    return (size_t)(value * (double)(unit ? (size_t)1 << (10 * (unit - units + 1)) : 1));
}

static void read_order(void)
{
    const char *environment = getenv("STORLAB_SIM_CUDA");
    char *text = strdup(environment ? environment : ""), *rest = text, *word;
    order.gpus = 1, order.compute = 9, order.version = 12040, order.lost_code = LAUNCH_FAILED;
    order.memory = (size_t)8 << 30, order.used = 0, order.lost_after = order.held = -1;
    order.no_device = order.oom = order.gone = order.no_spin = order.lazy = false;
    order.copy_gb_s = 0;
    while ((word = strsep(&rest, ", ")) != NULL) {
        char *value = strchr(word, '=');
        if (value == NULL)
            continue;
        *value++ = 0;
        if (!strcmp(word, "gpus")) order.gpus = atoi(value) < DEVICES ? atoi(value) : DEVICES;
        else if (!strcmp(word, "memory")) order.memory = storlab_sim_size(value);
        else if (!strcmp(word, "used")) order.used = storlab_sim_size(value);
        else if (!strcmp(word, "compute")) order.compute = atoi(value);
        else if (!strcmp(word, "version")) order.version = atoi(value);
        else if (!strcmp(word, "no_device")) order.no_device = atoi(value);
        else if (!strcmp(word, "oom")) order.oom = atoi(value);
        else if (!strcmp(word, "lost_after")) order.lost_after = atol(value);
        else if (!strcmp(word, "lost_code")) order.lost_code = atoi(value);
        else if (!strcmp(word, "gone")) order.gone = atoi(value);
        else if (!strcmp(word, "no_spin")) order.no_spin = atoi(value);
        else if (!strcmp(word, "held")) order.held = atoi(value);
        else if (!strcmp(word, "lazy")) order.lazy = atoi(value);
        else if (!strcmp(word, "copy_gb_s")) order.copy_gb_s = strtod(value, NULL);
        else fprintf(stderr, "STORLAB_SIM_CUDA: what is %s?\n", word), abort();
    }
    free(text);
    atomic_store(&calls, 0);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void spin(void)
{
    if (order.no_spin)
        fprintf(stderr, "STORLAB_SIM_CUDA: a wait that spins\n"), abort();
}

Result enter(void)
{
    if (!started)
        return NOT_INITIALIZED;
    if (current == NULL)
        return INVALID_CONTEXT;
    if (current->users == 0)
        return CONTEXT_IS_DESTROYED;
    return storlab_sim_use((int)(current - contexts));
}

Result storlab_sim_use(int device)
{
    if (order.lost_after >= 0 && atomic_fetch_add(&calls, 1) >= order.lost_after)
        atomic_store(&contexts[device].sticky, order.lost_code);
    return atomic_load(&contexts[device].sticky);
}

struct Context *current_context(void)
{
    return current;
}

void make_current(struct Context *context)
{
    current = context;
}

void stick(Result result)
{
    if (result != SUCCESS && current != NULL)
        atomic_store(&current->sticky, result);
}

/* ---- Initialization and devices ---- */

EXPORT Result cuInit(unsigned flags)
{
    if (flags != 0)
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    read_order();
    Result result = order.no_device || order.gpus == 0 ? NO_DEVICE : SUCCESS;
    if (result == SUCCESS && untouchable == NULL) {
        size_t range = RANGE_PER_DEVICE * DEVICES;
        int flags_of_both = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        char *both = mmap(NULL, 2 * range, PROT_NONE, flags_of_both, -1, 0);
        if (both == MAP_FAILED)
            result = OUT_OF_MEMORY;
        else
            untouchable = both, bytes = both + range;
    }
    started = result == SUCCESS;
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT Result cuDriverGetVersion(int *version)
{
    *version = order.version ? order.version : 12040;
    return SUCCESS;
}

EXPORT Result cuDeviceGetCount(int *count)
{
    *count = order.gpus;
    return started ? SUCCESS : NOT_INITIALIZED;
}

static bool is_device(Device device)
{
    return started && device >= 0 && device < order.gpus;
}

EXPORT Result cuDeviceGet(Device *device, int ordinal)
{
    *device = ordinal;
    return !started ? NOT_INITIALIZED : is_device(ordinal) ? SUCCESS : INVALID_DEVICE;
}

EXPORT Result cuDeviceGetName(char *name, int room, Device device)
{
    snprintf(name, (size_t)room, "Simulated GPU %d", device);
    return is_device(device) ? SUCCESS : INVALID_DEVICE;
}

EXPORT Result cuDeviceGetPCIBusId(char *id, int room, Device device)
{
    snprintf(id, (size_t)room, "0000:%02X:00.0", 0x41 + 0x10 * device);
    return is_device(device) ? SUCCESS : INVALID_DEVICE;
}

EXPORT Result cuDeviceGetUuid(unsigned char uuid[16], Device device)
{
    memcpy(uuid, "storlab-sim-gpu", 15);
    uuid[15] = (unsigned char)('0' + device);
    return is_device(device) ? SUCCESS : INVALID_DEVICE;
}

EXPORT Result cuDeviceGetUuid_v2(unsigned char uuid[16], Device device)
{
    return cuDeviceGetUuid(uuid, device);
}

EXPORT Result cuDeviceGetAttribute(int *value, int attribute, Device device)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    switch (attribute) {
    case 16: *value = 132; return SUCCESS;                    /* multiprocessors */
    case 18: *value = 0; return SUCCESS;                      /* integrated */
    case 33: *value = 0x41 + 0x10 * device; return SUCCESS;   /* PCI bus */
    case 34: *value = 0; return SUCCESS;                      /* PCI device */
    case 40: *value = 2; return SUCCESS;                      /* copy engines */
    case 50: *value = 0; return SUCCESS;                      /* PCI domain */
    case 75: *value = order.compute; return SUCCESS;          /* compute capability */
    case 76: *value = 0; return SUCCESS;
    case 116: *value = 1; return SUCCESS;                     /* GPUDirect RDMA */
    case 124: *value = 1; return SUCCESS;                     /* dma-buf */
    default: return INVALID_VALUE;
    }
}

EXPORT Result cuDeviceTotalMem_v2(size_t *total, Device device)
{
    *total = order.memory;
    return is_device(device) ? SUCCESS : INVALID_DEVICE;
}

/* ---- Contexts ---- */

static void drop_memory(struct Context *context)
{
    size_t base = (size_t)(context - contexts) * RANGE_PER_DEVICE;
    if (context->top > 0)
        madvise(bytes + base, context->top, MADV_DONTNEED);
    context->allocated = context->top = context->blocks = 0;
    free(context->staged);
    context->staged = NULL;
}

EXPORT Result cuDevicePrimaryCtxRetain(void **context, Device device)
{
    if (!is_device(device))
        return started ? INVALID_DEVICE : NOT_INITIALIZED;
    if (device == order.held)
        return DEVICE_UNAVAILABLE;
    pthread_mutex_lock(&lock);
    contexts[device].users++;
    pthread_mutex_unlock(&lock);
    *context = &contexts[device];
    return SUCCESS;
}

EXPORT Result cuDevicePrimaryCtxRelease_v2(Device device)
{
    if (!is_device(device) || contexts[device].users == 0)
        return INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    if (--contexts[device].users == 0) {
        drop_memory(&contexts[device]);
        atomic_store(&contexts[device].sticky, SUCCESS);
    }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

EXPORT Result cuDevicePrimaryCtxReset_v2(Device device)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    drop_memory(&contexts[device]);
    if (!order.gone) {
        atomic_store(&contexts[device].sticky, SUCCESS);
        order.lost_after = -1;
    }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

EXPORT Result cuCtxSetCurrent(void *context)
{
    if (!started)
        return NOT_INITIALIZED;
    current = context;
    return SUCCESS;
}

EXPORT Result cuCtxGetCurrent(void **context)
{
    *context = current;
    return started ? SUCCESS : NOT_INITIALIZED;
}

/* ---- Memory ---- */

/* What was staged comes to its place. The lock is held. */
static void land(struct Context *context)
{
    if (context->staged != NULL)
        memcpy(context->lands_at, context->staged, context->staged_bytes);
    free(context->staged);
    context->staged = NULL;
}

void land_copies(void)
{
    if (!order.lazy)
        return;
    pthread_mutex_lock(&lock);
    land(current);
    pthread_mutex_unlock(&lock);
}

EXPORT Result cuMemGetInfo_v2(size_t *left, size_t *total)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    size_t held = order.used + current->allocated;
    *total = order.memory;
    *left = held < order.memory ? order.memory - held : 0;
    return SUCCESS;
}

static struct Block *block_for(struct Context *context, size_t size)
{
    size_t room = (size + GRAIN - 1) / GRAIN * GRAIN;
    for (size_t i = 0; i < context->blocks; i++)
        if (!context->block[i].live && context->block[i].room == room)
            return &context->block[i];
    char *base = bytes + (size_t)(context - contexts) * RANGE_PER_DEVICE;
    if (context->top + room > RANGE_PER_DEVICE)
        return NULL;
    if (mprotect(base + context->top, room, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    if (context->blocks == context->blocks_room) {
        context->blocks_room = context->blocks_room ? 2 * context->blocks_room : 64;
        context->block = realloc(context->block, context->blocks_room * sizeof(struct Block));
    }
    struct Block *block = &context->block[context->blocks++];
    *block = (struct Block){.start = context->top, .room = room};
    context->top += room;
    return block;
}

EXPORT Result cuMemAlloc_v2(DevicePointer *pointer, size_t size)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    if (size == 0)
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct Block *block = NULL;
    if (!order.oom && order.used + current->allocated + size <= order.memory)
        block = block_for(current, size);
    if (block != NULL) {
        block->live = true, block->size = size;
        current->allocated += size;
        size_t base = (size_t)(current - contexts) * RANGE_PER_DEVICE;
        *pointer = (DevicePointer)(uintptr_t)(untouchable + base + block->start);
    }
    pthread_mutex_unlock(&lock);
    return block ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT Result cuMemFree_v2(DevicePointer pointer)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    size_t at = (size_t)(pointer - (uintptr_t)untouchable);
    struct Context *context = &contexts[at / RANGE_PER_DEVICE % DEVICES];
    result = INVALID_VALUE;
    pthread_mutex_lock(&lock);
    land(current);
    for (size_t i = 0; i < context->blocks; i++) {
        struct Block *block = &context->block[i];
        if (block->live && block->start == at % RANGE_PER_DEVICE) {
            block->live = false;
            context->allocated -= block->size;
            madvise(bytes + at, block->room, MADV_DONTNEED);
            result = SUCCESS;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT Result cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    Result result = enter();
    (void)flags;
    if (result != SUCCESS)
        return result;
    if (posix_memalign(memory, 4096, size) != 0)
        return OUT_OF_MEMORY;
    struct Pinned *range = malloc(sizeof *range);
    pthread_mutex_lock(&lock);
    *range = (struct Pinned){*memory, size, pinned};
    pinned = range;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

EXPORT Result cuMemFreeHost(void *memory)
{
    pthread_mutex_lock(&lock);
    struct Pinned **link = &pinned;
    while (*link != NULL && (*link)->start != memory)
        link = &(*link)->next;
    struct Pinned *gone = *link;
    if (gone != NULL)
        *link = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone);
    free(memory);
    return started ? SUCCESS : NOT_INITIALIZED;
}

static bool is_pinned(const char *host)
{
    pthread_mutex_lock(&lock);
    struct Pinned *range = pinned;
    while (range != NULL && (host < range->start || host >= range->start + range->size))
        range = range->next;
    pthread_mutex_unlock(&lock);
    return range != NULL;
}

int storlab_sim_find(DevicePointer pointer, size_t size, char **memory)
{
    size_t at = (size_t)(pointer - (uintptr_t)untouchable);
    if (untouchable == NULL || at >= RANGE_PER_DEVICE * DEVICES)
        return -1;
    struct Context *context = &contexts[at / RANGE_PER_DEVICE];
    int found = -1;
    pthread_mutex_lock(&lock);
    size_t low = 0, high = context->blocks, inside = at % RANGE_PER_DEVICE;
    while (high - low > 1) { /* blocks lie in the order of their starts */
        size_t middle = low + (high - low) / 2;
        if (context->block[middle].start <= inside) low = middle;
        else high = middle;
    }
    if (high > 0) {
        struct Block *block = &context->block[low];
        if (block->live && inside >= block->start && inside < block->start + block->size)
            found = inside + size <= block->start + block->size ? (int)(context - contexts) : -2;
    }
    pthread_mutex_unlock(&lock);
    *memory = bytes + at;
    return found;
}

Result copy(DevicePointer device, char *host, size_t size, bool to_device)
{
    char *memory;
    int owner = storlab_sim_find(device, size, &memory);
    if (owner < 0)
        return INVALID_VALUE;
    uint64_t until = 0;
    if (order.copy_gb_s > 0) {
        pthread_mutex_lock(&lock);
        uint64_t now = now_ns(), *engine = &contexts[owner].copies_until_ns[to_device];
        *engine = (*engine > now ? *engine : now) + (uint64_t)((double)size / order.copy_gb_s);
        until = *engine;
        pthread_mutex_unlock(&lock);
    }
    if (to_device) memcpy(memory, host, size);
    else memcpy(host, memory, size);
    struct timespec end = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    if (until > now_ns())
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    return SUCCESS;
}

/* Whatever comes to the same place by another way in the meantime is lost when it lands. */
static Result stage(DevicePointer device, const char *host, size_t size)
{
    char *memory;
    if (storlab_sim_find(device, size, &memory) < 0)
        return INVALID_VALUE;
    char *staged = malloc(size);
    memcpy(staged, host, size);
    pthread_mutex_lock(&lock);
    land(current);
    current->staged = staged, current->lands_at = memory, current->staged_bytes = size;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

EXPORT Result cuMemcpyHtoD_v2(DevicePointer device, const void *host, size_t size)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    if (order.lazy && !is_pinned(host))
        return stage(device, host, size);
    land_copies();
    return copy(device, (char *)(uintptr_t)host, size, true);
}

EXPORT Result cuMemcpyDtoH_v2(void *host, DevicePointer device, size_t size)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    land_copies();
    return copy(device, host, size, false);
}

EXPORT Result cuMemsetD8_v2(DevicePointer device, unsigned char value, size_t size)
{
    char *memory;
    Result result = enter();
    if (result != SUCCESS)
        return result;
    if (storlab_sim_find(device, size, &memory) < 0)
        return INVALID_VALUE;
    memset(memory, value, size);
    return SUCCESS;
}
