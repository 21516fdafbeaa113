/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor: what is seen of machine, cards and a job, and the ways to show it.
 */
#ifndef STOKE_CLI_MONITOR_MONITOR_H
#define STOKE_CLI_MONITOR_MONITOR_H

#include <stdio.h>

#include "cli/lib/page.h"
#include <stoke/tools/live.h>
#include <stoke/tools/monitor.h>
#include <stoke/tools/probe.h>

/* ---- monitor_frame.c ---- */

/* A frame of the live view: made whole in memory, cut to the window and written with one call, so that
 * nothing flickers. */

enum {
    MONITOR_FRAME_BYTES = 1 << 16,
    MONITOR_LABEL_COLUMNS = 10 /* what stands before the figures of a line */
};

typedef struct monitor_frame {
    int rows, columns;  /* of the window */
    int colour, blocks; /* blocks: the terminal knows UTF-8 */
    char text[MONITOR_FRAME_BYTES];
    size_t used;
    int lines, left_out; /* written; there was no room for */
} monitor_frame;

/* What a bar means: a full one is good news of a card that is paid for by the hour, and bad news of what
 * feeds it or has no room left; of waiting, a tenth is too much. */
typedef enum monitor_meaning {
    MONITOR_FULL_IS_BAD,
    MONITOR_FULL_IS_GOOD,
    MONITOR_ANY_IS_BAD
} monitor_meaning;

/* label [bar] figure source history */
typedef struct monitor_series {
    const char *label;
    monitor_meaning meaning;
    stoke_figure percent;
    const char *text; /* NULL: the percentage */
    /* The percentage `back` seconds ago; NULL: there is no history. */
    stoke_figure (*at)(const void *context, size_t back);
    const void *context;
} monitor_series;

/* Begins an empty one for the window as it is now. */
void monitor_frame_begin(monitor_frame *frame);
void monitor_frame_line(monitor_frame *frame, const char *format, ...) STOKE_PRINTF(2, 3);
/* A sentence over as many lines as it needs. */
void monitor_frame_text(monitor_frame *frame, const char *text);
void monitor_frame_series(monitor_frame *frame, const monitor_series *series);
/* To the terminal. */
void monitor_frame_show(monitor_frame *frame);

/* ---- monitor_ranks.c ---- */

/* The ranks of a job that trains in several processes; none of one that does not. */

typedef struct monitor_ranks_look {
    stoke_live_ranks_head head;
    stoke_live_rank *rank; /* [head.world]; NULL: not looked yet */
} monitor_ranks_look;

typedef struct monitor_ranks {
    monitor_ranks_look first, older, now; /* older: some seconds before now */
    uint64_t csv;                         /* how many have columns in the table of readings */
} monitor_ranks;

/* Shares of the time of its steps, 0 to 1; NaN = n/a. */
typedef struct monitor_rank {
    double images_s, compute, data, others, exchange, rest;
    double cpu; /* of the CPU time that its threads wanted, what they got */
} monitor_rank;

/* At the table beside the page at `path`; one whose rank 0 is not `pid` is of another session. */
void monitor_ranks_look_at(monitor_ranks *ranks, const char *path, uint64_t pid);
void monitor_ranks_close(monitor_ranks *ranks);
size_t monitor_ranks_count(const monitor_ranks *ranks);
monitor_rank monitor_rank_lately(const monitor_ranks *ranks, size_t rank);
/* While it was watched, or else since the session began. */
monitor_rank monitor_rank_watched(const monitor_ranks *ranks, size_t rank, int watched);

void monitor_ranks_print(cli_page *page, const monitor_ranks *ranks, int watched);
void monitor_ranks_print_line(const monitor_ranks *ranks);
void monitor_ranks_draw(monitor_frame *frame, const monitor_ranks *ranks);
void monitor_ranks_csv_header(FILE *out, const monitor_ranks *ranks);
void monitor_ranks_csv_row(FILE *out, const monitor_ranks *ranks);

/* ---- monitor_job.c ---- */

/* A stoke job that `stoke monitor --attach` watches: the newest look at its page, what happened lately and
 * since the watching began. */

enum { MONITOR_JOB_LOOKS = 64, MONITOR_JOB_SECONDS = 300 };

typedef struct monitor_job {
    stoke_live_reader *reader;
    char run[448];     /* the run folder, as the user typed it; "" = the page lies in none */
    char problem[512]; /* the page cannot be read just now: why; "" = it can */
    const char *path;  /* of the page or the run folder, as it was named; borrowed */
    stoke_live_data first, now;
    int alive;
    monitor_ranks ranks;
    stoke_live_data look[MONITOR_JOB_LOOKS]; /* the last different ones, in a ring */
    uint64_t looks;
    float wait[MONITOR_JOB_SECONDS]; /* share of the time, a value each second; negative = n/a */
    uint64_t seconds;
} monitor_job;

int monitor_job_open(monitor_job *job, const char *path, stoke_error *err);
void monitor_job_close(monitor_job *job); /* accepts a zeroed one */
/* Looks at the page. Returns 0 once the job is over. */
int monitor_job_look(monitor_job *job);
/* Once a second: for the history. */
void monitor_job_second(monitor_job *job);

/* Of the last five seconds, or of the last step where that took longer. */
void monitor_job_lately(const monitor_job *job, stoke_live_rates *rates);
/* Since the watching began, or since the job did when it took no batch meanwhile. Returns which, for people.
 */
const char *monitor_job_watched(const monitor_job *job, stoke_live_rates *rates);
/* Share of the time that steps waited for data `back` seconds ago, in percent. */
stoke_figure monitor_job_wait(const void *job, size_t back);

/* "training", "ended", "ended without saying so", ... */
const char *monitor_job_state(const monitor_job *job);
/* State, step, and how long ago it gave a sign when that is long. */
const char *monitor_job_progress(const monitor_job *job, char *text, size_t size);
#define MONITOR_PROGRESS(job) monitor_job_progress((job), (char[160]){ 0 }, 160)
/* A figure of the page or of rates: NaN and STOKE_LIVE_NA are n/a. */
stoke_figure monitor_job_figure(double value);
stoke_figure monitor_job_count(uint64_t count);

/* What the job has to say for the verdict; 0: nothing, look at the card. */
int monitor_job_judge(const monitor_job *job, const stoke_gpu_summary *gpu, stoke_monitor_verdict *verdict);

/* ---- monitor_job_print.c ---- */
void monitor_job_print_line(const monitor_job *job);
/* The section "job" of a page: figures since the job began, or those of the watch. */
void monitor_job_print(cli_page *page, const monitor_job *job, int watched);
void monitor_job_csv_header(FILE *out, const monitor_job *job);
void monitor_job_csv_row(FILE *out, const monitor_job *job);

/* ---- monitor_view.c, monitor_print.c, monitor_csv.c ---- */

/* What `stoke monitor` shows: a screen that is drawn again in place, lines, and the summary. */

/* Readings per second: what is drawn at 1 Hz is the mean of these. */
enum { MONITOR_RATE = 10 };

/* What there is to be seen. */
typedef struct monitor_sight {
    const stoke_monitor *monitor;
    const monitor_job *job; /* NULL: nothing is attached */
    const char *metrics;    /* where they are served; NULL: nowhere */
} monitor_sight;

typedef struct monitor_view {
    const monitor_sight *sight;
    double limit; /* seconds that were asked for, 0 = until interrupted */
    monitor_frame frame;
} monitor_view;

/* 1: stdout is a terminal that can be drawn on. */
int monitor_view_possible(void);
/* Takes the screen; from now on Ctrl-Z gives it back for as long as we are stopped. */
void monitor_view_begin(monitor_view *view, const monitor_sight *sight, double limit, int colour);
/* 1: the window has changed its size since the last drawing. */
int monitor_view_resized(void);
void monitor_view_draw(monitor_view *view, double seconds);
void monitor_view_end(void);

/* "1.0 s  processor 34 %  memory ...": one line per second where there is no terminal. */
void monitor_print_line(const monitor_sight *sight, double seconds);
/* The newest reading as a page, and the summary with its verdict. */
void monitor_print_once(const monitor_sight *sight, int as_json);
void monitor_print_summary(const monitor_sight *sight, int as_json);

/* ---- monitor_csv.c: a row per reading ---- */
void monitor_csv_header(FILE *out, const monitor_sight *sight);
void monitor_csv_row(FILE *out, const monitor_sight *sight, double seconds);
/* ",1,n/a,...,SOURCE": a column each and the source of them all. */
void monitor_csv_figures(FILE *out, const stoke_figure *figures, size_t n);

/* ---- monitor_prometheus.c, monitor_metrics.c ---- */

/* The monitor's figures for Prometheus: GET /metrics, text format 0.0.4. What is n/a is left out, never 0. */

typedef struct monitor_prometheus monitor_prometheus;

/* Serves on its own thread. address: of this machine, in numbers; port 0: any that is free. */
int monitor_prometheus_start(monitor_prometheus **out, const char *address, unsigned port, stoke_error *err);
/* "http://127.0.0.1:9400/metrics". */
const char *monitor_prometheus_url(const monitor_prometheus *server);
/* What is served from now on; nothing of `sight` is used after the call. */
void monitor_prometheus_tell(monitor_prometheus *server, const monitor_sight *sight);
void monitor_prometheus_stop(monitor_prometheus **server); /* accepts NULL */

/* The text itself. */
void monitor_metrics_write(FILE *out, const monitor_sight *sight);

#endif
