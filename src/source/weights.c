/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/dataset.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/base/threadpool.h"
#include "src/source/dataset_internal.h"
#include "src/source/mask_rules.h"
#include "src/source/reader.h"

/* Class-balanced weights: one pass over the masks remembers which classes each sample has, then the weights
 * follow.
 */

/* The classes of a sample: 2 bytes each in the arena, which does not align. */
typedef struct presence {
    const char *ids; /* NULL: the mask could not be read */
    uint32_t n;
} presence;

typedef struct balance {
    const stoke_dataset *dataset;
    const stoke_data_params *params;
    stoke_labels *labels;
    presence *of;         /* by sample; each written by the one thread that read it */
    stk_mask_tally *sum;  /* filled by the calling thread */
    pthread_mutex_t lock; /* of the arena and what follows */
    stk_string_arena arena;
    uint64_t bad_id; /* the first mask that could not be read, whichever thread met it */
    stoke_error bad;
} balance;

typedef struct balancer {
    stk_reader reader; /* first: see stk_reader_start */
    stk_mask_tally tally;
} balancer;

static int add_mask(void *context, void *member, uint64_t id, stoke_error *err)
{
    balance *b = context;
    balancer *self = member;
    stoke_error error;
    stoke_image_info info;
    stoke_image ids;
    const stoke_sample sample = stoke_dataset_sample(b->dataset, id);
    int r = stk_reader_mask(&self->reader, b->params, b->labels, &sample, &info, &ids, &error);
    if (r == STOKE_OK) stk_tally_add(&self->tally, &ids);
    pthread_mutex_lock(&b->lock);
    if (r == STOKE_OK) {
        b->of[id].n = self->tally.n_seen;
        b->of[id].ids =
            stk_string_arena_copy(&b->arena, (const char *)self->tally.seen, 2 * (size_t)self->tally.n_seen);
        if (!b->of[id].ids) r = stk_fail(err, STOKE_E_NOMEM, "no memory for the classes of the samples");
    } else if (stk_is_want(r)) {
        if (err) *err = error;
    } else {
        if (id <= b->bad_id) b->bad_id = id, b->bad = error;
        r = STOKE_OK;
    }
    pthread_mutex_unlock(&b->lock);
    return r;
}

static void finish(void *context, void *member)
{
    balance *b = context;
    balancer *self = member;
    stk_tally_merge(b->sum, &self->tally);
    stk_reader_finish(NULL, &self->reader);
}

static double weight_of(const balance *b, const presence *sample)
{
    double weight = 0;
    for (uint32_t i = 0; sample->ids && i < sample->n; i++) {
        uint16_t id;
        memcpy(&id, sample->ids + 2 * (size_t)i, 2);
        if ((int64_t)id != b->params->ignore_index) weight += 1.0 / (double)b->sum->samples[id];
    }
    return weight;
}

static int run(balance *b, unsigned threads, stoke_progress_fn progress, void *context, double *weights,
               stoke_error *err)
{
    uint64_t count = stoke_dataset_count(b->dataset);
    const stk_parallel_job job = { count, b, sizeof(balancer), stk_reader_start, add_mask, finish };
    int r = stk_parallel_for(&job, threads, progress, context, err);
    if (r != STOKE_OK) return r;
    /* The order in which a mask's classes were met is that of its pixels: the sum rounds the same on every
     * run. */
    double total = 0;
    for (uint64_t i = 0; i < count; i++) weights[i] = total += weight_of(b, &b->of[i]);
    if (total > 0) return STOKE_OK;
    if (b->bad_id < count)
        return stk_fail(err, b->bad.code, "order balanced: no mask could be read; the first: %s: %s",
                        stoke_dataset_sample(b->dataset, b->bad_id).mask_path, b->bad.message);
    return stk_fail(err, STOKE_E_INVALID, "order balanced: no mask has a class other than ignore_index");
}

int stk_weights_balanced(const stoke_dataset *dataset, const stoke_data_params *params, unsigned threads,
                         stoke_progress_fn progress, void *context, double **cumulative, stoke_error *err)
{
    *cumulative = NULL;
    if (!stoke_dataset_has_masks(dataset))
        return stk_fail(err, STOKE_E_INVALID, "order balanced needs masks, and the set has none");
    balance b = { .dataset = dataset, .params = params, .bad_id = UINT64_MAX };
    int r = stk_labels_of(&b.labels, params, err);
    if (r != STOKE_OK) return r;
    uint64_t count = stoke_dataset_count(dataset);
    pthread_mutex_init(&b.lock, NULL);
    b.of = stk_calloc(count, sizeof *b.of);
    b.sum = stk_calloc(1, sizeof *b.sum);
    double *weights = stk_calloc(count, sizeof *weights);
    if (b.of && b.sum && weights)
        r = run(&b, threads, progress, context, weights, err);
    else
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for the weights");
    if (r == STOKE_OK)
        *cumulative = weights;
    else
        stk_free(weights);
    stk_string_arena_free(&b.arena);
    pthread_mutex_destroy(&b.lock);
    stk_free(b.of);
    stk_free(b.sum);
    stoke_labels_destroy(&b.labels);
    return r;
}

#define WEIGHTS_LIMIT (UINT64_C(1) << 30)

/* Samples are in natural order of their names. */
static int find_sample(const stoke_dataset *dataset, const char *name, uint64_t *id)
{
    size_t length = strlen(name);
    uint64_t low = 0, high = stoke_dataset_count(dataset);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const char *other = stoke_dataset_sample(dataset, middle).name;
        int order = stk_natural_compare(other, strlen(other), name, length);
        if (order == 0) {
            *id = middle;
            return 1;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* A few names for a message, and how many there were. */
typedef struct examples {
    char text[256];
    uint64_t count;
} examples;

static void add_example(examples *e, const char *name)
{
    if (e->count++ < 3) stk_text_add(e->text, sizeof e->text, ", ", "%.60s", name);
}

static int read_weights(const stoke_dataset *dataset, stk_csv *csv, double *weights, examples *unknown,
                        stoke_error *err)
{
    int r;
    for (int first = 1; (r = stk_csv_next(csv, err)) == STOKE_OK; first = 0) {
        double weight;
        uint64_t id;
        unsigned long long line = csv->line;
        if (!stk_parse_real(csv->field[1], &weight)) {
            if (first) continue;
            return stk_fail(err, STOKE_E_FORMAT, "%s:%llu: `%.40s` is not a number; name,weight is expected",
                            csv->origin, line, csv->field[1]);
        }
        if (!(weight >= 0))
            return stk_fail(err, STOKE_E_INVALID, "%s:%llu: a weight must not be negative", csv->origin,
                            line);
        if (!find_sample(dataset, csv->field[0], &id))
            add_example(unknown, csv->field[0]);
        else if (weights[id] >= 0)
            return stk_fail(err, STOKE_E_INVALID, "%s:%llu: %.200s has a weight already", csv->origin, line,
                            csv->field[0]);
        else
            weights[id] = weight;
    }
    return r == STOKE_E_END ? STOKE_OK : r;
}

/* Names to weights, then to running sums in place. */
static int fill(const stoke_dataset *dataset, stk_csv *csv, double *weights, stoke_error *err)
{
    uint64_t count = stoke_dataset_count(dataset);
    for (uint64_t i = 0; i < count; i++) weights[i] = -1;
    examples unknown = { 0 }, missing = { 0 };
    int r = read_weights(dataset, csv, weights, &unknown, err);
    if (r != STOKE_OK) return r;
    for (uint64_t i = 0; i < count; i++)
        if (weights[i] < 0) add_example(&missing, stoke_dataset_sample(dataset, i).name);
    if (unknown.count || missing.count)
        return stk_fail(err, STOKE_E_INVALID,
                        "%s: %llu samples have no weight%s%s%s; %llu names are not in the set%s%s%s",
                        csv->origin, (unsigned long long)missing.count, missing.count ? " (" : "",
                        missing.text, missing.count ? ")" : "", (unsigned long long)unknown.count,
                        unknown.count ? " (" : "", unknown.text, unknown.count ? ")" : "");
    double total = 0;
    for (uint64_t i = 0; i < count; i++) weights[i] = total += weights[i];
    if (!(total > 0)) return stk_fail(err, STOKE_E_INVALID, "%s: all weights are 0", csv->origin);
    if (total > 1e300)
        return stk_fail(err, STOKE_E_INVALID, "%s: the sum of the weights is too large", csv->origin);
    return STOKE_OK;
}

int stk_weights_parse(const stoke_dataset *dataset, const char *path, const void *bytes, size_t size,
                      double **cumulative, stoke_error *err)
{
    *cumulative = NULL;
    stk_csv *csv = stk_alloc(sizeof *csv);
    double *weights = stk_calloc(stoke_dataset_count(dataset), sizeof *weights);
    int r = STOKE_OK;
    if (!csv || !weights)
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for the weights");
    else {
        stk_csv_start(csv, path, bytes, size);
        r = fill(dataset, csv, weights, err);
    }
    stk_free(csv);
    if (r != STOKE_OK)
        stk_free(weights);
    else
        *cumulative = weights;
    return r;
}

int stk_weights_load(const stoke_dataset *dataset, const char *path, double **cumulative, stoke_error *err)
{
    stk_mem_buffer buffer = { 0 };
    size_t size = 0;
    *cumulative = NULL;
    int r = stk_file_read(path, WEIGHTS_LIMIT, &buffer, &size, err);
    if (r == STOKE_OK) r = stk_weights_parse(dataset, path, buffer.data, size, cumulative, err);
    stk_buffer_free(&buffer);
    return r;
}
