/* SPDX-License-Identifier: Apache-2.0
 *
 * "did you mean ...?": the known name most like one that was typed.
 */
#ifndef STOKE_SRC_BASE_NEAREST_H
#define STOKE_SRC_BASE_NEAREST_H

typedef struct stk_nearest {
    const char *typed;
    const char *best; /* of the names tried so far; NULL: none is near enough to be meant */
    unsigned distance;
} stk_nearest;

/* `-` and `_` are the same letter in the typed name. */
stk_nearest stk_nearest_to(const char *typed);
void stk_nearest_try(stk_nearest *nearest, const char *known);

#endif
