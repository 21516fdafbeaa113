/* SPDX-License-Identifier: Apache-2.0
 *
 * "did you mean ...?": the known name most like one that was typed.
 */
#ifndef STOKE_SRC_BASE_DID_YOU_MEAN_H
#define STOKE_SRC_BASE_DID_YOU_MEAN_H

typedef struct stk_did_you_mean {
    const char *typed;
    const char *best; /* of the names tried so far; NULL: none is near enough to be meant */
    unsigned distance;
} stk_did_you_mean;

/* `-` and `_` are the same letter in the typed name. */
stk_did_you_mean stk_did_you_mean_to(const char *typed);
void stk_did_you_mean_try(stk_did_you_mean *nearest, const char *known);

#endif
