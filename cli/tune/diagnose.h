/* SPDX-License-Identifier: Apache-2.0
 *
 * What `stoke diagnose` found, and how it is told (diagnose_print.c).
 */
#ifndef STOKE_CLI_TUNE_DIAGNOSE_H
#define STOKE_CLI_TUNE_DIAGNOSE_H

#include "cli/lib/common.h"
#include "cli/lib/settings.h"

typedef struct diagnose_options {
    const char *device, *trace, *html, *bars, *timeline, *perfetto, *what_if, *model, *map;
    double step_ms;
    int64_t steps, warm_up, pairs;
    int sync, persistent, verify, force, although_busy;
} diagnose_options;

enum { DIAGNOSE_WHAT_IFS = 256 };

/* A setup that was asked about. */
typedef struct diagnose_what_if {
    char change[160]; /* as it was typed */
    stoke_setup setup;
    stoke_forecast forecast;
} diagnose_what_if;

typedef struct diagnose_job {
    cli_call *call;
    const diagnose_options *o;
    stoke_run_plan *plan; /* NULL: settings came by flags */
    stoke_yaml *yaml;     /* of the plan */
    cli_map map;
    stoke_dataset *dataset;
    stoke_device *device; /* NULL: the native engine */
    char device_name[64], device_title[192];
    int emulated;
    stoke_setup setup;
    double *step_ms;
    size_t n_steps;
    char step_source[256]; /* for people: where the time of a step comes from */
    int step_assumed;
    stoke_trace *trace;
    stoke_diagnosis *diagnosis;
    diagnose_what_if *what_if;
    size_t what_ifs;
    char next[512]; /* the command to type now; "" = nothing is to be done */
} diagnose_job;

/* The network that the native engine trains. */
const char *diagnose_model(const diagnose_job *job);
/* "emulated" or "measured": of the device's times. */
const char *diagnose_source(const diagnose_job *job);
/* Where the setting of a fix stands in the file, or the flag that has it; "" = neither has it. */
void diagnose_setting(const diagnose_job *job, const stoke_fix *fix, char *text, size_t size);

/* ---- diagnose_ranks.c ---- */
/* 1: a folder that `stoke train` made, no set. */
int diagnose_is_run(const char *path);
/* Which of its ranks holds up the others, and why. */
int diagnose_run_ranks(const cli_call *call, const char *run, stoke_error *err);

/* ---- diagnose_print.c ---- */
void diagnose_print(const diagnose_job *job);
void diagnose_json(const diagnose_job *job);

#endif
