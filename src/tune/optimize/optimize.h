/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of stoke_optimize: the file, whose it is, the advice, and what the rules decide.
 */
#ifndef STOKE_SRC_TUNE_OPTIMIZE_OPTIMIZE_H
#define STOKE_SRC_TUNE_OPTIMIZE_OPTIMIZE_H

#include "src/base/remarks.h"
#include "src/tune/preflight/preflight.h"
#include <stoke/tools/advise.h>
#include <stoke/tools/optimize.h>

enum { STK_CHANGES = 32 };

/* What the advice is for. */
typedef enum stk_optimize_target {
    STK_ON_CARD,      /* of which the memory is known */
    STK_ON_SOME_CARD, /* none was named or found: what depends on its memory is left */
    STK_ON_PROCESSOR  /* the file says so, or it is ours */
} stk_optimize_target;

/* Whence the size of pictures is known. */
typedef enum stk_optimize_size {
    STK_SIZE_UNKNOWN = 0, /* the usual one is taken where nothing depends on it but what is usual too */
    STK_SIZE_SEEN,        /* of the set that the file names */
    STK_SIZE_SAID
} stk_optimize_size;

struct stoke_optimization {
    stoke_yaml *yaml;
    stoke_optimize_params params; /* cores and ranks filled in */
    int cores_source;             /* stoke_source: measured, given; 0 = not known */
    stoke_advice advice;
    int dialect;
    stoke_framework framework;
    stk_optimize_target place;
    char network[64]; /* that the file names and the estimate does not know; "" = none such */
    char model[32];   /* that the estimate knows; "" = the file names none */
    stk_optimize_size size;
    int classes_assumed;
    stoke_estimate_params p; /* of the file's network, or of the usual one where it names none */
    stoke_change changes[STK_CHANGES];
    size_t n_changes;
    stk_remarks remarks;
    int marked; /* a comment was put above new keys */
    char *target;
};

/* ---- what the file says, what is to change (optimize_find.c) ---- */

typedef struct stk_optimize_key {
    const char *setting, *path;
    int exists, none; /* none: this file has no such setting, and its reader would refuse one */
    const char *text; /* that counts: the file's, or its framework's default; "" = neither is known */
    int64_t number;
    int is_number;
} stk_optimize_key;

typedef struct stk_optimize_reason {
    const char *why, *effect;
    int source;
} stk_optimize_reason;

/* Looks at the file: its framework, whether it is for the processor. */
void stk_optimize_recognize(stoke_optimization *o);
/* Several candidates are an error: nothing is changed on a guess. */
int stk_optimize_look(const stoke_optimization *o, const char *setting, stk_optimize_key *f,
                      stoke_error *err);
/* Plans the change. One that cannot be made safely becomes a remark, with its line and reason. */
int stk_optimize_change(stoke_optimization *o, const stk_optimize_key *f, const char *to,
                        stk_optimize_reason because, stoke_error *err);
int stk_optimize_right(stoke_optimization *o, const stk_optimize_key *f); /* says so; STOKE_OK */
/* A switch that should be on; a value that is neither on nor off is left. */
int stk_optimize_switch_on(stoke_optimization *o, const char *setting, stk_optimize_reason because,
                           stoke_error *err);
/* The line of the advice; NULL: it has none. */
const stoke_recommendation *stk_optimize_advised(const stoke_optimization *o, const char *key);
int stk_is_on(const char *text);
int stk_is_off(const char *text);
/* Of "trainer.precision": "precision". */
const char *stk_last_key(const char *path);

/* ---- rules ---- */

/* Mixed precision, and with it the precision of the estimate (optimize_training.c). */
int stk_optimize_precision(stoke_optimization *o, stoke_error *err);
int stk_optimize_training(stoke_optimization *o, stoke_error *err);
/* The batch by what fits, or by trials; the learning rate that depends on it (optimize_batch.c). */
int stk_optimize_batch(stoke_optimization *o, stoke_error *err);
/* Workers, copies, prefetching (optimize_loading.c). */
int stk_optimize_loading(stoke_optimization *o, stoke_error *err);
/* The size of the network, where that was asked for (optimize_training.c). */
int stk_optimize_model(stoke_optimization *o, stoke_error *err);

#endif
