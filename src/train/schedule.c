/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step is taken with. The learning rate: PyTorch's formulae (LinearLR, PolynomialLR,
 * CosineAnnealingLR), counted from the end of the warm-up. By exact_math.h, not libm: a resumed run may go on
 * with another C library.
 */
#include <math.h>

#include "src/base/exact_math.h"
#include "src/train/setup.h"

/* Below 1 a share of all steps, rounded; never more than there are. */
static uint64_t warmup_steps(const stoke_train_params *p, uint64_t steps)
{
    const double wanted = p->warmup < 1 ? p->warmup * (double)steps + 0.5 : p->warmup;
    if (!(wanted > 0)) return 0;
    return wanted >= (double)steps ? steps : (uint64_t)wanted;
}

/* What is left of the way from lr down to its end, 1 .. 0, when `t` of it is gone. */
static double falling(const stoke_train_params *p, double t)
{
    double sine, cosine;
    switch ((stoke_schedule_kind)p->schedule) {
    case STOKE_SCHEDULE_POLY: return p->power == 1 ? 1 - t : stk_pow(1 - t, p->power);
    case STOKE_SCHEDULE_COSINE: stk_sincos_degrees(180 * t, &sine, &cosine); return 0.5 * (1 + cosine);
    case STOKE_SCHEDULE_CONSTANT: break;
    }
    return 1;
}

double stoke_train_lr(const stoke_train_params *params, uint64_t step, uint64_t steps)
{
    const uint64_t warmup = warmup_steps(params, steps);
    if (step < warmup) return params->lr * (double)(step + 1) / (double)warmup;
    const double t = step < steps ? (double)(step - warmup) / (double)(steps - warmup) : 1;
    return params->lr * (params->lr_end + (1 - params->lr_end) * falling(params, t));
}

stoke_update stk_setup_update(const stoke_train_params *p, double lr, uint64_t step)
{
    /* Early on the average would be mostly the random weights it began with: 0.999 forgets them after some
     * thousands of steps. So it starts short and grows to its length, as TensorFlow's does. */
    const double grown = (1.0 + (double)step) / (10.0 + (double)step);
    return (stoke_update){ .lr = lr,
                           .beta1 = p->optimizer == STOKE_OPTIMIZER_SGD ? p->momentum : p->beta1,
                           .beta2 = p->beta2,
                           .eps = p->eps,
                           .weight_decay = p->weight_decay,
                           .head_lr = p->head_lr,
                           .clip_norm = p->clip_norm,
                           .average_decay = fmin(p->average, grown),
                           .nesterov = p->nesterov };
}
