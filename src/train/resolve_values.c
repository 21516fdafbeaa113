/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at the masks: which values they hold and how often, by a few threads, with progress. Of a very large
 * set an even sample: what it misses is found later, by name and value, when such a mask is loaded.
 */
#include "src/train/resolve.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <stoke/tools/labels.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/threadpool.h"
#include "src/source/labels.h"
#include "src/source/mask_rules.h"
#include "src/source/reader.h"

/* One set. Members count for themselves; the calling thread adds them up. */
typedef struct look {
    const stoke_dataset *set;
    const stoke_data_params *params;
    const stoke_labels *labels, *given;
    uint64_t count; /* masks to read */
    stk_mask_tally *sum;
    pthread_mutex_t lock;    /* of what follows */
    uint64_t bad, first;     /* how many, and the lowest id */
    stoke_error why;         /* of that one */
    uint64_t odd, first_odd; /* the same of masks with a value that is no class */
    stoke_error why_odd;
    uint64_t colored; /* the lowest id of a mask that is a colour picture; UINT64_MAX: none */
    uint64_t jpeg;    /* and of a JPEG file */
} look;

typedef struct member {
    stk_reader reader;
    stk_mask_tally tally;
} member;

static int start(void *context, void *state, stoke_error *err)
{
    (void)context;
    return stk_reader_start(&((member *)state)->reader, err);
}

/* Read, and yet not to be used: a value is none of the classes. */
static void note_odd(look *l, uint64_t id, const stoke_error *why)
{
    pthread_mutex_lock(&l->lock);
    if (id < l->first_odd) l->first_odd = id, l->why_odd = *why;
    l->odd++;
    pthread_mutex_unlock(&l->lock);
}

static int read_one(void *context, void *state, uint64_t item, stoke_error *err)
{
    look *l = context;
    member *self = state;
    stoke_error why;
    stoke_image_info info;
    stoke_image ids;
    const uint64_t id = (uint64_t)((unsigned __int128)item * stoke_dataset_count(l->set) / l->count);
    const stoke_sample sample = stoke_dataset_sample(l->set, id);
    const int r = stk_reader_mask(&self->reader, l->params, l->labels, &sample, &info, &ids, &why);
    if (info.width && info.format == STOKE_FORMAT_JPEG) {
        pthread_mutex_lock(&l->lock);
        if (id < l->jpeg) l->jpeg = id;
        pthread_mutex_unlock(&l->lock);
    }
    if (!r) {
        stk_tally_add(&self->tally, &ids);
        if (l->given && stk_labels_check(l->given, &ids, &why)) note_odd(l, id, &why);
        return STOKE_OK;
    }
    if (r == STOKE_E_NOMEM) {
        if (err) *err = why;
        return r;
    }
    const int colored =
        r == STOKE_E_LABEL && !stoke_labels_are_colors(l->labels) && stk_mask_is_colored(&info);
    pthread_mutex_lock(&l->lock);
    if (id < l->first) l->first = id, l->why = why;
    if (colored && id < l->colored) l->colored = id;
    l->bad++;
    pthread_mutex_unlock(&l->lock);
    return STOKE_OK;
}

static void finish(void *context, void *state)
{
    member *self = state;
    stk_tally_merge(((look *)context)->sum, &self->tally);
    stk_reader_finish(&self->reader);
}

/* ---- both sets ---- */

static void tell_odd(const look *l, int part, stk_resolve_survey *survey)
{
    survey->looked[part] = l->count - l->bad;
    survey->odd[part] = l->odd;
    if (!l->odd) return;
    survey->first_odd[part] = l->why_odd;
    stk_error_prefix(&survey->first_odd[part], stoke_dataset_sample(l->set, l->first_odd).mask_path);
}

static int look_at(const stk_resolve_ctx *s, look *l, stk_resolve_count *progress, stk_resolve_survey *survey)
{
    const stk_parallel_job job = { l->count, l, sizeof(member), start, read_one, finish };
    int r = stk_parallel_for(&job, 0, stk_resolve_counted, progress, s->err);
    progress->before += l->count;
    survey->read += l->count - l->bad;
    survey->masks += stoke_dataset_count(l->set);
    if (!r && l->colored != UINT64_MAX) {
        const stoke_sample sample = stoke_dataset_sample(l->set, l->colored);
        r = stk_judge_colors(l->params, &sample, s->err);
    }
    if (l->jpeg != UINT64_MAX && !survey->jpeg)
        survey->jpeg = stoke_dataset_sample(l->set, l->jpeg).mask_path;
    if (!r && l->bad && !survey->bad) {
        survey->first_bad = l->why;
        stk_error_prefix(&survey->first_bad, stoke_dataset_sample(l->set, l->first).mask_path);
    }
    survey->bad += l->bad;
    return r;
}

int stk_survey_masks(stk_resolve_ctx *s, const stoke_labels *labels, const stoke_labels *given, uint64_t most,
                     stk_resolve_survey *survey)
{
    const stk_setup *setup = s->setup;
    const stoke_dataset *sets[] = { setup->train_set, setup->val_set };
    const size_t n_sets = setup->val_set ? 2 : 1;
    look looks[2];
    stk_resolve_count progress = { .s = s };
    *survey = (stk_resolve_survey){ .train = stk_calloc(1, sizeof *survey->train) };
    if (n_sets > 1) survey->val = stk_calloc(1, sizeof *survey->val);
    if (!survey->train || (n_sets > 1 && !survey->val))
        return stk_fail(s->err, STOKE_E_NOMEM, "no memory to count the values of masks");
    for (size_t i = 0; i < n_sets; i++) {
        const uint64_t count = stoke_dataset_count(sets[i]);
        looks[i] = (look){ .set = sets[i],
                           .params = &setup->train,
                           .labels = labels,
                           .given = given,
                           .count = count < most ? count : most,
                           .sum = i ? survey->val : survey->train,
                           .first = UINT64_MAX,
                           .first_odd = UINT64_MAX,
                           .colored = UINT64_MAX,
                           .jpeg = UINT64_MAX };
        progress.total += looks[i].count;
    }
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < n_sets; i++) {
        pthread_mutex_init(&looks[i].lock, NULL);
        r = look_at(s, &looks[i], &progress, survey);
        if (!r) tell_odd(&looks[i], (int)i, survey);
        pthread_mutex_destroy(&looks[i].lock);
    }
    return r;
}

void stk_survey_free(stk_resolve_survey *survey)
{
    stk_free(survey->train);
    stk_free(survey->val);
    *survey = (stk_resolve_survey){ 0 };
}
