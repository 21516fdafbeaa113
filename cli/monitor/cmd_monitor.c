/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke monitor: watches cards and machine, live on a terminal, in lines elsewhere; at the end the summary.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/lib/common.h"
#include "cli/monitor/monitor.h"
#include "cli/lib/output.h"

typedef struct monitor_options {
    int once, colour, force;
    const char *csv, *attach, *prometheus, *bind;
} monitor_options;

/* A year; the clock itself would bear more. */
#define MOST_SECONDS 31536000.0

/* ---- watching ---- */

typedef struct watch {
    const cli_call *call;
    stoke_monitor *monitor;
    monitor_job job;
    int attached;
    monitor_prometheus *server; /* NULL: none */
    monitor_sight sight;
    double limit;  /* seconds, 0 = until interrupted */
    unsigned port; /* of the server */
    int live, lines;
    monitor_view view;
    stoke_output csv;
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
        if (left > 0.05) left = 0.05;
        nanosleep(&(struct timespec){ .tv_nsec = (long)(left * 1e9) }, NULL);
        if (w->live && monitor_view_resized()) monitor_view_draw(&w->view, passed(w));
    }
}

/* A reading of everything; 0 once the job that is watched is over. */
static int read_all(watch *w)
{
    stoke_monitor_read(w->monitor);
    const int goes_on = !w->attached || monitor_job_look(&w->job);
    if (w->server) monitor_prometheus_tell(w->server, &w->sight);
    return goes_on;
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
        const int goes_on = read_all(w);
        const double now = passed(w);
        const uint64_t second = (uint64_t)now;
        if (w->csv.stream) monitor_csv_row(w->csv.stream, &w->sight, now);
        if (w->attached && second > shown) monitor_job_second(&w->job);
        if (w->live && (second > shown || i == 1)) monitor_view_draw(&w->view, now);
        if (w->lines && (second > shown || !goes_on)) monitor_print_line(&w->sight, now);
        if (!goes_on) break;
        shown = second;
        /* Stopped by Ctrl-Z or by a slow driver: readings that were missed are not made up for. */
        if (now > at + 1) i = (uint64_t)(now * MONITOR_RATE);
    }
}

static int is_seconds(const char *word, double *seconds)
{
    char *end;
    errno = 0;
    *seconds = strtod(word, &end);
    return end != word && !*end && !errno && *seconds >= 0 && *seconds <= MOST_SECONDS;
}

/* SECONDS, RUN or both, in any order: what is a number is no run, which --attach can name all the same. */
static int parse_words(const cli_call *call, watch *w, const char **run, stoke_error *err)
{
    int timed = 0;
    w->limit = 0;
    for (int i = 0; i < call->n_words; i++) {
        const char *word = call->words[i];
        double seconds;
        if (is_seconds(word, &seconds) && !timed) {
            w->limit = seconds;
            timed = 1;
        } else if (!*run && stoke_there(word)) {
            *run = word;
        } else {
            return cli_error(
                err, STOKE_E_INVALID,
                "SECONDS: '%s' is not a number of seconds from 0 (until interrupted) to %.0f, and no "
                "run folder is called so; try `stoke monitor 60`",
                word, MOST_SECONDS);
        }
    }
    return STOKE_OK;
}

static int watch_long(const cli_call *call, watch *w, const monitor_options *o)
{
    w->live = !call->common.json && !call->common.quiet && monitor_view_possible();
    w->lines = !call->common.json && !call->common.quiet && !w->live;
    if (w->live) monitor_view_begin(&w->view, &w->sight, w->limit, o->colour);
    watch_it(w);
    if (w->live) monitor_view_end();
    if (w->lines) putchar('\n');
    monitor_print_summary(&w->sight, call->common.json);
    /* Ctrl-C is the way to end what has no end; what was cut short says so. */
    return cli_interrupted() && w->limit > 0 ? cli_interrupt_code() : CLI_OK;
}

static int parse_port(const char *text, unsigned *port, stoke_error *err)
{
    char *end;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (end == text || *end || errno || number < 0 || number > 65535)
        return cli_error(
            err, STOKE_E_INVALID,
            "--prometheus: '%s' is no port, 0 (any that is free) to 65535; try --prometheus 9400", text);
    *port = (unsigned)number;
    return STOKE_OK;
}

/* Everything there is to look at, and who else may look. */
static int open_all(watch *w, const monitor_options *o, stoke_error *err)
{
    int r = STOKE_OK;
    if (o->csv) r = stoke_output_open(&w->csv, o->csv, err);
    if (!r && o->attach) {
        r = monitor_job_open(&w->job, o->attach, err);
        w->attached = !r;
    }
    if (!r) r = stoke_monitor_open(&w->monitor, NULL, err);
    if (!r && o->prometheus) r = monitor_prometheus_start(&w->server, o->bind, w->port, err);
    if (r) return r;
    w->sight = (monitor_sight){ .monitor = w->monitor,
                                .job = w->attached ? &w->job : NULL,
                                .metrics = w->server ? monitor_prometheus_url(w->server) : NULL };
    if (w->server) cli_say(w->call, "metrics: %s", w->sight.metrics);
    return STOKE_OK;
}

static int run(cli_call *call, stoke_error *err)
{
    monitor_options *o = call->options;
    watch *w = cli_alloc(1, sizeof *w);
    w->call = call;
    const char *run = o->attach;
    int status = CLI_OK, r = parse_words(call, w, &run, err);
    o->attach = run;
    if (!r && o->once && w->limit > 0)
        r = cli_error(err, STOKE_E_INVALID, "--once takes one reading and no SECONDS; leave one of them out");
    if (!r && o->once && o->prometheus)
        r = cli_error(err, STOKE_E_INVALID,
                      "--once takes one reading and has nothing to serve; leave it or --prometheus out");
    if (!r && o->prometheus) r = parse_port(o->prometheus, &w->port, err);
    if (!r) r = cli_may_write(call, o->csv, o->force, err);
    if (!r) r = open_all(w, o, err);
    if (!r) {
        w->begin_ns = stoke_machine_now_ns();
        if (w->csv.stream) monitor_csv_header(w->csv.stream, &w->sight);
        if (o->once) {
            /* Load is a difference of counters, which the kernel moves a hundred times a second. */
            wait_until(w, 0.2);
            read_all(w);
            if (w->csv.stream) monitor_csv_row(w->csv.stream, &w->sight, passed(w));
            monitor_print_once(&w->sight, call->common.json);
        } else {
            status = watch_long(call, w, o);
        }
        if (w->csv.stream) r = stoke_output_commit(&w->csv, err);
    }
    monitor_prometheus_stop(&w->server);
    stoke_output_drop(&w->csv);
    stoke_monitor_close(&w->monitor);
    monitor_job_close(&w->job);
    free(w);
    return r ? r : status;
}

#define OPTIONS monitor_options
static const stoke_option options[] = {
    CLI_FLAG(once, "Print one reading (of 200 ms) and stop"),
    CLI_TEXT(STRING, csv, NULL, "FILE",
             "Also write every reading there, ten rows a second, when the watching ends"),
    CLI_TEXT(
        STRING, attach, NULL, "RUN",
        "Also watch a stoke job: a run folder, or the page that --live of a bench wrote; ends when it ends"),
    CLI_TEXT(STRING, prometheus, NULL, "PORT",
             "Also serve the figures at /metrics for Prometheus; 0 = any port that is free, and says which"),
    CLI_TEXT(STRING, bind, "127.0.0.1", "ADDRESS",
             "Address to serve them on; 0.0.0.0 lets everybody read them"),
    CLI_OPTION(FLAG, colour, .default_text = "true",
               .help = "Colours in the live view; never when NO_COLOR is set"),
    CLI_FORCE,
};

const cli_command cli_monitor = {
    .summary = "watch graphics processors and machine, then say what to do next",
    .arguments = "[RUN] [SECONDS]",
    .max_words = 2,
    .description =
        "Takes ten readings a second of every card (NVIDIA through NVML, AMD and Intel through the kernel's "
        "files) and of processors, memory and disks (/proc), for SECONDS; 0, or none given: until Ctrl-C. On "
        "a terminal it draws bars, the last seconds as a line, programs, power, clocks and why clocks are "
        "low; elsewhere it prints a line each second. At the end comes the summary: means, percentiles p5 "
        "and p95, peaks, energy, how long clocks were low and for which reason, idle bursts (below 10 % "
        "busy), peaks of programs; then a verdict that names the next command. Busy is the driver's figure: "
        "any kernel running, over up to a second, so shorter gaps do not show. Every figure has its source; "
        "what cannot be had is n/a. No card is needed. RUN, or --attach RUN, adds what a stoke job tells of "
        "itself (the page RUN/live): queue, samples a second, how long it waits for data, time of each stage, "
        "and a row for each rank of several processes, whatever host it is on; the watching ends when the job "
        "does. --prometheus PORT serves the newest readings over HTTP, to this "
        "machine alone unless --bind says otherwise.",
    .examples = {
        { "stoke monitor 2", "watch for two seconds, then the summary and what to do next" },
        { "stoke monitor runs/first", "with the loader and the ranks of a stoke run, until it ends" },
        { "stoke monitor 1 --csv readings.csv --json", "keep the readings; the summary for programs" },
        { "stoke monitor 1 --prometheus 0", "let Prometheus fetch the figures meanwhile" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
