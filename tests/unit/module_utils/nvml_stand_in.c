/* A stand-in for libnvidia-ml.so.1: two GPUs of which the first is healthy, the second as the macros say. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef HANG
#define HANG 0
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef OLD
#define OLD 0
#endif

typedef struct {
    char legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_info;

typedef struct {
    unsigned int field, scope;
    long long timestamp, latency;
    int kind, status;
    union { double d; unsigned int ui; unsigned long long ull; } value;
} field_value;

static int numbers[2] = {0, 1};

int nvmlInit_v2(void) { sleep(HANG); return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    if (index == 1 && LOST) return 15;
    *device = &numbers[index];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, pci_info *pci) {
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%s:00.0", *(int *)device ? "AB" : "1B");
    return 0;
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count) {
    if (type != 1 || counter != 0) return 2;
    *count = *(int *)device ? 5000000000ULL : 0;
    return 0;
}

int nvmlDeviceGetRemappedRows(void *device, unsigned int *correctable, unsigned int *uncorrectable,
                              unsigned int *pending, unsigned int *failure) {
    *correctable = 7;
    *uncorrectable = 9;
    *pending = *(int *)device;
    *failure = 0;
    return 0;
}

int nvmlDeviceGetFieldValues(void *device, int count, field_value *values) {
    memset(&values->value, 0xff, sizeof values->value);
    values->status = count != 1 || values->field != 230 || OLD ? 3 : 0;
    values->value.ui = *(int *)device;
    return 0;
}
