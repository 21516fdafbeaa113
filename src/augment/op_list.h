/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of ops that hold several values in one text: "0.485,0.456,0.406", "0,255", "2-3,4-5".
 */
#ifndef STOKE_SRC_AUGMENT_OP_LIST_H
#define STOKE_SRC_AUGMENT_OP_LIST_H

#include <stoke/common.h>

enum { STK_CLASS_MAX = 65535 }; /* masks are 16 bits at most */

/* Exactly `count` numbers within [low, high], or one that stands for all. `name` is the setting's. */
int stk_op_numbers(const char *name, const char *text, double low, double high, double *values, size_t count,
                   stoke_error *err);
/* Up to `limit` class ids; an empty text is an empty list. */
int stk_op_ids(const char *name, const char *text, uint32_t *ids, size_t limit, size_t *count,
               stoke_error *err);
/* Up to `limit` pairs A-B, no id twice. */
int stk_op_pairs(const char *name, const char *text, uint32_t (*pairs)[2], size_t limit, size_t *count,
                 stoke_error *err);

#endif
