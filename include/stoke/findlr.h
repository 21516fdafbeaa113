/* SPDX-License-Identifier: Apache-2.0
 *
 * Which learning rate: train with one that grows from step to step, look at the loss, put everything back.
 *
 *   stoke_find_lr_params params = stoke_find_lr_defaults();
 *   stoke_lr_report report;
 *   stoke_find_lr(&data, &train, &params, on_event, context, &report, &err);
 *   if (isfinite(report.suggested)) train.lr = report.suggested; // else report.why
 *   stoke_lr_report_free(&report);
 *
 * The curve is smoothed (exponential average, 0.98, its start corrected), and three readings of it are made,
 * each in logarithms of the rate, since that is how the rates are spaced:
 *
 *   steepest  where the loss falls fastest per factor of the rate (of d loss / d rate, the smallest rates
 *             would win always: there a factor is the shortest way)
 *   tenth     a tenth of the rate with the lowest loss
 *   valley    the middle of the longest fall on the way to the lowest loss
 *
 * They agree within a factor of 10, and the loss falls by 5 % or more: then the steepest is suggested.
 * Otherwise nothing is, and `why` says so: a number that looks exact would be worse than none.
 */
#ifndef STOKE_FINDLR_H
#define STOKE_FINDLR_H

#include <stoke/loader.h>
#include <stoke/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stoke_find_lr_params {
    uint32_t struct_size;
    double low, high; /* first and last rate; 1e-6, 1 */
    uint32_t steps;   /* 100 to 10000; 200. The sweep ends before when the loss is 4 times its lowest */
} stoke_find_lr_params;
STOKE_API stoke_find_lr_params stoke_find_lr_defaults(void);

typedef struct stoke_lr_point {
    double lr, loss, smooth;
} stoke_lr_point;

typedef enum stoke_lr_end {
    STOKE_LR_END_WHOLE = 0,     /* every step was taken */
    STOKE_LR_END_ROSE = 1,      /* the smoothed loss was more than 4 times its lowest */
    STOKE_LR_END_NOT_FINITE = 2 /* loss or gradients were no numbers any more; not among the points */
} stoke_lr_end;

typedef struct stoke_lr_report {
    stoke_lr_point *points;
    size_t count;
    stoke_lr_end end;
    double end_lr;                  /* the last rate that was tried */
    double steepest, tenth, valley; /* NaN: the curve has none */
    double drop;                    /* of the smoothed loss, as a share of where it began */
    double suggested;               /* NaN: none */
    char why[384];                  /* no suggestion, and why; "": there is one */
    double seconds;
} stoke_lr_report;
STOKE_API void stoke_lr_report_free(stoke_lr_report *report); /* accepts a zeroed struct */

/* The three readings and the verdict, from lr and loss of `count` points in the order of growing rates:
 * `smooth` and everything from `steepest` on, but not `seconds`. For curves of one's own, too. */
STOKE_API int stoke_lr_judge(stoke_lr_report *report, stoke_error *err);

/* Sweeps with a network and a loader that are there already. Afterwards both are as they were, bit for bit:
 * weights, moments, average, running statistics, counters, place in the data (not the gradients: call it
 * between two steps). Batches come from the start of epoch 0, whatever was read before. Optimiser, its
 * settings, accumulate and clip_norm are those of `train`; its lr and schedule are not looked at. event (may
 * be NULL) gets STOKE_TRAIN_STEP; a non-zero return ends the sweep with STOKE_E_CANCELLED, everything put
 * back. On failure the report is empty. */
STOKE_API int stoke_find_lr_on(stoke_net *net, stoke_loader *loader, const stoke_train_params *train,
                               const stoke_find_lr_params *params, stoke_train_fn event, void *context,
                               stoke_lr_report *report, stoke_error *err);

/* The same from settings, as stoke_trainer_open takes them; nothing is written. event also gets remarks,
 * SETTLING and READY. */
STOKE_API int stoke_find_lr(const stoke_data_params *data, const stoke_train_params *train,
                            const stoke_find_lr_params *params, stoke_train_fn event, void *context,
                            stoke_lr_report *report, stoke_error *err);

#ifdef __cplusplus
}
#endif
#endif
