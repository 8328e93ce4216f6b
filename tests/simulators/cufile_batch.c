/* Batches and streams of the stand-in for libcufile.so.0. A few threads serve all batches. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cufile_parts.h"

#define SERVERS 8
#define BOUNCED 4096

enum { COMPLETE = 0x10, CANCELED = 0x08, FAILED = 0x40 };

struct Parameters { /* of an entry, as the client hands them over */
    int mode;
    struct {
        char *base;
        off_t file_offset, buffer_offset;
        size_t size;
    } where;
    struct Handle *handle;
    int opcode; /* 0 reads, 1 writes */
    void *cookie;
};

struct Event {
    void *cookie;
    int status;
    size_t result;
};

_Static_assert(sizeof(struct Parameters) == 64, "CUfileIOParams_t");
_Static_assert(sizeof(struct Event) == 24, "CUfileIOEvents_t");

struct Batch {
    unsigned room, outstanding, done;
    struct Event *events; /* done, and not yet told */
    pthread_cond_t changed;
};

struct Entry {
    struct Batch *batch;
    struct Io io;
    void *cookie;
    struct Entry *next;
};

struct Later { /* an I/O on a stream: its values are read when its turn comes */
    struct Handle *handle;
    char *base;
    size_t *size;
    off_t *file_offset, *buffer_offset;
    ssize_t *done;
    bool write, shares;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct Entry *first, *last;
static int servers;

static void finish(struct Entry *entry, int status, ssize_t result)
{
    struct Batch *batch = entry->batch;
    batch->events[batch->done++] = (struct Event){entry->cookie, status, (size_t)result};
    pthread_cond_broadcast(&batch->changed);
    free(entry);
}

static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (first == NULL)
            pthread_cond_wait(&work, &lock);
        struct Entry *entry = first;
        first = entry->next;
        pthread_mutex_unlock(&lock);
        ssize_t result = do_io(&entry->io);
        if (result == -1)
            result = -errno;
        count(BATCH_COMPLETE + (result < 0), 1);
        pthread_mutex_lock(&lock);
        finish(entry, result < 0 ? FAILED : COMPLETE, result);
    }
    return NULL;
}

EXPORT Status cuFileBatchIOSetUp(struct Batch **batch, unsigned room)
{
    Status status = ordered("BatchIOSetUp");
    if (status.code == 0 && !is_open()) status.code = DRIVER_NOT_INITIALIZED;
    if (status.code == 0 && (room == 0 || room > (unsigned)order.max_batch))
        status.code = FILE_INVALID_VALUE;
    if (status.code == 0) {
        pthread_condattr_t monotonic;
        *batch = calloc(1, sizeof **batch);
        (*batch)->room = room;
        (*batch)->events = calloc(room, sizeof(struct Event));
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&(*batch)->changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
    }
    count(BATCH_SETUP + (status.code != 0), 1);
    return status;
}

static void start_servers(void)
{
    while (servers < SERVERS) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, NULL) != 0)
            abort();
        pthread_detach(thread);
        servers++;
    }
}

EXPORT Status cuFileBatchIOSubmit(struct Batch *batch, unsigned count_of, struct Parameters *asked,
                                  unsigned flags)
{
    Status status = ordered("BatchIOSubmit");
    if (status.code == 0 && (batch == NULL || asked == NULL || flags != 0))
        status.code = FILE_INVALID_VALUE;
    if (status.code == 0) {
        pthread_mutex_lock(&lock);
        if (batch->outstanding + count_of > batch->room)
            status.code = BATCH_FULL;
        for (unsigned i = 0; i < count_of && status.code == 0; i++) {
            struct Entry *entry = malloc(sizeof *entry);
            *entry = (struct Entry){
                batch, {asked[i].handle, asked[i].where.base, asked[i].where.size,
                        asked[i].where.file_offset, asked[i].where.buffer_offset,
                        asked[i].opcode == 1, true}, asked[i].cookie, NULL};
            if (first == NULL) first = entry;
            else last->next = entry;
            last = entry;
            batch->outstanding++;
        }
        start_servers();
        pthread_cond_broadcast(&work);
        pthread_mutex_unlock(&lock);
        count(BATCH_ENQUEUED, status.code == 0 ? count_of : 0);
        count(order.p2p ? BATCH_P2P : BATCH_NVFS, order.compat ? 0 : 1);
    }
    count(BATCH_SUBMIT + (status.code != 0), 1);
    count(BATCH_TOTAL + (status.code != 0), 1);
    return status;
}

EXPORT Status cuFileBatchIOGetStatus(struct Batch *batch, unsigned least, unsigned *number,
                                     struct Event *events, struct timespec *timeout)
{
    Status status = ordered("BatchIOGetStatus");
    struct timespec end;
    if (status.code != 0)
        return status;
    if (batch == NULL || number == NULL || least > *number)
        return (Status){FILE_INVALID_VALUE, 0};
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (timeout != NULL) {
        end.tv_sec += timeout->tv_sec + (end.tv_nsec + timeout->tv_nsec) / 1000000000;
        end.tv_nsec = (end.tv_nsec + timeout->tv_nsec) % 1000000000;
    }
    pthread_mutex_lock(&lock);
    while (batch->done < least && batch->done < batch->outstanding) {
        if (timeout == NULL)
            pthread_cond_wait(&batch->changed, &lock);
        else if (pthread_cond_timedwait(&batch->changed, &lock, &end) == ETIMEDOUT)
            break;
    }
    unsigned told = batch->done < *number ? batch->done : *number;
    for (unsigned i = 0; i < told; i++) events[i] = batch->events[i];
    for (unsigned i = told; i < batch->done; i++) batch->events[i - told] = batch->events[i];
    batch->done -= told;
    batch->outstanding -= told;
    *number = told;
    pthread_mutex_unlock(&lock);
    return status;
}

EXPORT Status cuFileBatchIOCancel(struct Batch *batch)
{
    Status status = ordered("BatchIOCancel");
    if (batch == NULL)
        return (Status){FILE_INVALID_VALUE, 0};
    pthread_mutex_lock(&lock);
    struct Entry *entry = first;
    first = last = NULL;
    while (entry != NULL) {
        struct Entry *next = entry->next;
        entry->next = NULL;
        if (entry->batch == batch) {
            finish(entry, CANCELED, 0);
        } else {
            if (first == NULL) first = entry;
            else last->next = entry;
            last = entry;
        }
        entry = next;
    }
    pthread_mutex_unlock(&lock);
    count(BATCH_CANCEL + (status.code != 0), 1);
    return status;
}

EXPORT void cuFileBatchIODestroy(struct Batch *batch)
{
    if (batch == NULL)
        return;
    cuFileBatchIOCancel(batch);
    pthread_mutex_lock(&lock);
    while (batch->done < batch->outstanding)
        pthread_cond_wait(&batch->changed, &lock);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&batch->changed);
    free(batch->events);
    free(batch);
    count(BATCH_DESTROY, 1);
}

/* ---- I/O in the order of a stream ---- */

/* In its compatibility mode the real one has one bounce buffer for each buffer that it was told of:
 * what is read into one, or written from it, at the same time comes to nothing good; of a buffer
 * that it was not told of it takes the beginning only (seen on an H100 and an H200). */
static const char *bounced[BOUNCED];

static bool shares_bounce(const char *base)
{
    bool shares = false;
    const char **room = NULL;
    pthread_mutex_lock(&lock);
    for (const char **place = bounced; place < bounced + BOUNCED; place++) {
        shares |= *place == base;
        if (*place == NULL)
            room = place;
    }
    if (room != NULL)
        *room = base;
    pthread_mutex_unlock(&lock);
    return shares;
}

static void give_bounce_back(const char *base)
{
    const char **place = bounced;
    pthread_mutex_lock(&lock);
    while (place < bounced + BOUNCED && *place != base)
        place++;
    if (place < bounced + BOUNCED)
        *place = NULL;
    pthread_mutex_unlock(&lock);
}

static void spoil(const struct Later *later)
{
    char *memory;
    if (storlab_sim_find((uintptr_t)later->base + (size_t)*later->buffer_offset, 1, &memory) >= 0)
        *memory ^= 0x5a;
}

static void run_later(void *argument)
{
    struct Later *later = argument;
    size_t size = *later->size;
    off_t offset = *later->file_offset;
    const struct Io io = {later->handle, later->base, size, offset, *later->buffer_offset,
                          later->write, false};
    bool refused = order.compat && io.buffer_offset != 0 && !is_registered(io.base);
    if (later->shares && later->write)
        spoil(later);
    ssize_t done = refused ? -EIO : do_io(&io);
    if (later->shares && (later->write || done > 0))
        spoil(later);
    if (order.compat)
        give_bounce_back(later->base);
    if (*later->size != size || *later->file_offset != offset) /* as free() leaves them */
        fprintf(stderr, "cuFile*Async: values have changed while they were in use\n"), abort();
    *later->done = done;
    free(later);
}

static Status enqueue(const char *call, struct Later asked, struct Stream *stream)
{
    Status status = ordered(call);
    if (status.code == 0 && !is_open()) status.code = DRIVER_NOT_INITIALIZED;
    if (status.code == 0 && (!asked.size || !asked.file_offset || !asked.buffer_offset
                             || !asked.done))
        status.code = FILE_INVALID_VALUE;
    if (status.code != 0)
        return status;
    struct Later *later = malloc(sizeof *later);
    *later = asked;
    later->shares = order.compat && shares_bounce(asked.base) && is_registered(asked.base);
    storlab_sim_run(stream, run_later, later);
    return status;
}

EXPORT Status cuFileReadAsync(struct Handle *handle, char *base, size_t *size, off_t *file_offset,
                              off_t *buffer_offset, ssize_t *done, struct Stream *stream)
{
    struct Later later = {handle, base, size, file_offset, buffer_offset, done, false, false};
    return enqueue("ReadAsync", later, stream);
}

EXPORT Status cuFileWriteAsync(struct Handle *handle, char *base, size_t *size, off_t *file_offset,
                               off_t *buffer_offset, ssize_t *done, struct Stream *stream)
{
    struct Later later = {handle, base, size, file_offset, buffer_offset, done, true, false};
    return enqueue("WriteAsync", later, stream);
}

EXPORT Status cuFileStreamRegister(struct Stream *stream, unsigned flags)
{
    (void)stream, (void)flags;
    return is_open() ? ordered("StreamRegister") : (Status){DRIVER_NOT_INITIALIZED, 0};
}

EXPORT Status cuFileStreamDeregister(struct Stream *stream)
{
    (void)stream;
    return is_open() ? ordered("StreamDeregister") : (Status){DRIVER_NOT_INITIALIZED, 0};
}
