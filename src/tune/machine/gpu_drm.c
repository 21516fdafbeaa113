/* SPDX-License-Identifier: Apache-2.0
 *
 * AMD and Intel cards by the kernel's own files: /sys/class/drm, hwmon, and fdinfo of the programs that use
 * them. Nothing to install, and nothing to link.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/tune/machine/gpus.h"
#include "src/tune/machine/tree.h"

enum { CARDS_MAX = 32, NUMBERS_MAX = 256 };

typedef struct drm_card {
    stoke_gpu fixed;
    char folder[STK_TREE_PATH]; /* sys/class/drm/cardN */
    char device[STK_TREE_PATH]; /* the same with /device */
    char hwmon[STK_TREE_PATH];  /* "" = none */
    double energy_joule;        /* of the last reading, for the power where only energy is counted */
    uint64_t energy_ns;
    stk_drm_clients *before, *now;
} drm_card;

struct stk_gpus_drm {
    char root[STK_TREE_PATH];
    int slow;
    size_t count;
    drm_card card[CARDS_MAX];
};

/* ---- finding cards ---- */

/* The value of "KEY=value" in the device's uevent, "" when it has none. */
static void uevent_value(const drm_card *card, const char *key, char *value, size_t size)
{
    char text[1024];
    const size_t n = strlen(key);
    *value = 0;
    if (!stk_tree_text(text, sizeof text, card->device, "uevent")) return;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (!strncmp(line, key, n) && line[n] == '=')
            snprintf(value, size, "%.*s", (int)strcspn(line + n + 1, "\n"), line + n + 1);
    }
}

/* The first hwmonN folder of the device. */
static void find_hwmon(drm_card *card)
{
    char folder[STK_TREE_PATH];
    if (!stk_tree_path(folder, card->device, "hwmon")) return;
    DIR *list = stoke_opendir(folder);
    for (struct dirent *entry; list && !*card->hwmon && (entry = stoke_readdir(list));)
        if (!strncmp(entry->d_name, "hwmon", 5) &&
            !stk_tree_path(card->hwmon, folder, "%.32s", entry->d_name))
            *card->hwmon = 0;
    if (list) closedir(list);
}

/* Returns 1 when the card is of a maker that is read here. */
static int open_card(drm_card *card)
{
    char vendor[16], number[16] = "";
    if (!stk_tree_text(vendor, sizeof vendor, card->device, "vendor")) return 0;
    const int amd = !strcmp(vendor, "0x1002"), intel = !strcmp(vendor, "0x8086");
    if (!amd && !intel) return 0;
    stoke_gpu *fixed = &card->fixed;
    snprintf(fixed->vendor, sizeof fixed->vendor, "%s", amd ? "amd" : "intel");
    uevent_value(card, "PCI_SLOT_NAME", fixed->pci, sizeof fixed->pci);
    uevent_value(card, "DRIVER", fixed->driver, sizeof fixed->driver);
    stk_tree_text(fixed->uuid, sizeof fixed->uuid, card->device, "unique_id");
    stk_tree_text(number, sizeof number, card->device, "device");
    if (!stk_tree_text(fixed->name, sizeof fixed->name, card->device, "product_name"))
        snprintf(fixed->name, sizeof fixed->name, "%s graphics%s%s", amd ? "AMD" : "Intel",
                 *number ? " " : "", number);
    find_hwmon(card);
    return 1;
}

/* cardN in the order of N; card0-HDMI-A-1 is a plug of card0. */
static int find_cards(stk_gpus_drm *drm, char why[STK_WHY_BYTES], stoke_error *err)
{
    char folder[STK_TREE_PATH];
    if (!stk_tree_path(folder, drm->root, "sys/class/drm"))
        return stk_fail(err, STOKE_E_INVALID, "the path of the recorded machine is too long");
    for (unsigned number = 0; number < NUMBERS_MAX && drm->count < CARDS_MAX; number++) {
        drm_card *card = &drm->card[drm->count];
        memset(card, 0, sizeof *card);
        if (!stk_tree_path(card->folder, folder, "card%u", number) ||
            !stk_tree_path(card->device, card->folder, "device") || !open_card(card))
            continue;
        drm->count++;
        card->before = stk_calloc(1, sizeof *card->before);
        card->now = stk_calloc(1, sizeof *card->now);
        if (!card->before || !card->now) return stk_fail(err, STOKE_E_NOMEM, "no memory for a card");
    }
    if (!drm->count) snprintf(why, STK_WHY_BYTES, "AMD, Intel: no card of theirs in /sys/class/drm");
    return STOKE_OK;
}

int stk_drm_open(stk_gpus_drm **out, const stoke_gpus_params *params, char why[STK_WHY_BYTES],
                 stoke_error *err)
{
    *out = stk_calloc(1, sizeof **out);
    if (!*out) return stk_fail(err, STOKE_E_NOMEM, "no memory for the list of cards");
    snprintf((*out)->root, sizeof(*out)->root, "%s", params->root);
    (*out)->slow = params->slow;
    return find_cards(*out, why, err);
}

void stk_drm_close(stk_gpus_drm **drm)
{
    if (!*drm) return;
    for (size_t i = 0; i < (*drm)->count; i++) {
        stk_free((*drm)->card[i].before);
        stk_free((*drm)->card[i].now);
    }
    stk_free(*drm);
    *drm = NULL;
}

size_t stk_drm_count(const stk_gpus_drm *drm)
{
    return drm ? drm->count : 0;
}

/* ---- reading ---- */

static stoke_figure device_figure(const drm_card *card, const char *name, double scale)
{
    return stk_tree_figure(card->device, name, scale, STOKE_SOURCE_SYSFS);
}

static stoke_figure hwmon_figure(const drm_card *card, const char *name, double scale)
{
    return *card->hwmon ? stk_tree_figure(card->hwmon, name, scale, STOKE_SOURCE_SYSFS)
                        : stk_figure(0, STOKE_SOURCE_NA);
}

/* pp_dpm_sclk has a line per level, "1: 2100Mhz *", the star at the one in force, the highest last. */
static void read_levels(const drm_card *card, const char *name, stoke_figure *now, stoke_figure *highest)
{
    char text[2048];
    if (!stk_tree_text(text, sizeof text, card->device, "%s", name)) return;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        double mhz;
        if (sscanf(line, "%*d: %lfM", &mhz) != 1) continue;
        if (highest) *highest = stk_figure(mhz, STOKE_SOURCE_SYSFS);
        if (strchr(line, '*')) *now = stk_figure(mhz, STOKE_SOURCE_SYSFS);
    }
}

/* "received sent size": messages of the last second and the bytes each may have. Reading takes that second.
 */
void stk_drm_read_link(const stk_gpus_drm *drm, size_t index, stoke_gpu *gpu)
{
    const drm_card *card = &drm->card[index];
    char text[128];
    double received, sent, bytes;
    if (strcmp(card->fixed.vendor, "amd") != 0 ||
        !stk_tree_text(text, sizeof text, card->device, "pcie_bw") ||
        sscanf(text, "%lf %lf %lf", &received, &sent, &bytes) != 3)
        return;
    gpu->pcie_to_device = stk_figure(received * bytes, STOKE_SOURCE_SYSFS);
    gpu->pcie_from_device = stk_figure(sent * bytes, STOKE_SOURCE_SYSFS);
}

/* Power as the sensor has it, or from the energy that went by since the last reading. */
static void read_power(drm_card *card, stoke_gpu *gpu)
{
    gpu->temperature = hwmon_figure(card, "temp1_input", 1e-3);
    gpu->power_watt = hwmon_figure(card, "power1_average", 1e-6);
    if (!gpu->power_watt.source) gpu->power_watt = hwmon_figure(card, "power1_input", 1e-6);
    gpu->energy_joule = hwmon_figure(card, "energy1_input", 1e-6);
    if (!gpu->energy_joule.source) return;
    const uint64_t now = stk_now_ns();
    if (!gpu->power_watt.source && card->energy_ns && now > card->energy_ns &&
        gpu->energy_joule.value >= card->energy_joule)
        gpu->power_watt =
            stk_figure((gpu->energy_joule.value - card->energy_joule) * 1e9 / (double)(now - card->energy_ns),
                       STOKE_SOURCE_SYSFS);
    card->energy_joule = gpu->energy_joule.value;
    card->energy_ns = now;
}

static void read_clients(stk_gpus_drm *drm, drm_card *card, stoke_gpu *gpu)
{
    stk_drm_clients *old = card->before;
    card->before = card->now;
    card->now = old;
    stk_drm_sweep(card->now, drm->root, gpu->pci);
    uint32_t last = 0;
    for (size_t i = 0; i < card->now->count; i++) {
        const stk_drm_client *client = &card->now->client[i];
        stoke_gpu_process *process = stk_gpu_process(gpu, drm->root, client->pid);
        if (!process) { /* clients of one program follow one another */
            gpu->more_processes += client->pid != last;
            last = client->pid;
            continue;
        }
        if (client->has_memory) {
            process->memory_bytes.value += client->memory_bytes; /* a program may be several clients */
            process->memory_bytes.source = STOKE_SOURCE_FDINFO;
        }
        const double busy = stk_drm_busy(card->before, card->now, client->pid);
        if (busy >= 0) process->busy_percent = stk_figure(busy, STOKE_SOURCE_FDINFO);
    }
    gpu->more_processes += (uint32_t)card->now->more;
    if (gpu->busy_percent.source) return;
    /* No file tells for the whole card: the sum over the programs that this user may see. */
    const double busy = stk_drm_busy(card->before, card->now, 0);
    if (busy >= 0) gpu->busy_percent = stk_figure(busy, STOKE_SOURCE_FDINFO);
}

void stk_drm_read(stk_gpus_drm *drm, size_t index, stoke_gpu *gpu)
{
    drm_card *card = &drm->card[index];
    char vendor[16];
    *gpu = card->fixed;
    /* An unplugged or dead card takes its folder with it. */
    if (!gpu->lost && !stk_tree_text(vendor, sizeof vendor, card->device, "vendor"))
        card->fixed.lost = gpu->lost = 1;
    if (gpu->lost) {
        STK_GPU_REMARK(gpu, "the card is gone from /sys/class/drm; dmesg may say why");
        return;
    }
    if (!strcmp(gpu->vendor, "amd")) {
        gpu->busy_percent = device_figure(card, "gpu_busy_percent", 1);
        gpu->memory_busy_percent = device_figure(card, "mem_busy_percent", 1);
        gpu->memory_total = device_figure(card, "mem_info_vram_total", 1);
        gpu->memory_used = device_figure(card, "mem_info_vram_used", 1);
        if (gpu->memory_total.source && gpu->memory_used.source)
            gpu->memory_free =
                stk_figure(gpu->memory_total.value - gpu->memory_used.value, STOKE_SOURCE_SYSFS);
        read_levels(card, "pp_dpm_sclk", &gpu->clock_sm_mhz, &gpu->clock_sm_max_mhz);
        read_levels(card, "pp_dpm_mclk", &gpu->clock_memory_mhz, NULL);
        gpu->power_limit_watt = hwmon_figure(card, "power1_cap", 1e-6);
    } else {
        gpu->clock_sm_mhz =
            stk_tree_figure(card->folder, "gt_cur_freq_mhz", 1, STOKE_SOURCE_SYSFS); /* i915 */
        gpu->clock_sm_max_mhz = stk_tree_figure(card->folder, "gt_max_freq_mhz", 1, STOKE_SOURCE_SYSFS);
        if (!gpu->clock_sm_mhz.source) { /* xe */
            gpu->clock_sm_mhz = device_figure(card, "tile0/gt0/freq0/cur_freq", 1);
            gpu->clock_sm_max_mhz = device_figure(card, "tile0/gt0/freq0/max_freq", 1);
        }
        gpu->power_limit_watt = hwmon_figure(card, "power1_max", 1e-6);
    }
    if (drm->slow) stk_drm_read_link(drm, index, gpu);
    read_power(card, gpu);
    stk_gpu_from_pci(gpu, card->device);
    read_clients(drm, card, gpu);
    stk_gpu_effective(gpu);
}
