/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts a baseline JPEG down to the MCUs around a region, as bits: nothing is dequantised or transformed, the
 * codes of the blocks that are kept are copied. libjpeg then decodes a small file.
 *
 * Why: Huffman codes can only be found one after the other, and libjpeg decodes every coefficient up to the
 * last row of a region, needed or not. Here one table lookup passes over all codes that fit in 12 bits, two
 * or three at a time, and their values are not looked at. 256 photos of 512x512 (4:2:0, 65 KB), a random
 * 256x256 of each, CPU time, best of 7: 0.22 ms to make the small file, 0.53 ms in all; with libjpeg's own
 * cropping 0.69 ms, the whole picture 0.97 ms.
 *
 * A block stores its DC value as the difference to the block before. Inside a row of the region that is the
 * same block as in the file; only the first MCU of each row gets new differences, the rest is copied as it
 * is.
 *
 * Whatever is unusual (restarts, several scans, stray bytes, a code that does not exist) is left to libjpeg:
 * this code never reports an error, and accepts only what libjpeg would accept.
 */
#include "src/codec/codec.h"

#include <string.h>

/* ---- Huffman codes, for passing over them: one lookup takes all codes that fit in 12 bits, two or three at
 * a time, and the values of AC coefficients are not looked at ---- */

enum {
    WINDOW = 12,    /* bits of a lookup: 8 KB per table, so that two stay in the first-level cache */
    CATEGORIES = 12 /* of DC differences in pictures of 8 bits */
};

/* A lookup entry: bits to go on (6 bits), and above it
 * AC: by how much the coefficient's index grows; with END_OF_BLOCK added when the last code says so;
 * DC: the category. */
enum { ENTRY_BITS = 63, ENTRY_STEP = 6, END_OF_BLOCK = 65, NO_STEP = 255 };

/* A Huffman table as the file has it, and ways to read it. */
typedef struct code_table {
    uint8_t counts[17], symbols[256]; /* counts[0] is unused */
    unsigned total;                   /* symbols */
    uint32_t limit[17];               /* first 16-bit left-aligned code that is longer than this length */
    int32_t offset[17];               /* code of this length + offset = index of its symbol */
    uint16_t lookup[1 << WINDOW];     /* by the next bits */
    uint8_t built, seen;              /* entries are filled; this file has it */
    uint8_t extended;                 /* DC: categories were added */
    uint16_t code[CATEGORIES];        /* DC, for writing */
    uint8_t length[CATEGORIES];
} code_table;

/* Bits to be read, highest first. */
typedef struct bit_reader {
    const uint8_t *at;
    uint64_t window;
    unsigned count; /* bits of the window that are valid; those behind are zero or right */
} bit_reader;

static inline uint64_t load_big64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}

/* At least 56 bits. The load does not wait for the lookups before it, `at` is known since the last refill:
 * 0.22 ms per photo of 65 KB; 0.30 ms with a load from the bit position. */
static inline void refill(bit_reader *r)
{
    r->window |= load_big64(r->at) >> r->count;
    r->at += (63 - r->count) >> 3;
    r->count |= 56;
}

static inline void take_bits(bit_reader *r, unsigned n)
{
    r->window <<= n;
    r->count -= n;
}

/* The code at the beginning of 16 bits: length << 8 | symbol; 0 = there is none. */
static unsigned find_code(const code_table *t, uint32_t sixteen)
{
    unsigned n = 1;
    while (n <= 16 && sixteen >= t->limit[n]) n++;
    if (n > 16) return 0;
    return n << 8 | t->symbols[(int32_t)(sixteen >> (16 - n)) + t->offset[n]];
}

/* Passes over the AC codes of a block; 0 = not a valid block. */
static inline int skip_ac(const code_table *t, bit_reader *r)
{
    unsigned k = 1, e, after;
    for (;;) {
        /* 56 bits are good for two lookups, of at most 12 + 15 bits each. */
        refill(r);
        e = t->lookup[r->window >> (64 - WINDOW)];
        after = k + (e >> ENTRY_STEP);
        if (after < 64) {
            take_bits(r, e & ENTRY_BITS);
            e = t->lookup[r->window >> (64 - WINDOW)];
            k = after;
            after += e >> ENTRY_STEP;
            if (after < 64) {
                take_bits(r, e & ENTRY_BITS);
                k = after;
                continue;
            }
        }
        /* The last coefficient, or an end of block that comes before it. */
        if (after == 64 || (after <= 63 + END_OF_BLOCK && e >> ENTRY_STEP >= END_OF_BLOCK)) {
            take_bits(r, e & ENTRY_BITS);
            return 1;
        }
        /* A code longer than the window, or the next block's begins in it: a single step. */
        refill(r);
        unsigned code = find_code(t, (uint32_t)(r->window >> 48)), symbol = code & 255;
        if (!code) return 0;
        take_bits(r, (code >> 8) + (symbol & 15));
        if (!(symbol & 15) && symbol != 0xF0) return 1;
        k += (symbol >> 4) + 1;
        if (k >= 64) return k == 64;
    }
}

/* Reads a DC difference; 0 = not a valid code. */
static inline int read_dc(const code_table *t, bit_reader *r, int *diff)
{
    refill(r);
    unsigned e = t->lookup[r->window >> (64 - WINDOW)], n = e & ENTRY_BITS, category = e >> ENTRY_STEP;
    if (!n) {
        unsigned code = find_code(t, (uint32_t)(r->window >> 48));
        category = code & 255;
        if (!code || category >= CATEGORIES) return 0;
        n = (code >> 8) + category;
    }
    /* The value's bits; half of the values, those that begin with 0, are negative. */
    int range = 1 << category, v = (int)(r->window >> (64 - n)) & (range - 1);
    *diff = v < range >> 1 ? v - range + 1 : v;
    take_bits(r, n);
    return 1;
}

/* Every window's first code, length << 8 | symbol; 0 = longer than the window, or none. */
static void list_first_codes(const code_table *t, uint16_t *first)
{
    unsigned at = 0, index = 0;
    for (unsigned n = 1; n <= WINDOW; n++)
        for (unsigned i = 0; i < t->counts[n]; i++, index++)
            for (unsigned repeat = 1u << (WINDOW - n); repeat > 0; repeat--)
                first[at++] = (uint16_t)(n << 8 | t->symbols[index]);
    memset(first + at, 0, ((1u << WINDOW) - at) * sizeof *first);
}

/* All codes that begin and end in a window; the bits of the last one's value may lie behind it. */
static uint16_t ac_entry(const uint16_t *first, uint32_t window)
{
    unsigned used = 0, step = 0;
    while (used < WINDOW) {
        unsigned code = first[window << used & ((1u << WINDOW) - 1)], n = code >> 8, size = code & 15;
        if (!n || used + n > WINDOW) break;
        if (!size && (code & 0xF0) != 0xF0)
            return (uint16_t)((step + END_OF_BLOCK) << ENTRY_STEP | (used + n));
        unsigned grown = step + (code >> 4 & 15) + 1;
        if (grown > 63) break;
        step = grown;
        used += n + size;
    }
    return (uint16_t)((used ? step : NO_STEP) << ENTRY_STEP | used);
}

static uint16_t dc_entry(const uint16_t *first, uint32_t window)
{
    unsigned n = first[window] >> 8, category = first[window] & 255;
    return n && category < CATEGORIES ? (uint16_t)(category << ENTRY_STEP | (n + category)) : 0;
}

/* Codes of all categories. A table that was made for the file may lack some; they get codes of 4 bits more
 * than its longest, behind the reserved code of all ones. The others stay what they are. */
static int list_categories(code_table *t)
{
    unsigned longest = 16, index = 0, missing = 0;
    uint32_t code = 0;
    memset(t->length, 0, sizeof t->length);
    while (longest > 1 && !t->counts[longest]) longest--;
    for (unsigned n = 1; n <= longest; n++, code <<= 1)
        for (unsigned i = 0; i < t->counts[n]; i++, code++) {
            uint8_t category = t->symbols[index++];
            if (category >= CATEGORIES) continue;
            t->code[category] = (uint16_t)code;
            t->length[category] = (uint8_t)n;
        }
    code <<= 3; /* the loop has added one bit */
    for (uint8_t category = 0; category < CATEGORIES; category++) {
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

/* From counts (of lengths 1 to 16) and symbols; 0 when they are no prefix code, or one with a code of all
 * ones, which libjpeg refuses. The same table as last time is kept; another is built, unless there is one
 * already and it may not be replaced (0). DC tables get codes for all categories. */
static int build_codes(code_table *t, const uint8_t *counts, const uint8_t *symbols, unsigned total,
                       int is_ac, int may_replace)
{
    uint16_t first[1 << WINDOW];
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
    for (uint32_t w = 0; w < 1 << WINDOW; w++) t->lookup[w] = is_ac ? ac_entry(first, w) : dc_entry(first, w);
    t->built = is_ac || list_categories(t);
    return t->built;
}

/* ---- the small file ---- */

enum {
    MAX_PARTS = 4,
    MAX_BLOCKS = 10,  /* in an MCU: the standard's limit, and libjpeg's */
    MCU_BYTES = 2560, /* no MCU is longer: 10 blocks of at most 64 codes of 31 bits, and a load of 8 bytes */
    /* Tables take 0.05 ms to build. Optimised files all have their own: below this size libjpeg is faster
     * (17 KB: 0.20 against 0.21 ms; 37 KB: 0.41 against 0.37 ms). */
    WORTH_TABLES = 24576,
    CHUNK = 16384,  /* bytes that are unstuffed at a time: what lies behind the region is not touched */
    ROW_BYTES = 16, /* new DC codes of a row: 4 of at most 27 bits */
    TABLES_BYTES = 4 * (21 + 256) /* new DC tables */
};

typedef struct component {
    uint8_t id, h, v, dc, ac;
    int pred, out_pred; /* DC of the last block in the file, in the small file */
} component;

/* Bits to be written, highest first. */
typedef struct writer {
    uint8_t *at;
    uint64_t held;
    unsigned count;
} writer;

struct stk_jpeg_trimmer {
    code_table dc[4], ac[4];
    component part[MAX_PARTS];
    int may_replace_tables;
    int parts, blocks; /* components, and blocks in an MCU */
    uint8_t block_part[MAX_BLOCKS];
    uint32_t width, height, mcu_width, mcu_height;
    uint8_t *out;               /* the small file */
    size_t out_size, frame;     /* bytes so far; where its frame header is */
    const uint8_t *in, *in_end; /* entropy-coded data that is not yet unstuffed */
    uint8_t *data, *data_end;   /* and that which is */
    int ended;                  /* a marker or the end of the file was met */
    bit_reader r;
};

static inline size_t bits_read(const stk_jpeg_trimmer *t, const bit_reader *r)
{
    return (size_t)(r->at - t->data) * 8 - r->count;
}

/* Entropy-coded data without the zeros behind FF, up to the next marker; zeros behind its end. */
static void unstuff(stk_jpeg_trimmer *t)
{
    const uint8_t *stop = (size_t)(t->in_end - t->in) > CHUNK ? t->in + CHUNK : t->in_end;
    while (t->in < stop) {
        const uint8_t *ff = memchr(t->in, 0xFF, (size_t)(stop - t->in));
        size_t n = (size_t)((ff ? ff : stop) - t->in);
        memcpy(t->data_end, t->in, n);
        t->data_end += n;
        t->in += n;
        if (!ff) continue;
        if (t->in_end - ff < 2 || ff[1] != 0) {
            t->in_end = t->in;
            break;
        }
        *t->data_end++ = 0xFF;
        t->in += 2;
    }
    t->ended = t->in == t->in_end;
    if (t->ended) memset(t->data_end, 0, MCU_BYTES);
}

/* There are bytes for an MCU behind the reader, be it zeros. */
static inline void make_ready(stk_jpeg_trimmer *t, const bit_reader *r)
{
    while (!t->ended && t->data_end - r->at < MCU_BYTES) unstuff(t);
}

/* 0 when what was read lies behind the end. */
static inline int still_inside(const stk_jpeg_trimmer *t, const bit_reader *r)
{
    return !t->ended || bits_read(t, r) <= (size_t)(t->data_end - t->data) * 8;
}

/* Passes over MCUs. 0 = leave the file to libjpeg. */
static int skip_mcus(stk_jpeg_trimmer *t, uint32_t n)
{
    bit_reader r = t->r;
    for (; n > 0; n--) {
        make_ready(t, &r);
        for (int b = 0; b < t->blocks; b++) {
            component *part = &t->part[t->block_part[b]];
            int diff;
            if (!read_dc(&t->dc[part->dc], &r, &diff) || !skip_ac(&t->ac[part->ac], &r)) return 0;
            part->pred += diff;
        }
        if (!still_inside(t, &r)) return 0;
    }
    t->r = r;
    return 1;
}

static inline void put_byte(writer *w, uint8_t byte)
{
    *w->at++ = byte;
    if (byte == 0xFF) *w->at++ = 0;
}

/* n <= 32 */
static inline void put(writer *w, uint32_t bits, unsigned n)
{
    w->held = w->held << n | bits;
    w->count += n;
    if (w->count < 32) return;
    w->count -= 32;
    uint32_t word = (uint32_t)(w->held >> w->count);
    /* An FF loses its highest bit when 1 is added to every byte. Others may too; they take the long way. */
    if (word & 0x80808080u & ~(word + 0x01010101u)) {
        for (int shift = 24; shift >= 0; shift -= 8) put_byte(w, (uint8_t)(word >> shift));
    } else {
        word = __builtin_bswap32(word);
        memcpy(w->at, &word, 4);
        w->at += 4;
    }
}

/* What is held, filled up with ones to whole bytes. */
static void finish(writer *w)
{
    put(w, 0x7F, 7);
    for (; w->count >= 8; w->count -= 8) put_byte(w, (uint8_t)(w->held >> (w->count - 8)));
}

static void copy_bits(writer *w, const uint8_t *data, size_t from, size_t to)
{
    for (; to - from >= 32; from += 32) put(w, (uint32_t)(load_big64(data + from / 8) << from % 8 >> 32), 32);
    unsigned n = (unsigned)(to - from);
    if (n) put(w, (uint32_t)(load_big64(data + from / 8) << from % 8 >> (64 - n)), n);
}

static int put_dc(const code_table *t, writer *w, int diff)
{
    unsigned magnitude = (unsigned)(diff < 0 ? -diff : diff), category = 0;
    while (magnitude >> category) category++;
    if (category >= CATEGORIES) return 0;
    put(w, t->code[category], t->length[category]);
    if (category) put(w, (uint32_t)(diff < 0 ? diff + (1 << category) - 1 : diff), category);
    return 1;
}

/* The first MCU of a kept row: the first block of each component refers to another one than in the file. */
static int keep_first_mcu(stk_jpeg_trimmer *t, writer *w)
{
    make_ready(t, &t->r);
    for (int b = 0; b < t->blocks; b++) {
        component *part = &t->part[t->block_part[b]];
        const code_table *dc = &t->dc[part->dc];
        size_t from = bits_read(t, &t->r);
        int diff;
        if (!read_dc(dc, &t->r, &diff)) return 0;
        part->pred += diff;
        if (b == 0 || t->block_part[b] != t->block_part[b - 1]) {
            if (!put_dc(dc, w, part->pred - part->out_pred)) return 0;
            from = bits_read(t, &t->r);
        }
        if (!skip_ac(&t->ac[part->ac], &t->r)) return 0;
        copy_bits(w, t->data, from, bits_read(t, &t->r));
    }
    return still_inside(t, &t->r);
}

static int keep_mcus(stk_jpeg_trimmer *t, uint32_t n, writer *w)
{
    if (!keep_first_mcu(t, w)) return 0;
    size_t from = bits_read(t, &t->r);
    if (!skip_mcus(t, n - 1)) return 0;
    copy_bits(w, t->data, from, bits_read(t, &t->r));
    for (int i = 0; i < t->parts; i++) t->part[i].out_pred = t->part[i].pred;
    return 1;
}

/* Far from what an int holds: a row has at most 81 920 blocks, each with a difference below 2048. */
static int preds_are_sane(const stk_jpeg_trimmer *t)
{
    for (int i = 0; i < t->parts; i++)
        if (t->part[i].pred < -32768 || t->part[i].pred > 32767) return 0;
    return 1;
}

/* Segments. */

static int read_huffman_tables(stk_jpeg_trimmer *t, const uint8_t *p, size_t n)
{
    while (n >= 17) {
        unsigned id = p[0] & 15, is_ac = p[0] >> 4, total = 0;
        for (int i = 1; i <= 16; i++) total += p[i];
        if (id > 3 || is_ac > 1 || total > 256 || n < 17 + total) return 0;
        if (!build_codes(is_ac ? &t->ac[id] : &t->dc[id], p + 1, p + 17, total, (int)is_ac,
                         t->may_replace_tables))
            return 0;
        p += 17 + total;
        n -= 17 + total;
    }
    return n == 0;
}

static int read_frame(stk_jpeg_trimmer *t, const uint8_t *p, size_t n)
{
    if (t->parts || n < 6 || p[0] != 8) return 0;
    t->frame = t->out_size;
    t->height = (uint32_t)p[1] << 8 | p[2];
    t->width = (uint32_t)p[3] << 8 | p[4];
    if (p[5] < 1 || p[5] > MAX_PARTS || n != 6 + 3u * p[5]) return 0;
    t->parts = p[5];
    unsigned across = 1, down = 1;
    for (int i = 0; i < t->parts; i++) {
        component *part = &t->part[i];
        *part = (component){ .id = p[6 + 3 * i], .h = p[7 + 3 * i] >> 4, .v = p[7 + 3 * i] & 15 };
        int blocks = part->h * part->v;
        if (part->h < 1 || part->h > 4 || part->v < 1 || part->v > 4 || t->blocks + blocks > MAX_BLOCKS)
            return 0;
        while (blocks-- > 0) t->block_part[t->blocks++] = (uint8_t)i;
        if (part->h > across) across = part->h;
        if (part->v > down) down = part->v;
    }
    /* A single component is not interleaved: its MCU is one block whatever its factors. */
    if (t->parts == 1 && t->blocks > 1) return 0;
    t->mcu_width = 8 * across;
    t->mcu_height = 8 * down;
    return t->width && t->height;
}

/* All components, in the order of the frame, all coefficients. */
static int read_scan(stk_jpeg_trimmer *t, const uint8_t *p, size_t n)
{
    if (!t->parts || n != 4 + 2u * (unsigned)t->parts || p[0] != t->parts) return 0;
    for (int i = 0; i < t->parts; i++) {
        component *part = &t->part[i];
        part->dc = p[2 + 2 * i] >> 4;
        part->ac = p[2 + 2 * i] & 15;
        if (p[1 + 2 * i] != part->id || part->dc > 3 || part->ac > 3) return 0;
        if (!t->dc[part->dc].seen || !t->ac[part->ac].seen) return 0;
    }
    p += 1 + 2 * t->parts;
    return p[0] == 0 && p[1] == 63 && p[2] == 0;
}

static void emit(stk_jpeg_trimmer *t, const void *bytes, size_t n)
{
    memcpy(t->out + t->out_size, bytes, n);
    t->out_size += n;
}

/* DC tables that got more categories; a later definition replaces an earlier one. */
static void emit_extended_tables(stk_jpeg_trimmer *t)
{
    for (uint8_t id = 0; id < 4; id++) {
        const code_table *dc = &t->dc[id];
        if (!dc->seen || !dc->extended) continue;
        uint8_t counts[17];
        memcpy(counts, dc->counts, sizeof counts);
        unsigned total = dc->total, longest = 16;
        while (longest > 1 && !counts[longest]) longest--;
        for (unsigned c = 0; c < CATEGORIES; c++)
            if (dc->length[c] > longest) counts[longest + 4]++, total++;
        unsigned size = 2 + 17 + total;
        emit(t, (uint8_t[]){ 0xFF, 0xC4, (uint8_t)(size >> 8), (uint8_t)size, id }, 5);
        emit(t, counts + 1, 16);
        emit(t, dc->symbols, total);
    }
}

/* One segment: what it says is noted, and what the small file needs is copied. */
static int take_segment(stk_jpeg_trimmer *t, uint8_t marker, const uint8_t *p, size_t n)
{
    switch (marker) {
    case 0xC0: /* baseline, extended: both Huffman */
    case 0xC1:
        if (!read_frame(t, p, n)) return 0;
        break;
    case 0xC4:
        if (!read_huffman_tables(t, p, n)) return 0;
        break;
    case 0xDA:
        if (!read_scan(t, p, n)) return 0;
        emit_extended_tables(t);
        break;
    case 0xDD: /* restarts */ return n == 2 && p[0] == 0 && p[1] == 0;
    case 0xDB: /* quantisation */
    case 0xE0: /* JFIF and Adobe: they decide the colour space */
    case 0xEE: break;
    default: return (marker & 0xF0) == 0xE0 || marker == 0xFE; /* other APPn, comments; the rest is unusual */
    }
    emit(t, p - 4, n + 4);
    return 1;
}

/* All segments up to the scan; returns where its data begins, 0 = unusual. */
static size_t read_segments(stk_jpeg_trimmer *t, const uint8_t *bytes, size_t size)
{
    size_t at = 2;
    emit(t, "\xFF\xD8", 2);
    for (;;) {
        if (size - at < 4 || bytes[at] != 0xFF) return 0;
        uint8_t marker = bytes[at + 1];
        size_t n = (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (n < 2 || n > size - at - 2) return 0;
        if (!take_segment(t, marker, bytes + at + 4, n - 2)) return 0;
        at += 2 + n;
        if (marker == 0xDA) return at;
    }
}

/* MCUs that a stretch of pixels needs, with one chroma sample around it for the upsampling. */
typedef struct range {
    uint32_t first, end;
} range;

static range mcus_around(uint32_t from, uint32_t length, uint32_t mcu, uint32_t whole)
{
    uint32_t margin = mcu / 8, last = from + length + margin < whole ? from + length + margin : whole;
    range r = { (from > margin ? from - margin : 0) / mcu, (last + mcu - 1) / mcu };
    /* libjpeg upsamples pictures of one or two chroma samples in another way: never leave a sliver. */
    if (r.first && whole - r.first * mcu < mcu) r.first--;
    return r;
}

static int pass_rows(stk_jpeg_trimmer *t, range across, range down, writer *w)
{
    uint32_t columns = (t->width + t->mcu_width - 1) / t->mcu_width;
    for (uint32_t y = 0; y < down.end; y++) {
        if (y < down.first) {
            if (!skip_mcus(t, columns)) return 0;
        } else {
            uint32_t behind = y + 1 < down.end ? columns - across.end : 0;
            if (!skip_mcus(t, across.first) || !keep_mcus(t, across.end - across.first, w) ||
                !skip_mcus(t, behind))
                return 0;
        }
        if (!preds_are_sane(t)) return 0;
    }
    return 1;
}

const size_t stk_jpeg_trimmer_bytes = sizeof(stk_jpeg_trimmer);

/* One buffer: data without stuffing, and zeros | the small file, whose data may double when all bytes are FF.
 * An MCU may be kept before it is noticed that the data has ended: that many zeros more. */
static int reserve(stk_jpeg_trimmer *t, stk_mem_buffer *scratch, size_t size, uint32_t rows)
{
    size_t most, room, plain = size + MCU_BYTES;
    if (!stk_add(size, (size_t)rows * ROW_BYTES + ROW_BYTES, &most) || !stk_mul(most, 2, &most) ||
        !stk_add(most, plain + TABLES_BYTES + MCU_BYTES, &room))
        return 0;
    t->data = t->data_end = stk_buffer_reserve(scratch, room);
    if (!t->data) return 0;
    t->out = t->data + plain;
    t->out_size = 0;
    return 1;
}

int stk_jpeg_trim(stk_jpeg_trimmer *t, stk_mem_buffer *scratch, const uint8_t *bytes, size_t size,
                  stoke_box box, stk_jpeg_trimmed *trimmed)
{
    if (size < 4 || size > SIZE_MAX / 8 || !reserve(t, scratch, size, box.height / 8 + 8)) return 0;
    t->parts = t->blocks = 0;
    t->may_replace_tables = size >= WORTH_TABLES;
    for (int i = 0; i < 4; i++) t->dc[i].seen = t->ac[i].seen = 0;
    size_t start = read_segments(t, bytes, size);
    if (!start || box.x >= t->width || t->width - box.x < box.width || box.y >= t->height ||
        t->height - box.y < box.height)
        return 0;
    range across = mcus_around(box.x, box.width, t->mcu_width, t->width);
    range down = mcus_around(box.y, box.height, t->mcu_height, t->height);
    t->in = bytes + start;
    t->in_end = bytes + size;
    t->ended = 0;
    t->r = (bit_reader){ .at = t->data };
    writer w = { .at = t->out + t->out_size };
    make_ready(t, &t->r);
    if (!pass_rows(t, across, down, &w)) return 0;
    finish(&w);
    t->out_size = (size_t)(w.at - t->out);
    emit(t, "\xFF\xD9", 2);
    uint32_t left = across.first * t->mcu_width, top = down.first * t->mcu_height;
    const uint32_t width = (uint32_t)stk_least(t->width, across.end * t->mcu_width) - left,
                   height = (uint32_t)stk_least(t->height, down.end * t->mcu_height) - top;
    const uint8_t shape[4] = { (uint8_t)(height >> 8), (uint8_t)height, (uint8_t)(width >> 8),
                               (uint8_t)width };
    memcpy(t->out + t->frame + 5, shape, 4); /* behind marker, length and precision */
    *trimmed =
        (stk_jpeg_trimmed){ t->out, t->out_size, { box.x - left, box.y - top, box.width, box.height } };
    return 1;
}
