/* A stand-in for libnvidia-ml.so.1. FAKE_NVML names a file that says, at each call, what to answer:
 * lines "name value". Missing names are 0; an error is an nvmlReturn_t. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned int field, scope;
    long long timestamp, latency;
    unsigned int type, result;
    union { double d; unsigned int ui; unsigned long long ull; } value;
} field_value;

static const char *uuids[] = {"GPU-aaaa", "GPU-bbbb"};

static long long state(const char *name) {
    char key[64];
    long long value, found = 0;
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return 0;
    while (fscanf(file, "%63s %lld", key, &value) == 2)
        if (!strcmp(key, name)) found = value;
    fclose(file);
    return found;
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; return (int)state("init_error"); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "as the fake says"; }

int nvmlDeviceGetCount_v2(unsigned int *count) { *count = (unsigned int)state("count"); return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    if (index >= state("count")) return 2;
    *device = (void *)(size_t)(index + 1);
    return (int)state("handle_error");
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    for (int i = 0; i < state("count"); i++)
        if (!strcmp(uuid, uuids[i])) { *device = (void *)(size_t)(i + 1); return 0; }
    return 6;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int size) {
    snprintf(uuid, size, "%s", uuids[(size_t)device - 1]);
    return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned int size) {
    snprintf(name, size, "Fake GPU %zu", (size_t)device - 1);
    return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoule) {
    *millijoule = (unsigned long long)state("energy_mj") * (size_t)device;
    return (int)state("energy_error");
}

int nvmlDeviceGetFieldValues(void *device, int count, field_value *values) {
    for (int i = 0; i < count; i++) {
        int instant = values[i].field == 186;
        values[i].type = 1;
        values[i].timestamp = state("stamp");
        values[i].value.ui = (unsigned int)(state(instant ? "instant_mw" : "average_mw") * (size_t)device);
        values[i].result = (unsigned int)state(instant ? "instant_error" : "average_error");
    }
    return (int)state("fields_error");
}
