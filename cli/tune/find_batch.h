/* SPDX-License-Identifier: Apache-2.0
 *
 * A search for a batch by trials in children of this program: what `find-batch` and `optimize --benchmark`
 * share, and what they tell a child.
 */
#ifndef STOKE_CLI_TUNE_FIND_BATCH_H
#define STOKE_CLI_TUNE_FIND_BATCH_H

#include "cli/lib/common.h"
#include <stoke/tools/findbatch.h>

/* What is trained, as far as it is said on the command line. */
typedef struct find_batch_wish {
    const char *config, *map, *data, *model, *device;
    uint32_t size[2];
    int64_t classes, ignore_index, steps;
    int precision; /* 0: as the file says; else stoke_precision + 1 */
    double time0, time1;
    uint64_t memory_limit; /* of this machine; 0: as the file says, or none */
} find_batch_wish;

/* Of OPTIONS that have a find_batch_wish called `wish`. */
#define FIND_BATCH_SHAPE_OPTIONS                                                                             \
    CLI_WITHIN(wish, STRING, model, .argument = "b0..b5|resnet|unet",                                        \
               .help = "The network, where the file does not tell; resnet and unet are at full resolution"), \
        CLI_WITHIN(wish, SIZE, size, .default_text = "0", .argument = "N|HxW",                               \
                   .help = "Size of a picture; 0 is as the file says, or the data"),                         \
        CLI_WITHIN(wish, INT, classes, .default_text = "0", .min = 0, .max = 65535, .argument = "N",         \
                   .help = "Number of classes; 0 is as the file says, or the data"),                         \
        CLI_WITHIN(wish, INT, ignore_index, .default_text = "-2", .min = -2, .max = 65535, .argument = "N",  \
                   .help = "Mask value of pixels without a class, -1 for none; -2 is as the file says, or "  \
                           "255")
#define FIND_BATCH_TRIAL_OPTIONS                                                                             \
    CLI_WITHIN(wish, STRING, device, .argument = "NAME",                                                     \
               .help = "Where trials run: native trains on this processor; sim:rtx3090 is a simulated GPU, " \
                       "with memory as estimated for PyTorch and emulated times (`stoke devices` lists "     \
                       "them)"),                                                                             \
        CLI_WITHIN(wish, INT, steps, .default_text = "5", .min = 3, .max = 1000, .argument = "N",            \
                   .help = "Steps of a trial at least; the first two are not timed"),                        \
        CLI_WITHIN(wish, REAL, time0, .default_text = "0", .min = 0, .max = 1e6, .argument = "MS",           \
                   .help = "Of a simulated GPU: what a step takes besides its pictures; with --time1 at 0 "  \
                           "both come from the model, the size and the card's bandwidth"),                   \
        CLI_WITHIN(wish, BYTES, memory_limit, .default_text = "0", .argument = "BYTES",                      \
                   .help = "Ceiling of what this command and a trial hold of this machine (512M, 2G); 0 is " \
                           "as the file says, or what is free"),                                             \
        CLI_WITHIN(wish, REAL, time1, .default_text = "0", .min = 0, .max = 1e6, .argument = "MS",           \
                   .help = "Of a simulated GPU: what a picture takes")
#define FIND_BATCH_PRECISION_OPTION                                                                          \
    CLI_WITHIN(wish, CHOICE, precision, .default_text = "config", .choices = "config|fp32|bf16|fp16|auto",   \
               .help = "Of activations and products; config is as the file says, auto without one")
/* Of a search, in OPTIONS with `double timeout` and `const char *journal`. */
#define FIND_BATCH_SEARCH_OPTIONS                                                                            \
    CLI_NUMBER(REAL, timeout, "300", 0.1, 86400, "S",                                                        \
               "Seconds that a trial may take; one that hangs is ended"),                                    \
        CLI_TEXT(STRING, journal, NULL, "FILE",                                                              \
                 "Remembers trials: a search that was stopped goes on where it was")

/* The plan of what is wished. look: at the data too. */
int find_batch_plan(stoke_trial_plan **plan, const find_batch_wish *wish, int look, stoke_error *err);
/* The plan's trial with what was said beside it. */
stoke_trial_params find_batch_params(const stoke_trial_plan *plan, const find_batch_wish *wish);

/* One search. */
typedef struct find_batch {
    const cli_call *call;
    find_batch_wish wish; /* with the device */
    double timeout;
    int although_busy; /* choose also by times that scatter */
    const char *journal;
    const char *shown; /* the settings file as the user knows it; NULL = none */
    uint64_t memory;   /* given; 0 = what there is */
    uint32_t ranks;    /* processes that train together */
    uint32_t before;   /* the batch so far; 0 = as the plan says */
    /* by find_batch_run */
    stoke_trial_plan *plan;
    stoke_trial_params params;
    stoke_batch_params limits;
    uint64_t own; /* bytes this process holds */
    stoke_batch_result result;
    stoke_progress *progress;
} find_batch;
/* search->plan is to be freed afterwards, also when it failed. */
int find_batch_run(find_batch *search, stoke_error *err);

/* measured, or emulated on a simulated GPU. */
int find_batch_source(const find_batch *search);

/* "12.3 ms"; text is returned. */
const char *find_batch_ms(double ms, char text[32]);
void find_batch_print(const find_batch *search);
/* The members of an object that is open. */
void find_batch_json(stoke_json *json, const find_batch *search);

#endif
