/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/metrics.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_METRICS_H
#define STOKE_TOOLS_METRICS_H

#include <stoke/metrics.h>

/* All counts to zero. */
STOKE_API void stoke_confusion_reset(stoke_confusion *confusion);

STOKE_API uint32_t stoke_confusion_classes(const stoke_confusion *confusion);

STOKE_API uint64_t stoke_confusion_count(const stoke_confusion *confusion, uint32_t truth,
                                         uint32_t predicted);

/* A line of scores.def. */
typedef struct stoke_score {
    const char *name, *title, *metric;
    size_t offset; /* in stoke_scores */
    int task;      /* stoke_task: segment or restore */
    int charted;
} stoke_score;
/* metric: below STOKE_SCORES. */
STOKE_API const stoke_score *stoke_score_at(int metric);

STOKE_API double stoke_score_value(const stoke_scores *scores, int metric);

/* 1: `metric` is a score of the task; the loss is one of every task. */
STOKE_API int stoke_metric_fits(int metric, int task);

/* The convention in two sentences, for reports. */
STOKE_API const char *stoke_scores_convention(void);

/* The same for PSNR and SSIM. */
STOKE_API const char *stoke_restored_convention(void);

/* ---- restored pictures ---- */

/* PSNR and SSIM of pictures as <stoke/metrics.h> defines them. Values are taken as they are: those beyond the
 * range are for the caller to clip, in both pictures. */

typedef struct stoke_restored stoke_restored;

/* A picture as it lies in memory: channel c of pixel (line, x) is element line * row + x * column + c * plane
 * of data. */
typedef struct stoke_restored_picture {
    const void *data;
    stoke_dtype dtype; /* f32 or u8 */
    size_t row, column, plane;
} stoke_restored_picture;

/* Of one picture. */
typedef struct stoke_restored_score {
    double psnr, ssim; /* NaN: one of its values is */
} stoke_restored_score;

/* The least height and width that have an SSIM: the window is mirrored at the edges. */
enum { STOKE_RESTORED_SIDE = 6 };

/* range: of the values that pictures can have, 1 or 255. STOKE_E_INVALID: not above 0. */
STOKE_API int stoke_restored_create(stoke_restored **out, double range, stoke_error *err);
STOKE_API void stoke_restored_destroy(stoke_restored **restored);
/* As if no picture was added. */
STOKE_API void stoke_restored_reset(stoke_restored *restored);
/* Adds a picture, and gives its own scores (own may be NULL). Memory is kept from call to call: 416 bytes per
 * column. STOKE_E_INVALID: another dtype, or a side below STOKE_RESTORED_SIDE; nothing was added then. */
STOKE_API int stoke_restored_add(stoke_restored *restored, uint32_t height, uint32_t width, uint32_t channels,
                                 const stoke_restored_picture *found, const stoke_restored_picture *truth,
                                 stoke_restored_score *own, stoke_error *err);
/* Adds the sums of another one, of the same range; in double, so that the last bits depend on the order. */
STOKE_API int stoke_restored_merge(stoke_restored *restored, const stoke_restored *other, stoke_error *err);
/* psnr, ssim and pixels; all else is NaN or 0. NaN throughout when no picture was added. */
STOKE_API stoke_scores stoke_restored_scores(const stoke_restored *restored);
/* The mean of the pictures' own PSNR. */
STOKE_API double stoke_restored_psnr_mean(const stoke_restored *restored);

#endif
