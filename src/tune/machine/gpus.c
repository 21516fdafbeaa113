/* SPDX-License-Identifier: Apache-2.0
 *
 * The graphics processors of the machine in one list, and what they have in common.
 */
#include <stoke/tools/probe.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/tune/machine/gpus.h"
#include "src/tune/machine/tree.h"

struct stoke_gpus {
    stk_gpus_nvml *nvml; /* its cards come first */
    stk_gpus_drm *drm;
    char why[2 * STK_WHY_BYTES + 2];
};

stoke_gpus_params stoke_gpus_defaults(void)
{
    return (stoke_gpus_params){ .struct_size = sizeof(stoke_gpus_params) };
}

int stoke_gpus_open(stoke_gpus **out, const stoke_gpus_params *params, stoke_error *err)
{
    stoke_gpus_params used = stoke_gpus_defaults();
    *out = NULL;
    if (params) {
        if (params->struct_size != sizeof *params) return stk_fail_struct(err, "stoke_gpus_defaults");
        used = *params;
    }
    if (!used.root || !strcmp(used.root, "/")) used.root = "";
    stoke_gpus *gpus = stk_calloc(1, sizeof *gpus);
    if (!gpus) return stk_fail(err, STOKE_E_NOMEM, "no memory for the list of graphics processors");
    char nvidia[STK_WHY_BYTES] = "", others[STK_WHY_BYTES] = "";
    int r = stk_nvml_open(&gpus->nvml, &used, nvidia, err);
    if (!r) r = stk_drm_open(&gpus->drm, &used, others, err);
    if (r) {
        stoke_gpus_close(&gpus);
        return r;
    }
    /* Who has a card of one maker need not hear that there is none of another. */
    if (stoke_gpus_count(gpus)) *others = 0;
    if (stoke_gpus_count(gpus) && !stk_nvml_expected(gpus->nvml)) *nvidia = 0;
    snprintf(gpus->why, sizeof gpus->why, "%s%s%s", nvidia, *nvidia && *others ? "; " : "", others);
    *out = gpus;
    return STOKE_OK;
}

void stoke_gpus_close(stoke_gpus **gpus)
{
    if (!*gpus) return;
    stk_nvml_close(&(*gpus)->nvml);
    stk_drm_close(&(*gpus)->drm);
    stk_free(*gpus);
    *gpus = NULL;
}

size_t stoke_gpus_count(const stoke_gpus *gpus)
{
    return stk_nvml_count(gpus->nvml) + stk_drm_count(gpus->drm);
}

const char *stoke_gpus_why(const stoke_gpus *gpus)
{
    return gpus->why;
}

void stoke_gpus_read(stoke_gpus *gpus, size_t index, stoke_gpu *gpu)
{
    const size_t nvidia = stk_nvml_count(gpus->nvml);
    memset(gpu, 0, sizeof *gpu);
    if (index < nvidia)
        stk_nvml_read(gpus->nvml, index, gpu);
    else if (index < nvidia + stk_drm_count(gpus->drm))
        stk_drm_read(gpus->drm, index - nvidia, gpu);
    else
        STK_GPU_REMARK(gpu, "there is no card %zu", index);
}

int stoke_gpu_find(stoke_gpu *gpu, int *found, char *why, size_t size, stoke_error *err)
{
    stoke_gpus *gpus;
    *found = 0;
    const int r = stoke_gpus_open(&gpus, NULL, err);
    if (r) return r;
    for (size_t i = 0; !*found && i < stoke_gpus_count(gpus); i++) {
        stoke_gpus_read(gpus, i, gpu);
        *found = !gpu->lost && *gpu->name && gpu->memory_total.source && gpu->memory_total.value >= 1;
    }
    snprintf(why, size, "%s", *found ? "" : stoke_gpus_why(gpus));
    stoke_gpus_close(&gpus);
    return STOKE_OK;
}

void stk_gpus_read_link(stoke_gpus *gpus, size_t index, stoke_gpu *gpu)
{
    const size_t nvidia = stk_nvml_count(gpus->nvml);
    gpu->pcie_to_device = gpu->pcie_from_device = stk_figure(0, STOKE_SOURCE_NA);
    if (index < nvidia)
        stk_nvml_read_link(gpus->nvml, index, gpu);
    else if (index < nvidia + stk_drm_count(gpus->drm))
        stk_drm_read_link(gpus->drm, index - nvidia, gpu);
}

/* ---- what both ways share ---- */

/* Whether a process is this one, or was started by it. */
static int is_own(const char *root, uint32_t pid)
{
    char text[512];
    unsigned parent = pid;
    for (int i = 0; i < 16 && parent > 1; i++) { /* far deeper than jobs nest */
        if (parent == (unsigned)getpid()) return 1;
        if (!stk_tree_text(text, sizeof text, root, "proc/%u/stat", parent)) return 0;
        const char *end = strrchr(text, ')'); /* the name may hold brackets and blanks itself */
        if (!end || sscanf(end + 1, " %*c %u", &parent) != 1) return 0;
    }
    return 0;
}

stoke_gpu_process *stk_gpu_process(stoke_gpu *gpu, const char *root, uint32_t pid)
{
    for (uint32_t i = 0; i < gpu->n_processes; i++)
        if (gpu->process[i].pid == pid) return &gpu->process[i];
    if (gpu->n_processes == STOKE_GPU_PROCESSES) return NULL;
    stoke_gpu_process *process = &gpu->process[gpu->n_processes++];
    memset(process, 0, sizeof *process);
    process->pid = pid;
    process->own = is_own(root, pid);
    stk_tree_text(process->name, sizeof process->name, root, "proc/%u/comm", pid);
    return process;
}

/* "16.0 GT/s PCIe" is the fourth generation. */
static stoke_figure link_generation(const char *folder, const char *name)
{
    static const double speeds[] = { 2.5, 5, 8, 16, 32, 64 };
    const stoke_figure speed = stk_tree_figure(folder, name, 1, STOKE_SOURCE_SYSFS);
    for (int i = 0; speed.source && i < 6; i++)
        if (speed.value == speeds[i]) return stk_figure(i + 1, STOKE_SOURCE_SYSFS);
    return stk_figure(0, STOKE_SOURCE_NA);
}

static void if_missing(stoke_figure *figure, stoke_figure value)
{
    if (!figure->source) *figure = value;
}

void stk_gpu_from_pci(stoke_gpu *gpu, const char *folder)
{
    const stoke_figure node = stk_tree_figure(folder, "numa_node", 1, STOKE_SOURCE_SYSFS);
    if (node.source && node.value >= 0) if_missing(&gpu->numa_node, node); /* -1: the machine has one */
    if_missing(&gpu->pcie_generation, link_generation(folder, "current_link_speed"));
    if_missing(&gpu->pcie_generation_max, link_generation(folder, "max_link_speed"));
    if_missing(&gpu->pcie_width, stk_tree_figure(folder, "current_link_width", 1, STOKE_SOURCE_SYSFS));
    if_missing(&gpu->pcie_width_max, stk_tree_figure(folder, "max_link_width", 1, STOKE_SOURCE_SYSFS));
}

void stk_gpu_effective(stoke_gpu *gpu)
{
    if (!gpu->busy_percent.source || !gpu->power_watt.source || !gpu->power_limit_watt.source ||
        gpu->power_limit_watt.value <= 0)
        return;
    double share = gpu->power_watt.value / gpu->power_limit_watt.value;
    if (share > 1) share = 1; /* short peaks go beyond the limit */
    gpu->effective_percent = stk_figure(gpu->busy_percent.value * share, STOKE_SOURCE_ESTIMATED);
}
