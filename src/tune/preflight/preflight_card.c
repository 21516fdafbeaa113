/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines about the card that a PyTorch trainer runs on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/remarks.h"
#include "src/tune/decide/decide.h"
#include "src/tune/preflight/preflight.h"
#include <stoke/tools/report.h>

/* Below this share the card counts as idle, and saves power by a slower link. */
static const double IDLE_PERCENT = 10;

static const char NO_CARD[] = "no card is seen here";

static void check_driver(stoke_preflight *list, const stk_run_config *config,
                         const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "driver", "driver and card");
    const stoke_gpu *gpu = &here->gpu;
    if (here->meant) {
        STK_SAY(line->figure, "%s is meant; what only its machine knows cannot be seen here", gpu->name);
        return;
    }
    if (!here->n_gpus) {
        STK_SAY(line->figure, "%s", NO_CARD);
        STK_SAY(line->fix, "name it, where it is elsewhere: stoke check --config %s --gpu NAME",
                config->config);
        return;
    }
    line->source = gpu->memory_total.source ? gpu->memory_total.source : STOKE_SOURCE_SYSFS;
    if (gpu->lost) {
        line->verdict = STOKE_VERDICT_FAIL;
        STK_SAY(line->figure, "%s is lost: %.250s", *gpu->name ? gpu->name : "the card", gpu->problem);
        STK_SAY(line->fix,
                "sudo nvidia-smi --gpu-reset -i %zu   or restart; `sudo dmesg | grep -i xid` says why",
                here->index);
        return;
    }
    STK_SAY(line->figure, "%s, card %zu of %zu, driver %s%s%.150s", *gpu->name ? gpu->name : "name n/a",
            here->index, here->n_gpus, *gpu->driver ? gpu->driver : "n/a", *gpu->problem ? "; " : "",
            gpu->problem);
    line->verdict = *gpu->problem ? STOKE_VERDICT_WARN : STOKE_VERDICT_PASS;
    if (*gpu->problem) STK_SAY(line->fix, "stoke doctor");
}

static void check_others(stoke_preflight *list, const stk_preflight_surroundings *here)
{
    const stoke_gpu *gpu = &here->gpu;
    size_t others = 0;
    char pids[128] = "", names[160] = "";
    double bytes = 0;
    int bytes_known = 1;
    stoke_preflight_line *line = stk_check_add(list, "others", "other programs");
    if (gpu->mig) {
        STK_SAY(line->figure, "the card is cut into instances, whose programs NVML does not tell");
        STK_SAY(line->fix, "nvidia-smi");
        return;
    }
    for (uint32_t i = 0; i < gpu->n_processes; i++) {
        const stoke_gpu_process *p = &gpu->process[i];
        if (p->own) continue;
        bytes_known &= p->memory_bytes.source != STOKE_SOURCE_NA;
        bytes += p->memory_bytes.source ? p->memory_bytes.value : 0;
        if (others < 4) { /* to say who; a card has seldom more */
            stk_text_add(pids, sizeof pids, ",", "%u", p->pid);
            stk_text_add(names, sizeof names, ", ", "%.32s", *p->name ? p->name : "n/a");
        }
        others++;
    }
    /* A card that the kernel alone knows, without NVML, has an empty list too. */
    const int nvidia = !strcmp(gpu->vendor, "nvidia") && gpu->memory_total.source == STOKE_SOURCE_NVML;
    line->source = nvidia ? STOKE_SOURCE_NVML : STOKE_SOURCE_FDINFO;
    if (!others) {
        line->verdict = nvidia ? STOKE_VERDICT_PASS : STOKE_VERDICT_NA;
        STK_SAY(line->figure,
                nvidia ? "none" : "none that can be seen; those of other users, or all, cannot");
        return;
    }
    line->verdict = STOKE_VERDICT_WARN;
    STK_SAY(line->figure, "%zu (%s) with %s of the card's memory", others + gpu->more_processes, names,
            bytes_known ? STOKE_MEMORY(bytes) : "n/a");
    STK_SAY(line->fix, "ps -fp %s   says whose they are; end them, or wait", pids);
}

static void check_mixed(stoke_preflight *list, const stk_run_config *config,
                        const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "mixed_precision", "mixed precision");
    const stoke_figure cc = here->gpu.compute_capability;
    const int on = config->mixed_precision == 1;
    const char *state = stk_run_config_switch(config, "mixed_precision", config->mixed_precision);
    line->source = cc.source;
    if (!cc.source) {
        STK_SAY(line->figure, "%s; what the card can is not known%s%s", state, stk_has_card(here) ? "" : ": ",
                stk_has_card(here) ? "" : NO_CARD);
        if (!on)
            STK_SAY(line->fix, "%.900s   where there is a card since Volta",
                    stk_optimize_command(config, here).text);
        return;
    }
    STK_SAY(line->figure, "%s; compute capability %.1f: it saves memory%s", state, cc.value,
            cc.value >= STK_MIXED_SINCE ? " and time" : ", no time");
    line->verdict = on ? STOKE_VERDICT_PASS : STOKE_VERDICT_WARN;
    if (!on) stk_how_to_optimize(line, config, here);
}

static void check_bf16(stoke_preflight *list, const stk_run_config *config,
                       const stk_preflight_surroundings *here)
{
    const stoke_figure cc = here->gpu.compute_capability;
    if (config->train.precision != STOKE_PRECISION_BF16) return;
    stoke_preflight_line *line = stk_check_add(list, "bf16", "bf16");
    line->source = cc.source;
    if (!cc.source) {
        STK_SAY(line->figure, "asked for; what the card can is not known%s%s", stk_has_card(here) ? "" : ": ",
                stk_has_card(here) ? "" : NO_CARD);
        return;
    }
    line->verdict = cc.value >= STK_BF16_SINCE ? STOKE_VERDICT_PASS : STOKE_VERDICT_FAIL;
    STK_SAY(line->figure, "compute capability %.1f, bf16 from %.1f on", cc.value, STK_BF16_SINCE);
    if (cc.value < STK_BF16_SINCE) STK_SAY(line->fix, "set fp16 instead of bf16 in %s", config->config);
}

static void check_link(stoke_preflight *list, const stk_preflight_surroundings *here)
{
    const stoke_gpu *gpu = &here->gpu;
    stoke_preflight_line *line = stk_check_add(list, "pcie", "PCIe link");
    line->source = gpu->pcie_width.source;
    if (!gpu->pcie_width.source || !gpu->pcie_width_max.source || !gpu->pcie_generation.source ||
        !gpu->pcie_generation_max.source) {
        STK_SAY(line->figure, "the driver does not tell it");
        return;
    }
    const int narrow = gpu->pcie_width.value < gpu->pcie_width_max.value;
    const int slow = gpu->pcie_generation.value < gpu->pcie_generation_max.value;
    const int idle = !gpu->busy_percent.source || gpu->busy_percent.value < IDLE_PERCENT;
    STK_SAY(line->figure, "generation %.0f of %.0f, %.0f lanes of %.0f%s", gpu->pcie_generation.value,
            gpu->pcie_generation_max.value, gpu->pcie_width.value, gpu->pcie_width_max.value,
            slow && idle ? "; the card is idle and may save power" : "");
    if (narrow || (slow && !idle)) {
        line->verdict = STOKE_VERDICT_WARN;
        STK_SAY(line->fix,
                "sudo lspci -vv -s %s | grep LnkSta   then another slot, or the slot's setting in the BIOS",
                *gpu->pci ? gpu->pci : "CARD");
    } else if (slow) {
        STK_SAY(line->fix, "look again while it computes");
    } else {
        line->verdict = STOKE_VERDICT_PASS;
    }
}

static void check_clocks(stoke_preflight *list, const stk_preflight_surroundings *here)
{
    static const struct {
        int bit;
        const char *reason, *fix;
    } reasons[] = {
        { STOKE_CLOCKS_HW_THERMAL, "too hot (hardware)", "clear the air's way, look at the fans" },
        { STOKE_CLOCKS_SW_THERMAL, "too hot (driver)", "clear the air's way, look at the fans" },
        { STOKE_CLOCKS_POWER_BRAKE, "power brake from outside", "look at the power supply" },
        { STOKE_CLOCKS_HW_SLOWDOWN, "slowed down by the hardware", "look at heat and power supply" },
        { STOKE_CLOCKS_POWER_CAP, "power limit reached",
          "raise it if the card may: sudo nvidia-smi -pl WATTS" },
        { STOKE_CLOCKS_SYNC_BOOST, "held to another card's clock", "nvidia-smi -q -d CLOCK" },
        { STOKE_CLOCKS_APPLICATION, "set clocks", "sudo nvidia-smi -rac" },
    };
    const stoke_figure r = here->gpu.clocks_reasons;
    stoke_preflight_line *line = stk_check_add(list, "clocks", "clocks");
    line->source = r.source;
    if (!r.source) {
        STK_SAY(line->figure, "the driver does not tell why clocks are low");
        return;
    }
    const int bits = (int)r.value;
    line->verdict = STOKE_VERDICT_PASS;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (!(bits & reasons[i].bit)) continue;
        const int first = line->verdict == STOKE_VERDICT_PASS; /* the gravest */
        if (first) STK_SAY(line->fix, "%s", reasons[i].fix);
        line->verdict = STOKE_VERDICT_WARN;
        stk_text_add(line->figure, sizeof line->figure, ", ", "%s%s", first ? "held down: " : "",
                     reasons[i].reason);
    }
    if (line->verdict == STOKE_VERDICT_PASS)
        STK_SAY(line->figure,
                bits & STOKE_CLOCKS_IDLE ? "low because the card is idle" : "nothing holds them down");
}

/* What the file says of several cards, and what a step sees then. */
static void check_devices(stoke_preflight *list, const stk_run_config *config,
                          const stk_preflight_surroundings *here)
{
    if (!*config->devices) return;
    stoke_preflight_line *line = stk_check_add(list, "devices", "cards");
    const int all = *config->devices == '-' || *config->devices == 'a';
    if (!here->n_gpus && all) {
        STK_SAY(line->figure, "devices: %s is all that are there, and %s", config->devices, NO_CARD);
        STK_SAY(line->fix, "say how many: stoke check --config %s%s --ranks N", config->config,
                here->card_flag);
        return;
    }
    line->source = here->n_gpus
                       ? here->gpu.memory_total.source ? here->gpu.memory_total.source : STOKE_SOURCE_SYSFS
                       : STOKE_SOURCE_TABLE;
    line->verdict =
        here->n_gpus && config->ranks > (int64_t)here->n_gpus ? STOKE_VERDICT_FAIL : STOKE_VERDICT_PASS;
    if (config->batch > 0)
        STK_SAY(line->figure,
                "%" PRId64 " (devices: %s); a step sees %" PRId64 " x %" PRId64 " = %" PRId64 " samples",
                config->ranks, config->devices, config->batch, config->ranks, config->batch * config->ranks);
    else
        STK_SAY(line->figure, "%" PRId64 " (devices: %s)", config->ranks, config->devices);
    if (line->verdict == STOKE_VERDICT_FAIL)
        STK_SAY(line->fix, "set devices: -1 in %s, which takes the %zu that are here", config->config,
                here->n_gpus);
}

void stk_check_card(stoke_preflight *list, const stk_run_config *config,
                    const stk_preflight_surroundings *here)
{
    const int seen = here->n_gpus && !here->gpu.lost;
    check_driver(list, config, here);
    /* Seen from inside Python only: said, so that nobody takes the list for all there is. */
    stoke_preflight_line *line = stk_check_add(list, "versions", "PyTorch and driver");
    STK_SAY(line->figure, "which CUDA PyTorch was built for is seen from inside Python");
    STK_SAY(line->fix, "python3 -c 'import sys, torch, stokehold; print(stokehold.check(sys.argv[1]))' %s",
            config->config);
    check_devices(list, config, here);
    if (seen) check_others(list, here);
    check_mixed(list, config, here);
    check_bf16(list, config, here);
    if (seen) check_link(list, here);
    if (seen) check_clocks(list, here);
}
