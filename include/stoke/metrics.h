/* SPDX-License-Identifier: Apache-2.0
 *
 * How good a segmentation is: everything from one matrix of counts, truth x prediction, over all pixels of
 * all pictures that are not ignored. And how good restored pictures are: PSNR and SSIM (below).
 *
 * Convention, as torchmetrics 1.0 to 1.9 (tests/parity/metrics_live.py compares): counts are added up over
 * the whole set first, ratios are taken once at the end. A class that occurs neither in truth nor in
 * prediction has no score (NaN) and does not enter a mean; one that occurs in only one of them counts with 0,
 * also where the ratio itself would be 0 / 0 (the precision of a class that was never predicted).
 *
 * torchmetrics here means JaccardIndex, F1Score, Precision, Recall (multiclass, average macro) and Accuracy
 * (average micro). What others do with the same pixels:
 *   - torchmetrics up to 0.11 let absent classes enter every mean, with 0.
 *   - torchmetrics.segmentation.MeanIoU is another thing: a mean over the classes of each picture alone.
 *   - Hugging Face's evaluate (mean_iou) and MMSegmentation give the same IoU and mean IoU. Their mean
 * accuracy (our recall) leaves out classes that do not occur in truth, MMSegmentation's mean precision those
 * that were never predicted, and its mean F-score all without a hit: these are larger than ours then.
 */
#ifndef STOKE_METRICS_H
#define STOKE_METRICS_H

#include <stoke/data.h>

typedef struct stoke_confusion stoke_confusion;

/* 8 bytes per pair of classes: 134 MB, and as much again for the scores of single pictures. The largest sets
 * have about 1200. */
enum { STOKE_CONFUSION_CLASSES = 4096 };

/* classes 1 means foreground against background: the matrix has two classes then, as in `loss` pixels below 0
 * do not count, and means are over both (the class 1 alone is torchmetrics' binary task). ignore_index -1:
 * none. STOKE_E_LIMIT: more than STOKE_CONFUSION_CLASSES. */
STOKE_API int stoke_confusion_create(stoke_confusion **out, uint32_t classes, int64_t ignore_index,
                                     stoke_error *err);
STOKE_API void stoke_confusion_destroy(stoke_confusion **confusion);

/* Adds `pixels` pixels. truth has the loader's element type (u8, u16, i32, i64). STOKE_E_LABEL: a value that
 * is neither a class nor ignore_index; nothing of this call was added then. What is predicted for a pixel
 * that does not count is not looked at. */
STOKE_API int stoke_confusion_add(stoke_confusion *confusion, const uint16_t *predicted, const void *truth,
                                  stoke_dtype truth_dtype, size_t pixels, stoke_error *err);
/* Adds the counts of another matrix of as many classes. */
STOKE_API int stoke_confusion_merge(stoke_confusion *confusion, const stoke_confusion *other,
                                    stoke_error *err);

typedef struct stoke_class_score {
    uint64_t truth, predicted, hit;    /* pixels */
    double iou, f1, precision, recall; /* NaN: not defined */
} stoke_class_score;
STOKE_API stoke_class_score stoke_confusion_class(const stoke_confusion *confusion, uint32_t id);

/* What --metric takes: a score, or the loss, of which the lowest is the best. */
typedef enum stoke_metric_kind {
#define STOKE_SCORE(id, task, name, title, metric, charted) STOKE_METRIC_##id,
#include <stoke/scores.def>
#undef STOKE_SCORE
    STOKE_METRIC_LOSS,
    STOKE_SCORES = STOKE_METRIC_LOSS
} stoke_metric_kind;

typedef struct stoke_scores {
#define STOKE_SCORE(id, task, name, title, metric, charted) double name;
#include <stoke/scores.def>
#undef STOKE_SCORE
    uint32_t classes_counted; /* that occur */
    uint64_t pixels;          /* that counted */
} stoke_scores;

/* NaN throughout when no pixel counted. Scores of the other task are NaN always. */
STOKE_API stoke_scores stoke_confusion_scores(const stoke_confusion *confusion);

/* ---- restored pictures ---- */

/* How close restored pictures are to their targets: PSNR and SSIM, equal to those of torchmetrics 1.9 with
 * the range of values given as data_range (tests/parity/restored_live.py compares).
 *
 * psnr is PeakSignalNoiseRatio: 10 log10(range^2 / the mean of the squared errors of all values of all
 * pictures), infinite where all are equal; large pictures weigh more. Papers on restoration often give the
 * mean over pictures of the PSNR of each, which is higher as a rule.
 * ssim is StructuralSimilarityIndexMeasure: Gaussian window of 11 x 11 with sigma 1.5, k1 0.01, k2 0.03, per
 * channel, over all pixels of a picture mirrored at its edges, then the mean over pictures. What others do
 * with the same pictures: torchmetrics up to 1.4 left out 5 pixels along every edge; many papers take the
 * luma alone (Y of YCbCr). */

#endif
