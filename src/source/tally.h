/* SPDX-License-Identifier: Apache-2.0
 *
 * How often every class occurs, in pixels and in samples. Fixed size (1.7 MB), one per thread.
 */
#ifndef STOKE_SRC_SOURCE_TALLY_H
#define STOKE_SRC_SOURCE_TALLY_H

#include <stoke/image.h>

enum { STK_TALLY_IDS = 65536 };

typedef struct stk_tally {
    uint64_t pixels[STK_TALLY_IDS], samples[STK_TALLY_IDS];
    uint64_t stamp[STK_TALLY_IDS]; /* the sample in which an id was last seen */
    uint64_t sample;
    uint16_t seen[STK_TALLY_IDS]; /* ids of the last mask, in order of appearance */
    uint32_t n_seen;
} stk_tally;

/* Adds a mask of class ids (1 channel, u8 or u16). */
void stk_tally_add(stk_tally *tally, const stoke_image *ids);
/* Adds the sums of another tally. */
void stk_tally_merge(stk_tally *tally, const stk_tally *other);

#endif
