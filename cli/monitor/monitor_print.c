/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the monitor: lines, a reading, the summary and what it means.
 */
#include "cli/monitor/monitor.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/page.h"

/* "78 % (9.4 GiB of 12.0 GiB)". */
static const char *monitor_share(stoke_figure part, stoke_figure whole, char *text, size_t size)
{
    if (!part.source || !whole.source || whole.value <= 0)
        return cli_figure_text(part, CLI_UNIT_MEMORY, text, size);
    snprintf(text, size, "%.0f %% (%s of %s)", 100 * part.value / whole.value, CLI_FIGURE(part, MEMORY),
             CLI_FIGURE(whole, MEMORY));
    return text;
}
#define SHARE(part, whole) monitor_share((part), (whole), (char[96]){ 0 }, 96)

void monitor_print_line(const monitor_sight *sight, double seconds)
{
    const stoke_monitor *monitor = sight->monitor;
    const stoke_load *load = stoke_monitor_load(monitor);
    const stoke_figure cpu = stoke_monitor_history(monitor, STOKE_SERIES_CPU, 0, 0, MONITOR_RATE);
    const stoke_figure disk = stoke_monitor_history(monitor, STOKE_SERIES_DISK, 0, 0, MONITOR_RATE);
    cli_print("%6.1f s  processor %s, memory %s, disk %s (proc)\n", seconds, CLI_FIGURE(cpu, PERCENT),
              SHARE(load->memory_used, load->memory_total), CLI_FIGURE(disk, PERCENT));
    for (size_t i = 0; i < stoke_monitor_gpus(monitor); i++) {
        const stoke_gpu *gpu = stoke_monitor_gpu(monitor, i);
        const stoke_figure busy = stoke_monitor_history(monitor, STOKE_SERIES_GPU, i, 0, MONITOR_RATE);
        if (gpu->lost) {
            cli_print("          gpu%zu lost\n", i);
            continue;
        }
        cli_print("          gpu%zu busy %s, memory %s, %s, %s, held down by: %s (%s)\n", i,
                  CLI_FIGURE(busy, PERCENT), SHARE(gpu->memory_used, gpu->memory_total),
                  CLI_FIGURE(gpu->power_watt, WHOLE_WATT), CLI_FIGURE(gpu->clock_sm_mhz, MHZ),
                  CLI_REASONS(gpu->clocks_reasons), stoke_source_name(gpu->memory_total.source));
    }
    if (sight->job) monitor_job_print_line(sight->job);
    fflush(stdout); /* whoever reads a pipe wants it now */
}

/* ---- one reading ---- */

static void print_why(cli_page *page, const stoke_monitor *monitor)
{
    const char *why = stoke_monitor_why(monitor);
    CLI_PAGE_FACTS(page, FACT_TEXT("cannot_see", why));
    if (*why) cli_page_say(page, "\nWhat cannot be seen\n  %s\n", why);
}

static void print_card_now(cli_page *page, const stoke_gpu *gpu, size_t index)
{
    char title[128];
    snprintf(title, sizeof title, "gpu%zu %s", index, gpu->name);
    cli_page_entry(page, title);
    cli_page_text(page, "name", NULL, gpu->name);
    cli_page_text(page, "pci", "address", gpu->pci);
    cli_page_text(page, "problem", *gpu->problem ? "problem" : NULL, gpu->problem);
    CLI_PAGE_FIGURE(page, gpu, busy_percent, "busy (any kernel)", PERCENT);
    CLI_PAGE_FIGURE(page, gpu, effective_percent, "effective (a proxy)", PERCENT);
    CLI_PAGE_FIGURE(page, gpu, memory_used, "memory used", MEMORY);
    CLI_PAGE_FIGURE(page, gpu, memory_total, "memory", MEMORY);
    CLI_PAGE_FIGURE(page, gpu, power_watt, "power", WATT);
    CLI_PAGE_FIGURE(page, gpu, temperature, "temperature", CELSIUS);
    CLI_PAGE_FIGURE(page, gpu, clock_sm_mhz, "clock", MHZ);
    CLI_PAGE_FIGURE(page, gpu, clock_memory_mhz, "memory clock", MHZ);
    CLI_PAGE_FIGURE(page, gpu, pcie_to_device, "link, to the card", BYTES_S);
    CLI_PAGE_FIGURE(page, gpu, pcie_from_device, "link, from the card", BYTES_S);
    cli_page_text(page, "clocks_held_down_by", "clocks held down by",
                  gpu->clocks_reasons.source ? CLI_REASONS(gpu->clocks_reasons) : NULL);
    cli_page_processes(page, gpu);
    cli_page_close(page);
}

void monitor_print_once(const monitor_sight *sight, int as_json)
{
    const stoke_monitor *monitor = sight->monitor;
    const stoke_load *load = stoke_monitor_load(monitor);
    cli_page page;
    cli_page_begin(&page, as_json);
    cli_page_section(&page, "machine", "Machine");
    CLI_PAGE_FIGURE(&page, load, cpu_percent, "processors busy", PERCENT);
    CLI_PAGE_FIGURE(&page, load, memory_used, "memory used", MEMORY);
    CLI_PAGE_FIGURE(&page, load, memory_total, "memory", MEMORY);
    cli_page_text(&page, "disk", "busiest disk", load->disk);
    CLI_PAGE_FIGURE(&page, load, disk_busy_percent, "  busy", PERCENT);
    CLI_PAGE_FIGURE(&page, load, disk_read, "read, all disks", BYTES_S);
    CLI_PAGE_FIGURE(&page, load, disk_write, "written, all disks", BYTES_S);
    cli_page_close(&page);
    if (sight->job) monitor_job_print(&page, sight->job, 0);
    cli_page_list(&page, "gpus", "Graphics processors");
    const size_t n = stoke_monitor_gpus(monitor);
    for (size_t i = 0; i < n; i++) print_card_now(&page, stoke_monitor_gpu(monitor, i), i);
    if (!n) cli_page_say(&page, "  none\n");
    cli_page_close(&page);
    print_why(&page, monitor);
    cli_page_end(&page);
}

/* ---- summary ---- */

/* For people one line: "busy   mean 30 %, p5 ..., p95 ..., peak ... (nvml)"; an object for programs. */
static void print_spread(cli_page *page, const char *key, const char *label, const stoke_spread *spread,
                         cli_unit unit)
{
    if (page->as_json) {
        stoke_json_object(&page->json, key);
        cli_page_figure(page, "mean", NULL, spread->mean, unit);
        if (unit == CLI_UNIT_PERCENT) {
            cli_page_figure(page, "p5", NULL, spread->p5, unit);
            cli_page_figure(page, "p95", NULL, spread->p95, unit);
        }
        cli_page_figure(page, "peak", NULL, spread->peak, unit);
        stoke_json_uint(&page->json, "readings", spread->readings);
        stoke_json_close(&page->json);
        return;
    }
    const stoke_figure figures[] = { spread->mean, spread->p5, spread->p95, spread->peak };
    static const char *const names[] = { "mean", "p5", "p95", "peak" };
    char line[256] = "", one[32];
    size_t n = 0;
    for (size_t i = 0; i < CLI_COUNT(figures); i++) {
        if (!figures[i].source) continue;
        n += (size_t)snprintf(line + n, sizeof line - n, "%s%s %s", n ? ", " : "", names[i],
                              cli_figure_text(figures[i], unit, one, sizeof one));
    }
    if (n) snprintf(line + n, sizeof line - n, " (%s)", stoke_source_name(spread->mean.source));
    cli_page_text(page, key, label, line);
}

/* Of memory both: mean 78 % (9.4 GiB), peak 85 % (10.2 GiB). For programs bytes. */
static void print_memory(cli_page *page, const stoke_spread *used, stoke_figure total)
{
    char line[256];
    if (page->as_json || !used->mean.source || !total.source || total.value <= 0) {
        print_spread(page, "memory_used", "memory used", used, CLI_UNIT_MEMORY);
        return;
    }
    snprintf(line, sizeof line, "mean %.0f %% (%s), peak %.0f %% (%s) (%s)",
             100 * used->mean.value / total.value, CLI_FIGURE(used->mean, MEMORY),
             100 * used->peak.value / total.value, CLI_FIGURE(used->peak, MEMORY),
             stoke_source_name(used->mean.source));
    cli_page_text(page, "memory_used", "memory used", line);
}

static void print_reason_shares(cli_page *page, const stoke_gpu_summary *gpu)
{
    int any = 0;
    cli_page_section(page, "clocks_held_down_by", NULL);
    for (unsigned i = 0; i < STOKE_CLOCKS_REASONS; i++) {
        char label[64];
        snprintf(label, sizeof label, "  by %s", stoke_clocks_reason_name(i));
        if (!page->as_json && !(gpu->reason_share[i].source && gpu->reason_share[i].value > 0)) continue;
        if (!any++) cli_page_say(page, "  clocks held down, share of the readings\n");
        cli_page_figure(page, stoke_clocks_reason_name(i), label, gpu->reason_share[i], CLI_UNIT_SHARE);
    }
    cli_page_close(page);
    if (!any) cli_page_text(page, NULL, "clocks held down", gpu->reason_share[0].source ? "never" : NULL);
}

static void print_idle(cli_page *page, const stoke_gpu_summary *gpu)
{
    char text[128];
    CLI_PAGE_FIGURE(page, gpu, idle_share, NULL, SHARE);
    CLI_PAGE_FIGURE(page, gpu, idle_bursts, NULL, NONE);
    cli_page_figure(page, "longest_idle_seconds", NULL, gpu->longest_idle, CLI_UNIT_NONE);
    if (gpu->idle_bursts.value > 0)
        snprintf(text, sizeof text, "%.0f %% of the readings, %.0f burst%s, the longest %.1f s (%s)",
                 gpu->idle_share.value * 100, gpu->idle_bursts.value, gpu->idle_bursts.value > 1 ? "s" : "",
                 gpu->longest_idle.value, stoke_source_name(gpu->idle_share.source));
    else
        snprintf(text, sizeof text, "never (%s)", stoke_source_name(gpu->idle_share.source));
    cli_page_text(page, NULL, "below 10 % busy", gpu->idle_share.source ? text : NULL);
}

static void print_gpu(cli_page *page, const stoke_gpu_summary *gpu, size_t index)
{
    const stoke_figure energy = gpu->energy_joule;
    char title[128], text[96];
    snprintf(title, sizeof title, "gpu%zu %s", index, gpu->name);
    cli_page_entry(page, title);
    cli_page_text(page, "name", NULL, gpu->name);
    CLI_PAGE_FACTS(page, FACT_IS_OF(gpu, lost));
    cli_page_text(page, "pci", "address", gpu->pci);
    cli_page_text(page, "problem", *gpu->problem ? "problem" : NULL, gpu->problem);
    print_spread(page, "busy_percent", "busy (any kernel)", &gpu->busy_percent, CLI_UNIT_PERCENT);
    print_spread(page, "effective_percent", "effective (a proxy)", &gpu->effective_percent, CLI_UNIT_PERCENT);
    print_memory(page, &gpu->memory_used, gpu->memory_total);
    CLI_PAGE_FIGURE(page, gpu, memory_total, "memory", MEMORY);
    print_spread(page, "power_watt", "power", &gpu->power_watt, CLI_UNIT_WHOLE_WATT);
    /* Joules for programs, the unit of the bill beside them for people. */
    cli_page_figure(page, "energy_joule", NULL, energy, CLI_UNIT_JOULE);
    snprintf(text, sizeof text, "%.0f J, %.3g Wh (%s)", energy.value, energy.value / 3600,
             stoke_source_name(energy.source));
    cli_page_text(page, NULL, "energy", energy.source ? text : NULL);
    print_spread(page, "temperature", "temperature", &gpu->temperature, CLI_UNIT_CELSIUS);
    print_spread(page, "clock_sm_mhz", "clock", &gpu->clock_sm_mhz, CLI_UNIT_MHZ);
    print_spread(page, "clock_memory_mhz", "memory clock", &gpu->clock_memory_mhz, CLI_UNIT_MHZ);
    print_spread(page, "pcie_to_device", "link, to the card", &gpu->pcie_to_device, CLI_UNIT_BYTES_S);
    print_spread(page, "pcie_from_device", "link, from the card", &gpu->pcie_from_device, CLI_UNIT_BYTES_S);
    print_reason_shares(page, gpu);
    print_idle(page, gpu);
    cli_page_list(page, "processes", NULL);
    for (uint32_t i = 0; i < gpu->n_processes; i++) {
        const stoke_process_peak *p = &gpu->process[i];
        cli_page_program(page, p->pid, p->name, p->own, 1, p->memory_bytes, p->busy_percent);
    }
    cli_page_close(page);
    if (gpu->more_processes) cli_page_say(page, " and more programs than are listed\n");
    cli_page_close(page);
}

/* Of the cards that had work the least busy: it has the most to gain. One that is lost comes first. */
static int judged_before(const stoke_gpu_summary *a, const stoke_gpu_summary *b)
{
    if (a->lost != b->lost) return a->lost;
    if (!a->n_processes != !b->n_processes) return a->n_processes > 0;
    return a->busy_percent.mean.value < b->busy_percent.mean.value;
}

void monitor_print_summary(const monitor_sight *sight, int as_json)
{
    const stoke_monitor *monitor = sight->monitor;
    const size_t n = stoke_monitor_gpus(monitor);
    stoke_gpu_summary *gpus = cli_alloc(n + 1, sizeof *gpus), *judged = NULL;
    stoke_monitor_summary machine;
    stoke_monitor_verdict verdict;
    cli_page page;
    stoke_monitor_summarise(monitor, &machine);
    for (size_t i = 0; i < n; i++) {
        stoke_monitor_summarise_gpu(monitor, i, &gpus[i]);
        if (!judged || judged_before(&gpus[i], judged)) judged = &gpus[i];
    }
    const int of_job = sight->job && monitor_job_judge(sight->job, judged, &verdict);
    if (!of_job) stoke_monitor_judge(&machine, judged, &verdict);
    cli_page_begin(&page, as_json);
    CLI_PAGE_FACTS(&page, FACT_OF(&machine, seconds), FACT_OF(&machine, readings));
    cli_page_say(&page, "Summary of %.1f s, %s\n", machine.seconds, STOKE_COUNT(machine.readings, "reading"));
    cli_page_section(&page, "machine", "Machine");
    print_spread(&page, "cpu_percent", "processors busy", &machine.cpu_percent, CLI_UNIT_PERCENT);
    print_memory(&page, &machine.memory_used, machine.memory_total);
    CLI_PAGE_FIGURE(&page, &machine, memory_total, "memory", MEMORY);
    print_spread(&page, "disk_busy_percent", "busiest disk", &machine.disk_busy_percent, CLI_UNIT_PERCENT);
    print_spread(&page, "disk_read", "read, all disks", &machine.disk_read, CLI_UNIT_BYTES_S);
    print_spread(&page, "disk_write", "written, all disks", &machine.disk_write, CLI_UNIT_BYTES_S);
    cli_page_close(&page);
    if (sight->job) monitor_job_print(&page, sight->job, 1);
    cli_page_list(&page, "gpus", "Graphics processors");
    for (size_t i = 0; i < n; i++) print_gpu(&page, &gpus[i], i);
    if (!n) cli_page_say(&page, "  none\n");
    cli_page_close(&page);
    print_why(&page, monitor);
    CLI_PAGE_FACTS(&page, FACT("verdict", verdict.text), FACT_OF(&verdict, next));
    cli_page_say(&page, "\nVerdict\n");
    if (n > 1 && !of_job)
        cli_page_say(&page, "  Of gpu%zu, the one to look at first:\n", (size_t)(judged - gpus));
    cli_page_say(&page, "  %s\n  Next: `%s`\n", verdict.text, verdict.next);
    cli_page_end(&page);
    free(gpus);
}
