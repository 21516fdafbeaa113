/* SPDX-License-Identifier: Apache-2.0
 *
 * Which learning rate: train with one that grows from step to step, look at the loss, put everything back.
 *
 *   stoke_find_lr_params params = stoke_find_lr_defaults();
 *   stoke_lr_report report;
 *   stoke_find_lr(&data, &train, &params, on_event, context, &report, &err);
 *   train.lr = report.suggested; // report.confidence says how far to trust it
 *   stoke_lr_report_free(&report);
 *
 * The curve is smoothed to both sides (medians of 5, then lines fitted to a twentieth of the curve on either
 * side), so that it does not lag behind the rate; and up to where it turns, three rates are read from it:
 *
 *   half      where half of the fall is done
 *   floor     where nine tenths of its fall are done: higher rates gain little
 *   lowest    where it is lowest; beyond it every step loses more than it gains
 *
 * They come in this order: the first and the last are the interval in which a good rate lies. Suggested is
 * the middle of the last two, in logarithms. Confidence is high where the first and the last differ by a
 * factor of 10 at most, the loss fell by 20 % or more and its scatter leaves the smoothed curve within 3 % of
 * the fall; medium: 30, 5 % and 10 %; else low. Where the curve says nothing (it fell by less than 5 %), the
 * sweep suggests the rate that is usual for such settings, with low confidence.
 */
#ifndef STOKE_TOOLS_FINDLR_H
#define STOKE_TOOLS_FINDLR_H

#include <stoke/loader.h>
#include <stoke/train.h>

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

typedef enum stoke_lr_confidence {
    STOKE_LR_LOW = 0,
    STOKE_LR_MEDIUM = 1,
    STOKE_LR_HIGH = 2
} stoke_lr_confidence;

typedef struct stoke_lr_report {
    stoke_lr_point *points;
    size_t count;
    stoke_lr_end end;
    double end_lr;              /* the last rate that was tried */
    double half, floor, lowest; /* NaN: the curve has none */
    double drop;                /* of the smoothed loss, as a share of where it began */
    double noise;               /* of the smoothed loss, as a share of its fall; NaN: it did not fall */
    double suggested;           /* NaN: stoke_lr_judge alone, of a curve that says nothing */
    int from_curve;             /* 1: it was read from the curve; 0: it is what is usual */
    stoke_lr_confidence confidence;
    char why[384]; /* it is low, and what to change; "": it is not */
    double seconds;
    stoke_memory_sum memory; /* what the sweep took */
} stoke_lr_report;
STOKE_API void stoke_lr_report_free(stoke_lr_report *report); /* accepts a zeroed struct */

/* Whether a sweep of one's own should go on: zeroed at first, then told every loss. `smooth` is an average of
 * the past (0.98 a step), for people who look on; ROSE: it is more than 4 times its lowest. */
typedef struct stoke_lr_watch {
    double sum, share; /* of the average, whose start is corrected: after one loss it is that loss */
    double smooth, lowest;
} stoke_lr_watch;
STOKE_API stoke_lr_end stoke_lr_watch_next(stoke_lr_watch *watch, double loss);

/* The three readings and the verdict, from lr and loss of `count` points in the order of growing rates:
 * `smooth` and everything from `half` on, but not `seconds`. For curves of one's own, too. */
STOKE_API int stoke_lr_judge(stoke_lr_report *report, stoke_error *err);

/* Sweeps from settings, as stoke_trainer_open takes them; nothing is written. Batches come from the start of
 * epoch 0. Optimiser, its settings, accumulate and clip_norm are those of `train`; its lr and schedule are
 * not looked at. event (may be NULL) gets remarks, SETTLING, READY and STEP; a non-zero return ends the sweep
 * with STOKE_E_CANCELLED. On failure the report is empty but for its memory. */
STOKE_API int stoke_find_lr(const stoke_data_params *data, const stoke_train_params *train,
                            const stoke_find_lr_params *params, stoke_train_fn event, void *context,
                            stoke_lr_report *report, stoke_error *err);

#endif
