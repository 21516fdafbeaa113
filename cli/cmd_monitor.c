/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke monitor: watches cards and machine, live on a terminal, in lines elsewhere; at the end the summary.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/common.h"
#include "cli/monitor_view.h"
#include "cli/output.h"

typedef struct monitor_options {
    int once, colour;
    const char *csv;
} monitor_options;

/* A year; the clock itself would bear more. */
#define MOST_SECONDS 31536000.0

/* ---- CSV: a row per reading ---- */

static void csv_header(FILE *out, size_t n_gpus)
{
    fputs("seconds,cpu_percent,memory_used_bytes,disk_busy_percent,disk_read_bytes_s,disk_write_bytes_s,"
          "machine_source",
          out);
    for (size_t i = 0; i < n_gpus; i++)
        fprintf(out,
                ",gpu%zu_busy_percent,gpu%zu_memory_used_bytes,gpu%zu_power_watt,gpu%zu_temperature_c,"
                "gpu%zu_clock_mhz,gpu%zu_clock_reasons,gpu%zu_source",
                i, i, i, i, i, i, i);
    fputc('\n', out);
}

static void csv_figures(FILE *out, const stoke_figure *figures, size_t n)
{
    int source = STOKE_SOURCE_NA;
    for (size_t i = 0; i < n; i++) {
        if (figures[i].source) {
            source = figures[i].source;
            fprintf(out, ",%.10g", figures[i].value);
        } else {
            fputs(",n/a", out);
        }
    }
    fprintf(out, ",%s", stoke_source_name(source));
}

static void csv_row(FILE *out, const stoke_monitor *monitor, double seconds)
{
    const stoke_load *load = stoke_monitor_load(monitor);
    const stoke_figure machine[] = { load->cpu_percent, load->memory_used, load->disk_busy_percent,
                                     load->disk_read, load->disk_write };
    fprintf(out, "%.3f", seconds);
    csv_figures(out, machine, CLI_COUNT(machine));
    for (size_t i = 0; i < stoke_monitor_gpus(monitor); i++) {
        const stoke_gpu *gpu = stoke_monitor_gpu(monitor, i);
        const stoke_figure card[] = { gpu->busy_percent, gpu->memory_used,  gpu->power_watt,
                                      gpu->temperature,  gpu->clock_sm_mhz, gpu->clocks_reasons };
        csv_figures(out, card, CLI_COUNT(card));
    }
    fputc('\n', out);
}

/* ---- watching ---- */

typedef struct watch {
    const cli_call *call;
    stoke_monitor *monitor;
    double limit; /* seconds, 0 = until interrupted */
    int live, lines;
    monitor_view view;
    cli_output csv;
    uint64_t begin_ns;
} watch;

static double passed(const watch *w)
{
    return (double)(stoke_machine_now_ns() - w->begin_ns) / 1e9;
}

/* Sleeps until `seconds` after the beginning; a window that changes its size is drawn at once, an interrupt
 * ends it. */
static void wait_until(watch *w, double seconds)
{
    for (double left; (left = seconds - passed(w)) > 0 && !cli_interrupted();) {
        /* Another thread of a driver may take the signal: look again at least every 50 ms. */
        if (left > 0.05) left = 0.05;
        nanosleep(&(struct timespec){ .tv_nsec = (long)(left * 1e9) }, NULL);
        if (w->live && monitor_view_resized()) monitor_view_draw(&w->view, passed(w));
    }
}

static void watch_it(watch *w)
{
    const uint64_t most = w->limit > 0 ? (uint64_t)ceil(w->limit * MONITOR_RATE) : UINT64_MAX;
    uint64_t shown = 0; /* whole seconds */
    for (uint64_t i = 1; i <= most; i++) {
        double at = (double)i / MONITOR_RATE;
        if (w->limit > 0 && at > w->limit) at = w->limit;
        wait_until(w, at);
        if (cli_interrupted() && i > 1) break; /* one reading there is always */
        stoke_monitor_read(w->monitor);
        const double now = passed(w);
        const uint64_t second = (uint64_t)now;
        if (w->csv.stream) csv_row(w->csv.stream, w->monitor, now);
        if (w->live && (second > shown || i == 1)) monitor_view_draw(&w->view, now);
        if (w->lines && second > shown) monitor_print_line(w->monitor, now);
        shown = second;
        /* Stopped by Ctrl-Z or by a slow driver: readings that were missed are not made up for. */
        if (now > at + 1) i = (uint64_t)(now * MONITOR_RATE);
    }
}

static int parse_seconds(const cli_call *call, double *seconds, stoke_error *err)
{
    char *end;
    *seconds = 0;
    if (!call->n_words) return STOKE_OK;
    const char *word = call->words[0];
    errno = 0;
    *seconds = strtod(word, &end);
    if (end == word || *end || errno || !(*seconds >= 0 && *seconds <= MOST_SECONDS))
        return cli_error(err, STOKE_E_INVALID,
                         "SECONDS: '%s' is not a number of seconds from 0 (until interrupted) to %.0f; try "
                         "`stoke monitor 60`",
                         word, MOST_SECONDS);
    return STOKE_OK;
}

static int watch_once(const cli_call *call, watch *w)
{
    /* Load is a difference of counters, which the kernel moves a hundred times a second. */
    wait_until(w, 0.2);
    stoke_monitor_read(w->monitor);
    if (w->csv.stream) csv_row(w->csv.stream, w->monitor, passed(w));
    monitor_print_once(w->monitor, call->common.json);
    return CLI_OK;
}

static int watch_long(const cli_call *call, watch *w, const monitor_options *options)
{
    w->live = !call->common.json && !call->common.quiet && monitor_view_possible();
    w->lines = !call->common.json && !call->common.quiet && !w->live;
    w->view.limit = w->limit;
    if (w->live) monitor_view_begin(&w->view, w->monitor, options->colour);
    watch_it(w);
    if (w->live) monitor_view_end();
    if (w->lines) putchar('\n');
    monitor_print_summary(w->monitor, call->common.json);
    /* Ctrl-C is the way to end what has no end; what was cut short says so. */
    return cli_interrupted() && w->limit > 0 ? cli_interrupt_code() : CLI_OK;
}

static int run(cli_call *call)
{
    const monitor_options *options = call->options;
    stoke_error err = { 0 };
    watch w = { .call = call };
    int status = CLI_OK, r = parse_seconds(call, &w.limit, &err);
    if (!r && options->once && call->n_words)
        r = cli_error(&err, STOKE_E_INVALID,
                      "--once takes one reading and no SECONDS; leave one of them out");
    cli_handle_signals();
    if (!r && options->csv) r = cli_output_open(&w.csv, options->csv, &err);
    if (!r) r = stoke_monitor_open(&w.monitor, NULL, &err);
    if (!r) {
        w.begin_ns = stoke_machine_now_ns();
        if (w.csv.stream) csv_header(w.csv.stream, stoke_monitor_gpus(w.monitor));
        status = options->once ? watch_once(call, &w) : watch_long(call, &w, options);
        if (w.csv.stream) r = cli_output_commit(&w.csv, &err);
    }
    if (r) status = cli_fail(call, &err);
    cli_output_abandon(&w.csv);
    stoke_monitor_close(&w.monitor);
    return status;
}

static const stoke_option option_table[] = {
    { "once", STOKE_OPT_FLAG, offsetof(monitor_options, once), NULL, NULL, 0, 0, NULL,
      "print one reading (of 200 ms) and stop" },
    { "csv", STOKE_OPT_STRING, offsetof(monitor_options, csv), NULL, NULL, 0, 0, "FILE",
      "also write every reading there, ten rows a second, when the watching ends" },
    { "colour", STOKE_OPT_FLAG, offsetof(monitor_options, colour), "true", NULL, 0, 0, NULL,
      "colours in the live view; never when NO_COLOR is set" },
};

static const cli_example examples[] = {
    { "stoke monitor 2", "watch for two seconds, then the summary and what to do next" },
    { "stoke monitor --once", "one reading of everything" },
    { "stoke monitor 1 --csv readings.csv", "keep the readings, ten in a second" },
    { "stoke monitor 1 --json", "the summary for programs" },
    { 0 },
};

const cli_command cli_monitor = {
    .name = "monitor",
    .summary = "watch graphics processors and machine, then say what to do next",
    .arguments = "[SECONDS]",
    .max_words = 1,
    .description =
        "Takes ten readings a second of every card (NVIDIA through NVML, AMD and Intel through the kernel's "
        "files) and of processors, memory and disks (/proc), for SECONDS; 0, or none given: until Ctrl-C. On "
        "a "
        "terminal it draws bars, the last seconds as a line, programs, power, clocks and why clocks are low; "
        "elsewhere it prints a line each second. At the end comes the summary: means, percentiles p5 and "
        "p95, "
        "peaks, energy, how long clocks were low and for which reason, idle bursts (below 10 % busy), peaks "
        "of "
        "programs; then a verdict that names the next command. Busy is the driver's figure: any kernel "
        "running, over up to a second, so shorter gaps do not show. Every figure has its source; what cannot "
        "be had is n/a. No card is needed.",
    .examples = examples,
    .options = option_table,
    .n_options = CLI_COUNT(option_table),
    .options_bytes = sizeof(monitor_options),
    .run = run,
};
