/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a run in one file, whole or not there: weights, moments, average, counters, place in the data.
 * A safetensors file: tensors `values.NAME`, `moment1.NAME`, `moment2.NAME`, `average.NAME` by Hugging Face's
 * names, the rest as JSON text under `__metadata__`. What it restores is equal bit for bit. It is hostile
 * input when read.
 */
#ifndef STOKE_SRC_TRAIN_CHECKPOINT_H
#define STOKE_SRC_TRAIN_CHECKPOINT_H

#include "src/net/network.h"
#include <stoke/tools/net.h>
#include <stoke/train.h>

/* ---- arrays of a network ---- */

/* Every array of a network that training changes, by the name it has in a checkpoint: what must be kept, and
 * nothing else. Gradients are none of them: a state is taken between two steps. */

typedef enum stk_array_kind {
    STK_ARRAY_VALUES,
    STK_ARRAY_MOMENT1,
    STK_ARRAY_MOMENT2,
    STK_ARRAY_AVERAGE,
    STK_ARRAY_KINDS
} stk_array_kind;

typedef struct stk_net_array {
    char name[STK_NAME + 16]; /* "moment1.decode_head.classifier.weight" */
    stk_array_kind kind;
    uint32_t dims, shape[4];
    size_t count;
    float *floats;                               /* the network's own */
    const struct stk_safetensors_tensor *tensor; /* where it lies in the file, once it was found */
} stk_net_array;

/* All of them, kind by kind; stk_free the list. NULL: no memory. */
stk_net_array *stk_net_arrays(const stoke_net *net, size_t *count);

/* ---- checkpoint ---- */

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

/* What a checkpoint says in words: one JSON object, read back to the same bits. Its text comes from a file
 * and may be anyone's. */

enum { STK_HASH_TEXT = 17 };

typedef struct stk_checkpoint_info {
    stk_checkpoint_progress progress;
    stoke_net_state net;
    char data_hash[STK_HASH_TEXT]; /* over all arrays, hexadecimal; see checkpoint.c */
    char *identity;
} stk_checkpoint_info;

/* stk_free the text. STOKE_E_STATE: counters contradict each other, and it would not be read back. */
int stk_checkpoint_info_text(const stk_checkpoint_info *info, char **text, stoke_error *err);
/* Every field once, none that is unknown, none that contradicts another. On success stk_free
 * info->identity; on failure there is nothing to free. */
int stk_checkpoint_info_read(stk_checkpoint_info *info, const char *text, size_t size, stoke_error *err);

/* identity: stk_setup_identity. */
int stk_checkpoint_save(const char *path, const stoke_net *net, const stk_checkpoint_progress *progress,
                        const char *identity, stoke_error *err);
/* Checks everything against the network before a single value is changed. *identity: stk_free it. net NULL:
 * tells what the file says, for `stoke report` and for messages. */
int stk_checkpoint_load(const char *path, stoke_net *net, stk_checkpoint_progress *progress, char **identity,
                        stoke_error *err);

#endif
