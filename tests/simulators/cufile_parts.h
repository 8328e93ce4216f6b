/* What the parts of the stand-in for libcufile.so.0 share. */
#ifndef STORLAB_SIMULATED_CUFILE_H
#define STORLAB_SIMULATED_CUFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu.h"

enum {
    BASE = 5000, DRIVER_NOT_INITIALIZED = 5001,
    CUDA_DRIVER_ERROR = 5011, CUDA_POINTER_INVALID = 5012, CUDA_POINTER_RANGE_ERROR = 5014,
    INVALID_MAPPING_RANGE = 5017, INVALID_FILE_TYPE = 5018, FILE_INVALID_VALUE = 5022,
    MEMORY_ALREADY_REGISTERED = 5023, MEMORY_NOT_REGISTERED = 5024, HANDLE_NOT_REGISTERED = 5027,
    HANDLE_ALREADY_REGISTERED = 5028, BATCH_FULL = 5037
};

typedef struct {
    int code, cuda;
} Status;

struct Handle; /* a registered file */

struct Io {
    struct Handle *handle;
    char *base;
    size_t size;
    off_t file_offset, buffer_offset;
    bool write, batched;
};

#define GPUS 16

enum { /* words of the statistics of one GPU; those of writes come WRITES further on */
    BYTES = 0, DURATION_US = 3, TOTAL = 4, P2P = 5, NVFS = 6, POSIX = 7, UNALIGNED = 8,
    READ_ERRORS = 12, WRITES = 13, WRITE_ERRORS = 23, MAPPED = 24, MAPPED_OK = 25, MAPPED_BAD = 26,
    UNMAPPED = 27, REGISTERED_BYTES = 28, GPU_WORDS = 29
};

/* Words of the first level of statistics, in 8 bytes each: pairs of done and failed, and sums. */
enum {
    READ_OPS = 0, WRITE_OPS = 2, HANDLE_REGISTER = 4, HANDLE_DEREGISTER = 6, BUFFER_REGISTER = 8,
    BUFFER_DEREGISTER = 10, READ_BYTES = 12, WRITE_BYTES = 13, READ_US = 20, WRITE_US = 21,
    BATCH_SUBMIT = 22, BATCH_COMPLETE = 24, BATCH_SETUP = 26, BATCH_CANCEL = 28, BATCH_DESTROY = 30,
    BATCH_ENQUEUED = 32, BATCH_PROCESSED = 36, BATCH_NVFS = 40, BATCH_P2P = 42, BATCH_TOTAL = 50,
    BATCH_READ_BYTES = 52, BATCH_WRITE_BYTES = 53, WORDS_1_15 = 64, WORDS_1_19 = 78
};

extern struct Order {
    int version, poll_mode, allow_compat, max_batch;
    bool statistics, p2p, compat;
    long posix_percent, latency_us;
    size_t posix_below;
    off_t wrong, lost, eio, cut;
    char call[64], hangs[64];
    int code;
    atomic_long hangs_left;
} order;

/* The error that was ordered for a call; code 0 where there is none. */
Status ordered(const char *call);
/* Where that was ordered, for good. */
void hang_in(const char *call);
bool is_open(void);
/* It was told of the buffer that begins there. */
bool is_registered(const char *base);
/* As cuFileRead and cuFileWrite return: bytes, or -1 with errno, or minus a code. */
ssize_t do_io(const struct Io *io);
void count(int word, uint64_t by);
void count_gpu(int gpu, int word, uint64_t by);
void account(const struct Io *io, int gpu, int route, bool aligned, ssize_t done, uint64_t us);
int statistics_level(void);
void end_counting(void);
uint64_t now_us(void);

#endif
