/* What the parts of the stand-ins for libcuda.so.1 and libcufile.so.0 share; gpu.sh builds both. */
#ifndef STORLAB_SIMULATED_GPU_H
#define STORLAB_SIMULATED_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { /* of the driver API */
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3,
    DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400, NOT_READY = 600,
    CONTEXT_IS_DESTROYED = 709, LAUNCH_FAILED = 719
};

typedef int Result;
typedef int Device;
typedef uint64_t DevicePointer;
typedef void (*Work)(void *argument);
struct Stream;
struct Context;

/* What every call on a context begins with: is there one, and does its device answer? */
Result enter(void);
void spin(void); /* as the driver does, unless it was told otherwise, in waits */
struct Context *current_context(void);
void make_current(struct Context *context);
void stick(Result result); /* an error of work on a stream ends its context */
Result copy(DevicePointer device, char *host, size_t size, bool to_device);
void land_copies(void); /* of the current context: what its default stream has left to do */

/* For libcufile: where the bytes of device memory lie, and the number of its device. -1: no live
 * device memory; -2: it begins in such, and ends outside of it. */
EXPORT int storlab_sim_find(DevicePointer pointer, size_t size, char **memory);
EXPORT Result storlab_sim_use(int device); /* one use; an error where the device is lost */
EXPORT Result storlab_sim_run(struct Stream *stream, Work work, void *argument);
EXPORT size_t storlab_sim_size(const char *text); /* "4K", "2G" */

EXPORT Result cuInit(unsigned flags);
EXPORT Result cuDeviceGetCount(int *count);
EXPORT Result cuDeviceGetUuid(unsigned char uuid[16], Device device);

#endif
