/* SPDX-License-Identifier: Apache-2.0
 *
 * NVML without a card, see fake_nvml.h. Card 0 is a GPU of 24 GB, card 1 one of 80 GB; their figures are
 * made up and differ in every place, so that a mix-up shows.
 */
#include "tests/fake/fake_nvml.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/tune/machine/nvml.h"

struct nvmlDevice_st {
    unsigned number;
    atomic_long calls;
};

static struct nvmlDevice_st devices[FAKE_NVML_CARDS];
static fake_nvml_settings settings;
static int started;
static atomic_int slow_calls, held;
static atomic_ullong clock_us;

#define FAKE __attribute__((visibility("default")))

/* ---- controls ---- */

static void reset(void)
{
    memset(&settings, 0, sizeof settings);
    settings.cards = FAKE_NVML_CARDS;
    snprintf(settings.driver, sizeof settings.driver, "550.54.14");
    for (unsigned i = 0; i < FAKE_NVML_CARDS; i++) {
        devices[i].number = i;
        devices[i].calls = 0;
        settings.card[i].lost_after = -1;
        settings.card[i].busy = 30 + 40 * i;
    }
    slow_calls = held = 0;
    clock_us = 1000 * 1000 * 1000;
}

static long calls(unsigned card)
{
    return devices[card].calls;
}

static int is_started(void)
{
    return started;
}

static int blocking(void)
{
    return slow_calls;
}

static void hold(int on)
{
    held = on;
}

extern const fake_nvml_control fake_nvml;
FAKE const fake_nvml_control fake_nvml = { reset, &settings, calls, is_started, blocking, hold };

static void read_word(const char *word)
{
    unsigned card, value;
    long after;
    if (sscanf(word, "cards=%u", &value) == 1 && value <= FAKE_NVML_CARDS) settings.cards = value;
    if (sscanf(word, "init=%u", &value) == 1) settings.init = (int)value;
    if (sscanf(word, "mig=%u", &value) == 1 && value < FAKE_NVML_CARDS) settings.card[value].mig = 1;
    if (sscanf(word, "lost=%u:%ld", &card, &after) == 2 && card < FAKE_NVML_CARDS)
        settings.card[card].lost_after = after;
    if (sscanf(word, "process=%u", &value) == 1) {
        settings.card[0].processes[0] = value;
        settings.card[0].n_processes = 1;
    }
    if (!strncmp(word, "driver=", 7)) snprintf(settings.driver, sizeof settings.driver, "%s", word + 7);
}

__attribute__((constructor)) static void load(void)
{
    char words[256];
    const char *variable = getenv("STOKE_FAKE_NVML");
    reset();
    snprintf(words, sizeof words, "%s", variable ? variable : "");
    for (char *rest = words, *word; (word = strsep(&rest, " "));) read_word(word);
}

/* Every call to a card begins here. */
static nvmlReturn_t enter(nvmlDevice_t device)
{
    const fake_nvml_card *card = &settings.card[device->number];
    if (!started) return 1; /* NVML_ERROR_UNINITIALIZED */
    if (card->lost_after >= 0 && device->calls >= card->lost_after) return NVML_ERROR_GPU_IS_LOST;
    device->calls++;
    clock_us += 1000;
    return NVML_SUCCESS;
}

#define ENTER(device)                                                                                        \
    do {                                                                                                     \
        const nvmlReturn_t entered = enter(device);                                                          \
        if (entered) return entered;                                                                         \
    } while (0)

static fake_nvml_card *card_of(nvmlDevice_t device)
{
    return &settings.card[device->number];
}

/* ---- what drivers of all ages have ---- */

#define NVML_FN(name, arguments) FAKE nvmlReturn_t name arguments;
#include "src/tune/machine/nvml_functions.def"
#undef NVML_FN
FAKE const char *nvmlErrorString(nvmlReturn_t result);

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

static nvmlReturn_t start(void)
{
    if (settings.init) return settings.init;
    started++;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
    started--;
    return NVML_SUCCESS;
}

static nvmlReturn_t count_cards(unsigned *count)
{
    *count = settings.cards;
    return NVML_SUCCESS;
}

static nvmlReturn_t find_card(unsigned index, nvmlDevice_t *device)
{
    if (index >= settings.cards) return 2; /* NVML_ERROR_INVALID_ARGUMENT */
    if (settings.card[index].refused) return settings.card[index].refused;
    *device = &devices[index];
    return enter(*device);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    snprintf(text, size, "%s", settings.driver);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned size)
{
    ENTER(device);
    snprintf(text, size, "Fake GPU %s", device->number ? "80 GB" : "24 GB");
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned size)
{
    ENTER(device);
    snprintf(text, size, "GPU-00000000-0000-0000-0000-00000000000%u", device->number);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER(device);
    if (card_of(device)->mig) return NVML_ERROR_NOT_SUPPORTED;
    *rates = (nvmlUtilization_t){ card_of(device)->busy, 11 + device->number };
    return NVML_SUCCESS;
}

static unsigned long long memory_of(nvmlDevice_t device)
{
    return (device->number ? 80ull : 24ull) << 30;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    ENTER(device);
    if (card_of(device)->no_memory) return NVML_ERROR_NOT_SUPPORTED;
    memory->total = memory_of(device);
    memory->used = (4ull << 30) + (300ull << 20); /* with what the driver reserves */
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *celsius)
{
    ENTER(device);
    *celsius = 50 + (unsigned)sensor + device->number;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatt)
{
    ENTER(device);
    *milliwatt = 100000 + device->number;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatt)
{
    ENTER(device);
    *milliwatt = 400000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned *mhz)
{
    ENTER(device);
    *mhz = clock == NVML_CLOCK_SM ? 1500 : 9000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int clock, unsigned *mhz)
{
    ENTER(device);
    *mhz = clock == NVML_CLOCK_SM ? 2100 : 9500;
    return NVML_SUCCESS;
}

static nvmlReturn_t put(nvmlDevice_t device, unsigned *value, unsigned number)
{
    ENTER(device);
    *value = number;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *value)
{
    return put(device, value, 1); /* an idle link is slow */
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *value)
{
    return put(device, value, 8);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *value)
{
    return put(device, value, 4);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *value)
{
    return put(device, value, 16);
}

/* The records of a list, of either version. */
static nvmlReturn_t list(nvmlDevice_t device, unsigned *count, char *records, size_t record)
{
    ENTER(device);
    const fake_nvml_card *card = card_of(device);
    const unsigned n = card->n_processes;
    const unsigned room = *count;
    *count = n;
    if (!records && card->appear) *count = n - (unsigned)card->appear; /* they are not there yet */
    if (room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
    if (!records) return *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    for (unsigned i = 0; i < n; i++) {
        nvmlProcessInfo_v2_t info = { card->processes[i], (1ull << 30) + i, ~0u, ~0u };
        if (i == 1) info.usedGpuMemory = ~0ull; /* not available */
        memcpy(records + i * record, &info, record);
    }
    return NVML_SUCCESS;
}

#ifdef FAKE_NVML_OLD

nvmlReturn_t nvmlInit(void)
{
    return start();
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
    return count_cards(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return find_card(index, device);
}

/* The record of that time ends before busId: writing more would be a fault of the fake. */
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    ENTER(device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", 0x0a + device->number);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, void *processes)
{
    return list(device, count, processes, sizeof(nvmlProcessInfo_v1_t));
}

#else

nvmlReturn_t nvmlInit_v2(void)
{
    return start();
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    return count_cards(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    return find_card(index, device);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    ENTER(device);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", 0x0a + device->number);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    ENTER(device);
    *major = 8;
    *minor = device->number ? 0 : 6;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    ENTER(device);
    if (!device->number && !card_of(device)->mig) return NVML_ERROR_NOT_SUPPORTED; /* as on a GeForce */
    *current = *pending = (unsigned)card_of(device)->mig;
    return NVML_SUCCESS;
}

/* Four samples a second, `busy` in the last second and 0 before it: who takes all of the ring sees less. */
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, int type, unsigned long long after, int *value_type,
                                  unsigned *count, nvmlSample_t *samples)
{
    enum { RING = 20, PERIOD_US = 250 * 1000 };
    ENTER(device);
    const fake_nvml_card *card = card_of(device);
    if (card->mig) return NVML_ERROR_NOT_SUPPORTED;
    if (card->no_samples) return NVML_ERROR_NOT_FOUND;
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (!samples) {
        *count = RING;
        return NVML_SUCCESS;
    }
    const unsigned long long newest = clock_us / PERIOD_US * PERIOD_US;
    unsigned n = 0;
    for (unsigned i = RING; i-- > 0 && n < *count;) {
        const unsigned long long time = newest - i * PERIOD_US;
        if (time <= after) continue;
        memset(&samples[n], 0xee, sizeof samples[n]); /* the upper half of the union means nothing */
        samples[n].timeStamp = time;
        samples[n++].value.u = i < 4 ? (type == NVML_GPU_UTILIZATION_SAMPLES ? card->busy : 21) : 0;
    }
    *count = n;
    return n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    ENTER(device);
    const fake_nvml_card *card = card_of(device);
    const unsigned wanted = card->v2_version ? (unsigned)card->v2_version : 0x02000028;
    if (card->no_memory) return NVML_ERROR_NOT_SUPPORTED;
    if (memory->version != wanted) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = memory_of(device);
    memory->reserved = 300ull << 20;
    memory->used = 4ull << 30;
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    ENTER(device);
    if (temperature->version != 0x0100000c) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    temperature->temperature = 60 + (int)device->number;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoule)
{
    ENTER(device);
    *millijoule = 123456;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int counter, unsigned *kilobytes)
{
    ENTER(device);
    slow_calls++;
    /* Half a minute at most: a test that waits for it in vain shall fail, not hang. */
    for (int i = 0; held && i < 30000; i++) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    *kilobytes = counter == NVML_PCIE_UTIL_RX_BYTES ? 5000 : 70;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    ENTER(device);
    *reasons = 0x104; /* power cap, and the display's bit */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, void *processes)
{
    return list(device, count, processes, sizeof(nvmlProcessInfo_v2_t));
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned *count, void *processes)
{
    return list(device, count, processes, sizeof(nvmlProcessInfo_v2_t)); /* the same programs draw */
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned *count, unsigned long long after)
{
    ENTER(device);
    const fake_nvml_card *card = card_of(device);
    const unsigned n = card->n_processes;
    if (!n || clock_us <= after) return NVML_ERROR_NOT_FOUND;
    const unsigned room = *count;
    *count = n;
    if (!samples || room < n) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < n; i++) {
        const int bad = card->garbage_shares;
        samples[i] = (nvmlProcessUtilizationSample_t){ .pid = bad && i ? 50554 : card->processes[i],
                                                       .timeStamp = clock_us,
                                                       .smUtil = bad ? 37100 : 25 + i };
    }
    return NVML_SUCCESS;
}

#endif
