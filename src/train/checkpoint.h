/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a run in one file, whole or not there: weights, moments, average, counters, place in the data.
 * A safetensors file: tensors `values.NAME`, `moment1.NAME`, `moment2.NAME`, `average.NAME` by Hugging Face's
 * names, the rest as JSON text under `__metadata__`. What it restores is equal bit for bit. It is hostile
 * input when read.
 */
#ifndef STOKE_SRC_TRAIN_CHECKPOINT_H
#define STOKE_SRC_TRAIN_CHECKPOINT_H

#include <stoke/net.h>
#include <stoke/train.h>

enum { STK_LOADER_STATE = 512 };

/* What a run remembers besides the network. */
typedef struct stk_checkpoint_progress {
    uint64_t step;                 /* optimiser steps taken, skipped ones included: place in the schedule */
    uint64_t epoch, batch;         /* batches taken in this epoch */
    char loader[STK_LOADER_STATE]; /* stoke_loader_state of the training loader */
    double epoch_loss;             /* sum of the losses of the epoch so far */
    uint64_t epoch_steps;          /* how many are in it */
    uint64_t images;               /* seen in all */
    double best;                   /* value of the metric; NaN: no evaluation yet */
    uint64_t best_step;
    stoke_scores best_scores;
    uint64_t evaluations, without_gain; /* evaluations; of them since the best */
    uint64_t evaluated;        /* step of the last one: an evaluation that was interrupted is made up for */
    uint64_t skipped_in_a_row; /* steps whose gradients were not finite */
    double seconds, data_seconds, eval_seconds, save_seconds; /* of all sessions so far */
    char cpu[16]; /* table it was computed with; bits hold per table */
} stk_checkpoint_progress;

/* identity: stk_setup_identity. */
int stk_checkpoint_save(const char *path, const stoke_net *net, const stk_checkpoint_progress *progress,
                        const char *identity, stoke_error *err);
/* Checks everything against the network before a single value is changed. *identity: stk_free it. */
int stk_checkpoint_load(const char *path, stoke_net *net, stk_checkpoint_progress *progress, char **identity,
                        stoke_error *err);
/* Without a network: for `stoke report` and for messages. */
int stk_checkpoint_peek(const char *path, stk_checkpoint_progress *progress, char **identity,
                        stoke_error *err);

/* The same in memory: what find-lr puts back. */
typedef struct stk_checkpoint_snapshot stk_checkpoint_snapshot;
int stk_snapshot_take(stk_checkpoint_snapshot **out, const stoke_net *net, stoke_error *err);
void stk_snapshot_restore(const stk_checkpoint_snapshot *snapshot, stoke_net *net);
void stk_snapshot_free(stk_checkpoint_snapshot **snapshot);

#endif
