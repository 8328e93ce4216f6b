/* Streams and events of the stand-in for libcuda.so.1, and the names of its errors. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

struct Task {
    Work work;
    void *argument;
    struct Task *next;
};

/* A stream has a thread from its first work on. Closed streams wait to be opened again, thread and
 * counters and all, so that an event of a closed stream stays done. */
struct Stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct Task *first, *last;
    uint64_t submitted, completed;
    bool has_thread, open;
    struct Context *context;
    struct Stream *next_free;
};

struct Event {
    struct Stream *stream;
    uint64_t after;
    bool blocks; /* who waits for it */
};

#define BLOCKING_SYNC 1u

struct Copy {
    DevicePointer device;
    char *host;
    size_t size;
    bool to_device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct Stream *free_streams;

static void *run(void *argument)
{
    struct Stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (stream->first == NULL)
            pthread_cond_wait(&stream->changed, &stream->lock);
        struct Task *task = stream->first;
        stream->first = task->next;
        make_current(stream->context);
        pthread_mutex_unlock(&stream->lock);
        task->work(task->argument);
        free(task);
        pthread_mutex_lock(&stream->lock);
        stream->completed++;
        pthread_cond_broadcast(&stream->changed);
    }
    return NULL;
}

/* The default stream does its work at once. */
Result storlab_sim_run(struct Stream *stream, Work work, void *argument)
{
    if (stream == NULL) {
        work(argument);
        return SUCCESS;
    }
    struct Task *task = malloc(sizeof *task);
    *task = (struct Task){work, argument, NULL};
    pthread_mutex_lock(&stream->lock);
    if (stream->first == NULL) stream->first = task;
    else stream->last->next = task;
    stream->last = task;
    stream->submitted++;
    if (!stream->has_thread) {
        pthread_t thread;
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 256 * 1024);
        stream->has_thread = pthread_create(&thread, &small, run, stream) == 0;
        pthread_attr_destroy(&small);
        if (stream->has_thread)
            pthread_detach(thread);
        else
            abort();
    }
    /* After the lock: whoever wakes would but wait for it. */
    pthread_mutex_unlock(&stream->lock);
    pthread_cond_broadcast(&stream->changed);
    return SUCCESS;
}

static void wait_for(struct Stream *stream, uint64_t count)
{
    if (stream == NULL)
        return;
    pthread_mutex_lock(&stream->lock);
    while (stream->completed < count)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}

static bool has_done(struct Stream *stream, uint64_t count)
{
    if (stream == NULL)
        return true;
    pthread_mutex_lock(&stream->lock);
    bool done = stream->completed >= count;
    pthread_mutex_unlock(&stream->lock);
    return done;
}

EXPORT Result cuStreamCreate(struct Stream **stream, unsigned flags)
{
    Result result = enter();
    (void)flags;
    if (result != SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    struct Stream *found = free_streams;
    if (found != NULL)
        free_streams = found->next_free;
    pthread_mutex_unlock(&lock);
    if (found == NULL) {
        found = calloc(1, sizeof *found);
        pthread_mutex_init(&found->lock, NULL);
        pthread_cond_init(&found->changed, NULL);
    }
    found->open = true;
    found->context = current_context();
    *stream = found;
    return SUCCESS;
}

EXPORT Result cuStreamDestroy_v2(struct Stream *stream)
{
    if (stream == NULL || !stream->open)
        return INVALID_HANDLE;
    wait_for(stream, stream->submitted);
    stream->open = false;
    pthread_mutex_lock(&lock);
    stream->next_free = free_streams;
    free_streams = stream;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

EXPORT Result cuStreamSynchronize(struct Stream *stream)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    if (stream == NULL) {
        land_copies(); /* as short as a copy, which spins as well */
        return enter();
    }
    if (!stream->open)
        return INVALID_HANDLE;
    spin();
    wait_for(stream, stream->submitted);
    return enter();
}

EXPORT Result cuStreamQuery(struct Stream *stream)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    if (stream != NULL && !stream->open)
        return INVALID_HANDLE;
    return stream == NULL || has_done(stream, stream->submitted) ? SUCCESS : NOT_READY;
}

EXPORT Result cuEventCreate(struct Event **event, unsigned flags)
{
    Result result = enter();
    *event = result == SUCCESS ? calloc(1, sizeof **event) : NULL;
    if (*event != NULL)
        (*event)->blocks = flags & BLOCKING_SYNC;
    return result;
}

EXPORT Result cuEventRecord(struct Event *event, struct Stream *stream)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    event->stream = stream;
    event->after = stream == NULL ? 0 : stream->submitted;
    return SUCCESS;
}

EXPORT Result cuEventQuery(struct Event *event)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    return has_done(event->stream, event->after) ? SUCCESS : NOT_READY;
}

EXPORT Result cuEventSynchronize(struct Event *event)
{
    Result result = enter();
    if (result != SUCCESS)
        return result;
    if (!event->blocks)
        spin();
    wait_for(event->stream, event->after);
    return enter();
}

EXPORT Result cuEventDestroy_v2(struct Event *event)
{
    free(event);
    return SUCCESS;
}

static void run_copy(void *argument)
{
    struct Copy *task = argument;
    stick(copy(task->device, task->host, task->size, task->to_device));
    free(task);
}

static Result copy_later(struct Copy asked, struct Stream *stream)
{
    Result result = enter();
    char *memory;
    if (result != SUCCESS)
        return result;
    if (storlab_sim_find(asked.device, asked.size, &memory) < 0)
        return INVALID_VALUE;
    struct Copy *task = malloc(sizeof *task);
    *task = asked;
    return storlab_sim_run(stream, run_copy, task);
}

EXPORT Result cuMemcpyHtoDAsync_v2(DevicePointer device, const void *host, size_t size,
                                   struct Stream *stream)
{
    return copy_later((struct Copy){device, (char *)(uintptr_t)host, size, true}, stream);
}

EXPORT Result cuMemcpyDtoHAsync_v2(void *host, DevicePointer device, size_t size,
                                   struct Stream *stream)
{
    return copy_later((struct Copy){device, host, size, false}, stream);
}

EXPORT Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t size,
                                   struct Stream *stream)
{
    Result result = enter();
    char *memory;
    if (result != SUCCESS)
        return result;
    if (storlab_sim_find(from, size, &memory) < 0)
        return INVALID_VALUE;
    return copy_later((struct Copy){to, memory, size, true}, stream);
}

static const struct {
    Result code;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device is busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no device is there"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static Result look_up(Result code, const char **text, bool name)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *text = name ? errors[i].name : errors[i].text;
            return SUCCESS;
        }
    *text = NULL;
    return INVALID_VALUE;
}

EXPORT Result cuGetErrorName(Result code, const char **name)
{
    return look_up(code, name, true);
}

EXPORT Result cuGetErrorString(Result code, const char **text)
{
    return look_up(code, text, false);
}
