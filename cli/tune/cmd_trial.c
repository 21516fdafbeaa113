/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke trial: one trial of a batch, in a process that may end any way it likes. Hidden: `find-batch` and
 * `optimize --benchmark` start it, and read its line.
 */
#include <stdio.h>

#include "cli/tune/find_batch.h"
#include "cli/lib/settings.h"

#include <string.h>

typedef struct trial_options {
    find_batch_wish wish;
    const char *map;
    int64_t batch, net_classes;
    uint64_t memory;
    int with_loader, task;
    int64_t scale;
} trial_options;

#define OPTIONS trial_options
static const stoke_option options[] = {
    CLI_WITHIN(wish, STRING, config, .argument = "FILE", .help = "Settings of the training, in any dialect"),
    CLI_MAP_OPTION,
    CLI_WITHIN(wish, STRING, data, .argument = "DIR",
               .help = "The data set, where the file names none or another is meant"),
    FIND_BATCH_SHAPE_OPTIONS,
    FIND_BATCH_PRECISION_OPTION,
    FIND_BATCH_TRIAL_OPTIONS,
    CLI_NUMBER(INT, batch, "1", 1, 65536, "N", "Samples in a batch"),
    CLI_NUMBER(INT, net_classes, "0", 0, 65535, "N", "Of the network, where the data have told them already"),
    CLI_CHOICE(task, "auto", "auto|segment|restore", "What it learns, where the data have told it already"),
    CLI_NUMBER(INT, scale, "1", 1, 4, "N", "Of --task restore: sides of the result per side of a picture"),
    CLI_TEXT(BYTES, memory, "0", "BYTES", "That may be taken; 0 is what there is"),
    CLI_FLAG(with_loader, "The set's own batches, by the loader"),
};

static int run(cli_call *call, stoke_error *err)
{
    const trial_options *o = call->options;
    stoke_trial_plan *plan = NULL;
    stoke_trial trial;
    char line[2048];
    find_batch_wish wish = o->wish;
    wish.map = o->map;
    if (!wish.device) wish.device = "native";
    int r = find_batch_plan(&plan, &wish, 0, err);
    if (!r) {
        stoke_trial_params params = find_batch_params(plan, &wish);
        params.memory = o->memory;
        if (o->net_classes) params.classes = (uint32_t)o->net_classes;
        if (o->task) params.task = o->task;
        if (o->scale > 1) params.scale = (uint32_t)o->scale;
        params.with_loader = o->with_loader;
        r = stoke_trial_run(&trial, (uint32_t)o->batch, &params, err);
    }
    stoke_trial_plan_free(&plan);
    if (r) return r;
    const int length = stoke_trial_text(&trial, line, sizeof line);
    if (length < 0 || length >= (int)sizeof line) return CLI_FAILED;
    fwrite(line, 1, strlen(line), stdout); /* JSON, which has its own rules */
    putchar('\n');
    return CLI_OK;
}

const cli_command cli_trial = {
    .summary = "one trial of a batch, for `find-batch`",
    .description = "Builds the network, takes a few steps, and prints memory and times as one line of JSON.",
    .examples = {
        { "stoke trial --device sim:rtx3060 --batch 8 --size 288", "one line of JSON" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
