/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs on an NVIDIA card: three lists (compute, compute through MPS, graphics) in three versions each,
 * and the share of each program.
 */
#include <stddef.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/tune/machine/gpus.h"
#include "src/tune/machine/nvml_card.h"
#include "src/tune/machine/tree.h"

enum {
    LISTED_MAX = 4096,
    SPARE = 8 /* programs that may start between asking how many there are and asking who */
};

typedef nvmlReturn_t list_function(nvmlDevice_t device, unsigned *count, void *processes);

/* One list by one version. Returns 1 when the driver answered, with nothing on it as well. */
static int read_list(stk_nvml_card *card, list_function *function, size_t record, const char *root,
                     stoke_gpu *gpu)
{
    if (!function || card->fixed.lost) return 0;
    unsigned count = 0;
    nvmlReturn_t result = function(card->handle, &count, NULL);
    if (stk_nvml_good(card, result)) return 1; /* success with no room: there are none */
    if (result != NVML_ERROR_INSUFFICIENT_SIZE || count > LISTED_MAX) return 0;
    count += SPARE;
    const unsigned room = count;
    char *records = stk_calloc(count, record);
    if (!records) return 0;
    result = function(card->handle, &count, records);
    if (stk_nvml_good(card, result)) {
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
    stk_nvml_good(card, result);
    if (result != NVML_ERROR_INSUFFICIENT_SIZE || !count || count > LISTED_MAX) return;
    const unsigned room = count;
    nvmlProcessUtilizationSample_t *samples = stk_calloc(count, sizeof *samples);
    if (!samples) return;
    result = nvml->nvmlDeviceGetProcessUtilization(card->handle, samples, &count, after);
    if (!stk_nvml_good(card, result)) count = 0;
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

void stk_nvml_read_processes(const stk_nvml_library *nvml, stk_nvml_card *card, const char *root,
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
