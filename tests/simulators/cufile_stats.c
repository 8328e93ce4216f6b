/* The counters of the stand-in for libcufile.so.0, and how they are told: two layouts. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "cufile_parts.h"

struct PerGpu {
    unsigned char uuid[16];
    uint64_t word[GPU_WORDS];
};

_Static_assert(sizeof(struct PerGpu) == 248, "CUfilePerGpuStats_t");

static int level;
static atomic_bool counting;
static _Atomic uint64_t totals[WORDS_1_19], sizes[64], per_gpu[GPUS][GPU_WORDS];

void count(int word, uint64_t by)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add_explicit(&totals[word], by, memory_order_relaxed);
}

void count_gpu(int gpu, int word, uint64_t by)
{
    if (gpu >= 0 && atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add_explicit(&per_gpu[gpu][word], by, memory_order_relaxed);
}

void account(const struct Io *io, int gpu, int route, bool aligned, ssize_t done, uint64_t us)
{
    int side = io->write ? WRITES : 0;
    uint64_t moved = done > 0 ? (uint64_t)done : 0, kb = io->size >> 10;
    if (io->batched) {
        count(BATCH_PROCESSED + (done < 0), 1);
        count(io->write ? BATCH_WRITE_BYTES : BATCH_READ_BYTES, moved);
    } else {
        count((io->write ? WRITE_OPS : READ_OPS) + (done < 0), 1);
        count(io->write ? WRITE_BYTES : READ_BYTES, moved);
        count(io->write ? WRITE_US : READ_US, us);
    }
    if (atomic_load(&counting))
        atomic_fetch_add(&sizes[(io->write ? 32 : 0) + (kb ? 64 - __builtin_clzll(kb) : 0)], 1);
    if (done < 0) {
        count_gpu(gpu, io->write ? WRITE_ERRORS : READ_ERRORS, 1);
        return;
    }
    count_gpu(gpu, side + BYTES, moved);
    count_gpu(gpu, side + DURATION_US, us);
    count_gpu(gpu, side + TOTAL, 1);
    count_gpu(gpu, side + route, 1);
    if (!aligned)
        count_gpu(gpu, side + UNALIGNED, 1);
}

int statistics_level(void)
{
    return level;
}

void end_counting(void)
{
    atomic_store(&counting, false);
    level = 0;
}

#ifdef STATISTICS /* which began with 1.15 */
EXPORT Status cuFileSetStatsLevel(int asked)
{
    Status status = ordered("SetStatsLevel");
    if (status.code == 0 && (asked < 0 || asked > 3)) status.code = FILE_INVALID_VALUE;
    if (status.code == 0) level = asked;
    return status;
}

EXPORT Status cuFileGetStatsLevel(int *told)
{
    *told = level;
    return ordered("GetStatsLevel");
}

EXPORT Status cuFileStatsStart(void)
{
    if (!is_open()) return (Status){DRIVER_NOT_INITIALIZED, 0};
    if (level == 0) return (Status){FILE_INVALID_VALUE, 0};
    atomic_store(&counting, true);
    return ordered("StatsStart");
}

EXPORT Status cuFileStatsStop(void)
{
    /* A thread of the real ones writes on to memory that this gives back (seen on an H100): at once
     * here, some time later there. */
    if (order.version < 1170) abort();
    atomic_store(&counting, false);
    return is_open() ? ordered("StatsStop") : (Status){DRIVER_NOT_INITIALIZED, 0};
}

EXPORT Status cuFileStatsReset(void)
{
    if (!is_open()) return (Status){DRIVER_NOT_INITIALIZED, 0};
    for (size_t i = 0; i < WORDS_1_19; i++) atomic_store(&totals[i], 0);
    for (size_t i = 0; i < 64; i++) atomic_store(&sizes[i], 0);
    for (size_t i = 0; i < GPUS * GPU_WORDS; i++) atomic_store(&per_gpu[0][i], 0);
    return ordered("StatsReset");
}

static Status statistics(int wanted, uint64_t *into)
{
    int words = order.version < 1190 ? WORDS_1_15 : WORDS_1_19, gpus = 0;
    if (!is_open()) return (Status){DRIVER_NOT_INITIALIZED, 0};
    if (into == NULL || level < wanted || !order.statistics) return (Status){FILE_INVALID_VALUE, 0};
    for (int i = 0; i < words; i++) *into++ = atomic_load(&totals[i]);
    for (int i = 0; wanted >= 2 && i < 64; i++) *into++ = atomic_load(&sizes[i]);
    if (wanted == 3) {
        cuDeviceGetCount(&gpus);
        *into++ = (uint32_t)gpus;
        struct PerGpu *each = (struct PerGpu *)into;
        memset(each, 0, GPUS * sizeof *each);
        for (int gpu = 0; gpu < gpus; gpu++) {
            cuDeviceGetUuid(each[gpu].uuid, gpu);
            for (int i = 0; i < GPU_WORDS; i++) each[gpu].word[i] = atomic_load(&per_gpu[gpu][i]);
        }
    }
    return (Status){0, 0};
}

EXPORT Status cuFileGetStatsL1(uint64_t *into)
{
    Status status = ordered("GetStatsL1");
    return status.code ? status : statistics(1, into);
}

EXPORT Status cuFileGetStatsL2(uint64_t *into)
{
    Status status = ordered("GetStatsL2");
    return status.code ? status : statistics(2, into);
}

EXPORT Status cuFileGetStatsL3(uint64_t *into)
{
    Status status = ordered("GetStatsL3");
    return status.code ? status : statistics(3, into);
}
#endif
