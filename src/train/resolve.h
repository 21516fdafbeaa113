/* SPDX-License-Identifier: Apache-2.0
 *
 * How settings are settled, one question after the other; shared by the files that answer them:
 *
 *   setup.c            the order of questions; what a run is made of
 *   resolve_data.c     which samples train and which validate, whether images and masks fit; names of classes
 *   resolve_classes.c  what the values in the masks mean; weights of classes
 *   resolve.c          a look at the masks; how validation looks; batch, steps, cadences, learning rate, name
 *   identity.c         the answers as YAML, and as lines that tell two runs apart
 */
#ifndef STOKE_SRC_TRAIN_RESOLVE_H
#define STOKE_SRC_TRAIN_RESOLVE_H

#include <stoke/labels.h>

#include "src/source/names.h"
#include "src/source/pairs.h"
#include "src/source/mask_rules.h"
#include "src/train/setup.h"

typedef struct stk_resolve_ctx {
    stk_setup *setup;
    stk_say_fn *say;
    stoke_progress_fn progress;
    void *context; /* of both */
    stoke_error *err;
    const struct stk_network *network; /* once the model is settled */
    stk_pairs val; /* headers of the validation set, from stk_resolve_pairs on; its user frees them */
} stk_resolve_ctx;

#define stk_resolve_say(s, ...) stk_say((s)->say, (s)->context, __VA_ARGS__)

/* A copy of the text that lives as long as the setup; NULL: no memory, said in s->err. */
const char *stk_resolve_keep(stk_resolve_ctx *s, const char *text);

/* Progress over both sets, one after the other. */
typedef struct stk_resolve_count {
    const stk_resolve_ctx *s;
    uint64_t before, total; /* done in the first set; of both */
} stk_resolve_count;
int stk_resolve_counted(void *count, uint64_t done, uint64_t total);

/* resolve_data.c: train_set, val_set, and the settings of both. */
int stk_resolve_sets(stk_resolve_ctx *s);

/* patch_size: the size, and windows of it; what `augment` is where nobody said. */
int stk_resolve_patch(stk_resolve_ctx *s);

/* Reads all headers. Sizes of pairs, orientation, a size where none was given. */
int stk_resolve_pairs(stk_resolve_ctx *s);

/* Of the masks (or targets) of a set that were looked at, so many cannot be used: a remark, or, beyond
 * max_bad, the error that a loader would come to one by one. "N of M masks DO WHAT". */
int stk_resolve_unusable(const stk_resolve_ctx *s, int val, uint64_t bad, uint64_t looked, int code,
                         const char *does, const char *do_, const char *what, const char *first);

/* resolve_classes.c: classes, label map, names, weights. Reads masks where it must. */
int stk_resolve_classes(stk_resolve_ctx *s);

/* class_names, and `names` as a list that does not lean on a file. */
int stk_resolve_names(stk_resolve_ctx *s);
/* How many names there are, before it is known how many classes. */
int stk_resolve_names_beforehand(stk_resolve_ctx *s, stk_names *names);

/* What was seen in the masks of a set. */
typedef struct stk_resolve_survey {
    stk_mask_tally *train,
        *val;             /* pixels by value, or by class when there is a label map; val NULL: no such set */
    uint64_t read, masks; /* of so many, in both */
    uint64_t bad;         /* could not be read */
    uint64_t odd[2];      /* of train, of val: hold a value that is none of the classes that were given, */
    uint64_t looked[2];   /* of so many that were read */
    stoke_error first_odd[2]; /* the first of them; the message has its path */
    stoke_error first_bad;    /* the first of them; the message has its path */
    const char *jpeg;         /* the path of a mask that is a JPEG file; NULL: none is */
} stk_resolve_survey;
/* resolve.c: reads up to `most` masks of each set, evenly spread. `labels` says what to count;
 * `given`, of masks that are counted by value, which values are classes (NULL: nobody said). */
int stk_survey_masks(stk_resolve_ctx *s, const stoke_labels *labels, const stoke_labels *given, uint64_t most,
                     stk_resolve_survey *survey);
void stk_survey_free(stk_resolve_survey *survey);

/* resolve.c: setup->eval and params.eval_mode; a sentence where training and validation differ in scale.
 */
int stk_resolve_eval(stk_resolve_ctx *s);

/* resolve.c: params.metric, once the task is known; STOKE_E_INVALID: it is of the other task. */
int stk_resolve_metric(stk_resolve_ctx *s);

/* resolve.c */
int stk_resolve_batch(stk_resolve_ctx *s);
int stk_resolve_length(stk_resolve_ctx *s);
void stk_resolve_rates(stk_resolve_ctx *s);
int stk_resolve_name(stk_resolve_ctx *s);

#endif
