/* SPDX-License-Identifier: Apache-2.0
 *
 * From the grid of the logits to classes at the picture's size: the function that gives stoke_net_predict its
 * classes interpolates to any size, so both agree to the bit where sizes do.
 */
#include <math.h>
#include <string.h>
#include <stoke/tools/image.h>

#include "src/base/error.h"
#include "src/net/net.h"
#include "src/train/predict.h"

const uint16_t *stk_grid_classes(stoke_predictor *p, const stk_predict_grid *grid, uint32_t width,
                                 uint32_t height, stoke_error *err)
{
    const stk_loss_shape shape = { .batch = 1,
                                   .classes = p->classes,
                                   .in_height = grid->height,
                                   .in_width = grid->width,
                                   .height = height,
                                   .width = width };
    uint16_t *labels = stk_buffer_reserve(&p->labels, stoke_image_bytes(width, height, 1, 2));
    void *taps = stk_buffer_reserve(&p->taps, stk_loss_room(&shape));
    if (!labels || !taps) {
        stk_fail(err, STOKE_E_NOMEM, "no memory for the classes of %u x %u pixels", width, height);
        return NULL;
    }
    stk_loss_bind(&shape, taps);
    /* Of the thread's scratch it takes two planes, [classes][lanes], whatever the shape: the network's own is
     * enough. */
    stk_classes_of(&p->net->run, &shape, taps, grid->data, labels);
    return labels;
}

void stk_grid_copy(const uint16_t *classes, size_t stride, uint32_t lines, const stoke_image *mask,
                   uint32_t first)
{
    for (uint32_t y = 0; y < lines; y++) {
        const uint16_t *from = classes + y * stride;
        uint8_t *to = (uint8_t *)mask->data + (first + (size_t)y) * mask->stride;
        if (mask->depth == 2)
            memcpy(to, from, (size_t)mask->width * 2);
        else
            for (uint32_t x = 0; x < mask->width; x++) to[x] = (uint8_t)from[x];
    }
}

typedef struct sureness {
    const stoke_predictor *predictor;
    const stk_predict_grid *grid;
    uint32_t columns;
    double *sums; /* one per line: added up in order */
} sureness;

/* Probability of the winner: 1 / sum of exp(logit - the largest). */
static double winner(const float *logits, uint32_t classes)
{
    float most = logits[0], sum = 0;
    if (classes == 1) return 1 / (1 + expf(-fabsf(logits[0])));
    for (uint32_t k = 1; k < classes; k++) most = logits[k] > most ? logits[k] : most;
    for (uint32_t k = 0; k < classes; k++) sum += expf(logits[k] - most);
    return 1 / sum;
}

static void sum_line(const void *context, uint32_t line, uint32_t thread)
{
    (void)thread;
    const sureness *s = context;
    const float *element = s->grid->data + (size_t)line * s->grid->width * s->predictor->stride;
    double sum = 0;
    for (uint32_t x = 0; x < s->columns; x++, element += s->predictor->stride)
        sum += winner(element, s->predictor->classes);
    s->sums[line] = sum;
}

double stk_grid_confidence(stoke_predictor *p, const stk_predict_grid *grid, uint32_t lines, uint32_t columns)
{
    double *sums = stk_buffer_reserve(&p->lines, lines * sizeof *sums);
    if (!sums) return NAN;
    const sureness s = { p, grid, columns, sums };
    stk_threadpool_run(p->net->run.pool, sum_line, &s, lines);
    double sum = 0;
    for (uint32_t i = 0; i < lines; i++) sum += sums[i];
    return sum;
}
