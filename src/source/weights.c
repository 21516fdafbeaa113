/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/weights.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/source/csv.h"
#include "src/source/natural.h"

#define WEIGHTS_LIMIT (UINT64_C(1) << 30)

/* Weights in place to running sums. */
static int accumulate(double *weights, uint64_t count, const char *origin, stoke_error *err)
{
    double total = 0;
    for (uint64_t i = 0; i < count; i++) weights[i] = total += weights[i];
    if (!(total > 0)) return stk_fail(err, STOKE_E_INVALID, "%s: all weights are 0", origin);
    if (total > 1e300)
        return stk_fail(err, STOKE_E_INVALID, "%s: the sum of the weights is too large", origin);
    return STOKE_OK;
}

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
    size_t used = strlen(e->text);
    if (e->count++ < 3) snprintf(e->text + used, sizeof e->text - used, "%s%.60s", used ? ", " : "", name);
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
    return accumulate(weights, count, csv->origin, err);
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
