/*
 * A stand-in for libcufile.so.0 over that for libcuda.so.1. It reads and writes the file for real,
 * keeps the counters by which a run proves its path, and fails on order. Layouts are those of the
 * real library, declared anew from sizes and offsets; test_real_libcufile.py holds them against it.
 *
 * STORLAB_SIM_CUFILE orders what happens, read as the driver opens, "name=value" with commas:
 *   version=N        (1200)  what cuFileGetVersion tells; below 1190 with the older layout
 *   stats=none|1.15  (on)    no statistics; or the version in words
 *   route=p2p|nvfs   (p2p)   how data go that go directly
 *   posix=PERCENT    (0)     so many I/Os go by POSIX instead
 *   posix_below=SIZE (0)     and all that are smaller
 *   compat=1                 and everything: no driver is there
 *   allow_compat=0|1 (1)     what the configuration tells of it; poll=1 the same of polling
 *   max_batch=N      (128)
 *   wrong=OFFSET             a read of that byte of a file succeeds, and the byte is not the file's
 *   eio=OFFSET               an I/O of that byte fails with EIO
 *   short=OFFSET             an I/O of that byte ends before it
 *   error=CALL:CODE          that call fails, CALL less its prefix: HandleRegister:5008. A code
 *                            below 5000 is one of CUDA
 *   latency_us=N             of each I/O, slept
 *   hang=CALL[:N]            that call does not return: open, HandleRegister, BufRegister, or Read,
 *                            which is an I/O of any kind; the first N of them only
 */
#define _GNU_SOURCE
#include "cufile_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef STATISTICS
#define NEWEST 1200
#else
#define NEWEST 1140
#endif
#define BUCKETS 4096
#define BLOCK 512 /* what O_DIRECT wants at least */

struct Handle {
    int fd, buffered; /* without O_DIRECT, where that was set: for what is not aligned */
    dev_t device;
    ino_t inode;
    bool open, direct;
    struct Handle *next;
};

struct Buffer {
    const char *base;
    size_t size;
    int gpu;
    struct Buffer *next;
};

struct Descriptor {
    int type;
    union {
        int fd;
        void *pointer;
    } handle;
    const void *operations;
};

struct Properties {
    unsigned major, minor;
    size_t poll_threshold_kb, max_direct_kb;
    unsigned file_systems, control;
    unsigned features, cache_kb, cache_per_buffer_kb, pinned_kb, max_batch, batch_timeout_ms;
};

_Static_assert(sizeof(struct Descriptor) == 24, "CUfileDescr_t");
_Static_assert(sizeof(struct Properties) == 56, "CUfileDrvProps_t");

struct Order order;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t buffers_lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int users;
static struct Handle *handles; /* never freed, so that a use after the end is noticed */
static struct Buffer *buffers[BUCKETS];
static atomic_ullong ios;

static void read_order(void)
{
    const char *environment = getenv("STORLAB_SIM_CUFILE");
    char *text = strdup(environment ? environment : ""), *rest = text, *word, *colon;
    order = (struct Order){.version = NEWEST, .allow_compat = 1, .max_batch = 128,
                           .statistics = true, .p2p = true, .wrong = -1, .lost = -1, .eio = -1, .cut = -1};
    while ((word = strsep(&rest, ", ")) != NULL) {
        char *value = strchr(word, '=');
        if (value == NULL)
            continue;
        *value++ = 0;
        if (!strcmp(word, "version")) order.version = atoi(value);
        else if (!strcmp(word, "stats") && !strcmp(value, "none")) order.statistics = false;
        else if (!strcmp(word, "stats") && !strncmp(value, "1.", 2))
            order.version = 1000 + 10 * atoi(value + 2);
        else if (!strcmp(word, "route")) order.p2p = !strcmp(value, "p2p");
        else if (!strcmp(word, "posix")) order.posix_percent = atol(value);
        else if (!strcmp(word, "posix_below")) order.posix_below = storlab_sim_size(value);
        else if (!strcmp(word, "compat")) order.compat = atoi(value);
        else if (!strcmp(word, "allow_compat")) order.allow_compat = atoi(value);
        else if (!strcmp(word, "poll")) order.poll_mode = atoi(value);
        else if (!strcmp(word, "max_batch")) order.max_batch = atoi(value);
        else if (!strcmp(word, "wrong")) order.wrong = (off_t)storlab_sim_size(value);
        else if (!strcmp(word, "lost")) order.lost = (off_t)storlab_sim_size(value);
        else if (!strcmp(word, "eio")) order.eio = (off_t)storlab_sim_size(value);
        else if (!strcmp(word, "short")) order.cut = (off_t)storlab_sim_size(value);
        else if (!strcmp(word, "latency_us")) order.latency_us = atol(value);
        else if (!strcmp(word, "hang")) {
            colon = strchr(value, ':');
            snprintf(order.hangs, sizeof order.hangs, "%.*s",
                     (int)(colon ? colon - value : (long)strlen(value)), value);
            order.hangs_left = colon ? atol(colon + 1) : LONG_MAX;
        }
        else if (!strcmp(word, "error") && (colon = strchr(value, ':')) != NULL) {
            snprintf(order.call, sizeof order.call, "%.*s", (int)(colon - value), value);
            order.code = atoi(colon + 1);
        } else fprintf(stderr, "STORLAB_SIM_CUFILE: what is %s=%s?\n", word, value), abort();
    }
    free(text);
}

Status ordered(const char *call)
{
    if (order.code == 0 || strcmp(order.call, call) != 0)
        return (Status){0, 0};
    return order.code < BASE ? (Status){CUDA_DRIVER_ERROR, order.code} : (Status){order.code, 0};
}

void hang_in(const char *call)
{
    bool hangs = !strcmp(order.hangs, call) && atomic_fetch_sub(&order.hangs_left, 1) > 0;
    while (hangs) /* for good: a later order does not end it */
        sleep(1);
}

bool is_open(void)
{
    return users > 0;
}

uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* ---- The driver ---- */

EXPORT Status cuFileDriverOpen(void)
{
    pthread_mutex_lock(&lock);
    if (users == 0)
        read_order();
    pthread_mutex_unlock(&lock);
    hang_in("open");
    Status status = ordered("DriverOpen");
    int found = 0;
    if (status.code == 0 && cuDeviceGetCount(&found) != SUCCESS) {
        Result result = cuInit(0);
        status = (Status){result ? CUDA_DRIVER_ERROR : 0, result};
    }
    if (status.code == 0 && order.compat && !order.allow_compat)
        status.code = DRIVER_NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    users += status.code == 0;
    pthread_mutex_unlock(&lock);
    return status;
}

EXPORT Status cuFileDriverClose(void)
{
    pthread_mutex_lock(&lock);
    Status status = users > 0 ? ordered("DriverClose") : (Status){DRIVER_NOT_INITIALIZED, 0};
    if (users > 0 && --users == 0) {
        for (struct Handle *handle = handles; handle != NULL; handle = handle->next) {
            if (handle->open && handle->buffered != handle->fd)
                close(handle->buffered);
            handle->open = false;
        }
        end_counting();
    }
    pthread_mutex_unlock(&lock);
    return status;
}

EXPORT Status cuFileDriverClose_v2(void)
{
    return cuFileDriverClose();
}

EXPORT long cuFileUseCount(void)
{
    return users;
}

EXPORT Status cuFileGetVersion(int *version)
{
    if (users == 0)
        read_order();
    *version = order.version;
    return ordered("GetVersion");
}

EXPORT Status cuFileDriverGetProperties(struct Properties *properties)
{
    bool nvfs = !order.p2p && !order.compat;
    if (!is_open())
        return (Status){DRIVER_NOT_INITIALIZED, 0};
    *properties = (struct Properties){
        .major = nvfs ? 2 : 0, .minor = nvfs ? 26 : 0,
        .poll_threshold_kb = 4, .max_direct_kb = 16384,
        .file_systems = order.compat ? 0 : 1u << 4 | (order.p2p ? 1u << 11 : 0),
        .control = (unsigned)order.poll_mode | (unsigned)order.allow_compat << 1,
        .features = 1u << 1 | 1u << 2 | 1u << 3 | (order.p2p && !order.compat ? 1u << 4 : 0),
        .cache_kb = 131072, .cache_per_buffer_kb = 1024, .pinned_kb = 33554432,
        .max_batch = (unsigned)order.max_batch};
    return ordered("DriverGetProperties");
}

EXPORT Status cuFileDriverGetP2PFlags(int file_system, int *flags)
{
    bool nvme = file_system == 4 && !order.compat;
    *flags = nvme ? (order.p2p ? 1 : 2) : 0;
    return is_open() ? ordered("DriverGetP2PFlags") : (Status){DRIVER_NOT_INITIALIZED, 0};
}

EXPORT Status cuFileGetParameterBool(int parameter, bool *value)
{
    if (users == 0)
        read_order();
    if (parameter < 0 || parameter > 13 || parameter == 5)
        return (Status){FILE_INVALID_VALUE, 0};
    *value = parameter == 0 ? order.poll_mode : parameter == 1 ? order.allow_compat
           : parameter == 7 ? order.p2p : parameter == 4;
    return ordered("GetParameterBool");
}

EXPORT Status cuFileGetParameterSizeT(int parameter, size_t *value)
{
    const size_t values[] = {0, 128, 8, 1024, 4, 16384, 131072, 1024, 33554432, 0, 4, 0};
    if (parameter < 0 || parameter > 11)
        return (Status){FILE_INVALID_VALUE, 0};
    *value = parameter == 0 ? (size_t)statistics_level()
           : parameter == 9 ? (size_t)order.max_batch : values[parameter];
    return ordered("GetParameterSizeT");
}

EXPORT Status cuFileGetParameterString(int parameter, char *text, int room)
{
    if (parameter < 0 || parameter > 3)
        return (Status){FILE_INVALID_VALUE, 0};
    snprintf(text, (size_t)room, "%s", parameter == 0 ? "ERROR" : "");
    return ordered("GetParameterString");
}

EXPORT Status cuFileGetBARSizeInKB(int gpu, size_t *size)
{
    *size = (size_t)128 << 20;
    return gpu < 0 || gpu >= GPUS ? (Status){FILE_INVALID_VALUE, 0} : ordered("GetBARSizeInKB");
}

/* ---- Files and buffers ---- */

EXPORT Status cuFileHandleRegister(struct Handle **handle, struct Descriptor *descriptor)
{
    hang_in("HandleRegister");
    Status status = ordered("HandleRegister");
    struct stat file;
    int flags = fcntl(descriptor->handle.fd, F_GETFL);
    if (status.code == 0 && !is_open()) status.code = DRIVER_NOT_INITIALIZED;
    if (status.code == 0 && descriptor->type != 1) status.code = INVALID_FILE_TYPE;
    if (status.code == 0 && (flags < 0 || fstat(descriptor->handle.fd, &file) != 0))
        status.code = FILE_INVALID_VALUE;
    if (status.code == 0 && !S_ISREG(file.st_mode) && !S_ISBLK(file.st_mode))
        status.code = INVALID_FILE_TYPE;
    pthread_mutex_lock(&lock);
    for (struct Handle *other = handles; other != NULL && status.code == 0; other = other->next)
        if (other->open && other->fd == descriptor->handle.fd && other->inode == file.st_ino)
            status.code = HANDLE_ALREADY_REGISTERED;
    if (status.code == 0) {
        struct Handle *made = calloc(1, sizeof *made);
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor->handle.fd);
        made->fd = made->buffered = descriptor->handle.fd;
        made->direct = flags & O_DIRECT;
        if (made->direct)
            made->buffered = open(path, (flags & O_ACCMODE) | O_CLOEXEC);
        made->device = file.st_dev, made->inode = file.st_ino, made->open = true;
        made->next = handles;
        handles = *handle = made;
    }
    pthread_mutex_unlock(&lock);
    count(HANDLE_REGISTER + (status.code != 0), 1);
    return status;
}

EXPORT void cuFileHandleDeregister(struct Handle *handle)
{
    pthread_mutex_lock(&lock);
    bool known = handle != NULL && handle->open;
    if (known && handle->buffered != handle->fd)
        close(handle->buffered);
    if (known)
        handle->open = false;
    pthread_mutex_unlock(&lock);
    count(HANDLE_DEREGISTER + !known, 1);
}

static struct Buffer **bucket_of(const char *base)
{
    return &buffers[(uintptr_t)base / 4096 * 2654435761u % BUCKETS];
}

EXPORT Status cuFileBufRegister(const char *base, size_t size, int flags)
{
    char *memory;
    hang_in("BufRegister");
    Status status = ordered("BufRegister");
    int gpu = storlab_sim_find((uintptr_t)base, size, &memory);
    (void)flags;
    if (status.code == 0 && !is_open()) status.code = DRIVER_NOT_INITIALIZED;
    if (status.code == 0 && (base == NULL || size == 0)) status.code = FILE_INVALID_VALUE;
    if (status.code == 0 && gpu < 0)
        status.code = gpu == -2 ? CUDA_POINTER_RANGE_ERROR : CUDA_POINTER_INVALID;
    pthread_rwlock_wrlock(&buffers_lock);
    for (struct Buffer *other = *bucket_of(base); other != NULL; other = other->next)
        if (status.code == 0 && other->base == base)
            status.code = MEMORY_ALREADY_REGISTERED;
    if (status.code == 0) {
        struct Buffer *made = malloc(sizeof *made), **bucket = bucket_of(base);
        *made = (struct Buffer){base, size, gpu, *bucket};
        *bucket = made;
        count_gpu(gpu, REGISTERED_BYTES, size);
    }
    pthread_rwlock_unlock(&buffers_lock);
    count_gpu(gpu, MAPPED, 1);
    count_gpu(gpu, status.code == 0 ? MAPPED_OK : MAPPED_BAD, 1);
    count(BUFFER_REGISTER + (status.code != 0), 1);
    return status;
}

EXPORT Status cuFileBufDeregister(const char *base)
{
    Status status = {MEMORY_NOT_REGISTERED, 0};
    pthread_rwlock_wrlock(&buffers_lock);
    for (struct Buffer **link = bucket_of(base); *link != NULL; link = &(*link)->next)
        if ((*link)->base == base) {
            struct Buffer *gone = *link;
            *link = gone->next;
            count_gpu(gone->gpu, UNMAPPED, 1);
            free(gone);
            status = ordered("BufDeregister");
            break;
        }
    pthread_rwlock_unlock(&buffers_lock);
    count(BUFFER_DEREGISTER + (status.code != 0), 1);
    return status;
}

bool is_registered(const char *base)
{
    bool known = false;
    pthread_rwlock_rdlock(&buffers_lock);
    for (struct Buffer *buffer = *bucket_of(base); buffer != NULL; buffer = buffer->next)
        known |= buffer->base == base;
    pthread_rwlock_unlock(&buffers_lock);
    return known;
}

/* ---- One I/O ---- */

static bool within_registered(const struct Io *io)
{
    bool fits = true;
    pthread_rwlock_rdlock(&buffers_lock);
    for (struct Buffer *buffer = *bucket_of(io->base); buffer != NULL; buffer = buffer->next)
        if (buffer->base == io->base)
            fits = (size_t)io->buffer_offset + io->size <= buffer->size;
    pthread_rwlock_unlock(&buffers_lock);
    return fits;
}

static bool covers(const struct Io *io, off_t offset)
{
    return offset >= io->file_offset && offset < io->file_offset + (off_t)io->size;
}

/* P2P, NVFS or POSIX. */
static int route_of(const struct Io *io, bool aligned)
{
    uint64_t n = atomic_fetch_add(&ios, 1), percent = (uint64_t)order.posix_percent;
    bool posix = (n + 1) * percent / 100 != n * percent / 100 || order.compat || !aligned;
    if (posix || !io->handle->direct || io->size < order.posix_below)
        return POSIX;
    return order.p2p ? P2P : NVFS;
}

static ssize_t transfer(const struct Io *io, char *memory, bool aligned)
{
    int fd = aligned ? io->handle->fd : io->handle->buffered;
    size_t size = io->size;
    if (covers(io, order.eio)) {
        errno = EIO;
        return -1;
    }
    if (covers(io, order.cut)) {
        size = (size_t)(order.cut - io->file_offset) / BLOCK * BLOCK;
        if (size == 0)
            return 0;
    }
    if (io->write)
        return pwrite(fd, memory, size, io->file_offset);
    if (covers(io, order.lost)) /* reported as done, and never moved */
        return (ssize_t)size;
    ssize_t done = pread(fd, memory, size, io->file_offset);
    if (done > 0 && covers(io, order.wrong) && order.wrong < io->file_offset + done)
        memory[order.wrong - io->file_offset] ^= 0x5a;
    return done;
}

ssize_t do_io(const struct Io *io)
{
    hang_in("Read");
    Status status = ordered(io->write ? "Write" : "Read");
    char *memory = NULL;
    if (status.code != 0) return -status.code;
    if (!is_open()) return -DRIVER_NOT_INITIALIZED;
    if (io->handle == NULL || !io->handle->open) return -HANDLE_NOT_REGISTERED;
    if (!within_registered(io)) return -INVALID_MAPPING_RANGE;
    uint64_t begin = now_us();
    int gpu = storlab_sim_find((uintptr_t)io->base + (size_t)io->buffer_offset, io->size, &memory);
    if (gpu == -2) return -CUDA_POINTER_RANGE_ERROR;
    if (gpu >= 0 && storlab_sim_use(gpu) != SUCCESS) return -CUDA_DRIVER_ERROR;
    if (gpu == -1) memory = io->base + io->buffer_offset; /* the host's own */
    bool aligned = ((uintptr_t)memory | (size_t)io->file_offset | io->size) % BLOCK == 0;
    int route = route_of(io, aligned);
    if (order.latency_us > 0)
        usleep((unsigned)order.latency_us);
    ssize_t done = transfer(io, memory, aligned);
    int error = errno;
    account(io, gpu, route, aligned, done, now_us() - begin);
    errno = error;
    return done;
}

EXPORT ssize_t cuFileRead(struct Handle *handle, char *base, size_t size, off_t file_offset,
                          off_t buffer_offset)
{
    return do_io(&(struct Io){handle, base, size, file_offset, buffer_offset, false, false});
}

EXPORT ssize_t cuFileWrite(struct Handle *handle, const char *base, size_t size, off_t file_offset,
                           off_t buffer_offset)
{
    char *memory = (char *)(uintptr_t)base;
    return do_io(&(struct Io){handle, memory, size, file_offset, buffer_offset, true, false});
}
