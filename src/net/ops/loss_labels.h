/* SPDX-License-Identifier: Apache-2.0
 *
 * Labels of a mask as the loss wants them: classes as int32, -1 where a pixel does not count.
 */
#ifndef STOKE_SRC_NET_OPS_LOSS_LABELS_H
#define STOKE_SRC_NET_OPS_LOSS_LABELS_H

#include <stoke/data.h>

typedef struct stk_label_rules {
    stoke_dtype dtype; /* u8, u16, i32 or i64 */
    uint32_t classes;  /* 1: labels are 0 and 1, and negative ones do not count, as Hugging Face has it */
    int64_t ignore;
} stk_label_rules;

/* Labels first .. first + count of a mask. 0: one of them is neither a class nor ignored. */
int stk_labels_read(const stk_label_rules *rules, const void *mask, size_t first, size_t count,
                    int32_t *labels);
/* Where the first such label is, for the message; its value to *value. `count` when there is none. */
size_t stk_labels_bad(const stk_label_rules *rules, const void *mask, size_t first, size_t count,
                      int64_t *value);

#endif
