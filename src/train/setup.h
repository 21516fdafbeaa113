/* SPDX-License-Identifier: Apache-2.0
 *
 * From what a person said to what a run does: nothing is left auto afterwards. What was chosen, and why, is
 * said in remarks.
 */
#ifndef STOKE_SRC_TRAIN_SETUP_H
#define STOKE_SRC_TRAIN_SETUP_H

#include <stdio.h>
#include <stoke/dataset.h>
#include <stoke/train.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/remarks.h"
#include "src/train/evaluate.h"

enum { STK_PICTURES = 4 /* rows of a picture of predictions */ };

typedef struct stk_setup {
    stoke_data_params train,
        val;                   /* f32, chw, as the task's networks take them; val: nothing drawn, in order */
    stoke_train_params params; /* every auto and every 0 = chosen settled */
    stoke_net_params net;      /* ready for stoke_net_open */
    stoke_dataset *train_set;
    stoke_dataset *val_set;   /* NULL: the set has no validation part and none was asked for */
    stk_eval_plan eval;       /* of validation; zeroed without */
    stoke_net_params viewer;  /* of the network that validates whole pictures; batch 0: none does */
    uint32_t classes;         /* 0: pictures are restored */
    const char *features;     /* of which network pictures are compared: "VGG16"; NULL: of none */
    const char **class_names; /* `classes` of them, NULL where none is known; NULL: none at all */
    float *class_weights;     /* what net.loss.class_weights points to; NULL: none */
    int goes_on; /* params.resume has a checkpoint: weights come from there, and none are in `net` */
    uint64_t batches_per_epoch;
    uint64_t steps, epochs;   /* of the whole run; a step takes stk_step_batches */
    uint32_t rank, world;     /* of the processes that share it; world 0: not shared */
    stk_string_arena strings; /* what the settled settings point to, freed with it */
} stk_setup;

/* stoke_task: segment or restore. */
static inline int stk_setup_task(const stk_setup *setup)
{
    return setup->train.task == STOKE_TASK_RESTORE ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
}
static inline int stk_setup_restores(const stk_setup *setup)
{
    return setup->train.task == STOKE_TASK_RESTORE;
}

/* Reads masks where classes, a label map or weights must be found. STOKE_E_CANCELLED when progress asks. */
int stk_setup_make(stk_setup *setup, const stoke_data_params *data, const stoke_train_params *params,
                   stk_say_fn *say, stoke_progress_fn progress, void *context, stoke_error *err);
/* The same for the part that a process has in a run; `shared` has its rank and world. */
int stk_setup_make_part(stk_setup *setup, const stk_setup *shared, const stoke_data_params *data,
                        const stoke_train_params *params, stk_say_fn *say, stoke_progress_fn progress,
                        void *context, stoke_error *err);
void stk_setup_free(stk_setup *setup); /* accepts a zeroed struct */

/* The network of such settings, with a batch of 1; without names and weights of classes. */
stoke_net_params stk_setup_net(const stoke_train_params *params, const stoke_data_params *data,
                               uint32_t classes);

/* The learning rate that is usual for such an optimiser and such weights. */
double stk_usual_rate(const stoke_train_params *params);

/* Batches of a step, of all processes together. */
static inline uint64_t stk_step_batches(const stoke_train_params *params)
{
    return (uint64_t)params->accumulate * (uint64_t)(params->replicas > 1 ? params->replicas : 1);
}

/* What training's losses are divided by while those of a step become one mean over pixels; 0: each is that of
 * its batch. */
static inline double stk_setup_divisor(const stk_setup *setup)
{
    return setup->params.loss_mean == STOKE_LOSS_MEAN_PIXELS
               ? (double)setup->net.batch * setup->net.height * setup->net.width
               : 0;
}
/* By what gradients and mean loss of `batches` batches are then multiplied, whose pixels have that weight. */
static inline double stk_setup_factor(double divisor, uint32_t batches, double weight)
{
    return divisor > 0 && weight > 0 ? divisor * batches / weight : 1;
}

/* The learning rate of a step (0 = the first of `steps`): linear warm-up from lr / warm-up steps, then the
 * schedule over what is left. Pure arithmetic, the same on every machine. */
double stk_train_lr(const stoke_train_params *params, uint64_t step, uint64_t steps);
/* The optimiser's settings for a step (0 = the first) at a rate of `lr`. */
stoke_update stk_setup_update(const stoke_train_params *params, double lr, uint64_t step);

/* The settled settings as YAML that `stoke train --config` reads back to the same run. */
int stk_setup_write_yaml(const stk_setup *setup, FILE *out);

/* The settings the bits of a run depend on, a line `name=value` each, in the order of the tables, and below
 * them fingerprints of both sets: not workers, prefetch, threads, caches, cadences, folders. stk_free it. */
char *stk_setup_identity(const stk_setup *setup);
/* Compares two of them: 0, or STOKE_E_STATE with "lr was 0.001 and is 0.002; ..." (the first five). */
int stk_setup_same(const char *saved, const char *now, stoke_error *err);
/* The same for two that should be alike now: "lr is 0.001 at rank 0 and here 0.002; ...". */
int stk_setup_same_as_first(const char *first, const char *here, stoke_error *err);
/* Of the sizes of all files of both sets: other sizes are other pictures, as of a copy that was cut short. */
uint64_t stk_setup_file_sizes(const stk_setup *setup);
/* How the run of an identity validates: stoke_predict_mode. Those from before there was a choice say nothing:
 * resize.
 */
int stk_setup_eval_mode(const char *identity);
/* Whether the files have the size and time that they had; 1 where the saved one, being older, does not tell.
 */
int stk_setup_same_files(const char *saved, const char *now);
/* 1: scores of the two can be compared: the same metric, the same pictures and classes to validate on. */
int stk_setup_same_scores(const char *saved, const char *now);

#endif
