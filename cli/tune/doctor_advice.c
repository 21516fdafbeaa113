/* SPDX-License-Identifier: Apache-2.0
 *
 * What is missing on this machine or in the way, and the remedy.
 */
#include "cli/tune/doctor_advice.h"
#include "cli/lib/common.h"

#include <stdarg.h>
#include <stdio.h>

/* Bytes per second that no single turning disk reaches: a virtual one only says that it turns. */
#define TURNING_MAX 350e6

typedef struct advice {
    cli_page *page;
    int given;
} advice;

static void say(advice *list, const char *format, ...) STOKE_PRINTF(2, 3);

static void say(advice *list, const char *format, ...)
{
    char text[1024], tidy[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cli_page_tidy(text, tidy, sizeof tidy);
    list->given++;
    if (list->page->as_json)
        stoke_json_string(&list->page->json, NULL, tidy);
    else
        cli_print("  - %s\n", tidy);
}

static void about_machine(advice *list, const stoke_machine_facts *facts)
{
    char text[32];
    if (facts->quota.source && facts->threads.source && facts->quota.value < facts->threads.value)
        say(list,
            "the control group allows %.3g of %.0f processors: give the container more (--cpus), or expect "
            "no more",
            facts->quota.value, facts->threads.value);
    /* A fifth less than allowed is more than a busy desktop takes. */
    if (facts->effective_cores.source && facts->usable.source &&
        facts->effective_cores.value < 0.8 * facts->usable.value)
        say(list,
            "only %.1f of %.0f usable cores were had (measured): other programs or a busy host take the "
            "rest; `top` shows who",
            facts->effective_cores.value, facts->usable.value);
    if (facts->shm_bytes.source && facts->shm_bytes.value < 1e9)
        say(list,
            "/dev/shm has %s free: workers of PyTorch die there (Bus error); start the container with "
            "--shm-size=8g, stoke itself does not need it",
            stoke_text_bytes((uint64_t)facts->shm_bytes.value, text, sizeof text));
    if (facts->available_bytes.source && facts->available_bytes.value < 2e9)
        say(list, "only %s of memory is free: close programs, or use --memory-limit",
            stoke_text_bytes((uint64_t)facts->available_bytes.value, text, sizeof text));
}

static void about_disk(advice *list, const doctor_facts *facts)
{
    const stoke_disk_facts *disk = &facts->disk;
    if (*facts->data_problem) say(list, "no data set: %s", facts->data_problem);
    if (*facts->disk_problem) say(list, "the disk could not be looked at: %s", facts->disk_problem);
    if (!facts->data) {
        say(list, "the speed of the data's disk is not measured: `stoke doctor --data DIR` does it");
        return;
    }
    if (disk->network.source && disk->network.value)
        say(list, "the data lies on a network (%s): copy it to a local disk, or use --cache there",
            disk->filesystem);
    else if (disk->rotational.source && disk->rotational.value && disk->read_bytes_per_s.value < TURNING_MAX)
        say(list, "the data lies on a spinning disk: `stoke pack` makes shards that are read in one go");
}

static void about_clocks(advice *list, const stoke_gpu *gpu)
{
    static const struct {
        int bit;
        const char *words;
    } reasons[] = {
        { STOKE_CLOCKS_POWER_CAP,
          "its power limit holds its clocks down: `nvidia-smi -q -d POWER` shows it" },
        { STOKE_CLOCKS_HW_SLOWDOWN, "the hardware slows it down: look at cooling and power cables" },
        { STOKE_CLOCKS_SW_THERMAL, "it is too hot and slowed down: look at fans and dust" },
        { STOKE_CLOCKS_HW_THERMAL, "it is far too hot and slowed down: look at cooling now" },
        { STOKE_CLOCKS_POWER_BRAKE, "the power supply asks it to brake: look at the supply" },
    };
    if (!gpu->clocks_reasons.source) return;
    for (size_t i = 0; i < CLI_COUNT(reasons); i++)
        if ((unsigned)gpu->clocks_reasons.value & (unsigned)reasons[i].bit)
            say(list, "%s: %s", gpu->name, reasons[i].words);
}

static void about_card(advice *list, const stoke_gpu *gpu, const stoke_machine_facts *machine)
{
    unsigned others = 0;
    if (*gpu->problem) say(list, "%s: %s", gpu->name, gpu->problem);
    if (gpu->lost) return;
    about_clocks(list, gpu);
    /* An idle link lowers its speed, but never its width. */
    if (gpu->pcie_width.source && gpu->pcie_width_max.source &&
        gpu->pcie_width.value < gpu->pcie_width_max.value)
        say(list, "%s: its link has %.0f of %.0f lanes: move it to another slot, or seat it again", gpu->name,
            gpu->pcie_width.value, gpu->pcie_width_max.value);
    for (uint32_t i = 0; i < gpu->n_processes; i++) others += !gpu->process[i].own;
    others += gpu->more_processes;
    if (others)
        say(list, "%s: %u other program%s on it; figures measured now are not yours alone", gpu->name, others,
            others > 1 ? "s are" : " is");
    if (gpu->numa_node.source && machine->numa_nodes.source && machine->numa_nodes.value > 1)
        say(list, "%s hangs on memory node %.0f of %.0f: `numactl --cpunodebind=%.0f` keeps loading near it",
            gpu->name, gpu->numa_node.value, machine->numa_nodes.value, gpu->numa_node.value);
}

void doctor_advise(cli_page *page, const doctor_facts *facts)
{
    advice list = { .page = page };
    cli_page_list(page, "advice", "Missing or in the way");
    about_machine(&list, &facts->machine);
    about_disk(&list, facts);
    stoke_device_info info;
    for (size_t i = 0; facts->devices && stoke_device_list_at(facts->devices, i, &info); i++)
        if (*info.problem) say(&list, "%s: %s", info.name, info.problem);
    if (facts->gpus && *stoke_gpus_why(facts->gpus)) say(&list, "%s", stoke_gpus_why(facts->gpus));
    for (size_t i = 0; i < facts->n_gpus; i++) about_card(&list, &facts->gpu[i], &facts->machine);
    if (!list.given && !page->as_json) puts("  nothing");
    cli_page_close(page);
}
