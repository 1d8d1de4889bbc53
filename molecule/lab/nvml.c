/* A stand-in for NVIDIA's libnvidia-ml.so.1, so that the real nvidia-smi, Slurm and our own NVML program show GPUs that
 * the lab made up. It knows nothing itself: what each GPU says stands in the file `gpus` beside the library, or in the
 * one that LAB_GPUS names there: one value a line ("0<TAB>temperature/gpu_temp<TAB>32 C"), named as `nvidia-smi -q -x`
 * of driver 570 names it (lab_gpus.py).
 *
 * Functions and structures are those of NVIDIA's nvml.h; what nvidia-smi asks through its table of functions without
 * names was found by trying. A function that is not here is one that this driver does not have. */
#define _GNU_SOURCE
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <dlfcn.h>
#include <limits.h>
#include <nvml.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GPUS 64
#define HOST (-1)
#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* --- the file ------------------------------------------------------------------------------------------------- */

static char handles[GPUS];

static int number_of(nvmlDevice_t gpu) { return (int)((char *)gpu - handles); }

/* The file as it is now: a fault that is laid over a host shows at once, in a program that runs already too. */
static const char *values(void) {
    static char *text, path[PATH_MAX];
    static struct stat read_at;
    struct stat now;
    if (!*path) {
        Dl_info own;
        char real[PATH_MAX];
        if (!dladdr(handles, &own) || !realpath(own.dli_fname, real)) return "";
        *strrchr(real, '/') = 0;
        const char *name = getenv("LAB_GPUS");
        if (snprintf(path, sizeof path, "%s/%s", real, name ? name : "gpus") >= (int)sizeof path) return "";
    }
    if (stat(path, &now)) return "";
    if (text && now.st_ino == read_at.st_ino && now.st_size == read_at.st_size &&
        now.st_mtim.tv_sec == read_at.st_mtim.tv_sec && now.st_mtim.tv_nsec == read_at.st_mtim.tv_nsec)
        return text;
    FILE *file = fopen(path, "r");
    if (!file) return "";
    char *fresh = malloc((size_t)now.st_size + 2);
    size_t length = fread(fresh + 1, 1, (size_t)now.st_size, file);
    fclose(file);
    fresh[0] = '\n';
    fresh[length + 1] = 0;
    free(text);
    text = fresh;
    read_at = now;
    return text;
}

/* What NVML's errors are called, by nvidia-smi too; it prints a value that is not supported as "N/A". */
static const struct { const char *text; nvmlReturn_t status; } errors[] = {
    {"N/A", NVML_ERROR_NOT_SUPPORTED},
    {"Not Supported", NVML_ERROR_NOT_SUPPORTED},
    {"Invalid Argument", NVML_ERROR_INVALID_ARGUMENT},
    {"Insufficient Permissions", NVML_ERROR_NO_PERMISSION},
    {"Not Found", NVML_ERROR_NOT_FOUND},
    {"GPU is lost", NVML_ERROR_GPU_IS_LOST},
    {"GPU requires reset", NVML_ERROR_RESET_REQUIRED},
    {"Insufficient Resources", NVML_ERROR_INSUFFICIENT_RESOURCES},
    {"Requested functionality has been deprecated", NVML_ERROR_DEPRECATED},
    {"Unknown Error", NVML_ERROR_UNKNOWN},
};

static nvmlReturn_t error_of(const char *text) {
    for (size_t each = 0; each < LENGTH(errors); each++)
        if (!strcmp(text, errors[each].text)) return errors[each].status;
    return NVML_SUCCESS;
}

/* Copy the value of a path; an error of NVML in its place is the answer. */
static nvmlReturn_t text_of(int gpu, const char *path, char *text, unsigned size) {
    char key[160];
    if (gpu == HOST)
        snprintf(key, sizeof key, "\nhost\t%s\t", path);
    else
        snprintf(key, sizeof key, "\n%d\t%s\t", gpu, path);
    const char *found = strstr(values(), key);
    if (!found) return NVML_ERROR_NOT_SUPPORTED;
    found += strlen(key);
    unsigned length = (unsigned)strcspn(found, "\n");
    if (length >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(text, found, length);
    text[length] = 0;
    return error_of(text);
}

/* A number ("32 C", "16x", "0x233010DE"), or what stands for 0 and 1. */
static nvmlReturn_t number_at(int gpu, const char *path, double *number) {
    static const char *const ones[] = {"Yes", "Enabled", "Active", "active"};
    char text[128];
    nvmlReturn_t status = text_of(gpu, path, text, sizeof text);
    if (status) return status;
    char *end;
    *number = strtod(text, &end);
    if (end == text)
        for (size_t each = 0; each < LENGTH(ones); each++)
            if (!strcmp(text, ones[each])) *number = 1;
    return NVML_SUCCESS;
}

/* The place of a word in a list, as NVML's enumerations count them. */
static nvmlReturn_t choice_of(int gpu, const char *path, const char *const *words, int *choice) {
    char text[128];
    nvmlReturn_t status = text_of(gpu, path, text, sizeof text);
    if (status) return status;
    for (*choice = 0; words[*choice]; ++*choice)
        if (!strcmp(text, words[*choice])) return NVML_SUCCESS;
    return NVML_ERROR_UNKNOWN;
}

/* --- functions that give one value ---------------------------------------------------------------------------- */

#define GET(type, gpu, path, out)                                                                                      \
    do {                                                                                                               \
        double number_;                                                                                                \
        nvmlReturn_t status_ = number_at(number_of(gpu), path, &number_);                                              \
        if (status_) return status_;                                                                                   \
        *(out) = (type)number_;                                                                                        \
    } while (0)

#define NUMBER(function, type, path, unit)                                                                             \
    nvmlReturn_t function(nvmlDevice_t gpu, type *out) {                                                               \
        double number;                                                                                                 \
        nvmlReturn_t status = number_at(number_of(gpu), path, &number);                                                \
        if (!status) *out = (type)(number * (unit));                                                                   \
        return status;                                                                                                 \
    }

#define PAIR(function, type, first, second)                                                                            \
    nvmlReturn_t function(nvmlDevice_t gpu, type *one, type *two) {                                                    \
        GET(type, gpu, first, one);                                                                                    \
        GET(type, gpu, second, two);                                                                                   \
        return NVML_SUCCESS;                                                                                           \
    }

#define UTILISATION(function, path)                                                                                    \
    nvmlReturn_t function(nvmlDevice_t gpu, unsigned *percent, unsigned *period) {                                     \
        *period = 100000;                                                                                              \
        GET(unsigned, gpu, path, percent);                                                                             \
        return NVML_SUCCESS;                                                                                           \
    }

#define TEXT(function, path)                                                                                           \
    nvmlReturn_t function(nvmlDevice_t gpu, char *text, unsigned size) {                                               \
        return text_of(number_of(gpu), path, text, size);                                                              \
    }

TEXT(nvmlDeviceGetName, "product_name")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetVbiosVersion, "vbios_version")
TEXT(nvmlDeviceGetBoardPartNumber, "board_part_number")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom_version/img_version")
NUMBER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, "display_mode", 1)
NUMBER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, "display_active", 1)
NUMBER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, "persistence_mode", 1)
NUMBER(nvmlDeviceGetAccountingMode, nvmlEnableState_t, "accounting_mode", 1)
NUMBER(nvmlDeviceGetAccountingBufferSize, unsigned, "accounting_mode_buffer_size", 1)
NUMBER(nvmlDeviceGetMinorNumber, unsigned, "minor_number", 1)
NUMBER(nvmlDeviceGetMultiGpuBoard, unsigned, "multigpu_board", 1)
NUMBER(nvmlDeviceGetBoardId, unsigned, "board_id", 1)
NUMBER(nvmlDeviceGetModuleId, unsigned, "platformInfo/module_id", 1)
NUMBER(nvmlDeviceGetFanSpeed, unsigned, "fan_speed", 1)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pci/pci_gpu_link_info/pcie_gen/current_link_gen", 1)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pci/pci_gpu_link_info/pcie_gen/max_link_gen", 1)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen", 1)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pci/pci_gpu_link_info/link_widths/current_link_width", 1)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pci/pci_gpu_link_info/link_widths/max_link_width", 1)
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "pci/replay_counter", 1)
NUMBER(nvmlDeviceGetPowerUsage, unsigned, "gpu_power_readings/power_draw", 1000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "gpu_power_readings/current_power_limit", 1000)
NUMBER(nvmlDeviceGetPowerManagementLimit, unsigned, "gpu_power_readings/requested_power_limit", 1000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, "gpu_power_readings/default_power_limit", 1000)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, "retired_pages/pending_retirement", 1)
PAIR(nvmlDeviceGetMigMode, unsigned, "mig_mode/current_mig", "mig_mode/pending_mig")
PAIR(nvmlDeviceGetEccMode, nvmlEnableState_t, "ecc_mode/current_ecc", "ecc_mode/pending_ecc")
UTILISATION(nvmlDeviceGetEncoderUtilization, "utilization/encoder_util")
UTILISATION(nvmlDeviceGetDecoderUtilization, "utilization/decoder_util")
UTILISATION(nvmlDeviceGetJpgUtilization, "utilization/jpeg_util")
UTILISATION(nvmlDeviceGetOfaUtilization, "utilization/ofa_util")

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t gpu, char *version) {
    return text_of(number_of(gpu), "gsp_firmware_version", version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE);
}

nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t gpu, nvmlInforomObject_t object, char *version, unsigned size) {
    static const char *const paths[] = {"oem_object", "ecc_object", "pwr_object"};
    char path[64];
    if (object >= LENGTH(paths)) return NVML_ERROR_NOT_SUPPORTED;
    snprintf(path, sizeof path, "inforom_version/%s", paths[object]);
    return text_of(number_of(gpu), path, version, size);
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t gpu, nvmlPstates_t *state) {
    char text[16];
    nvmlReturn_t status = text_of(number_of(gpu), "performance_state", text, sizeof text);
    if (!status) *state = (nvmlPstates_t)strtod(text + 1, NULL);
    return status;
}

nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t gpu, nvmlPstates_t *state) {
    return nvmlDeviceGetPerformanceState(gpu, state);
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t gpu, nvmlDeviceArchitecture_t *architecture) {
    static const char *const words[] = {"", "", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada",
                                        "Hopper", "Blackwell", NULL};
    int choice;
    nvmlReturn_t status = choice_of(number_of(gpu), "product_architecture", words, &choice);
    if (!status) *architecture = (nvmlDeviceArchitecture_t)choice;
    return status;
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t gpu, nvmlBrandType_t *brand) {
    char text[64];
    nvmlReturn_t status = text_of(number_of(gpu), "product_brand", text, sizeof text);
    *brand = NVML_BRAND_NVIDIA;
    return status;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t gpu, nvmlComputeMode_t *mode) {
    static const char *const words[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process", NULL};
    return choice_of(number_of(gpu), "compute_mode", words, (int *)mode);
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t gpu, nvmlGpuVirtualizationMode_t *mode) {
    static const char *const words[] = {"None", "Pass-Through", NULL};
    return choice_of(number_of(gpu), "gpu_virtualization_mode/virtualization_mode", words, (int *)mode);
}

/* --- PCIe ----------------------------------------------------------------------------------------------------- */

/* "00000000:0B:00.0" */
static nvmlReturn_t address_of(int gpu, char *text, unsigned size, unsigned *domain, unsigned *bus, unsigned *device) {
    nvmlReturn_t status = text_of(gpu, "pci/pci_bus_id", text, size);
    if (status) return status;
    char *rest;
    *domain = (unsigned)strtoul(text, &rest, 16);
    *bus = (unsigned)strtoul(rest + 1, &rest, 16);
    *device = (unsigned)strtoul(rest + 1, NULL, 16);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t gpu, nvmlPciInfo_t *pci) {
    memset(pci, 0, sizeof *pci);
    nvmlReturn_t status = address_of(number_of(gpu), pci->busId, sizeof pci->busId, &pci->domain, &pci->bus,
                                     &pci->device);
    if (status) return status;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    GET(unsigned, gpu, "pci/pci_device_id", &pci->pciDeviceId);
    GET(unsigned, gpu, "pci/pci_sub_system_id", &pci->pciSubSystemId);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t gpu, nvmlPciInfoExt_t *pci) {
    nvmlReturn_t status = address_of(number_of(gpu), pci->busId, sizeof pci->busId, &pci->domain, &pci->bus,
                                     &pci->device);
    if (status) return status;
    GET(unsigned, gpu, "pci/pci_device_id", &pci->pciDeviceId);
    GET(unsigned, gpu, "pci/pci_sub_system_id", &pci->pciSubSystemId);
    GET(unsigned, gpu, "pci/pci_base_class", &pci->baseClass);
    GET(unsigned, gpu, "pci/pci_sub_class", &pci->subClass);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t gpu, nvmlPcieUtilCounter_t counter, unsigned *kb_per_s) {
    GET(unsigned, gpu, counter == NVML_PCIE_UTIL_TX_BYTES ? "pci/tx_util" : "pci/rx_util", kb_per_s);
    return NVML_SUCCESS;
}

/* Which CPUs are beside it: "0-3,8-11". */
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t gpu, unsigned words, unsigned long *cpus) {
    const unsigned bits = 8 * sizeof *cpus;
    char text[256];
    nvmlReturn_t status = text_of(number_of(gpu), "cpu_affinity", text, sizeof text);
    if (status) return status;
    memset(cpus, 0, words * sizeof *cpus);
    for (char *at = text; *at;) {
        unsigned long first = strtoul(at, &at, 10), last = *at == '-' ? strtoul(at + 1, &at, 10) : first;
        for (; first <= last && first < words * bits; first++) cpus[first / bits] |= 1UL << first % bits;
        at += *at == ',';
    }
    return NVML_SUCCESS;
}

/* --- memory and its errors ------------------------------------------------------------------------------------ */

#define MEBIBYTES(gpu, path, out)                                                                                      \
    do {                                                                                                               \
        GET(unsigned long long, gpu, path, out);                                                                       \
        *(out) <<= 20;                                                                                                 \
    } while (0)

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t gpu, nvmlMemory_v2_t *memory) {
    MEBIBYTES(gpu, "fb_memory_usage/total", &memory->total);
    MEBIBYTES(gpu, "fb_memory_usage/reserved", &memory->reserved);
    MEBIBYTES(gpu, "fb_memory_usage/used", &memory->used);
    MEBIBYTES(gpu, "fb_memory_usage/free", &memory->free);
    return NVML_SUCCESS;
}

#define MEMORY(function, total_, used_, free_)                                                                         \
    nvmlReturn_t function(nvmlDevice_t gpu, nvmlMemory_t *memory) {                                                    \
        MEBIBYTES(gpu, total_, &memory->total);                                                                        \
        MEBIBYTES(gpu, used_, &memory->used);                                                                          \
        MEBIBYTES(gpu, free_, &memory->free);                                                                          \
        return NVML_SUCCESS;                                                                                           \
    }

MEMORY(nvmlDeviceGetMemoryInfo, "fb_memory_usage/total", "fb_memory_usage/used", "fb_memory_usage/free")
MEMORY(nvmlDeviceGetConfComputeProtectedMemoryUsage, "cc_protected_memory_usage/total",
       "cc_protected_memory_usage/used", "cc_protected_memory_usage/free")

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t gpu, nvmlBAR1Memory_t *memory) {
    MEBIBYTES(gpu, "bar1_memory_usage/total", &memory->bar1Total);
    MEBIBYTES(gpu, "bar1_memory_usage/used", &memory->bar1Used);
    MEBIBYTES(gpu, "bar1_memory_usage/free", &memory->bar1Free);
    return NVML_SUCCESS;
}

static const char *life(nvmlEccCounterType_t counter) {
    return counter == NVML_VOLATILE_ECC ? "volatile" : "aggregate";
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t gpu, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                             nvmlMemoryLocation_t location, unsigned long long *count) {
    char path[96];
    if (location != NVML_MEMORY_LOCATION_DRAM && location != NVML_MEMORY_LOCATION_SRAM) return NVML_ERROR_NOT_SUPPORTED;
    int corrected = type == NVML_MEMORY_ERROR_TYPE_CORRECTED;
    if (location == NVML_MEMORY_LOCATION_DRAM) {
        snprintf(path, sizeof path, "ecc_errors/%s/dram_%scorrectable", life(counter), corrected ? "" : "un");
        GET(unsigned long long, gpu, path, count);
        return NVML_SUCCESS;
    }
    if (corrected) {
        snprintf(path, sizeof path, "ecc_errors/%s/sram_correctable", life(counter));
        GET(unsigned long long, gpu, path, count);
        return NVML_SUCCESS;
    }
    unsigned long long parity, secded;
    snprintf(path, sizeof path, "ecc_errors/%s/sram_uncorrectable_parity", life(counter));
    GET(unsigned long long, gpu, path, &parity);
    snprintf(path, sizeof path, "ecc_errors/%s/sram_uncorrectable_secded", life(counter));
    GET(unsigned long long, gpu, path, &secded);
    *count = parity + secded;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t gpu, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         unsigned long long *count) {
    unsigned long long dram, sram;
    nvmlReturn_t status = nvmlDeviceGetMemoryErrorCounter(gpu, type, counter, NVML_MEMORY_LOCATION_DRAM, &dram);
    if (status) return status;
    status = nvmlDeviceGetMemoryErrorCounter(gpu, type, counter, NVML_MEMORY_LOCATION_SRAM, &sram);
    if (!status) *count = dram + sram;
    return status;
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t gpu, nvmlEccSramErrorStatus_t *sram) {
    GET(unsigned long long, gpu, "ecc_errors/aggregate/sram_uncorrectable_parity", &sram->aggregateUncParity);
    GET(unsigned long long, gpu, "ecc_errors/aggregate/sram_uncorrectable_secded", &sram->aggregateUncSecDed);
    GET(unsigned long long, gpu, "ecc_errors/aggregate/sram_correctable", &sram->aggregateCor);
    GET(unsigned long long, gpu, "ecc_errors/volatile/sram_uncorrectable_parity", &sram->volatileUncParity);
    GET(unsigned long long, gpu, "ecc_errors/volatile/sram_uncorrectable_secded", &sram->volatileUncSecDed);
    GET(unsigned long long, gpu, "ecc_errors/volatile/sram_correctable", &sram->volatileCor);
#define SOURCE "ecc_errors/aggregate_uncorrectable_sram_sources/sram_"
    GET(unsigned long long, gpu, SOURCE "l2", &sram->aggregateUncBucketL2);
    GET(unsigned long long, gpu, SOURCE "sm", &sram->aggregateUncBucketSm);
    GET(unsigned long long, gpu, SOURCE "pcie", &sram->aggregateUncBucketPcie);
    GET(unsigned long long, gpu, SOURCE "microcontroller", &sram->aggregateUncBucketMcu);
    GET(unsigned long long, gpu, SOURCE "other", &sram->aggregateUncBucketOther);
    GET(unsigned, gpu, "ecc_errors/aggregate/sram_threshold_exceeded", &sram->bThresholdExceeded);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t gpu, unsigned *correctable, unsigned *uncorrectable,
                                       unsigned *pending, unsigned *failure) {
    GET(unsigned, gpu, "remapped_rows/remapped_row_corr", correctable);
    GET(unsigned, gpu, "remapped_rows/remapped_row_unc", uncorrectable);
    GET(unsigned, gpu, "remapped_rows/remapped_row_pending", pending);
    GET(unsigned, gpu, "remapped_rows/remapped_row_failure", failure);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows_v2(nvmlDevice_t gpu, nvmlRemappedRowsInfo_v2_t *rows) {
    rows->corrInactiveRemaps = rows->uncInactiveRemaps = 0;
    return nvmlDeviceGetRemappedRows(gpu, &rows->corrActiveRemaps, &rows->uncActiveRemaps, &rows->bPending,
                                     &rows->bFailureOccurred);
}

nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t gpu, nvmlRepairStatus_t *repair) {
    GET(unsigned, gpu, "ecc_errors/channel_repair_pending", &repair->bChannelRepairPending);
    GET(unsigned, gpu, "ecc_errors/tpc_repair_pending", &repair->bTpcRepairPending);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t gpu, nvmlUnrepairableMemoryStatus_v1_t *memory) {
    GET(unsigned, gpu, "ecc_errors/unrepairable_memory", &memory->bUnrepairableMemory);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t gpu, nvmlRowRemapperHistogramValues_t *banks) {
    GET(unsigned, gpu, "remapped_rows/row_remapper_histogram/row_remapper_histogram_max", &banks->max);
    GET(unsigned, gpu, "remapped_rows/row_remapper_histogram/row_remapper_histogram_high", &banks->high);
    GET(unsigned, gpu, "remapped_rows/row_remapper_histogram/row_remapper_histogram_partial", &banks->partial);
    GET(unsigned, gpu, "remapped_rows/row_remapper_histogram/row_remapper_histogram_low", &banks->low);
    GET(unsigned, gpu, "remapped_rows/row_remapper_histogram/row_remapper_histogram_none", &banks->none);
    return NVML_SUCCESS;
}

/* --- load, clocks, heat --------------------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t gpu, nvmlUtilization_t *rates) {
    GET(unsigned, gpu, "utilization/gpu_util", &rates->gpu);
    GET(unsigned, gpu, "utilization/memory_util", &rates->memory);
    return NVML_SUCCESS;
}

static nvmlReturn_t clock_of(nvmlDevice_t gpu, const char *section, nvmlClockType_t type, unsigned *megahertz) {
    static const char *const names[] = {"graphics_clock", "sm_clock", "mem_clock", "video_clock"};
    char path[64];
    if (type >= LENGTH(names)) return NVML_ERROR_NOT_SUPPORTED;
    snprintf(path, sizeof path, "%s/%s", section, names[type]);
    GET(unsigned, gpu, path, megahertz);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t gpu, nvmlClockType_t type, unsigned *megahertz) {
    return clock_of(gpu, "clocks", type, megahertz);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t gpu, nvmlClockType_t type, unsigned *megahertz) {
    return clock_of(gpu, "max_clocks", type, megahertz);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t gpu, nvmlClockType_t type, unsigned *megahertz) {
    return clock_of(gpu, "applications_clocks", type, megahertz);
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t gpu, nvmlClockType_t type, unsigned *megahertz) {
    return clock_of(gpu, "default_applications_clocks", type, megahertz);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t gpu, nvmlClockType_t type, nvmlClockId_t clock, unsigned *megahertz) {
    static const char *const sections[] = {"clocks", "applications_clocks", "default_applications_clocks",
                                           "max_customer_boost_clocks"};
    return clock >= LENGTH(sections) ? NVML_ERROR_NOT_SUPPORTED : clock_of(gpu, sections[clock], type, megahertz);
}

/* The bits of nvml.h in the order of the words below clocks_event_reasons. */
static const char *const reasons[] = {"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
                                      "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown",
                                      "hw_power_brake_slowdown", "display_clocks_setting"};

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t gpu, unsigned long long *bits) {
    *bits = 0;
    for (size_t reason = 0; reason < LENGTH(reasons); reason++) {
        char path[96];
        int holds;
        snprintf(path, sizeof path, "clocks_event_reasons/clocks_event_reason_%s", reasons[reason]);
        GET(int, gpu, path, &holds);
        *bits |= (unsigned long long)(holds != 0) << reason;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t gpu, unsigned long long *bits) {
    *bits = (1ULL << LENGTH(reasons)) - 1;
    return gpu ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t gpu, nvmlTemperatureSensors_t sensor, unsigned *celsius) {
    if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_NOT_SUPPORTED;
    GET(unsigned, gpu, "temperature/gpu_temp", celsius);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t gpu, nvmlTemperature_t *temperature) {
    if (temperature->sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_NOT_SUPPORTED;
    GET(int, gpu, "temperature/gpu_temp", &temperature->temperature);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t gpu, nvmlMarginTemperature_t *margin) {
    GET(int, gpu, "temperature/gpu_temp_tlimit", &margin->marginTemperature);
    return NVML_SUCCESS;
}

/* --- NVLink ---------------------------------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t gpu, unsigned link, nvmlEnableState_t *state) {
    char path[64];
    snprintf(path, sizeof path, "nvlink/%u/state", link);
    GET(nvmlEnableState_t, gpu, path, state);
    return NVML_SUCCESS;
}

static nvmlReturn_t fabric_of(int gpu, unsigned char *cluster, nvmlReturn_t *joined, unsigned *clique,
                              nvmlGpuFabricState_t *state) {
    static const char *const states[] = {"N/A", "Not Started", "In Progress", "Completed", NULL};
    char text[64];
    int choice;
    double number = 0;
    nvmlReturn_t status = choice_of(gpu, "fabric/state", states, &choice);
    if (status) return status;
    *state = (nvmlGpuFabricState_t)choice;
    if ((status = number_at(gpu, "fabric/cliqueId", &number))) return status;
    *clique = (unsigned)number;
    if ((status = text_of(gpu, "fabric/clusterUuid", text, sizeof text))) return status;
    for (unsigned at = 0, digit = 0; text[at] && digit < 2 * NVML_GPU_FABRIC_UUID_LEN; at++) {
        if (text[at] == '-') continue;
        const char pair[] = {text[at], 0};
        unsigned nibble = (unsigned)strtoul(pair, NULL, 16);
        unsigned char *byte = &cluster[digit / 2];
        *byte = (unsigned char)(digit % 2 ? *byte | nibble : nibble << 4);
        digit++;
    }
    /* Why the GPU could not join the fabric is an error of NVML, and no failure to tell it. */
    *joined = text_of(gpu, "fabric/status", text, sizeof text);
    return *joined == NVML_ERROR_GPU_IS_LOST ? *joined : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t gpu, nvmlGpuFabricInfo_t *fabric) {
    return fabric_of(number_of(gpu), fabric->clusterUuid, &fabric->status, &fabric->cliqueId, &fabric->state);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t gpu, nvmlGpuFabricInfoV_t *fabric) {
    nvmlReturn_t status =
        fabric_of(number_of(gpu), fabric->clusterUuid, &fabric->status, &fabric->cliqueId, &fabric->state);
    if (status) return status;
    GET(unsigned, gpu, "fabric/health_mask", &fabric->healthMask);
    /* The structure of version 2, of drivers before 580, ends here. */
    if (fabric->version >> 24 > 2) GET(unsigned char, gpu, "fabric/health_summary", &fabric->healthSummary);
    return NVML_SUCCESS;
}

/* --- fields ---------------------------------------------------------------------------------------------------- */

typedef struct {
    unsigned first, last;
    const char *path;
    double unit;
    nvmlValueType_t type;
} field;

#define U NVML_VALUE_TYPE_UNSIGNED_INT
#define S NVML_VALUE_TYPE_SIGNED_INT

/* A path with %u is one of each link, which a range of fields counts, or the scope where there is one field. */
static const field fields[] = {
    {NVML_FI_DEV_ECC_CURRENT, 0, "ecc_mode/current_ecc", 1, U},
    {NVML_FI_DEV_ECC_PENDING, 0, "ecc_mode/pending_ecc", 1, U},
    {NVML_FI_DEV_RETIRED_PENDING, 0, "retired_pages/pending_retirement", 1, U},
    {NVML_FI_DEV_MEMORY_TEMP, 0, "temperature/memory_temp", 1, U},
    {NVML_FI_DEV_NVLINK_SPEED_MBPS_L0, NVML_FI_DEV_NVLINK_SPEED_MBPS_L5, "nvlink/%u/speed", 1, U},
    {NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0, "nvlink/speed", 1, U},
    {NVML_FI_DEV_NVLINK_LINK_COUNT, 0, "nvlink/count", 1, U},
    {NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0, "pci/replay_counter", 1, U},
    {NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER, 0, "pci/replay_rollover_counter", 1, U},
    {NVML_FI_DEV_REMAPPED_COR, 0, "remapped_rows/remapped_row_corr", 1, U},
    {NVML_FI_DEV_REMAPPED_UNC, 0, "remapped_rows/remapped_row_unc", 1, U},
    {NVML_FI_DEV_REMAPPED_PENDING, 0, "remapped_rows/remapped_row_pending", 1, U},
    {NVML_FI_DEV_REMAPPED_FAILURE, 0, "remapped_rows/remapped_row_failure", 1, U},
    {NVML_FI_DEV_NVLINK_GET_SPEED, 0, "nvlink/%u/speed", 1, U},
    {NVML_FI_DEV_NVLINK_GET_STATE, 0, "nvlink/%u/state", 1, U},
    {NVML_FI_DEV_NVLINK_GET_VERSION, 0, "nvlink/version", 1, U},
    {NVML_FI_DEV_POWER_AVERAGE, 0, "gpu_power_readings/power_draw", 1000, U},
    {NVML_FI_DEV_POWER_INSTANT, 0, "gpu_power_readings/power_draw", 1000, U},
    {NVML_FI_DEV_POWER_MIN_LIMIT, 0, "gpu_power_readings/min_power_limit", 1000, U},
    {NVML_FI_DEV_POWER_MAX_LIMIT, 0, "gpu_power_readings/max_power_limit", 1000, U},
    {NVML_FI_DEV_POWER_DEFAULT_LIMIT, 0, "gpu_power_readings/default_power_limit", 1000, U},
    {NVML_FI_DEV_POWER_CURRENT_LIMIT, 0, "gpu_power_readings/current_power_limit", 1000, U},
    {NVML_FI_DEV_POWER_REQUESTED_LIMIT, 0, "gpu_power_readings/requested_power_limit", 1000, U},
    {NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, 0, "temperature/gpu_temp_max_tlimit_threshold", 1, S},
    {NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, 0, "temperature/gpu_temp_slow_tlimit_threshold", 1, S},
    {NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT, 0, "temperature/gpu_temp_max_mem_tlimit_threshold", 1, S},
    {NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT, 0, "temperature/gpu_temp_max_gpu_tlimit_threshold", 1, S},
    {NVML_FI_DEV_RESET_STATUS, 0, "gpu_reset_status/reset_required", 1, U},
    {NVML_FI_DEV_DRAIN_AND_RESET_STATUS, 0, "gpu_reset_status/drain_and_reset_recommended", 1, U},
};

static void field_value(nvmlDevice_t gpu, nvmlFieldValue_t *value) {
    /* By scope; what the module draws is told of others than the H100. */
    static const char *const powers[] = {"gpu_power_readings/", "module_power_readings/", "gpu_memory_power_readings/"};
    static const char *const actions[] = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset", NULL};
    value->timestamp = value->latencyUsec = 0;
    /* nvidia-smi does not look whether the PCIe atomics are told. */
    memset(&value->value, 0, sizeof value->value);
    value->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    if (value->fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION) {
        int action = 0;
        value->nvmlReturn = choice_of(number_of(gpu), "gpu_recovery_action", actions, &action);
        value->valueType = U;
        /* Of the union only what the type says has a meaning. */
        memset(&value->value, 0xff, sizeof value->value);
        value->value.uiVal = (unsigned)action;
        return;
    }
    for (const field *each = fields; each < fields + LENGTH(fields); each++) {
        if (value->fieldId < each->first || value->fieldId > (each->last ? each->last : each->first)) continue;
        char path[96];
        double number = 0;
        /* The path is one of the list above. */
        snprintf(path, sizeof path, each->path, each->last ? value->fieldId - each->first : value->scopeId);
        if (!strncmp(path, powers[0], strlen(powers[0]))) {
            if (value->scopeId >= LENGTH(powers)) return;
            snprintf(path, sizeof path, "%s%s", powers[value->scopeId], each->path + strlen(powers[0]));
        }
        value->nvmlReturn = number_at(number_of(gpu), path, &number);
        value->valueType = each->type;
        if (each->type == S)
            value->value.siVal = (int)(number * each->unit);
        else
            value->value.uiVal = (unsigned)(number * each->unit);
        return;
    }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t gpu, int count, nvmlFieldValue_t *all) {
    for (int each = 0; each < count; each++) field_value(gpu, &all[each]);
    return NVML_SUCCESS;
}

/* --- processes ------------------------------------------------------------------------------------------------- */

/* As nvidia-smi's own table has it. */
typedef struct {
    nvmlProcessInfo_t info;
    unsigned long long unused;
    char name[4096];
} named_process;

static nvmlReturn_t process_of(int gpu, unsigned number, named_process *process) {
    char path[32];
    double pid, memory = 0;
    snprintf(path, sizeof path, "process/%u/pid", number);
    nvmlReturn_t status = number_at(gpu, path, &pid);
    if (status) return status;
    snprintf(path, sizeof path, "process/%u/memory", number);
    number_at(gpu, path, &memory);
    process->info = (nvmlProcessInfo_t){(unsigned)pid, (unsigned long long)memory << 20, UINT_MAX, UINT_MAX};
    snprintf(path, sizeof path, "process/%u/name", number);
    return text_of(gpu, path, process->name, sizeof process->name);
}

static nvmlReturn_t compute_processes(nvmlDevice_t gpu, unsigned *count, named_process *all) {
    unsigned room = *count;
    for (*count = 0; *count < room; ++*count) {
        nvmlReturn_t status = process_of(number_of(gpu), *count, &all[*count]);
        if (status) return status == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : status;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t gpu, unsigned *count, nvmlProcessInfo_t *infos) {
    named_process process;
    unsigned room = *count;
    for (*count = 0;; ++*count) {
        nvmlReturn_t status = process_of(number_of(gpu), *count, &process);
        if (status == NVML_ERROR_NOT_SUPPORTED) return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
        if (status) return status;
        if (*count < room) infos[*count] = process.info;
    }
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t gpu, unsigned *count, nvmlProcessInfo_t *infos) {
    (void)infos;
    *count = 0;
    return gpu ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* --- the host -------------------------------------------------------------------------------------------------- */

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    double seconds;
    (void)flags;
    /* A driver that hangs. */
    if (!number_at(HOST, "hang_seconds", &seconds)) sleep((unsigned)seconds);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }

/* nvidia-smi waits for no event, but ends where it gets no set of them. */
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    *set = (nvmlEventSet_t)handles;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) { return set ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT; }

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned size) {
    return text_of(HOST, "driver_version", version, size);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned size) {
    char driver[64];
    nvmlReturn_t status = text_of(HOST, "driver_version", driver, sizeof driver);
    if (!status) snprintf(version, size, "12.%s", driver);
    return status;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    double number;
    nvmlReturn_t status = number_at(HOST, "cuda_version", &number);
    if (!status) *version = (int)(number * 10 + .5) % 10 * 10 + (int)number * 1000;
    return status;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    double number;
    nvmlReturn_t status = number_at(HOST, "attached_gpus", &number);
    if (!status) *count = (unsigned)number;
    return status;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *gpu) {
    unsigned count;
    char word[32];
    nvmlReturn_t status = nvmlDeviceGetCount_v2(&count);
    if (status) return status;
    if (index >= count || index >= GPUS) return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = (nvmlDevice_t)&handles[index];
    /* "GPU is lost" for one that the driver does not let be used. */
    status = text_of((int)index, "handle", word, sizeof word);
    return status == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : status;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *gpu) {
    return nvmlDeviceGetHandleByIndex_v2(index, gpu);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *gpu) {
    unsigned count = 0;
    char text[96];
    size_t length = strlen(address);
    nvmlDeviceGetCount_v2(&count);
    for (unsigned index = 0; index < count; index++) {
        if (text_of((int)index, "pci/pci_bus_id", text, sizeof text)) continue;
        /* The domain may have four digits or eight. */
        const char *end = strlen(text) > length ? text + strlen(text) - length : text;
        if (length >= 12 && !strcasecmp(end, address)) return nvmlDeviceGetHandleByIndex_v2(index, gpu);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t gpu, unsigned *index) {
    *index = (unsigned)number_of(gpu);
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t status) {
    if (status == NVML_SUCCESS) return "Success";
    for (size_t each = 1; each < LENGTH(errors); each++)
        if (errors[each].status == status) return errors[each].text;
    return "Unknown Error";
}

/* --- nvidia-smi's own table ------------------------------------------------------------------------------------ */

static void *slots[300];

/* Where a GPU is, of a lost one too: "0000:85:00.0". */
static nvmlReturn_t address_by_index(unsigned index, char *text, unsigned size) {
    char address[64];
    nvmlReturn_t status = text_of((int)index, "pci/pci_bus_id", address, sizeof address);
    if (status || strlen(address) < 12) return NVML_ERROR_UNKNOWN;
    return snprintf(text, size, "%s", address + strlen(address) - 12) < (int)size ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

static nvmlReturn_t no_processes(nvmlDevice_t gpu, unsigned *count, void *infos) {
    return nvmlDeviceGetGraphicsRunningProcesses_v3(gpu, count, infos);
}

static nvmlReturn_t host_link_generation(nvmlDevice_t gpu, unsigned *generation) {
    GET(unsigned, gpu, "pci/pci_gpu_link_info/pcie_gen/max_host_link_gen", generation);
    return NVML_SUCCESS;
}

static nvmlReturn_t margin(nvmlDevice_t gpu, int *celsius) {
    GET(int, gpu, "temperature/gpu_temp_tlimit", celsius);
    return NVML_SUCCESS;
}

static nvmlReturn_t no_mode(nvmlDevice_t gpu, unsigned *mode) {
    *mode = 0;
    return gpu ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t refused(void) { return NVML_ERROR_NOT_SUPPORTED; }

__attribute__((constructor)) static void fill(void) {
    /* The first word is the table's size in bytes. */
    slots[0] = (void *)sizeof slots;
    for (size_t slot = 1; slot < LENGTH(slots); slot++) slots[slot] = (void *)refused;
    slots[81] = (void *)address_by_index;
    slots[108] = (void *)nvmlDeviceGetEnforcedPowerLimit;
    slots[213] = (void *)compute_processes;
    slots[214] = (void *)no_processes;
    slots[215] = (void *)no_processes;
    slots[230] = (void *)host_link_generation;
    slots[240] = (void *)margin;
    /* How memory is addressed, and the sparse operation mode of 535 and of those after it. */
    slots[242] = slots[243] = slots[249] = (void *)no_mode;
}

nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *which) {
    *table = slots;
    return which ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
