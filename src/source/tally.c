/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/tally.h"

static void add_run(stk_tally *tally, uint16_t id, uint32_t length)
{
    tally->pixels[id] += length;
    if (tally->stamp[id] == tally->sample) return;
    tally->stamp[id] = tally->sample;
    tally->samples[id]++;
    tally->seen[tally->n_seen++] = id;
}

/* By runs: masks are areas of one id (the mean run of the CamVid masks is 36 pixels), and counting a
 * pixel at a time would wait for the same counter on every pixel. */
void stk_tally_add(stk_tally *tally, const stoke_image *ids)
{
    tally->sample++; /* from 1: a zeroed stamp is no sample */
    tally->n_seen = 0;
    for (uint32_t y = 0; y < ids->height; y++) {
        const uint8_t *bytes = (const uint8_t *)ids->data + y * ids->stride;
        const uint16_t *words = (const uint16_t *)(const void *)bytes;
        for (uint32_t x = 0, start; x < ids->width;) {
            start = x;
            uint16_t id = ids->depth == 1 ? bytes[x] : words[x];
            if (ids->depth == 1)
                while (++x < ids->width && bytes[x] == id) {
                }
            else
                while (++x < ids->width && words[x] == id) {
                }
            add_run(tally, id, x - start);
        }
    }
}

void stk_tally_merge(stk_tally *tally, const stk_tally *other)
{
    for (uint32_t i = 0; i < STK_TALLY_IDS; i++) {
        tally->pixels[i] += other->pixels[i];
        tally->samples[i] += other->samples[i];
    }
}
