/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of ours that `stoke monitor --attach` watches: the newest look at its page, what happened lately and
 * since the watching began.
 */
#ifndef STOKE_CLI_MONITOR_MONITOR_JOB_H
#define STOKE_CLI_MONITOR_MONITOR_JOB_H

#include <stdio.h>

#include <stoke/tools/live.h>
#include <stoke/tools/monitor.h>

#include "cli/lib/page.h"

enum { MONITOR_JOB_LOOKS = 64, MONITOR_JOB_SECONDS = 300 };

typedef struct monitor_job {
    stoke_live_reader *reader;
    char run[448];     /* the run folder, as the user typed it; "" = the page lies in none */
    char problem[512]; /* the page cannot be read just now: why; "" = it can */
    stoke_live_data first, now;
    int alive;
    stoke_live_data look[MONITOR_JOB_LOOKS]; /* the last different ones, in a ring */
    uint64_t looks;
    float wait[MONITOR_JOB_SECONDS]; /* share of the time, a value each second; negative = n/a */
    uint64_t seconds;
} monitor_job;

int monitor_job_open(monitor_job *job, const char *path, stoke_error *err);
void monitor_job_close(monitor_job *job);
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
/* " step 120 of 2000", " step 120"; "" when it has none. */
const char *monitor_job_step(const monitor_job *job, char *text, size_t size);
/* State, step, and how long ago it gave a sign when that is long. */
const char *monitor_job_progress(const monitor_job *job, char *text, size_t size);
/* A figure of the page or of rates: NaN and STOKE_LIVE_NA are n/a. */
stoke_figure monitor_job_figure(double value);
stoke_figure monitor_job_count(uint64_t count);

/* What the job has to say for the verdict; 0: nothing, look at the card. */
int monitor_job_judge(const monitor_job *job, const stoke_gpu_summary *gpu, stoke_monitor_verdict *verdict);

/* ---- monitor_job_print.c ---- */
void monitor_job_print_line(const monitor_job *job);
/* The section "job" of a page: figures since the job began, or those of the watch. */
void monitor_job_print(cli_page *page, const monitor_job *job, int watched);
void monitor_job_csv_header(FILE *out);
void monitor_job_csv_row(FILE *out, const monitor_job *job);

#endif
