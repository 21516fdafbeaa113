/* SPDX-License-Identifier: Apache-2.0
 *
 * How good a segmentation is: everything from one matrix of counts, truth x prediction, over all pixels of
 * all pictures that are not ignored.
 *
 * Convention, as torchmetrics' (validate by tests/parity/metrics_live.py): counts are added up over the whole
 * set first, ratios are taken once at the end. A class that occurs neither in truth nor in prediction has no
 * score (NaN) and does not enter a mean; one that occurs in only one of them counts with 0.
 */
#ifndef STOKE_METRICS_H
#define STOKE_METRICS_H

#include <stoke/data.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stoke_confusion stoke_confusion;

/* classes 1 means foreground against background: the matrix has two classes then. ignore_index -1: none. */
STOKE_API int stoke_confusion_create(stoke_confusion **out, uint32_t classes, int64_t ignore_index,
                                     stoke_error *err);
STOKE_API void stoke_confusion_destroy(stoke_confusion **confusion);
STOKE_API void stoke_confusion_reset(stoke_confusion *confusion);

/* Adds `pixels` pixels. truth has the loader's element type (u8, u16, i32, i64). STOKE_E_LABEL: a value that
 * is neither a class nor ignore_index; nothing of this call was added then. */
STOKE_API int stoke_confusion_add(stoke_confusion *confusion, const uint16_t *predicted, const void *truth,
                                  stoke_dtype truth_dtype, size_t pixels, stoke_error *err);
/* Adds the counts of another matrix of as many classes. */
STOKE_API int stoke_confusion_merge(stoke_confusion *confusion, const stoke_confusion *other,
                                    stoke_error *err);

STOKE_API uint32_t stoke_confusion_classes(const stoke_confusion *confusion);
STOKE_API uint64_t stoke_confusion_count(const stoke_confusion *confusion, uint32_t truth,
                                         uint32_t predicted);

typedef struct stoke_class_score {
    uint64_t truth, predicted, hit;    /* pixels */
    double iou, f1, precision, recall; /* NaN: not defined */
} stoke_class_score;
STOKE_API stoke_class_score stoke_confusion_class(const stoke_confusion *confusion, uint32_t id);

typedef struct stoke_scores {
    double miou;              /* mean of iou over the classes that occur */
    double f1_macro;          /* mean of f1 over them */
    double f1_micro;          /* of all pixels together; with one label per pixel this is pixel_accuracy */
    double precision, recall; /* means over the classes that occur */
    double pixel_accuracy;
    uint32_t classes_counted; /* that occur */
    uint64_t pixels;          /* that counted */
} stoke_scores;
/* NaN throughout when no pixel counted. */
STOKE_API stoke_scores stoke_confusion_scores(const stoke_confusion *confusion);
/* The convention in two sentences, for reports. */
STOKE_API const char *stoke_scores_convention(void);

#ifdef __cplusplus
}
#endif
#endif
