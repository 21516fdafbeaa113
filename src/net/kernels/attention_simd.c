/* SPDX-License-Identifier: Apache-2.0
 *
 * attention in vectors. A task first packs its keys and values as f32, padded to whole vectors; then blocks
 * of queries, turned into f32 likewise, pass by in tiles of ROWS x PANEL numbers that stay in registers. The
 * factor 1 / sqrt(d) is put into the queries, that from e^x to 2^x into the keys.
 *
 * Forward, a tile of queries meets all keys, so that its scores (ROWS x keys) stay in the first cache, and
 * keys and values pass from the second: 64 bytes per 12 multiply-adds. Backward, a block of queries meets a
 * block of keys at a time. Scratch grows with the number of keys, not with that of scores.
 *
 * All blocks of b0 with 4 pictures of 256x256 take 8.3 ms of one AVX2 core forward (62 GFLOP/s, where nothing
 * but multiply-adds reach 104) and 18.2 backward (72); with everything in the cache it is 68 and 80. Of the
 * forward pass, 62 cycles of 392 per query of 64 keys are the softmax.
 */
#include "src/net/kernels/net_table.h"
#include "src/net/kernels/simd.h"

#include <math.h>
#include <string.h>

enum {
    ROWS = STK_LANES == 8 ? 6 : 12, /* with 2 vectors each: 12 of 16 registers, or 24 of 32 */
    PANEL = 2 * STK_LANES,
    QUERIES = 48, /* of a block: whole tiles of both heights */
    KEYS = 288,   /* of a block in the backward pass: whole tiles and panels, of both widths */
};

static size_t whole(size_t count, size_t of)
{
    return (count + of - 1) / of * of;
}

/* --- Tiles --- */

typedef struct tile {
    vf at[ROWS][2];
} tile;

STK_INLINE tile tile_zero(void)
{
    tile t;
    for (int r = 0; r < ROWS; r++) t.at[r][0] = t.at[r][1] = v_zero();
    return t;
}

STK_INLINE tile tile_load(const float *p, size_t stride)
{
    tile t;
    for (int r = 0; r < ROWS; r++) {
        t.at[r][0] = v_load(p + r * stride);
        t.at[r][1] = v_load(p + r * stride + STK_LANES);
    }
    return t;
}

STK_INLINE void tile_store(float *p, size_t stride, const tile *t)
{
    for (int r = 0; r < ROWS; r++) {
        v_store(p + r * stride, t->at[r][0]);
        v_store(p + r * stride + STK_LANES, t->at[r][1]);
    }
}

/* t += A B with A[r][k] = a[r * row + k * step], one of the two 1, and B[k] = b[k * stride ..]. */
STK_INLINE void tile_multiply(tile *t, const float *a, size_t row, size_t step, const float *b, size_t stride,
                              size_t depth)
{
    for (size_t k = 0; k < depth; k++, a += step, b += stride) {
        const vf b0 = v_load(b), b1 = v_load(b + STK_LANES);
        for (int r = 0; r < ROWS; r++) {
            const vf x = v_set(a[r * row]);
            t->at[r][0] = v_fma(x, b0, t->at[r][0]);
            t->at[r][1] = v_fma(x, b1, t->at[r][1]);
        }
    }
}

/* C[m][n] += A B in whole tiles: rows of C up to the next multiple of ROWS, columns to the next of PANEL. */
STK_INLINE void multiply(float *c, size_t c_stride, size_t m, size_t n, const float *a, size_t row,
                         size_t step, const float *b, size_t b_stride, size_t depth)
{
    for (size_t i = 0; i < m; i += ROWS) {
        for (size_t j = 0; j < n; j += PANEL) {
            tile t = tile_load(c + i * c_stride + j, c_stride);
            tile_multiply(&t, a + i * row, row, step, b + j, b_stride, depth);
            tile_store(c + i * c_stride + j, c_stride, &t);
        }
    }
}

/* 2^x for x <= 127, relative error below 2e-7; below -126 it stays at 2^-126. NaN stays NaN: where one is
 * met, both instruction sets return the second operand of a maximum. */
STK_INLINE vf v_exp2(vf x)
{
    x = v_max(v_set(-126.0f), x);
    const vf n = v_round(x), r = v_sub(x, n);
    vf p = v_set(1.3264727124e-03f); /* minimax on |r| <= 1/2, 1 at 0 */
    p = v_fma(p, r, v_set(9.6715126448e-03f));
    p = v_fma(p, r, v_set(5.5507337435e-02f));
    p = v_fma(p, r, v_set(2.4022242085e-01f));
    p = v_fma(p, r, v_set(6.9314697760e-01f));
    p = v_fma(p, r, v_set(1.0f));
    return v_scale2(p, n);
}

static const float log2_e = 1.44269504088896341f, ln_2 = 0.693147180559945309f;

/* --- Between the run's type and padded f32 --- */

/* out[row][0 .. width) = in[row][0 .. size) * factor, then 0. */
STK_INLINE void load_typed(float *out, size_t width, const void *in, size_t stride, size_t rows, size_t size,
                           float factor, stk_float type)
{
    const size_t full = size / STK_LANES * STK_LANES;
    for (size_t r = 0; r < rows; r++, out += width) {
        for (size_t c = 0; c < full; c += STK_LANES)
            v_store(out + c, v_mul(v_get(in, r * stride + c, type), v_set(factor)));
        for (size_t c = full; c < width; c += STK_LANES) {
            const vf x = c < size ? v_get_part(in, r * stride + c, size - c, type) : v_zero();
            v_store(out + c, v_mul(x, v_set(factor)));
        }
    }
}

static void load_rows(float *out, size_t width, const void *in, size_t stride, size_t rows, size_t size,
                      float factor, stk_float type)
{
    if (type == STK_F32)
        load_typed(out, width, in, stride, rows, size, factor, STK_F32);
    else if (type == STK_BF16)
        load_typed(out, width, in, stride, rows, size, factor, STK_BF16);
    else
        load_typed(out, width, in, stride, rows, size, factor, STK_F16);
}

STK_INLINE void store_typed(void *out, size_t stride, const float *in, size_t width, size_t rows, size_t size,
                            stk_float type)
{
    const size_t full = size / STK_LANES * STK_LANES;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < full; c += STK_LANES)
            v_put(out, r * stride + c, v_load(in + r * width + c), type);
        if (full < size) v_put_part(out, r * stride + full, size - full, v_load(in + r * width + full), type);
    }
}

static void store_rows(void *out, size_t stride, const float *in, size_t width, size_t rows, size_t size,
                       stk_float type)
{
    if (type == STK_F32)
        store_typed(out, stride, in, width, rows, size, STK_F32);
    else if (type == STK_BF16)
        store_typed(out, stride, in, width, rows, size, STK_BF16);
    else
        store_typed(out, stride, in, width, rows, size, STK_F16);
}

/* Asks for ROWS rows from `first` on, to be read or written soon. A head's part of a row is too short and too
 * far from the next for the processor to foresee, and a block of them at once is more than it has in flight:
 * so each tile asks for a few. */
STK_INLINE void prefetch_rows(const stk_attention_share *s, const void *array, size_t first, int write)
{
    for (size_t r = first; r < first + ROWS && r < s->queries; r++) {
        const char *row = stk_at(array, r * s->stride, s->type);
        for (size_t b = 0; b < s->head_size * stk_float_bytes(s->type); b += 64) {
            if (write)
                __builtin_prefetch(row + b, 1);
            else
                __builtin_prefetch(row + b, 0);
        }
    }
}

/* Rows of `width` numbers as panels of PANEL rows each, column by column: [panel][width][PANEL]. Rows from
 * `rows` up to a whole panel are read too; what they become is met by no product that counts. */
static void transpose(float *out, const float *in, size_t width, size_t rows)
{
    for (size_t first = 0; first < rows; first += PANEL, out += width * PANEL) {
        for (size_t c = 0; c < width; c += STK_LANES) {
            for (size_t r = 0; r < PANEL; r += STK_LANES) {
                vf block[STK_LANES];
                for (size_t i = 0; i < STK_LANES; i++) block[i] = v_load(in + (first + r + i) * width + c);
                v_transpose(block);
                for (size_t i = 0; i < STK_LANES; i++) v_store(out + (c + i) * PANEL + r, block[i]);
            }
        }
    }
}

/* --- Forward --- */

/* The next `floats` of a room, beginning a cache line; NULL while the room is only being measured. */
static float *take(float *base, size_t *used, size_t floats)
{
    float *part = base ? base + *used : NULL;
    *used += whole(floats, 16);
    return part;
}

typedef struct forward_room {
    size_t width, scores; /* floats of a row of values, and of scores */
    float *keys, *values; /* panels; rows */
    float *q, *context;   /* a block */
    float *p;             /* scores of a tile, then their exponentials */
} forward_room;

static size_t forward_floats(uint32_t keys, uint32_t head_size, float *base, forward_room *room)
{
    const size_t width = whole(head_size, PANEL), padded = whole(keys, PANEL);
    size_t used = 0;
    room->width = width;
    room->scores = padded + PANEL;
    room->keys = take(base, &used, padded * width);
    room->values = take(base, &used, padded * width);
    room->q = take(base, &used, QUERIES * width);
    room->context = take(base, &used, QUERIES * width);
    room->p = take(base, &used, ROWS * room->scores);
    return used;
}

/* Scores of ROWS queries, and the largest of each. */
STK_INLINE void score_tile(const stk_attention_share *s, const forward_room *room, const float *q,
                           float *largest)
{
    vf most[ROWS];
    for (int r = 0; r < ROWS; r++) most[r] = v_set(-INFINITY);
    for (size_t j = 0; j < s->keys; j += PANEL) {
        tile t = tile_zero();
        tile_multiply(&t, q, room->width, 1, room->keys + j * room->width, PANEL, s->head_size);
        const size_t left = s->keys - j, right = left > STK_LANES ? left - STK_LANES : 0;
        for (int r = 0; r < ROWS && left < PANEL; r++) { /* keys that are none never win, and count 0 */
            t.at[r][0] = v_first(left < STK_LANES ? left : STK_LANES, t.at[r][0], v_set(-INFINITY));
            t.at[r][1] = v_first(right, t.at[r][1], v_set(-INFINITY));
        }
        tile_store(room->p + j, room->scores, &t);
        for (int r = 0; r < ROWS; r++) most[r] = v_max(most[r], v_max(t.at[r][0], t.at[r][1]));
    }
    for (int r = 0; r < ROWS; r++) largest[r] = v_largest(most[r]);
}

/* Scores less their largest become exponentials, whose sum is returned. */
STK_INLINE vf exponentials(float *p, size_t keys, float largest)
{
    vf total = v_zero();
    for (size_t j = 0; j < keys; j += PANEL) {
        const vf a = v_exp2(v_sub(v_load(p + j), v_set(largest)));
        const vf b = v_exp2(v_sub(v_load(p + j + STK_LANES), v_set(largest)));
        v_store(p + j, a);
        v_store(p + j + STK_LANES, b);
        total = v_add(total, v_add(a, b));
    }
    return total;
}

/* ROWS queries: their context, the largest score of each and the sum of exponentials less that. */
static void forward_tile(const stk_attention_share *s, const forward_room *room, const float *q,
                         float *context, float *largest, float *sum)
{
    vf total[ROWS];
    score_tile(s, room, q, largest);
    for (int r = 0; r < ROWS; r++) total[r] = exponentials(room->p + r * room->scores, s->keys, largest[r]);
    for (int r = 0; r < ROWS; r++) sum[r] = v_sum(total[r]);
    for (size_t c = 0; c < room->width; c += PANEL) {
        tile t = tile_zero();
        tile_multiply(&t, room->p, room->scores, 1, room->values + c, room->width, s->keys);
        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < 2; v++) t.at[r][v] = v_mul(t.at[r][v], v_set(1 / sum[r]));
        tile_store(context + c, room->width, &t);
    }
}

static void forward_simd(const stk_attention_share *s, void *scratch)
{
    forward_room room;
    float largest[QUERIES], sum[QUERIES];
    forward_floats(s->keys, s->head_size, scratch, &room);
    const float scale = 1 / sqrtf((float)s->head_size);
    load_rows(room.values, room.width, s->k, s->kv_stride, s->keys, s->head_size, log2_e, s->type);
    transpose(room.keys, room.values, room.width, s->keys);
    load_rows(room.values, room.width, s->v, s->kv_stride, s->keys, s->head_size, 1, s->type);
    for (size_t i = 0; i < s->queries; i += QUERIES) {
        const size_t rows = s->queries - i < QUERIES ? s->queries - i : QUERIES, at = i * s->stride;
        const void *q = stk_at(s->q, at, s->type);
        load_rows(room.q, room.width, q, s->stride, rows, s->head_size, scale, s->type);
        for (size_t r = rows; r < whole(rows, ROWS); r++)
            memset(room.q + r * room.width, 0, room.width * sizeof(float));
        for (size_t r = 0; r < rows; r += ROWS) {
            prefetch_rows(s, s->q, i + QUERIES + r, 0);
            prefetch_rows(s, s->context, i + r, 1);
            forward_tile(s, &room, room.q + r * room.width, room.context + r * room.width, largest + r,
                         sum + r);
        }
        for (size_t r = 0; s->log_sum && r < rows; r += STK_LANES) {
            const vf log = v_fma(v_load(largest + r), v_set(ln_2), v_log(v_load(sum + r)));
            v_put_part(s->log_sum, i + r, rows - r, log, STK_F32);
        }
        void *context = stk_at(s->context, at, s->type);
        store_rows(context, s->stride, room.context, room.width, rows, s->head_size, s->type);
    }
}

/* --- Backward --- */

typedef struct backward_room {
    size_t width, scores;
    float *keys_t, *values_t;  /* panels */
    float *keys;               /* rows, for dq */
    float *dk, *dv;            /* rows, up to a whole tile */
    float *q, *d_context, *dq; /* a block */
    float *log_sum, *delta;    /* of its queries: in base 2; rowsum(d_context context) */
    float *p, *ds;             /* of a block of queries and one of keys */
} backward_room;

static size_t backward_floats(uint32_t keys, uint32_t head_size, float *base, backward_room *room)
{
    const size_t width = whole(head_size, PANEL), padded = whole(keys, PANEL), rows = whole(keys, ROWS);
    size_t used = 0;
    room->width = width;
    /* With a gap between rows: those of 256 keys would all lie in 4 sets of the first cache. */
    room->scores = (padded < KEYS ? padded : KEYS) + PANEL;
    room->keys_t = take(base, &used, padded * width);
    room->values_t = take(base, &used, padded * width);
    room->keys = take(base, &used, padded * width);
    room->dk = take(base, &used, rows * width);
    room->dv = take(base, &used, rows * width);
    room->q = take(base, &used, QUERIES * width);
    room->d_context = take(base, &used, QUERIES * width);
    room->dq = take(base, &used, QUERIES * width);
    room->log_sum = take(base, &used, QUERIES);
    room->delta = take(base, &used, QUERIES);
    room->p = take(base, &used, QUERIES * room->scores);
    room->ds = take(base, &used, QUERIES * room->scores);
    return used;
}

/* The block's queries, `rows` of them, as f32; up to a whole tile, 0. */
static void load_block(const stk_attention_share *s, const backward_room *room, size_t first, size_t rows)
{
    const size_t at = first * s->stride, width = room->width, end = whole(rows, ROWS);
    float *context = room->dq; /* dq comes later */
    load_rows(room->q, width, stk_at(s->q, at, s->type), s->stride, rows, s->head_size,
              1 / sqrtf((float)s->head_size), s->type);
    load_rows(room->d_context, width, stk_at(s->d_context, at, s->type), s->stride, rows, s->head_size, 1,
              s->type);
    load_rows(context, width, stk_at(s->context, at, s->type), s->stride, rows, s->head_size, 1, s->type);
    for (size_t r = 0; r < rows; r++) {
        vf sum = v_zero();
        for (size_t c = r * width; c < (r + 1) * width; c += STK_LANES)
            sum = v_fma(v_load(room->d_context + c), v_load(context + c), sum);
        room->delta[r] = v_sum(sum);
        room->log_sum[r] = s->log_sum[first + r] * log2_e;
    }
    for (size_t r = rows; r < end; r++) room->delta[r] = room->log_sum[r] = 0;
    memset(room->q + rows * width, 0, (end - rows) * width * sizeof(float));
    memset(room->d_context + rows * width, 0, (end - rows) * width * sizeof(float));
    memset(room->dq, 0, end * width * sizeof(float));
}

/* p = 2^(q k - log_sum) and ds = p (d_context v - delta) of ROWS queries and PANEL keys. */
STK_INLINE void probabilities(const backward_room *room, size_t size, size_t row, size_t key, float *p,
                              float *ds)
{
    tile t = tile_zero();
    tile_multiply(&t, room->q + row * room->width, room->width, 1, room->keys_t + key * room->width, PANEL,
                  size);
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < 2; v++) t.at[r][v] = v_exp2(v_sub(t.at[r][v], v_set(room->log_sum[row + r])));
    tile_store(p, room->scores, &t);
    t = tile_zero();
    tile_multiply(&t, room->d_context + row * room->width, room->width, 1, room->values_t + key * room->width,
                  PANEL, size);
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < 2; v++)
            t.at[r][v] = v_mul(v_load(p + r * room->scores + v * STK_LANES),
                               v_sub(t.at[r][v], v_set(room->delta[row + r])));
    tile_store(ds, room->scores, &t);
}

/* A block of queries and keys first .. first + keys. Columns of p and ds beyond them hold anything: they are
 * met by no product but those whose results, rows of dk and dv beyond the last key, are not looked at. */
static void backward_block(const stk_attention_share *s, const backward_room *room, size_t query, size_t rows,
                           size_t first, size_t keys)
{
    const size_t width = room->width, scores = room->scores;
    for (size_t r = 0; r < rows; r += ROWS) {
        prefetch_rows(s, s->q, query + QUERIES + r, 0);
        prefetch_rows(s, s->context, query + QUERIES + r, 0);
        prefetch_rows(s, s->d_context, query + QUERIES + r, 0);
        prefetch_rows(s, s->dq, query + r, 1);
        for (size_t j = 0; j < keys; j += PANEL)
            probabilities(room, s->head_size, r, first + j, room->p + r * scores + j,
                          room->ds + r * scores + j);
    }
    multiply(room->dv + first * width, width, keys, width, room->p, 1, scores, room->d_context, width, rows);
    multiply(room->dk + first * width, width, keys, width, room->ds, 1, scores, room->q, width, rows);
    multiply(room->dq, width, rows, width, room->ds, scores, 1, room->keys + first * width, width, keys);
}

static void backward_simd(const stk_attention_share *s, void *scratch)
{
    backward_room room;
    backward_floats(s->keys, s->head_size, scratch, &room);
    const size_t width = room.width, size = s->head_size;
    const float scale = 1 / sqrtf((float)size);
    load_rows(room.keys, width, s->v, s->kv_stride, s->keys, size, 1, s->type);
    transpose(room.values_t, room.keys, width, s->keys);
    load_rows(room.keys, width, s->k, s->kv_stride, s->keys, size, log2_e, s->type);
    transpose(room.keys_t, room.keys, width, s->keys);
    load_rows(room.keys, width, s->k, s->kv_stride, s->keys, size, scale, s->type);
    memset(room.dk, 0, whole(s->keys, ROWS) * width * sizeof(float));
    memset(room.dv, 0, whole(s->keys, ROWS) * width * sizeof(float));
    for (size_t i = 0; i < s->queries; i += QUERIES) {
        const size_t rows = s->queries - i < QUERIES ? s->queries - i : QUERIES;
        load_block(s, &room, i, rows);
        for (size_t j = 0; j < s->keys; j += KEYS)
            backward_block(s, &room, i, rows, j, s->keys - j < KEYS ? s->keys - j : KEYS);
        store_rows(stk_at(s->dq, i * s->stride, s->type), s->stride, room.dq, width, rows, size, s->type);
    }
    store_rows(s->dk, size, room.dk, width, s->keys, size, STK_F32);
    store_rows(s->dv, size, room.dv, width, s->keys, size, STK_F32);
}

static size_t scratch_simd(uint32_t keys, uint32_t head_size)
{
    forward_room forward;
    backward_room backward;
    const size_t a = forward_floats(keys, head_size, NULL, &forward);
    const size_t b = backward_floats(keys, head_size, NULL, &backward);
    return (a > b ? a : b) * sizeof(float);
}

void STK_SIMD(stk_attention_fill)(stk_attention_table *table)
{
    *table =
        (stk_attention_table){ .scratch = scratch_simd, .forward = forward_simd, .backward = backward_simd };
}
