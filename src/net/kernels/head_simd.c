/* SPDX-License-Identifier: Apache-2.0
 *
 * segformer_head.h in vectors. Channels are the lanes: their number is a multiple of 32, so only `join` has
 * ends.
 */
#include "src/net/kernels/net_table.h"
#include "src/net/kernels/simd.h"

/* ---- forward ---- */

STK_INLINE void mix(size_t count, const void *a, float a_weight, const void *b, float b_weight, float *out,
                    stk_float type)
{
    const vf wa = v_set(a_weight), wb = v_set(b_weight);
    for (size_t i = 0; i < count; i += STK_LANES)
        v_store(out + i, v_fma(v_get(a, i, type), wa, v_mul(v_get(b, i, type), wb)));
}

/* What a pixel takes from the smaller maps' lines. */
typedef struct reach {
    const float *at[2 * STK_SMALLER];
    vf weight[2 * STK_SMALLER];
} reach;

STK_INLINE reach reach_of(const stk_head_line *line, size_t x)
{
    reach from;
    for (int s = 0; s < STK_SMALLER; s++) {
        const stk_head_tap *tap = &line->across[s]->taps[x];
        from.at[2 * s] = line->low[s] + (size_t)tap->a * line->size;
        from.at[2 * s + 1] = line->low[s] + (size_t)tap->b * line->size;
        from.weight[2 * s] = v_set(tap->a_weight);
        from.weight[2 * s + 1] = v_set(tap->b_weight);
    }
    return from;
}

STK_INLINE vf pixel(const float *base, const reach *from, size_t c)
{
    vf value = v_load(base + c);
    for (int k = 0; k < 2 * STK_SMALLER; k++) value = v_fma(v_load(from->at[k] + c), from->weight[k], value);
    return value;
}

STK_INLINE void line_moments(const stk_head_line *line, int first, float *moments, void *y, stk_float type)
{
    const size_t size = line->size;
    float *shift = moments, *sum = moments + size, *squares = sum + size;
    if (first) {
        const reach from = reach_of(line, 0);
        for (size_t c = 0; c < size; c += STK_LANES) {
            v_store(shift + c, pixel(line->base, &from, c));
            v_store(sum + c, v_zero());
            v_store(squares + c, v_zero());
        }
    }
    for (size_t x = 0; x < line->width; x++) {
        const reach from = reach_of(line, x);
        for (size_t c = 0; c < size; c += STK_LANES) {
            const vf value = pixel(line->base + x * size, &from, c), off = v_sub(value, v_load(shift + c));
            v_put(y, x * size + c, value, type);
            v_store(sum + c, v_add(v_load(sum + c), off));
            v_store(squares + c, v_fma(off, off, v_load(squares + c)));
        }
    }
}

/* NaN for NaN, so that a run that went wrong shows: the processor takes the second operand then. */
STK_INLINE vf relu(vf value)
{
    return v_max(v_zero(), value);
}

STK_INLINE void line_relu(const stk_head_line *line, void *y, stk_float type)
{
    for (size_t x = 0; x < line->width; x++) {
        const reach from = reach_of(line, x);
        for (size_t c = 0; c < line->size; c += STK_LANES)
            v_put(y, x * line->size + c, relu(pixel(line->base + x * line->size, &from, c)), type);
    }
}

/* ---- batch norm, ReLU, dropout ---- */

/* The random words of a row, from left to right: stk_dropout_word in all lanes. */
typedef struct words {
    vi low, high;
} words;

STK_INLINE words words_of(const stk_head_norm *norm, size_t row)
{
    const uint64_t key = stk_dropout_key(norm->seed, row);
    const vi lanes = vi_mul(vi_lanes(), vi_set(STK_DROPOUT_STEP));
    return (words){ vi_add(vi_set((uint32_t)key), lanes), vi_set((uint32_t)(key >> 32)) };
}

STK_INLINE vi words_next(words *w)
{
    vi x = vi_mul(vi_fold(w->low, 16), vi_set(STK_DROPOUT_FIRST));
    x = vi_mul(vi_add(vi_fold(x, 15), w->high), vi_set(STK_DROPOUT_SECOND));
    w->low = vi_add(w->low, vi_set(STK_LANES * STK_DROPOUT_STEP));
    return vi_fold(x, 16);
}

/* `half`: which 16 bits of the word are these channels'. Negative values are not cut off yet. */
STK_INLINE vf activation(const stk_head_norm *norm, size_t c, vf off, vi word, int half, int draw)
{
    const vf value = v_fma(off, v_load(norm->scale + c), v_load(norm->shift + c));
    if (!draw) return value;
    const vi bits = half ? vi_right(word, 16) : vi_and(word, vi_set(0xffff));
    return v_where(bits, vi_set(norm->threshold), value);
}

/* dr NULL: forward, without g and sums. */
STK_INLINE void activate_rows(const stk_head_norm *norm, size_t row, size_t rows, const void *y,
                              const float *dr, void *r, void *g, float *sums, int draw, stk_float type)
{
    const vf keep = v_set(norm->keep);
    for (size_t i = 0; i < rows; i++) {
        words w = words_of(norm, row + i);
        const size_t at = i * norm->size;
        for (size_t c = 0; c < norm->size; c += 32) {
            for (size_t k = c; k < c + 16; k += STK_LANES) {
                const vi word = draw ? words_next(&w) : vi_set(0);
                for (int half = 0; half < 2; half++) {
                    const size_t channel = k + 16 * (size_t)half;
                    const vf off = v_sub(v_get(y, at + channel, type), v_load(norm->mean + channel));
                    const vf value = activation(norm, channel, off, word, half, draw);
                    v_put(r, at + channel, relu(value), type);
                    if (!dr) continue;
                    float *sum = sums + channel, *off_sum = sum + norm->size;
                    const vf passed =
                        v_greater(value, v_zero(), v_mul(v_load(dr + at + channel), keep), v_zero());
                    v_put(g, at + channel, passed, type);
                    v_store(sum, v_add(v_load(sum), passed));
                    v_store(off_sum, v_fma(passed, off, v_load(off_sum)));
                }
            }
        }
    }
}

STK_INLINE void activate_back(const stk_head_norm *norm, size_t row, size_t rows, const void *y,
                              const float *dr, void *r, void *g, float *sums, stk_float type)
{
    if (norm->threshold)
        activate_rows(norm, row, rows, y, dr, r, g, sums, 1, type);
    else
        activate_rows(norm, row, rows, y, dr, r, g, sums, 0, type);
}

STK_INLINE void activate(const stk_head_norm *norm, size_t row, size_t rows, const void *y, void *r,
                         stk_float type)
{
    activate_back(norm, row, rows, y, NULL, r, NULL, NULL, type);
}

/* ---- dy and the smaller maps ---- */

STK_INLINE void norm_back(const stk_head_norm_back *back, size_t rows, const void *y, const void *g, void *dy,
                          stk_float type)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t c = 0; c < back->size; c += STK_LANES) {
            const size_t at = i * back->size + c;
            const vf off = v_sub(v_get(y, at, type), v_load(back->mean + c));
            const vf rest = v_sub(v_get(g, at, type), v_load(back->g_mean + c));
            v_put(dy, at, v_fnma(v_load(back->slope + c), off, v_mul(v_load(back->gain + c), rest)), type);
        }
    }
}

STK_INLINE void add_to(float *to, float weight, vf value)
{
    v_store(to, v_fma(v_set(weight), value, v_load(to)));
}

STK_INLINE void spread(const stk_head_upsample *across, uint32_t size, const void *dy, float a_weight,
                       float *a, float b_weight, float *b, stk_float type)
{
    enum { SUMS = 32 / STK_LANES };
    for (size_t j = 0; j < across->small; j++) {
        const stk_head_spread from = across->spreads[j];
        for (size_t c = 0; c < size; c += 32) {
            vf sum[SUMS];
            for (size_t k = 0; k < SUMS; k++) sum[k] = v_zero();
            for (size_t i = 0; i < from.count; i++) {
                const vf weight = v_set(across->weights[from.at + i]);
                const size_t at = (from.first + i) * size + c;
                for (size_t k = 0; k < SUMS; k++)
                    sum[k] = v_fma(weight, v_get(dy, at + k * STK_LANES, type), sum[k]);
            }
            for (size_t k = 0; k < SUMS; k++) {
                add_to(a + j * size + c + k * STK_LANES, a_weight, sum[k]);
                add_to(b + j * size + c + k * STK_LANES, b_weight, sum[k]);
            }
        }
    }
}

STK_INLINE void join(size_t count, const float *a, const float *b, void *out, stk_float type)
{
    for (size_t i = 0; i < count; i += STK_LANES) {
        const size_t lanes = count - i < STK_LANES ? count - i : STK_LANES;
        const vf value = v_get_part(a, i, lanes, STK_F32);
        v_put_part(out, i, lanes, b ? v_add(value, v_get_part(b, i, lanes, STK_F32)) : value, type);
    }
}

#include "src/net/kernels/head_instances.h"

void STK_SIMD(stk_head_fill)(stk_head_table *table)
{
    fill(table);
}
