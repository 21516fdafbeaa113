/* SPDX-License-Identifier: Apache-2.0
 *
 * What `bench transfer` and `bench device` share: a consumer that takes batches of an upload, computes for so
 * long on each, and asks the upload what the device did.
 */
#ifndef STOKE_CLI_BENCH_BENCH_UPLOAD_H
#define STOKE_CLI_BENCH_BENCH_UPLOAD_H

#include "cli/bench/bench.h"
#include "cli/lib/upload_options.h"
#include "cli/lib/output.h"

typedef struct bench_feed {
    const cli_call *call;
    const char *label; /* of the progress bar */
    const stoke_dataset *dataset;
    stoke_data_params data;
    stoke_device *device;
    stoke_upload_params params;
    double step_ms, image_ms; /* of a step, and more of it for every picture of the batch */
    int sync;                 /* the host waits for every step, as loss.item() does */
    uint64_t other_bytes;     /* what the command holds on the host before or after this */
    uint64_t warm_up, steps;
    stoke_trace *trace;    /* of the steps after warm-up; NULL = none */
    const char *live_path; /* a page for `stoke monitor --attach`; NULL = none */
    bench_live live;
    /* filled by the run */
    stoke_upload_stats stats;
    int placement;
    char why[768];
    stoke_upload_memory memory;
    uint32_t height, width, batch;
    stoke_dtype dtype;
    uint64_t begin_ns, end_ns; /* of the steps after warm-up */
} bench_feed;

int bench_feed_run(bench_feed *job, stoke_error *err);
/* Of a full batch; after the run. */
double bench_feed_step_ms(const bench_feed *job);

/* Copies per batch and second, in the units of the table. */
double bench_feed_copy_ms(const stoke_upload_stats *stats);
double bench_feed_gb_s(const stoke_upload_stats *stats);
double bench_feed_overlap(const stoke_upload_stats *stats);   /* share of the copy time that was hidden */
double bench_feed_period_ms(const stoke_upload_stats *stats); /* from the end of a step to the next one's */
double bench_feed_busy(const stoke_upload_stats *stats);      /* share of the elapsed time */
const char *bench_feed_source(stoke_device *device);          /* "emulated" or "measured" */

/* ---- a set to load from ---- */

typedef struct bench_set {
    stoke_dataset *dataset;
    char folder[CLI_PATH]; /* temporary; "" = none */
} bench_set;
enum { BENCH_SCENE = 128 }; /* pixels: quick to draw; --size enlarges them */
/* The user's data, or `count` scenes of `side` pixels drawn into a temporary folder; fills data->data then.
 */
int bench_set_open(bench_set *set, const cli_call *call, stoke_data_params *data, uint64_t count,
                   uint32_t side, stoke_error *err);
void bench_set_remove(bench_set *set); /* the folder; what was opened still tells names and numbers */
void bench_set_close(bench_set *set);

#endif
