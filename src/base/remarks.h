/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences for people, one after the other: kept in a list, added to a text, or handed to whoever asked.
 */
#ifndef STOKE_SRC_BASE_REMARKS_H
#define STOKE_SRC_BASE_REMARKS_H

#include <stoke/common.h>

enum { STK_REMARKS = 64, STK_REMARK_TEXT = 1200 };

/* A zeroed one is empty. What is beyond STK_REMARKS, or finds no memory, is not kept. */
typedef struct stk_remarks {
    char *text[STK_REMARKS];
    size_t n;
} stk_remarks;
int stk_remark(stk_remarks *remarks, const char *format, ...) STOKE_PRINTF(2, 3); /* STOKE_OK, always */
/* NULL past the last one. */
const char *stk_remark_at(const stk_remarks *remarks, size_t index);
void stk_remarks_free(stk_remarks *remarks);
/* As a stk_say_fn whose context is the list. */
void stk_remark_keep(void *remarks, const char *sentence);

/* More at the end of a text that has room for `size` bytes, behind `between` unless it is the first. What
 * does not fit is cut off. */
void stk_text_add(char *text, size_t size, const char *between, const char *format, ...) STOKE_PRINTF(4, 5);

/* Who finds something worth saying hands a sentence to whoever asked; `say` may be NULL. */
typedef void stk_say_fn(void *context, const char *sentence);
void stk_say(stk_say_fn *say, void *context, const char *format, ...) STOKE_PRINTF(3, 4);

#endif
