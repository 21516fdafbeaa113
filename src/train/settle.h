/* SPDX-License-Identifier: Apache-2.0
 *
 * How settings are settled, one question after the other; shared by the files that answer them:
 *
 *   setup.c           the order of questions; what a run is made of
 *   settle_data.c     which samples train and which validate; the size of pictures
 *   settle_classes.c  what the values in the masks mean; weights of classes
 *   settle_values.c   a look at the masks themselves
 *   settle.c          batch, steps, cadences, learning rate, name
 *   identity.c        the answers as YAML, and as lines that tell two runs apart
 */
#ifndef STOKE_SRC_TRAIN_SETTLE_H
#define STOKE_SRC_TRAIN_SETTLE_H

#include <stoke/labels.h>

#include "src/source/tally.h"
#include "src/train/setup.h"

typedef struct stk_settling {
    stk_setup *setup;
    stk_say_fn *say;
    stoke_progress_fn progress;
    void *context; /* of both */
    stoke_error *err;
} stk_settling;

/* Says a sentence. */
void stk_settle_say(const stk_settling *s, const char *format, ...) STOKE_PRINTF(2, 3);
/* A copy of the text that lives as long as the setup; NULL: no memory, said in s->err. */
const char *stk_settle_keep(stk_settling *s, const char *text);

/* settle_data.c: train_set, val_set, and the settings of both. */
int stk_settle_sets(stk_settling *s);
/* A size where none was given. */
int stk_settle_size(stk_settling *s);
/* What validation keeps of the augmentation, which is its normalisation: "none", or that op alone. */
int stk_settle_val_augment(stk_settling *s, const char **augment);

/* settle_classes.c: classes, label map, names, weights. Reads masks where it must. */
int stk_settle_classes(stk_settling *s);

/* What was seen in the masks of a set. */
typedef struct stk_survey {
    stk_tally *train,
        *val;              /* pixels by value, or by class when there is a label map; val NULL: no such set */
    uint64_t read, masks;  /* of so many, in both */
    uint64_t bad;          /* could not be read */
    stoke_error first_bad; /* the first of them; the message has its path */
} stk_survey;
/* settle_values.c: reads up to `most` masks of each set, evenly spread. `labels` says what to count. */
int stk_survey_masks(stk_settling *s, const stoke_labels *labels, uint64_t most, stk_survey *survey);
void stk_survey_free(stk_survey *survey);

/* settle.c */
int stk_settle_batch(stk_settling *s);
int stk_settle_length(stk_settling *s);
void stk_settle_rates(stk_settling *s);
int stk_settle_name(stk_settling *s);

#endif
