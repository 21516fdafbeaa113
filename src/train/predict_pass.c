/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows through the network, and what comes out added to the sums.
 */
#include <math.h>

#include "src/net/net.h"
#include "src/train/predict.h"

uint32_t stk_predict_views(const stoke_predictor *predictor)
{
    return predictor->params.flip ? 2 : 1;
}

void stk_predict_put(stoke_predictor *p, uint32_t item, const stoke_image *pixels)
{
    const uint32_t views = stk_predict_views(p);
    const size_t row = 3 * (size_t)p->height * p->width;
    for (uint32_t view = 0; view < views; view++)
        stk_write_image(&p->writer, pixels, p->rows + (item * views + view) * row, p->width, p->height, 0, 0,
                        view ? STK_MIRROR_H : 0);
}

int stk_predict_pass(stoke_predictor *p, uint32_t items, stoke_logits *logits, stoke_error *err)
{
    const stoke_net_batch batch = { .count = items * stk_predict_views(p),
                                    .images = p->rows,
                                    .layout = STOKE_LAYOUT_CHW,
                                    .image_row_floats = 3 * (size_t)p->height * p->width };
    return stoke_net_forward(p->net, &batch, logits, err);
}

/* ---- two views of one thing ---- */

/* log(exp(a) + exp(b)) without overflow. */
static float log_add(float a, float b)
{
    const float most = a > b ? a : b, least = a > b ? b : a;
    return most + log1pf(expf(least - most));
}

/* log of the sum of exp of all. */
static float log_sum(const float *logits, uint32_t classes)
{
    float most = logits[0], sum = 0;
    for (uint32_t k = 1; k < classes; k++) most = logits[k] > most ? logits[k] : most;
    for (uint32_t k = 0; k < classes; k++) sum += expf(logits[k] - most);
    return most + logf(sum);
}

static float log_sigmoid(float z)
{
    return (z < 0 ? z : 0) - log1pf(expf(-fabsf(z)));
}

/* The log of the mean of both views' probabilities, up to a constant; of one class its logit. Differences of
 * large numbers do not occur: a class that both views hold impossible stays as unlikely as they say. */
static void merge(const stoke_predictor *p, const float *own, const float *mirrored, float *merged)
{
    if (p->classes == 1) {
        merged[0] = log_add(log_sigmoid(own[0]), log_sigmoid(mirrored[0])) -
                    log_add(log_sigmoid(-own[0]), log_sigmoid(-mirrored[0]));
        return;
    }
    const float own_sum = log_sum(own, p->classes), mirrored_sum = log_sum(mirrored, p->classes);
    for (uint32_t k = 0; k < p->classes; k++)
        merged[k] = log_add(own[k] - own_sum, mirrored[p->swap ? p->swap[k] : k] - mirrored_sum);
}

/* ---- sums ---- */

typedef struct adding {
    const stoke_predictor *predictor;
    const stoke_logits *logits;
    const stk_predict_sums *sums;
    const uint32_t *columns;
    uint32_t items;
    float *merged; /* an element per thread */
} adding;

/* One line of all items, in their order: so overlapping items are added the same way by any threads. */
static void add_line(const void *context, uint32_t line, uint32_t thread)
{
    const adding *a = context;
    const stoke_predictor *p = a->predictor;
    const stk_predict_sums *sums = a->sums;
    const size_t stride = a->logits->stride, row = a->logits->width * stride;
    const size_t picture = a->logits->height * row;
    const uint32_t views = stk_predict_views(p);
    float *merged = a->merged + thread * stride;
    for (uint32_t item = 0; item < a->items; item++) {
        const float *own = a->logits->data + item * views * picture + line * row;
        float *to = sums->data + ((size_t)line * sums->width + a->columns[item]) * stride;
        for (uint32_t x = 0; x < a->logits->width; x++, to += stride) {
            const float *from = own + x * stride;
            const float share = sums->across ? sums->across[a->columns[item] + x] * sums->down[line] : 1.0f;
            if (views == 2) {
                merge(p, from, own + picture + row - (x + 1) * stride, merged);
                from = merged;
            }
            for (uint32_t k = 0; k < p->classes; k++) to[k] += share * from[k];
        }
    }
}

void stk_predict_add(stoke_predictor *p, const stoke_logits *logits, uint32_t items, const uint32_t *columns,
                     const stk_predict_sums *sums)
{
    const adding a = { p, logits, sums, columns, items, p->merged.data };
    stk_threadpool_run(p->net->run.pool, add_line, &a, logits->height);
}
