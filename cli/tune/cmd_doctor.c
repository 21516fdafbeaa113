/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke doctor: all that is known about this machine on one page, to paste into a bug report.
 */
#include <stdarg.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <yaml.h>
#include <zlib.h>

#include <stoke/tools/image.h>

#include "cli/lib/page.h"
#include "cli/lib/facts.h"
#include "cli/lib/common.h"

typedef struct doctor_options {
    const char *data;
} doctor_options;

typedef struct doctor_facts {
    stoke_machine_facts machine;
    stoke_disk_facts disk;
    char disk_problem[STOKE_ERROR_TEXT]; /* "" = none */
    const char *data;                    /* the folder asked about; NULL = none */
    char data_problem[STOKE_ERROR_TEXT]; /* why it is no data set; "" = it is one */
    uint64_t samples;
    stoke_device_list *devices;
    stoke_gpus *gpus;
    stoke_gpu *gpu; /* stoke_gpus_count of them, read */
    size_t n_gpus;
} doctor_facts;

/* Read for the speed of the disk: a second or less of any disk that training is done from. */
enum { READ_BYTES = 64 << 20 };

/* ---- finding out ---- */

/* The files behind the samples; a shard holds many and counts once. Strings belong to the dataset. */
static size_t list_files(const stoke_dataset *dataset, const char ***out)
{
    const uint64_t count = stoke_dataset_count(dataset);
    const char **files = cli_alloc((size_t)count * 2 + 1, sizeof *files);
    size_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        const stoke_sample sample = stoke_dataset_sample(dataset, i);
        const char *paths[] = { sample.image.path, sample.mask.path };
        for (size_t k = 0; k < 2; k++)
            if (paths[k] && (!n || strcmp(files[n - 1], paths[k]) != 0)) files[n++] = paths[k];
    }
    *out = files;
    return n;
}

static void look_at_disk(doctor_facts *facts)
{
    stoke_error err = { 0 };
    stoke_dataset *dataset = NULL;
    const char *folder = facts->data ? facts->data : ".", **files = NULL;
    size_t n = 0;
    if (facts->data) {
        stoke_data_params data = stoke_data_defaults();
        data.data = facts->data;
        if (stoke_dataset_open(&dataset, &data, &err)) {
            snprintf(facts->data_problem, sizeof facts->data_problem, "%s", err.message);
        } else {
            facts->samples = stoke_dataset_count(dataset);
            n = list_files(dataset, &files);
        }
    }
    if (stoke_disk_probe(&facts->disk, n ? files : &folder, n ? n : 1, READ_BYTES, &err))
        snprintf(facts->disk_problem, sizeof facts->disk_problem, "%s", err.message);
    free(files);
    stoke_dataset_close(&dataset);
}

static int find_out(doctor_facts *facts, stoke_error *err)
{
    stoke_gpus_params params = stoke_gpus_defaults();
    params.slow = 1;
    int r = stoke_gpus_open(&facts->gpus, &params, err);
    if (r) return r;
    facts->n_gpus = stoke_gpus_count(facts->gpus);
    facts->gpu = cli_alloc(facts->n_gpus + 1, sizeof *facts->gpu);
    /* Some figures are differences of two readings: the first is made before what takes time anyway. */
    for (size_t i = 0; i < facts->n_gpus; i++) stoke_gpus_read(facts->gpus, i, &facts->gpu[i]);
    r = stoke_machine_probe(&facts->machine, 1, NULL, err);
    if (r) return r;
    for (size_t i = 0; i < facts->n_gpus; i++) stoke_gpus_read(facts->gpus, i, &facts->gpu[i]);
    look_at_disk(facts);
    return stoke_device_list_create(&facts->devices, err);
}

/* ---- the page ---- */

static void print_versions(cli_page *page, const stoke_machine_facts *machine)
{
    stoke_format_library library;
    const unsigned xxhash = XXH_versionNumber();
    char text[32];
    cli_page_section(page, "versions", "Versions");
    cli_page_text(page, "stoke", "stoke", stoke_version());
#ifdef __clang__
    cli_page_text(page, "compiler", "compiler", __VERSION__);
#else
    cli_page_text(page, "compiler", "compiler", "GCC " __VERSION__);
#endif
    cli_page_text(page, "libc", "glibc", gnu_get_libc_version());
    /* Libraries that are loaded with ours; libjpeg and libdeflate do not tell their versions. */
    for (int i = 0; i < STOKE_FORMATS; i++)
        if (stoke_format_library_of((stoke_format)i, &library))
            cli_page_text(page, library.key, library.name, library.version);
    cli_page_text(page, "zlib", "zlib", zlibVersion());
    cli_page_text(page, "libyaml", "libyaml", yaml_get_version_string());
    snprintf(text, sizeof text, "%u.%u.%u", xxhash / 10000, xxhash / 100 % 100, xxhash % 100);
    cli_page_text(page, "xxhash", "xxHash", text);
    cli_page_text(page, "kernel", "kernel", machine->kernel);
    cli_page_text(page, "system", "system", machine->system);
    cli_page_close(page);
}

static void print_machine(cli_page *page, const stoke_machine_facts *machine)
{
    cli_page_section(page, "machine", "Processor and memory");
    cli_page_text(page, "cpu", "processor", machine->cpu);
    cli_page_text(page, "cpu_table", "pixel functions", machine->cpu_table);
    CLI_PAGE_FIGURE(page, machine, sockets, "sockets", NONE);
    CLI_PAGE_FIGURE(page, machine, cores, "cores", NONE);
    CLI_PAGE_FIGURE(page, machine, threads, "threads", NONE);
    CLI_PAGE_FIGURE(page, machine, numa_nodes, "memory nodes", NONE);
    CLI_PAGE_FIGURE(page, machine, affinity, "allowed by affinity", NONE);
    CLI_PAGE_FIGURE(page, machine, quota, "cores by quota", NONE);
    CLI_PAGE_FIGURE(page, machine, usable, "usable", NONE);
    CLI_PAGE_FIGURE(page, machine, effective_cores, "cores it got", NONE);
    CLI_PAGE_FIGURE(page, machine, memory_bytes, "memory", MEMORY);
    CLI_PAGE_FIGURE(page, machine, available_bytes, "available", MEMORY);
    CLI_PAGE_FIGURE(page, machine, limit_bytes, "limit of the group", MEMORY);
    CLI_PAGE_FIGURE(page, machine, shm_bytes, "free in /dev/shm", MEMORY);
    cli_page_close(page);
}

static void print_disk(cli_page *page, const doctor_facts *facts)
{
    const stoke_disk_facts *disk = &facts->disk;
    char text[64];
    cli_page_section(page, "disk", facts->data ? "Disk of the data" : "Disk of this folder");
    if (facts->data) {
        cli_page_text(page, "data", "data", facts->data);
        snprintf(text, sizeof text, "%llu", (unsigned long long)facts->samples);
        cli_page_text(page, "samples", "samples", *facts->data_problem ? NULL : text);
    }
    cli_page_text(page, "mount", "mounted at", disk->mount);
    cli_page_text(page, "device", "device", disk->device);
    cli_page_text(page, "filesystem", "file system", disk->filesystem);
    CLI_PAGE_FIGURE(page, disk, rotational, "a spinning disk", YES_NO);
    CLI_PAGE_FIGURE(page, disk, network, "over a network", YES_NO);
    CLI_PAGE_FIGURE(page, disk, free_bytes, "free", BYTES);
    if (facts->data) {
        CLI_PAGE_FIGURE(page, disk, cached_share, "in the page cache", SHARE);
        CLI_PAGE_FIGURE(page, disk, read_bytes_per_s, "read speed, uncached", BYTES_S);
    }
    cli_page_close(page);
}

static void print_devices(cli_page *page, const stoke_device_list *list)
{
    stoke_device_info info;
    cli_page_list(page, "devices", "Devices that batches can be fed to");
    for (size_t i = 0; stoke_device_list_at(list, i, &info); i++) {
        char text[2 * STOKE_DEVICE_TEXT + 32];
        snprintf(text, sizeof text, "%s; %s", info.title, info.driver); /* the title says emulated */
        if (!*info.problem) cli_page_text(page, NULL, info.name, text);
        cli_page_entry(page, NULL);
        cli_page_text(page, "name", NULL, info.name);
        cli_page_text(page, "title", NULL, info.title);
        cli_page_text(page, "driver", NULL, info.driver);
        cli_page_text(page, "problem", NULL, info.problem);
        cli_page_text(page, "source", NULL,
                      *info.problem
                          ? NULL
                          : stoke_source_name(info.emulated ? STOKE_SOURCE_EMULATED : STOKE_SOURCE_DRIVER));
        cli_page_close(page);
    }
    cli_page_close(page);
}

static void print_card(cli_page *page, const stoke_gpu *gpu)
{
    cli_page_entry(page, gpu->name);
    cli_page_text(page, "name", NULL, gpu->name);
    cli_page_text(page, "vendor", "maker", gpu->vendor);
    cli_page_text(page, "driver", "driver", gpu->driver);
    cli_page_text(page, "pci", "address", gpu->pci);
    CLI_PAGE_FACTS(page, FACT_IS_OF(gpu, lost), FACT_IS_OF(gpu, mig));
    cli_page_text(page, "problem", *gpu->problem ? "problem" : NULL, gpu->problem);
    CLI_PAGE_FIGURE(page, gpu, busy_percent, "busy (any kernel)", PERCENT);
    CLI_PAGE_FIGURE(page, gpu, effective_percent, "effective (a proxy)", PERCENT);
    CLI_PAGE_FIGURE(page, gpu, memory_busy_percent, "memory busy", PERCENT);
    CLI_PAGE_FIGURE(page, gpu, memory_total, "memory", MEMORY);
    CLI_PAGE_FIGURE(page, gpu, memory_used, "memory used", MEMORY);
    CLI_PAGE_FIGURE(page, gpu, memory_free, "memory free", MEMORY);
    CLI_PAGE_FIGURE(page, gpu, temperature, "temperature", CELSIUS);
    CLI_PAGE_FIGURE(page, gpu, power_watt, "power", WATT);
    CLI_PAGE_FIGURE(page, gpu, power_limit_watt, "power limit", WATT);
    CLI_PAGE_FIGURE(page, gpu, energy_joule, "energy so far", JOULE);
    CLI_PAGE_FIGURE(page, gpu, clock_sm_mhz, "clock", MHZ);
    CLI_PAGE_FIGURE(page, gpu, clock_sm_max_mhz, "highest clock", MHZ);
    CLI_PAGE_FIGURE(page, gpu, clock_memory_mhz, "memory clock", MHZ);
    CLI_PAGE_FIGURE(page, gpu, pcie_generation, "PCIe generation", NONE);
    CLI_PAGE_FIGURE(page, gpu, pcie_generation_max, "  at best", NONE);
    CLI_PAGE_FIGURE(page, gpu, pcie_width, "PCIe lanes", NONE);
    CLI_PAGE_FIGURE(page, gpu, pcie_width_max, "  at best", NONE);
    CLI_PAGE_FIGURE(page, gpu, pcie_to_device, "to the card", BYTES_S);
    CLI_PAGE_FIGURE(page, gpu, pcie_from_device, "from the card", BYTES_S);
    CLI_PAGE_FIGURE(page, gpu, compute_capability, "compute capability", VERSION);
    CLI_PAGE_FIGURE(page, gpu, numa_node, "memory node", NONE);
    /* Bits for programs, words for people. */
    const stoke_figure reasons = gpu->clocks_reasons;
    char text[256];
    snprintf(text, sizeof text, "%s (%s)", CLI_REASONS(reasons), stoke_source_name(reasons.source));
    cli_page_figure(page, "clocks_reasons", NULL, reasons, CLI_UNIT_NONE);
    cli_page_text(page, NULL, "clocks held down by", reasons.source ? text : NULL);
    cli_page_processes(page, gpu);
    cli_page_close(page);
}

/* ---- what is missing or in the way, and the remedy ---- */

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
    char cores[256];
    if (facts->quota.source && facts->threads.source && facts->quota.value < facts->threads.value)
        say(list,
            "the control group allows %.3g of %.0f processors: give the container more (--cpus), or expect "
            "no more",
            facts->quota.value, facts->threads.value);
    if (stoke_machine_cores_remark(cores, sizeof cores)) say(list, "%s", cores);
    /* A fifth less than allowed is more than a busy desktop takes. */
    if (facts->effective_cores.source && facts->usable.source &&
        facts->effective_cores.value < 0.8 * facts->usable.value)
        say(list,
            "only %.1f of %.0f usable cores were free (measured): other programs or a busy host take the "
            "rest; `top` shows who",
            facts->effective_cores.value, facts->usable.value);
    if (facts->shm_bytes.source && facts->shm_bytes.value < 1e9)
        say(list,
            "/dev/shm has %s free: workers of PyTorch die there (Bus error); start the container with "
            "--shm-size=8g, stoke itself does not need it",
            STOKE_MEMORY((uint64_t)facts->shm_bytes.value));
    if (facts->available_bytes.source && facts->available_bytes.value < 2e9)
        say(list, "only %s of memory is free: close programs, or use --memory-limit",
            STOKE_MEMORY((uint64_t)facts->available_bytes.value));
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

static void advise(cli_page *page, const doctor_facts *facts)
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
    if (!list.given) cli_page_say(page, "  nothing\n");
    cli_page_close(page);
}

static int run(cli_call *call, stoke_error *err)
{
    const doctor_options *o = call->options;
    doctor_facts *facts = cli_alloc(1, sizeof *facts);
    facts->data = o->data;
    const int r = find_out(facts, err);
    if (!r) {
        cli_page page;
        cli_page_begin(&page, call->common.json);
        cli_page_say(
            &page, "stoke doctor: paste all of this into a report of a fault. No names of users, no keys are "
                   "in it.\n");
        print_versions(&page, &facts->machine);
        print_machine(&page, &facts->machine);
        print_disk(&page, facts);
        print_devices(&page, facts->devices);
        cli_page_list(&page, "gpus", "Graphics processors");
        for (size_t i = 0; i < facts->n_gpus; i++) print_card(&page, &facts->gpu[i]);
        if (!facts->n_gpus) cli_page_say(&page, "  none found; why, see below\n");
        cli_page_close(&page);
        advise(&page, facts);
        cli_page_end(&page);
    }
    stoke_device_list_destroy(&facts->devices);
    stoke_gpus_close(&facts->gpus);
    free(facts->gpu);
    free(facts);
    return r;
}

#define OPTIONS doctor_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, data, NULL, "DIR",
             "a data set, whose disk is looked at: up to 64 MB of files that are not in the page cache are "
             "read for its speed"),
};

const cli_command cli_doctor = {
    .summary = "print all that is known about this machine on one page",
    .description =
        "Prints versions, processor, memory, disk, devices and graphics processors, what is missing or in "
        "the way, and what to do about it: one page to paste into a report of a fault. Every figure has its "
        "source in brackets: nvml, sysfs, proc, fdinfo, driver, measured, table, estimated; what is not "
        "known is n/a. The cores it got are measured with 200 ms of spinning threads. Cards of NVIDIA are "
        "read through NVML, of AMD and Intel through the kernel's files; none of them is needed. Homes are "
        "shown as ~; names of users and machines, serial numbers and environment are left out.",
    .examples = {
        { "stoke doctor", "the whole page" },
        { "stoke doctor --data demo/data", "with the disk of a data set and its speed" },
        { "stoke doctor --json", "the same for programs" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
