/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at the masks: which values they hold and how often, by a few threads, with progress. Of a very large
 * set an even sample: what it misses is found later, by name and value, when such a mask is loaded.
 */
#include "src/train/settle.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <stoke/labels.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/source/crew.h"
#include "src/source/reader.h"

/* One set. Members count for themselves; the calling thread adds them up. */
typedef struct look {
    const stoke_dataset *set;
    const stoke_data_params *params;
    const stoke_labels *labels;
    uint64_t count; /* masks to read */
    stk_tally *sum;
    pthread_mutex_t lock; /* of what follows */
    uint64_t bad, first;  /* how many, and the lowest id */
    stoke_error why;      /* of that one */
    uint64_t colored;     /* the lowest id of a mask that is a colour picture; UINT64_MAX: none */
} look;

typedef struct member {
    stk_reader reader;
    stk_tally tally;
} member;

static int start(void *context, void *state, stoke_error *err)
{
    (void)context;
    return stk_reader_start(&((member *)state)->reader, err);
}

/* The bytes of the file are still in the reader. */
static int is_colored(member *self)
{
    stoke_image_info info;
    return self->reader.file_bytes &&
           !stoke_decoder_probe(self->reader.decoder, self->reader.file.data, self->reader.file_bytes, &info,
                                NULL) &&
           info.channels >= 3 && !info.palette;
}

static int read_one(void *context, void *state, uint64_t item, stoke_error *err)
{
    look *l = context;
    member *self = state;
    stoke_error why;
    stoke_image ids;
    const uint64_t id = (uint64_t)((unsigned __int128)item * stoke_dataset_count(l->set) / l->count);
    const stoke_sample sample = stoke_dataset_sample(l->set, id);
    const int r = stk_reader_mask(&self->reader, l->params, l->labels, &sample, &ids, &why);
    if (!r) {
        stk_tally_add(&self->tally, &ids);
        return STOKE_OK;
    }
    if (r == STOKE_E_NOMEM) {
        if (err) *err = why;
        return r;
    }
    const int colored = r == STOKE_E_LABEL && !stoke_labels_are_colors(l->labels) && is_colored(self);
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

/* ---- progress over both sets ---- */

typedef struct both {
    const stk_settling *s;
    uint64_t before, total;
} both;

static int report(void *context, uint64_t done, uint64_t total)
{
    const both *b = context;
    (void)total;
    return b->s->progress ? b->s->progress(b->s->context, b->before + done, b->total) : 0;
}

/* ---- masks that are pictures ---- */

enum { COLORS = 12 };

/* The first colours of a picture, as lines of a colour file: "0 0 0; 128 0 0; ...". */
static void list_colors(const stoke_image *image, char *text, size_t size)
{
    uint32_t seen[COLORS];
    size_t n = 0, used = 0;
    text[0] = 0;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *p = (const uint8_t *)image->data + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++, p += 3) {
            const uint32_t rgb = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
            size_t i = 0;
            while (i < n && seen[i] != rgb) i++;
            if (i < n) continue;
            if (n == COLORS) {
                snprintf(text + used, size - used, "; ...");
                return;
            }
            seen[n++] = rgb;
            used +=
                (size_t)snprintf(text + used, size - used, "%s%u %u %u", n > 1 ? "; " : "", p[0], p[1], p[2]);
        }
    }
}

/* What to do about colours, with those of this mask to begin with. */
static int colored_masks(const stk_settling *s, const stoke_dataset *set, uint64_t id)
{
    stoke_sample sample = stoke_dataset_sample(set, id);
    stk_reader reader = { 0 };
    stoke_image image;
    stoke_format format;
    char colors[COLORS * 16 + 8] = "";
    sample.image = sample.mask; /* read as a picture */
    sample.image_path = sample.mask_path;
    if (!stk_reader_start(&reader, NULL) &&
        !stk_reader_image(&reader, &s->setup->train, &sample, &format, &image, NULL) && image.depth == 1)
        list_colors(&image, colors, sizeof colors);
    stk_reader_finish(&reader);
    return stk_fail(
        s->err, STOKE_E_LABEL,
        "%s is a colour picture, and it is for you to say what its colours mean: write a text file "
        "with a line `R G B name` for each class, such as `128 64 128 road`, and set `label_map` to the "
        "name of that file%s%s",
        sample.mask_path, *colors ? ". Colours of this mask: " : "", colors);
}

/* ---- both sets ---- */

static int look_at(const stk_settling *s, look *l, both *progress, stk_survey *survey)
{
    const stk_crew_job job = { l->count, l, sizeof(member), start, read_one, finish };
    int r = stk_crew_run(&job, 0, report, progress, s->err);
    progress->before += l->count;
    survey->read += l->count - l->bad;
    survey->masks += stoke_dataset_count(l->set);
    if (!r && l->colored != UINT64_MAX) r = colored_masks(s, l->set, l->colored);
    if (!r && l->bad && !survey->bad) {
        survey->first_bad = l->why;
        stk_error_prefix(&survey->first_bad, stoke_dataset_sample(l->set, l->first).mask_path);
    }
    survey->bad += l->bad;
    return r;
}

int stk_survey_masks(stk_settling *s, const stoke_labels *labels, uint64_t most, stk_survey *survey)
{
    const stk_setup *setup = s->setup;
    const stoke_dataset *sets[] = { setup->train_set, setup->val_set };
    const size_t n_sets = setup->val_set ? 2 : 1;
    look looks[2];
    both progress = { .s = s };
    *survey = (stk_survey){ .train = stk_calloc(1, sizeof *survey->train) };
    if (n_sets > 1) survey->val = stk_calloc(1, sizeof *survey->val);
    if (!survey->train || (n_sets > 1 && !survey->val))
        return stk_fail(s->err, STOKE_E_NOMEM, "no memory to count the values of masks");
    for (size_t i = 0; i < n_sets; i++) {
        const uint64_t count = stoke_dataset_count(sets[i]);
        looks[i] = (look){ .set = sets[i],
                           .params = &setup->train,
                           .labels = labels,
                           .count = count < most ? count : most,
                           .sum = i ? survey->val : survey->train,
                           .first = UINT64_MAX,
                           .colored = UINT64_MAX };
        progress.total += looks[i].count;
    }
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < n_sets; i++) {
        pthread_mutex_init(&looks[i].lock, NULL);
        r = look_at(s, &looks[i], &progress, survey);
        pthread_mutex_destroy(&looks[i].lock);
    }
    return r;
}

void stk_survey_free(stk_survey *survey)
{
    stk_free(survey->train);
    stk_free(survey->val);
    *survey = (stk_survey){ 0 };
}
