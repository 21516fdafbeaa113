/* SPDX-License-Identifier: Apache-2.0
 *
 * What `stoke monitor` shows: a screen that is drawn again in place, lines, and the summary.
 */
#ifndef STOKE_CLI_MONITOR_MONITOR_VIEW_H
#define STOKE_CLI_MONITOR_MONITOR_VIEW_H

#include <stdio.h>

#include <stoke/tools/monitor.h>

#include "cli/monitor/monitor_frame.h"
#include "cli/monitor/monitor_job.h"

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

/* "power limit, too hot (hardware)", "nothing"; "n/a" when the driver does not tell. */
const char *monitor_reasons(stoke_figure reasons, char *text, size_t size);
/* A figure without its fraction, with its unit behind: "34 %", "n/a". */
const char *monitor_number(stoke_figure figure, const char *unit, char *text, size_t size);
/* Of disks and links, in decimal units. */
const char *monitor_bytes(stoke_figure figure, char *text, size_t size);
/* Of cards and processes: "9.4 GiB", "n/a". */
const char *monitor_memory(stoke_figure figure, char *text, size_t size);
/* "78 % (9.4 GiB of 12.0 GiB)". */
const char *monitor_share(stoke_figure part, stoke_figure whole, char *text, size_t size);

#endif
