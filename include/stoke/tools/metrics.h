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
    int charted;
} stoke_score;
/* metric: below STOKE_SCORES. */
STOKE_API const stoke_score *stoke_score_at(int metric);

STOKE_API double stoke_score_value(const stoke_scores *scores, int metric);

/* The convention in two sentences, for reports. */
STOKE_API const char *stoke_scores_convention(void);

#endif
