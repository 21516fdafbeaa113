/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of Huffman codes, built from what a JPEG file says of them.
 */
#include "src/codec/jpeg_codes.h"

unsigned stk_codes_find(const stk_codes *t, uint32_t sixteen)
{
    unsigned n = 1;
    while (n <= 16 && sixteen >= t->limit[n]) n++;
    if (n > 16) return 0;
    return n << 8 | t->symbols[(int32_t)(sixteen >> (16 - n)) + t->offset[n]];
}

/* Every window's first code, length << 8 | symbol; 0 = longer than the window, or none. */
static void list_first_codes(const stk_codes *t, uint16_t *first)
{
    unsigned at = 0, index = 0;
    for (unsigned n = 1; n <= STK_WINDOW; n++)
        for (unsigned i = 0; i < t->counts[n]; i++, index++)
            for (unsigned repeat = 1u << (STK_WINDOW - n); repeat > 0; repeat--)
                first[at++] = (uint16_t)(n << 8 | t->symbols[index]);
    memset(first + at, 0, ((1u << STK_WINDOW) - at) * sizeof *first);
}

/* All codes that begin and end in a window; the bits of the last one's value may lie behind it. */
static uint16_t ac_entry(const uint16_t *first, uint32_t window)
{
    unsigned used = 0, step = 0;
    while (used < STK_WINDOW) {
        unsigned code = first[window << used & ((1u << STK_WINDOW) - 1)], n = code >> 8, size = code & 15;
        if (!n || used + n > STK_WINDOW) break;
        if (!size && (code & 0xF0) != 0xF0)
            return (uint16_t)((step + STK_END_OF_BLOCK) << STK_ENTRY_STEP | (used + n));
        unsigned grown = step + (code >> 4 & 15) + 1;
        if (grown > 63) break;
        step = grown;
        used += n + size;
    }
    return (uint16_t)((used ? step : STK_NO_STEP) << STK_ENTRY_STEP | used);
}

static uint16_t dc_entry(const uint16_t *first, uint32_t window)
{
    unsigned n = first[window] >> 8, category = first[window] & 255;
    return n && category < STK_CATEGORIES ? (uint16_t)(category << STK_ENTRY_STEP | (n + category)) : 0;
}

/* Codes of all categories. A table that was made for the file may lack some; they get codes of 4 bits more
 * than its longest, behind the reserved code of all ones. The others stay what they are. */
static int list_categories(stk_codes *t)
{
    unsigned longest = 16, index = 0, missing = 0;
    uint32_t code = 0;
    memset(t->length, 0, sizeof t->length);
    while (longest > 1 && !t->counts[longest]) longest--;
    for (unsigned n = 1; n <= longest; n++, code <<= 1)
        for (unsigned i = 0; i < t->counts[n]; i++, code++) {
            uint8_t category = t->symbols[index++];
            if (category >= STK_CATEGORIES) continue;
            t->code[category] = (uint16_t)code;
            t->length[category] = (uint8_t)n;
        }
    code <<= 3; /* the loop has added one bit */
    for (uint8_t category = 0; category < STK_CATEGORIES; category++) {
        if (t->length[category]) continue;
        if (longest + 4 > 16 || index == sizeof t->symbols) return 0;
        t->code[category] = (uint16_t)code++;
        t->length[category] = (uint8_t)(longest + 4);
        t->symbols[index++] = category;
        missing++;
    }
    t->extended = missing > 0;
    return 1;
}

int stk_codes_build(stk_codes *t, const uint8_t *counts, const uint8_t *symbols, unsigned total, int is_ac,
                    int may_replace)
{
    uint16_t first[1 << STK_WINDOW];
    t->seen = 1;
    if (t->built && t->total == total && memcmp(t->counts + 1, counts, 16) == 0 &&
        memcmp(t->symbols, symbols, total) == 0)
        return 1;
    if (t->built && !may_replace) return 0;
    t->built = 0;
    t->total = total;
    memcpy(t->counts + 1, counts, 16);
    memcpy(t->symbols, symbols, total);
    uint32_t code = 0;
    int32_t index = 0;
    for (unsigned n = 1; n <= 16; n++) {
        t->offset[n] = index - (int32_t)code;
        code += t->counts[n];
        index += t->counts[n];
        if (code >= 1u << n) return 0;
        t->limit[n] = code << (16 - n);
        code <<= 1;
    }
    list_first_codes(t, first);
    for (uint32_t w = 0; w < 1 << STK_WINDOW; w++)
        t->lookup[w] = is_ac ? ac_entry(first, w) : dc_entry(first, w);
    t->built = is_ac || list_categories(t);
    return t->built;
}
