/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA cards by NVML. Each figure is asked for by itself: what one driver does not know is n/a and takes
 * nothing else with it.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/driver_probe.h"
#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/tune/machine/gpus.h"
#include "src/tune/machine/nvml.h"
#include "src/tune/machine/tree.h"

/* A card as its reader keeps it between two readings. */
typedef struct stk_nvml_card {
    nvmlDevice_t handle; /* NULL: it could not be opened */
    stoke_gpu fixed;     /* name, uuid, pci, driver, vendor, what never changes; `lost`, which never ends */
    unsigned long long busy_seen, memory_seen, process_seen; /* newest sample, microseconds */
} stk_nvml_card;

/* ---- opening NVML, and saying in words why it does not work ---- */

/* The library's text for a result, never NULL. */
static const char *nvml_text(const stk_nvml_library *nvml, nvmlReturn_t result)
{
    const char *text = nvml->nvmlErrorString ? nvml->nvmlErrorString(result) : NULL;
    return text ? text : "no text";
}

static int open_file(stk_nvml_library *nvml, const char *file, stoke_error *err)
{
    static const char *const usual[] = { "libnvidia-ml.so.1", "libnvidia-ml.so",
                                         "/usr/lib/wsl/lib/libnvidia-ml.so.1" };
    const char *named = getenv("STOKE_LIBNVML");
    if (!file && named && *named) file = named;
    const int r = stk_driver_probe(STK_DRIVER_NVML, file, err);
    if (r) return r;
    if (file) {
        nvml->library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    } else {
        for (size_t i = 0; !nvml->library && i < sizeof usual / sizeof *usual; i++)
            nvml->library = dlopen(usual[i], RTLD_LAZY | RTLD_LOCAL);
    }
    if (nvml->library) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "NVIDIA: %s cannot be opened; install the driver, or start the container with --gpus all "
                    "(capability utility)",
                    file ? file : usual[0]);
}

/* What a person can do when the library does not start. */
static const char *advice_of(nvmlReturn_t result)
{
    switch (result) {
    case NVML_ERROR_NO_PERMISSION: return "this user may not use /dev/nvidia*: ask for it";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "the kernel module is not loaded: `modprobe nvidia`, or look into dmesg why it does not load";
    case NVML_ERROR_LIBRARY_NOT_FOUND:
        return "a part of the driver is missing: reinstall it (in a container: capability utility)";
    case NVML_ERROR_GPU_IS_LOST:
    case NVML_ERROR_RESET_REQUIRED: return "a card is lost: dmesg has a line with Xid; reboot";
    case NVML_ERROR_OPERATING_SYSTEM:
        return "the system refused it, often a container whose /dev/nvidia* were taken away: start it again";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "the kernel module and the library are of two versions: reboot after an update of the driver";
    default: return "`nvidia-smi` may say more";
    }
}

/* Opens and starts the library: `file`, or when that is NULL what STOKE_LIBNVML names, or the usual places.
 * The message says why not and what to do. */
static int nvml_library_open(stk_nvml_library *nvml, const char *file, stoke_error *err)
{
    memset(nvml, 0, sizeof *nvml);
    int r = open_file(nvml, file, err);
    if (r) return r;
        /* A function is no object in C; POSIX says that dlsym's answer may be read as one. */
#define NVML_FN(name, arguments) *(void **)&nvml->name = dlsym(nvml->library, #name);
#include "src/tune/machine/nvml_functions.def"
#undef NVML_FN
    *(void **)&nvml->nvmlErrorString = dlsym(nvml->library, "nvmlErrorString");
    if ((!nvml->nvmlInit_v2 && !nvml->nvmlInit) || !nvml->nvmlShutdown ||
        (!nvml->nvmlDeviceGetCount_v2 && !nvml->nvmlDeviceGetCount) ||
        (!nvml->nvmlDeviceGetHandleByIndex_v2 && !nvml->nvmlDeviceGetHandleByIndex)) {
        nvml->nvmlShutdown = NULL; /* what was not started is not ended */
        return stk_fail(
            err, STOKE_E_UNSUPPORTED,
            "NVIDIA: the libnvidia-ml found is none (nvmlInit, nvmlShutdown, nvmlDeviceGetCount or "
            "nvmlDeviceGetHandleByIndex is missing); reinstall the driver");
    }
    const nvmlReturn_t result = nvml->nvmlInit_v2 ? nvml->nvmlInit_v2() : nvml->nvmlInit();
    if (result == NVML_SUCCESS) return STOKE_OK;
    nvml->nvmlShutdown = NULL;
    return stk_fail(err, STOKE_E_DEVICE, "NVIDIA: NVML does not start: %s (error %d); %s",
                    nvml_text(nvml, result), result, advice_of(result));
}

/* Programs on an NVIDIA card: three lists (compute, compute through MPS, graphics) in three versions each,
 * and the share of each program. */

enum {
    LISTED_MAX = 4096,
    SPARE = 8 /* programs that may start between asking how many there are and asking who */
};

typedef nvmlReturn_t list_function(nvmlDevice_t device, unsigned *count, void *processes);

static int nvml_good(stk_nvml_card *card, nvmlReturn_t result)
{
    if (result == NVML_ERROR_GPU_IS_LOST) card->fixed.lost = 1;
    return result == NVML_SUCCESS;
}

/* One list by one version. Returns 1 when the driver answered, with nothing on it as well. */
static int read_list(stk_nvml_card *card, list_function *function, size_t record, const char *root,
                     stoke_gpu *gpu)
{
    if (!function || card->fixed.lost) return 0;
    unsigned count = 0;
    nvmlReturn_t result = function(card->handle, &count, NULL);
    if (nvml_good(card, result)) return 1; /* success with no room: there are none */
    if (result != NVML_ERROR_INSUFFICIENT_SIZE || count > LISTED_MAX) return 0;
    count += SPARE;
    const unsigned room = count;
    char *records = stk_calloc(count, record);
    if (!records) return 0;
    result = function(card->handle, &count, records);
    if (nvml_good(card, result)) {
        uint32_t more = 0;
        for (unsigned i = 0; i < count && i < room; i++) {
            nvmlProcessInfo_v1_t info; /* how both versions begin */
            memcpy(&info, records + i * record, sizeof info);
            stoke_gpu_process *process = stk_gpu_process(gpu, root, info.pid);
            more += !process;
            if (process && info.usedGpuMemory != ~0ull)
                process->memory_bytes = stk_figure((double)info.usedGpuMemory, STOKE_SOURCE_NVML);
        }
        /* A program that computes and draws is on two lists: the longest tells how many there are at least.
         */
        if (more > gpu->more_processes) gpu->more_processes = more;
    }
    stk_free(records);
    return result == NVML_SUCCESS;
}

static int read_newest(stk_nvml_card *card, list_function *v3, list_function *v2, list_function *v1,
                       const char *root, stoke_gpu *gpu)
{
    return read_list(card, v3, sizeof(nvmlProcessInfo_v2_t), root, gpu) ||
           read_list(card, v2, sizeof(nvmlProcessInfo_v2_t), root, gpu) ||
           read_list(card, v1, sizeof(nvmlProcessInfo_v1_t), root, gpu);
}

/* The newest sample of each program. Some drivers put rubbish into the buffer (a share of 37100 %, programs
 * that never were), so only those count that are listed, new and possible. */
static void read_shares(const stk_nvml_library *nvml, stk_nvml_card *card, stoke_gpu *gpu)
{
    if (!nvml->nvmlDeviceGetProcessUtilization || card->fixed.lost || !gpu->n_processes) return;
    unsigned count = 0;
    const unsigned long long after = card->process_seen;
    nvmlReturn_t result = nvml->nvmlDeviceGetProcessUtilization(card->handle, NULL, &count, after);
    nvml_good(card, result);
    if (result != NVML_ERROR_INSUFFICIENT_SIZE || !count || count > LISTED_MAX) return;
    const unsigned room = count;
    nvmlProcessUtilizationSample_t *samples = stk_calloc(count, sizeof *samples);
    if (!samples) return;
    result = nvml->nvmlDeviceGetProcessUtilization(card->handle, samples, &count, after);
    if (!nvml_good(card, result)) count = 0;
    for (uint32_t p = 0; p < gpu->n_processes; p++) {
        unsigned long long newest = after;
        for (unsigned i = 0; i < count && i < room; i++) {
            if (samples[i].pid != gpu->process[p].pid || samples[i].timeStamp <= newest ||
                samples[i].smUtil > 100)
                continue;
            newest = samples[i].timeStamp;
            gpu->process[p].busy_percent = stk_figure(samples[i].smUtil, STOKE_SOURCE_NVML);
        }
        if (newest > card->process_seen) card->process_seen = newest;
    }
    stk_free(samples);
}

static void read_processes(const stk_nvml_library *nvml, stk_nvml_card *card, const char *root,
                           stoke_gpu *gpu)
{
    const int compute = read_newest(card, nvml->nvmlDeviceGetComputeRunningProcesses_v3,
                                    nvml->nvmlDeviceGetComputeRunningProcesses_v2,
                                    nvml->nvmlDeviceGetComputeRunningProcesses, root, gpu);
    read_newest(card, nvml->nvmlDeviceGetMPSComputeRunningProcesses_v3,
                nvml->nvmlDeviceGetMPSComputeRunningProcesses_v2,
                nvml->nvmlDeviceGetMPSComputeRunningProcesses, root, gpu);
    read_newest(card, nvml->nvmlDeviceGetGraphicsRunningProcesses_v3,
                nvml->nvmlDeviceGetGraphicsRunningProcesses_v2, nvml->nvmlDeviceGetGraphicsRunningProcesses,
                root, gpu);
    if (!compute) STK_GPU_REMARK(gpu, "the driver does not list the programs on the card");
    read_shares(nvml, card, gpu);
}

enum {
    CARDS_MAX = 64,
    SAMPLES_MAX = 1024,            /* drivers keep about 100 */
    FIRST_PERIOD_US = 1000 * 1000, /* the first reading looks no further back than that */
};

struct stk_gpus_nvml {
    stk_nvml_library library;
    char root[STK_TREE_PATH];
    int slow;
    int expected; /* cards on the bus that could not be opened */
    size_t count;
    stk_nvml_card *card;
};

/* Calls a function when the library has it and the card is there; 1 = it succeeded. */
#define ASK(card, function, ...)                                                                             \
    ((function) && !(card)->fixed.lost && nvml_good((card), (function)(__VA_ARGS__)))

static stoke_figure ask_unsigned(stk_nvml_card *card, nvmlReturn_t (*function)(nvmlDevice_t, unsigned *),
                                 double scale)
{
    unsigned value = 0;
    return ASK(card, function, card->handle, &value) ? stk_figure(value * scale, STOKE_SOURCE_NVML)
                                                     : stk_figure(0, STOKE_SOURCE_NA);
}

static stoke_figure ask_clock(stk_nvml_card *card, nvmlReturn_t (*function)(nvmlDevice_t, int, unsigned *),
                              int which, double scale)
{
    unsigned value = 0;
    return ASK(card, function, card->handle, which, &value) ? stk_figure(value * scale, STOKE_SOURCE_NVML)
                                                            : stk_figure(0, STOKE_SOURCE_NA);
}

/* ---- what never changes ---- */

/* "00000000:01:00.0" as sysfs spells it: a domain of four digits, small letters. */
static void spell_pci(char out[32], const char *bus)
{
    if (strlen(bus) == 16 && !strncmp(bus, "0000", 4)) bus += 4;
    snprintf(out, 32, "%.31s", bus);
    for (; *out; out++) *out = (char)tolower((unsigned char)*out);
}

static void read_fixed(const stk_nvml_library *nvml, stk_nvml_card *card)
{
    stoke_gpu *fixed = &card->fixed;
    nvmlPciInfo_t pci = { .domain = 0 };
    int major = 0, minor = 0;
    unsigned mig = 0, pending = 0;
    if (!ASK(card, nvml->nvmlDeviceGetName, card->handle, fixed->name, sizeof fixed->name))
        snprintf(fixed->name, sizeof fixed->name, "NVIDIA card");
    if (!ASK(card, nvml->nvmlDeviceGetUUID, card->handle, fixed->uuid, sizeof fixed->uuid)) *fixed->uuid = 0;
    if (ASK(card, nvml->nvmlDeviceGetPciInfo_v3, card->handle, &pci)) {
        pci.busId[sizeof pci.busId - 1] = 0;
        spell_pci(fixed->pci, pci.busId);
    } else if (ASK(card, nvml->nvmlDeviceGetPciInfo_v2, card->handle, &pci) ||
               ASK(card, nvml->nvmlDeviceGetPciInfo, card->handle, &pci)) {
        pci.busIdLegacy[sizeof pci.busIdLegacy - 1] = 0;
        spell_pci(fixed->pci, pci.busIdLegacy);
    }
    if (ASK(card, nvml->nvmlDeviceGetCudaComputeCapability, card->handle, &major, &minor))
        fixed->compute_capability = stk_figure(major + minor / 10.0, STOKE_SOURCE_NVML);
    if (ASK(card, nvml->nvmlDeviceGetMigMode, card->handle, &mig, &pending)) fixed->mig = mig == 1;
    fixed->clock_sm_max_mhz = ask_clock(card, nvml->nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM, 1);
    fixed->pcie_generation_max = ask_unsigned(card, nvml->nvmlDeviceGetMaxPcieLinkGeneration, 1);
    fixed->pcie_width_max = ask_unsigned(card, nvml->nvmlDeviceGetMaxPcieLinkWidth, 1);
}

/* ---- what does ---- */

/* The mean of the driver's own samples since the last reading: it takes several a second, and asking for one
 * value now and then misses all between. n/a: no samples, or none that are new. */
static stoke_figure mean_of_samples(const stk_nvml_library *nvml, stk_nvml_card *card, int kind,
                                    unsigned long long *seen)
{
    stoke_figure figure = { 0 };
    unsigned count = 0;
    int type = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (!ASK(card, nvml->nvmlDeviceGetSamples, card->handle, kind, *seen, &type, &count, NULL) || !count)
        return figure;
    if (count > SAMPLES_MAX) count = SAMPLES_MAX;
    nvmlSample_t *samples = stk_calloc(count, sizeof *samples);
    if (!samples) return figure;
    const unsigned room = count;
    if (ASK(card, nvml->nvmlDeviceGetSamples, card->handle, kind, *seen, &type, &count, samples)) {
        if (count > room) count = room;
        unsigned long long newest = *seen, oldest = *seen;
        for (unsigned i = 0; i < count; i++)
            if (samples[i].timeStamp > newest) newest = samples[i].timeStamp;
        if (!oldest && newest > FIRST_PERIOD_US) oldest = newest - FIRST_PERIOD_US;
        double sum = 0;
        unsigned n = 0;
        for (unsigned i = 0; i < count; i++) {
            const double value = type == NVML_VALUE_TYPE_DOUBLE               ? samples[i].value.d
                                 : type == NVML_VALUE_TYPE_UNSIGNED_LONG_LONG ? (double)samples[i].value.ull
                                                                              : samples[i].value.u;
            if (samples[i].timeStamp <= oldest || !(value >= 0 && value <= 100)) continue;
            sum += value;
            n++;
        }
        *seen = newest;
        if (n) figure = stk_figure(sum / n, STOKE_SOURCE_NVML);
    }
    stk_free(samples);
    return figure;
}

static void read_busy(const stk_nvml_library *nvml, stk_nvml_card *card, stoke_gpu *gpu)
{
    nvmlUtilization_t rates;
    gpu->busy_percent = mean_of_samples(nvml, card, NVML_GPU_UTILIZATION_SAMPLES, &card->busy_seen);
    gpu->memory_busy_percent =
        mean_of_samples(nvml, card, NVML_MEMORY_UTILIZATION_SAMPLES, &card->memory_seen);
    if ((!gpu->busy_percent.source || !gpu->memory_busy_percent.source) &&
        ASK(card, nvml->nvmlDeviceGetUtilizationRates, card->handle, &rates)) {
        if (!gpu->busy_percent.source && rates.gpu <= 100)
            gpu->busy_percent = stk_figure(rates.gpu, STOKE_SOURCE_NVML);
        if (!gpu->memory_busy_percent.source && rates.memory <= 100)
            gpu->memory_busy_percent = stk_figure(rates.memory, STOKE_SOURCE_NVML);
    }
}

static void set_memory(stoke_gpu *gpu, double total, double used, double left, int source)
{
    gpu->memory_total = stk_figure(total, source);
    gpu->memory_used = stk_figure(used, source);
    gpu->memory_free = stk_figure(left, source);
}

/* Version 2 keeps what the driver reserves for itself apart; version 1 counts it as used (about 300 MB). */
static void read_memory(const stk_gpus_nvml *nvml, stk_nvml_card *card, stoke_gpu *gpu)
{
    /* The version as the header's macro makes it; some drivers were seen to want the bare number. */
    static const unsigned versions[] = { sizeof(nvmlMemory_v2_t) | 2u << 24, 2 };
    const stk_nvml_library *library = &nvml->library;
    for (size_t i = 0; i < 2; i++) {
        nvmlMemory_v2_t memory = { .version = versions[i] };
        if (!ASK(card, library->nvmlDeviceGetMemoryInfo_v2, card->handle, &memory)) continue;
        set_memory(gpu, (double)memory.total, (double)memory.used, (double)memory.free, STOKE_SOURCE_NVML);
        return;
    }
    nvmlMemory_t memory = { 0 };
    if (!library->nvmlDeviceGetMemoryInfo || card->fixed.lost) return;
    const nvmlReturn_t result = library->nvmlDeviceGetMemoryInfo(card->handle, &memory);
    if (nvml_good(card, result)) {
        set_memory(gpu, (double)memory.total, (double)memory.used, (double)memory.free, STOKE_SOURCE_NVML);
    } else if (result == NVML_ERROR_NOT_SUPPORTED && !card->fixed.mig) {
        char proc[STK_TREE_PATH], cgroup[STK_TREE_PATH];
        if (!stk_tree_path(proc, nvml->root, "proc") || !stk_tree_path(cgroup, nvml->root, "sys/fs/cgroup"))
            return;
        const uint64_t total = stk_machine_memory(proc);
        uint64_t left = stk_machine_available(proc, cgroup);
        if (!total || left == UINT64_MAX) return;
        if (left > total) left = total; /* swap counts there, and a card cannot use it */
        set_memory(gpu, (double)total, (double)(total - left), (double)left, STOKE_SOURCE_PROC);
        STK_GPU_REMARK(gpu, "the card has no memory of its own: the machine's is shown");
    }
}

static void read_sensors(const stk_nvml_library *nvml, stk_nvml_card *card, stoke_gpu *gpu)
{
    nvmlTemperature_t temperature = { .version = sizeof temperature | 1u << 24 };
    unsigned long long value = 0;
    if (ASK(card, nvml->nvmlDeviceGetTemperatureV, card->handle, &temperature))
        gpu->temperature = stk_figure(temperature.temperature, STOKE_SOURCE_NVML);
    else
        gpu->temperature = ask_clock(card, nvml->nvmlDeviceGetTemperature, 0, 1);
    gpu->power_watt = ask_unsigned(card, nvml->nvmlDeviceGetPowerUsage, 1e-3);
    gpu->power_limit_watt = ask_unsigned(card, nvml->nvmlDeviceGetEnforcedPowerLimit, 1e-3);
    if (ASK(card, nvml->nvmlDeviceGetTotalEnergyConsumption, card->handle, &value))
        gpu->energy_joule = stk_figure((double)value * 1e-3, STOKE_SOURCE_NVML);
    gpu->clock_sm_mhz = ask_clock(card, nvml->nvmlDeviceGetClockInfo, NVML_CLOCK_SM, 1);
    gpu->clock_memory_mhz = ask_clock(card, nvml->nvmlDeviceGetClockInfo, NVML_CLOCK_MEM, 1);
    if (ASK(card, nvml->nvmlDeviceGetCurrentClocksEventReasons, card->handle, &value) ||
        ASK(card, nvml->nvmlDeviceGetCurrentClocksThrottleReasons, card->handle, &value))
        gpu->clocks_reasons = stk_figure((double)(value & 0xffffffffu), STOKE_SOURCE_NVML);
    gpu->pcie_generation = ask_unsigned(card, nvml->nvmlDeviceGetCurrPcieLinkGeneration, 1);
    gpu->pcie_width = ask_unsigned(card, nvml->nvmlDeviceGetCurrPcieLinkWidth, 1);
}

/* Each call counts for 20 ms and holds us that long; the unit is KB/s. */
void stk_nvml_read_link(stk_gpus_nvml *nvml, size_t index, stoke_gpu *gpu)
{
    stk_nvml_card *card = &nvml->card[index];
    if (!card->handle) return;
    gpu->pcie_to_device =
        ask_clock(card, nvml->library.nvmlDeviceGetPcieThroughput, NVML_PCIE_UTIL_RX_BYTES, 1000);
    gpu->pcie_from_device =
        ask_clock(card, nvml->library.nvmlDeviceGetPcieThroughput, NVML_PCIE_UTIL_TX_BYTES, 1000);
}

/* A card that went away in the middle of a reading leaves half of one: only what never changes stays. */
static void give_up(const stk_nvml_card *card, stoke_gpu *gpu)
{
    const stoke_gpu *fixed = &card->fixed;
    memset(gpu, 0, sizeof *gpu);
    memcpy(gpu->name, fixed->name, sizeof gpu->name);
    memcpy(gpu->uuid, fixed->uuid, sizeof gpu->uuid);
    memcpy(gpu->pci, fixed->pci, sizeof gpu->pci);
    memcpy(gpu->driver, fixed->driver, sizeof gpu->driver);
    memcpy(gpu->vendor, fixed->vendor, sizeof gpu->vendor);
    gpu->lost = 1;
    STK_GPU_REMARK(gpu, "the card fell off the bus (NVML: GPU is lost); dmesg has a line with Xid that says "
                        "why; only a reboot brings it back");
}

void stk_nvml_read(stk_gpus_nvml *nvml, size_t index, stoke_gpu *gpu)
{
    stk_nvml_card *card = &nvml->card[index];
    char folder[STK_TREE_PATH];
    *gpu = card->fixed;
    if (!gpu->lost && card->handle) {
        read_busy(&nvml->library, card, gpu);
        read_memory(nvml, card, gpu);
        read_sensors(&nvml->library, card, gpu);
        if (*gpu->pci && stk_tree_path(folder, nvml->root, "sys/bus/pci/devices/%s", gpu->pci))
            stk_gpu_from_pci(gpu, folder);
        if (nvml->slow) stk_nvml_read_link(nvml, index, gpu);
        read_processes(&nvml->library, card, nvml->root, gpu);
        stk_gpu_effective(gpu);
    }
    if (card->fixed.lost) give_up(card, gpu);
}

/* ---- opening ---- */

static void open_card(stk_gpus_nvml *nvml, unsigned index)
{
    stk_nvml_card *card = &nvml->card[index];
    stoke_gpu *fixed = &card->fixed;
    const stk_nvml_library *library = &nvml->library;
    int branch, release;
    snprintf(fixed->vendor, sizeof fixed->vendor, "nvidia");
    snprintf(fixed->name, sizeof fixed->name, "NVIDIA card %u", index);
    if (library->nvmlSystemGetDriverVersion)
        library->nvmlSystemGetDriverVersion(fixed->driver, sizeof fixed->driver);
    const nvmlReturn_t result = library->nvmlDeviceGetHandleByIndex_v2
                                    ? library->nvmlDeviceGetHandleByIndex_v2(index, &card->handle)
                                    : library->nvmlDeviceGetHandleByIndex(index, &card->handle);
    if (!nvml_good(card, result)) {
        card->handle = NULL;
        STK_GPU_REMARK(fixed, "NVML does not open it: %.60s (error %d); `nvidia-smi` may say more",
                       nvml_text(library, result), result);
        return;
    }
    read_fixed(library, card);
    if (fixed->mig) STK_GPU_REMARK(fixed, "cut into MIG instances: NVML does not tell how busy they are");
    /* Drivers 535.43 to 535.86 changed the size of a process's record and changed it back. */
    if (sscanf(fixed->driver, "%d.%d", &branch, &release) == 2 && branch == 535 && release >= 43 &&
        release <= 86)
        STK_GPU_REMARK(fixed, "driver %.16s lists only the first of several programs: update it",
                       fixed->driver);
}

/* Cards on the bus that NVML should have shown; the first one's address. */
static int cards_on_bus(const char *root, char first[32])
{
    char folder[STK_TREE_PATH], vendor[16], class[16];
    int found = 0;
    if (!stk_tree_path(folder, root, "sys/bus/pci/devices")) return 0;
    DIR *bus = stoke_opendir(folder);
    for (struct dirent *entry; bus && (entry = stoke_readdir(bus));) {
        if (entry->d_name[0] == '.' ||
            !stk_tree_text(vendor, sizeof vendor, folder, "%.32s/vendor", entry->d_name) ||
            strcmp(vendor, "0x10de") != 0 ||
            !stk_tree_text(class, sizeof class, folder, "%.32s/class", entry->d_name) ||
            strncmp(class, "0x03", 4) != 0)
            continue;
        if (!found++) snprintf(first, 32, "%.31s", entry->d_name);
    }
    if (bus) closedir(bus);
    return found;
}

static void say_why(stk_gpus_nvml *nvml, const char *reason, char why[STK_WHY_BYTES])
{
    char first[32], text[1024], name[96] = "";
    const int found = nvml->expected = cards_on_bus(nvml->root, first);
    if (!found) {
        snprintf(why, STK_WHY_BYTES, "%.400s", reason);
        return;
    }
    /* The kernel module, where it is loaded, knows the card's name even where the library cannot be had. */
    const char *model = NULL;
    if (stk_tree_text(text, sizeof text, nvml->root, "proc/driver/nvidia/gpus/%.31s/information", first))
        model = strstr(text, "Model:");
    if (model) {
        model += strlen("Model:");
        model += strspn(model, " \t");
        snprintf(name, sizeof name, ", %.*s", (int)stk_least(strcspn(model, "\n"), 80), model);
    }
    snprintf(why, STK_WHY_BYTES, "%.340s (%d NVIDIA card%s on the bus, at %.16s%s)", reason, found,
             found > 1 ? "s are" : " is", first, name);
}

static int open_cards(stk_gpus_nvml *nvml, char why[STK_WHY_BYTES], stoke_error *err)
{
    const stk_nvml_library *library = &nvml->library;
    unsigned count = 0;
    const nvmlReturn_t result = library->nvmlDeviceGetCount_v2 ? library->nvmlDeviceGetCount_v2(&count)
                                                               : library->nvmlDeviceGetCount(&count);
    if (result != NVML_SUCCESS || !count) {
        char reason[256];
        snprintf(reason, sizeof reason, "NVIDIA: the driver works but shows no card%s%.100s",
                 result ? ": " : "", result ? nvml_text(library, result) : "");
        say_why(nvml, reason, why);
        return STOKE_OK;
    }
    if (count > CARDS_MAX) count = CARDS_MAX;
    nvml->card = stk_calloc(count, sizeof *nvml->card);
    if (!nvml->card) return stk_fail(err, STOKE_E_NOMEM, "no memory for %u cards", count);
    nvml->count = count;
    for (unsigned i = 0; i < count; i++) open_card(nvml, i);
    return STOKE_OK;
}

int stk_nvml_open(stk_gpus_nvml **out, const stoke_gpus_params *params, char why[STK_WHY_BYTES],
                  stoke_error *err)
{
    stoke_error reason = { 0 };
    *out = NULL;
    stk_gpus_nvml *nvml = stk_calloc(1, sizeof *nvml);
    if (!nvml) return stk_fail(err, STOKE_E_NOMEM, "no memory for NVML");
    *out = nvml;
    snprintf(nvml->root, sizeof nvml->root, "%s", params->root);
    nvml->slow = params->slow;
    if (nvml_library_open(&nvml->library, params->nvml, &reason) == STOKE_OK)
        return open_cards(nvml, why, err);
    say_why(nvml, reason.message, why);
    return STOKE_OK;
}

void stk_nvml_close(stk_gpus_nvml **nvml)
{
    if (!*nvml) return;
    const stk_nvml_library *library = &(*nvml)->library;
    if (library->nvmlShutdown) library->nvmlShutdown();
    if (library->library) dlclose(library->library);
    stk_free((*nvml)->card);
    stk_free(*nvml);
    *nvml = NULL;
}

size_t stk_nvml_count(const stk_gpus_nvml *nvml)
{
    return nvml ? nvml->count : 0;
}

int stk_nvml_expected(const stk_gpus_nvml *nvml)
{
    return nvml->expected;
}
