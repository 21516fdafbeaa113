/* SPDX-License-Identifier: Apache-2.0
 *
 * How `bench` measures. Every subject (a loader with some settings, bare decoding, ...) runs in a process of
 * its own, forked while the parent has no threads but the guard (interrupt.c), and measures when it is asked
 * to. So its peak memory and CPU time are its own, and subjects take turns: a neighbour on the machine who
 * wakes up in round 3 hurts all of them, and medians and ratios survive it.
 */
#ifndef STOKE_CLI_BENCH_BENCH_H
#define STOKE_CLI_BENCH_BENCH_H

#include <sys/types.h>

#include "cli/lib/output.h"
#include "cli/lib/page.h"
#include "cli/lib/upload_options.h"
#include <stoke/tools/live.h>

/* What a subject says about one measurement; the same binary on both ends of the socket. */
typedef struct bench_answer {
    int status; /* STOKE_OK or the error in `message` */
    uint64_t samples, wall_ns, cpu_ns;
    uint64_t peak_rss;                    /* of the process so far */
    stoke_memory_plan plan;               /* loader only */
    uint32_t height, width;               /* loader only: of a batch */
    stoke_stage_time stage[STOKE_STAGES]; /* loader only: of this measurement */
    uint64_t bad_samples, retries;        /* loader only */
    cli_cache_report cache;               /* loader only: since it was opened */
    uint64_t not_comparable, failed;      /* bare decoding only: files per pass */
    char message[STOKE_ERROR_TEXT];
} bench_answer;

struct bench_case;

/* `open` runs in the child; `measure` does `passes` passes over the set. */
typedef struct bench_subject {
    int (*open)(void **state, const struct bench_case *job, bench_answer *answer, stoke_error *err);
    int (*measure)(void *state, uint64_t passes, bench_answer *answer, stoke_error *err);
    void (*close)(void **state);
} bench_subject;

enum { BENCH_MAX_ROUNDS = 99 };

typedef struct bench_case {
    const char *name;
    const bench_subject *subject;
    const stoke_dataset *dataset;
    stoke_data_params data;
    unsigned threads; /* bare decoding: how many */
    int region;       /* region decode: 1 = a quarter of the picture, 0 = all */
    const char *live; /* loader only: a page for `stoke monitor --attach`; NULL = none */
    /* filled by the run */
    pid_t pid;
    int fd; /* our end of the socket pair */
    uint64_t passes;
    bench_answer opened, last;
    double rate[BENCH_MAX_ROUNDS];   /* samples/s of each round */
    double cpu_ms[BENCH_MAX_ROUNDS]; /* per sample */
    double stage_cpu_ms[STOKE_STAGES][BENCH_MAX_ROUNDS], stage_wall_ms[STOKE_STAGES][BENCH_MAX_ROUNDS];
} bench_case;

extern const bench_subject bench_loader, bench_peer;

/* Forks the child and waits until it is open (its answer is in job->opened). */
int bench_start(bench_case *job, stoke_error *err);
/* Warms all cases, then lets them take turns for `rounds` rounds of about `seconds` altogether. */
int bench_run(const cli_call *call, bench_case *cases, size_t n_cases, int rounds, double seconds,
              stoke_error *err);
/* Ends the children. Accepts cases that were never started. */
void bench_stop(bench_case *cases, size_t n_cases);

/* The smallest first. */
void bench_sort(double *values, size_t n);
/* Median of n values. */
double bench_median(const double *values, int n);

/* ---- bench_sweep.c: the settings whose figures the project promises ---- */

enum { BENCH_SWEEP_CASES = 7 };
/* Whether the set has any JPEG: region decode is measured on those, and --decode fast shrinks them. */
int bench_has_jpeg(const stoke_dataset *dataset);
/* Fills cases[0..] and returns how many. `base` are the user's settings, `workers` what they came to. */
int bench_sweep_cases(bench_case *cases, const stoke_dataset *dataset, const stoke_data_params *base,
                      unsigned workers, size_t *count, stoke_error *err);
/* After the run. decode = samples/s of bare decoding by `workers`. */
void bench_sweep_print(cli_page *page, const bench_case *cases, size_t count, int rounds, double decode,
                       unsigned workers);

/* ---- bench_loader.c: --live FILE of the benches that run a loader, a page for `stoke monitor --attach
 * FILE`. Without the option every call here does nothing. ---- */

/* Of OPTIONS that have `const char *live`. */
#define BENCH_LIVE_OPTION                                                                                    \
    CLI_TEXT(STRING, live, NULL, "FILE",                                                                     \
             "Keep a page there of what the loader is doing, for `stoke monitor --attach FILE`")

typedef struct bench_live {
    stoke_live *page; /* NULL: none */
    uint64_t written_ns;
} bench_live;

/* path NULL: none. */
int bench_live_open(bench_live *live, const char *path, const char *what, stoke_error *err);

/* Writes the page, twenty times a second at most: batches may come faster than anybody looks. */

void bench_live_of_feed(bench_live *live, stoke_upload *upload, uint64_t step, uint64_t steps);

/* ---- what is fed to a network, and who computes it: of `bench step` and `bench net` ---- */

typedef struct bench_net_shape {
    int64_t classes; /* -1: auto */
    int64_t batch, threads;
    uint32_t size[2]; /* height, width */
} bench_net_shape;

enum { BENCH_NET_CLASSES = 19 }; /* of Cityscapes: when nobody says how many */

/* The batch; of `auto` what fits here, which is said. `model` may be NULL. */
uint32_t bench_net_batch(const cli_call *call, const bench_net_shape *shape, const char *model);

/* Of OPTIONS that have a bench_net_shape called `shape`. `auto_classes` ends the sentence "auto is ...". */
#define BENCH_NET_OPTIONS(auto_classes)                                                                      \
    CLI_WITHIN(shape, AUTO_INT, classes, .default_text = "auto", .min = 1, .max = 65535, .argument = "N",    \
               .help = "Number of classes; 1 is foreground against background, auto is " auto_classes),      \
        CLI_WITHIN(shape, AUTO_INT, batch, .default_text = "4", .min = 1, .max = 65536,                      \
                   .argument = "N|auto",                                                                     \
                   .help = "Pictures per batch; auto is what `stoke train` takes: up to 8 that fit into "    \
                           "this machine"),                                                                  \
        CLI_WITHIN(shape, SIZE, size, .default_text = "256", .argument = "N|HxW",                            \
                   .help = "Size of a picture, 29x29 to 32768x32768"),                                       \
        CLI_WITHIN(shape, INT, threads, .default_text = "0", .min = 0, .max = 1024, .argument = "N",         \
                   .help = "Threads; 0 takes all usable cores")

/* ---- bench_upload.c: a consumer that takes batches of an upload, computes for so long on each, and asks the
 * upload what the device did: of `bench transfer` and `bench device` ---- */

/* What the device and the loader did after warm-up, in the units of the tables. */
typedef struct bench_feed_figures {
    double copy_ms, augment_ms, bytes; /* of a batch */
    double gb_s;                       /* of copies */
    double overlap;                    /* share of the copy time that was hidden */
    double busy;                       /* of the device: share of the elapsed time */
    double period_ms, images_s;        /* from the end of a step to the next one's */
    double wait_ms;                    /* of a step: the host for its batch */
    double cpu_ms;                     /* of a sample: the loader */
} bench_feed_figures;

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
    bench_feed_figures figures;
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

const char *bench_feed_source(stoke_device *device); /* "emulated" or "measured" */

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
