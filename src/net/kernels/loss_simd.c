/* SPDX-License-Identifier: Apache-2.0
 *
 * loss in vectors: lanes are pixels. Per class and line of a block: the logit and its maximum, then e^z and
 * sums, then the gradient of all lines at once, so that its planes are read and written once per block.
 *
 * `lines` is a constant where functions are inlined: STK_LOSS_LINES for whole blocks, 1 for what is left of
 * one. So is `wide`: terms that need sums over all classes or factors per class (label smoothing, Dice) are
 * not computed otherwise.
 *
 * Processor time of one AVX2 core with gradients, cross-entropy: 5.1 ms for 4x256x256 with 19 classes, 56 ms
 * for 2x512x512 with 150; with v_exp and labels picked one by one it was 9.4 and 79.
 */
#include "src/net/kernels/net_table.h"
#include "src/net/kernels/simd.h"

/* One class lies in plane 1. */
STK_INLINE uint32_t first_plane(const stk_loss_columns *columns)
{
    return columns->classes == 1;
}

/* Lanes that rows of logits have from column c on; STK_LANES but for the last 8 of 16. */
STK_INLINE size_t lanes_at(const stk_loss_columns *columns, uint32_t c)
{
    return columns->stride - c < STK_LANES ? columns->stride - c : STK_LANES;
}

static void spread(const stk_loss_columns *columns, const float *line, float *planes)
{
    planes += first_plane(columns) * STK_LANES;
    for (uint32_t c = 0; c < columns->classes; c += STK_LANES) {
        const size_t lanes = lanes_at(columns, c);
        vf row[STK_LANES];
        for (uint32_t l = 0; l < STK_LANES; l++) {
            const float *left = line + columns->first[l] * columns->stride + c;
            const float *right = left + columns->step * columns->stride;
            const vf share = v_set(columns->share[l]);
            const vf a = v_get_part(left, 0, lanes, STK_F32), b = v_get_part(right, 0, lanes, STK_F32);
            row[l] = v_fma(share, b, v_fnma(share, a, a));
        }
        v_transpose(row);
        for (uint32_t l = 0; l < STK_LANES && c + l < columns->classes; l++)
            v_store(planes + (c + l) * STK_LANES, row[l]);
    }
}

/* Neighbouring lanes have neighbouring pixels of the line: sums of two of them stay in registers while the
 * lanes move on. */
static void collect(const stk_loss_columns *columns, const float *planes, float *line)
{
    const size_t stride = columns->stride, step = columns->step * stride;
    planes += first_plane(columns) * STK_LANES;
    for (uint32_t c = 0; c < columns->classes; c += STK_LANES) {
        const size_t lanes = lanes_at(columns, c);
        vf row[STK_LANES];
        for (uint32_t l = 0; l < STK_LANES; l++)
            row[l] = c + l < columns->classes ? v_load(planes + (c + l) * STK_LANES) : v_zero();
        v_transpose(row);
        uint32_t x = columns->first[0];
        float *at = line + x * stride + c;
        vf left = v_get_part(at, 0, lanes, STK_F32), right = v_get_part(at + step, 0, lanes, STK_F32);
        for (uint32_t l = 0; l < STK_LANES; l++) {
            if (columns->first[l] != x) {
                v_put_part(at, 0, lanes, left, STK_F32);
                if (columns->first[l] != x + 1) {
                    v_put_part(at + step, 0, lanes, right, STK_F32);
                    right = v_get_part(line + columns->first[l] * stride + c, 0, lanes, STK_F32);
                }
                x = columns->first[l];
                at = line + x * stride + c;
                left = right;
                right = v_get_part(at + step, 0, lanes, STK_F32);
            }
            const vf share = v_set(columns->share[l]);
            left = v_add(left, v_fnma(share, row[l], row[l]));
            right = v_fma(share, row[l], right);
        }
        if (step) v_put_part(at + step, 0, lanes, right, STK_F32); /* one column: its share is 0 */
        v_put_part(at, 0, lanes, left, STK_F32);
    }
}

/* e^x for x <= 0: 6 operations less than v_exp, in the loop where most of the time goes. Degree 5 on
 * |r| <= 0.35 (7.5e-8) and ln 2 in one piece; relative error below 2.2e-7 down to x = -10 (every float; the
 * mean is +9e-8, which a loss shows and a gradient, a quotient of two of them, does not), 4.3e-7 at -87, and
 * not less than e^-87.3. NaN for NaN: the bound comes first. */
STK_INLINE vf exp_down(vf x)
{
    const vf shift = v_set(12582912.0f); /* 1.5 * 2^23: rounds to whole numbers */
    x = v_max(v_set(-87.3f), x);
    const vf t = v_fma(x, v_set(1.44269504088896341f), shift);
    const vf r = v_fnma(v_sub(t, shift), v_set(0.69314718055994531f), x);
    vf p = v_set(8.297654800e-03f);
    p = v_fma(p, r, v_set(4.191538319e-02f));
    p = v_fma(p, r, v_set(1.666757464e-01f));
    p = v_fma(p, r, v_set(4.999889433e-01f));
    p = v_fma(p, r, v_set(9.999997020e-01f));
    p = v_fma(p, r, v_set(1.000000119f));
    return v_raise2(p, t);
}

/* Lines first .. first + lines of a block. */
typedef struct softmax {
    vf most[STK_LOSS_LINES], sum[STK_LOSS_LINES]; /* of z, of e^(z - most) */
    vf tilt[STK_LOSS_LINES];                      /* sum of w (z - most) */
    vf dot[2][STK_LOSS_LINES];                    /* sum of overall * e^(z - most), per mask */
} softmax;

/* e^(z - most) to block->room, [class][line][lane]. */
STK_INLINE void soften(const stk_loss_block *b, uint32_t first, uint32_t lines, int wide, softmax *s)
{
    vf share[STK_LOSS_LINES];
    for (uint32_t k = 0; k < lines; k++) {
        share[k] = v_set(b->share[first + k]);
        s->most[k] = v_set(-3e38f);
        s->sum[k] = s->tilt[k] = s->dot[0][k] = s->dot[1][k] = v_zero();
    }
    for (uint32_t c = 0; c < b->planes; c++) {
        const vf upper = v_load(b->upper + c * STK_LANES);
        const vf change = v_sub(v_load(b->lower + c * STK_LANES), upper);
        for (uint32_t k = 0; k < lines; k++) s->most[k] = v_max(s->most[k], v_fma(share[k], change, upper));
    }
    for (uint32_t c = 0; c < b->planes; c++) {
        const vf upper = v_load(b->upper + c * STK_LANES);
        const vf change = v_sub(v_load(b->lower + c * STK_LANES), upper);
        for (uint32_t k = 0; k < lines; k++) {
            const vf z = v_sub(v_fma(share[k], change, upper), s->most[k]);
            const vf e = exp_down(z);
            v_store(b->room + (c * lines + k) * STK_LANES, e);
            s->sum[k] = v_add(s->sum[k], e);
            if (!wide) continue;
            s->tilt[k] = v_fma(v_set(b->weights[c]), z, s->tilt[k]);
            for (uint32_t m = 0; m < b->masks; m++)
                if (b->mask[m].dice != 0) s->dot[m][k] = v_fma(v_set(b->mask[m].overall[c]), e, s->dot[m][k]);
        }
    }
}

/* Factors of one line's gradient: e * (alpha + sum of beta * overall) - flat * w - delta at the label. */
typedef struct line_slopes {
    vf alpha, beta[2], flat, loss;
} line_slopes;

STK_INLINE const int32_t *labels_of(const stk_loss_block *b, uint32_t m, uint32_t line)
{
    return b->mask[m].labels + line * b->label_stride;
}

/* The value of each pixel's label. Labels mostly agree over a few pixels: then it is one load. */
STK_INLINE vf pick_plane(const float *planes, const int32_t *labels)
{
    if (!v_pick_same(labels)) return v_pick_lane(planes, labels);
    return v_load(planes + (labels[0] < 0 ? 0 : labels[0]) * STK_LANES);
}

/* Adds the terms of one mask; delta to `delta`. */
STK_INLINE void judge(const stk_loss_block *b, uint32_t m, uint32_t first, uint32_t k, int wide,
                      const softmax *s, line_slopes *slopes, float *delta)
{
    const stk_loss_mask *mask = &b->mask[m];
    const int32_t *labels = labels_of(b, m, first + k);
    const vf upper = pick_plane(b->upper, labels), change = v_sub(pick_plane(b->lower, labels), upper);
    const vf log_sum = v_log(s->sum[k]), inverse = v_div(v_set(1.0f), s->sum[k]);
    const vf logit = v_fma(v_set(b->share[first + k]), change, upper);
    const vf z = v_min(v_zero(), v_sub(logit, s->most[k])); /* above 0 where nothing counts: kept finite */
    const vf log_p = v_sub(z, log_sum), counted = v_pick_one(labels);
    vf weight = v_mul(v_set(mask->point), v_pick(b->weights, labels)), slope;
    if (b->gamma < 0) {
        slope = weight = v_mul(weight, v_set(b->certain));
    } else {
        const vf probability = v_mul(exp_down(z), inverse), gamma = v_set(b->gamma);
        const vf rest = v_max(v_sub(v_set(1.0f), probability), v_set(1e-30f));
        weight = v_mul(weight, v_exp(v_mul(gamma, v_log(rest))));
        slope = v_fnma(v_mul(weight, gamma), v_div(v_mul(probability, log_p), rest), weight);
    }
    slopes->loss = v_fnma(weight, log_p, slopes->loss);
    slopes->alpha = v_add(slopes->alpha, slope);
    if (wide) {
        const vf smooth = v_mul(v_set(mask->point * b->smoothing), counted), all = v_set(b->weights_sum);
        slopes->loss = v_fma(smooth, v_sub(v_mul(all, log_sum), s->tilt[k]), slopes->loss);
        slopes->alpha = v_fma(smooth, all, slopes->alpha);
        slopes->flat = v_add(slopes->flat, smooth);
        const vf dice = v_mul(v_set(mask->dice), counted);
        slopes->beta[m] = v_mul(dice, inverse);
        vf inside = v_zero();
        if (mask->dice != 0)
            inside = v_mul(slopes->beta[m], v_mul(v_pick(mask->inside, labels), exp_down(z)));
        slopes->alpha = v_sub(slopes->alpha, v_fma(slopes->beta[m], s->dot[m][k], inside));
        slope = v_sub(slope, inside);
    }
    v_store(delta, v_mul(slope, v_set(b->factor)));
}

/* Gradients that every class has a share of. */
STK_INLINE void descend(const stk_loss_block *b, uint32_t first, uint32_t lines, int wide, const softmax *s,
                        const line_slopes slopes[STK_LOSS_LINES])
{
    vf up[STK_LOSS_LINES], down[STK_LOSS_LINES], flat_up = v_zero(), flat_down = v_zero();
    for (uint32_t k = 0; k < lines; k++) {
        const float share = b->share[first + k];
        const vf alpha = v_div(v_mul(slopes[k].alpha, v_set(b->factor)), s->sum[k]);
        up[k] = v_mul(alpha, v_set(1 - share));
        down[k] = v_mul(alpha, v_set(share));
        flat_up = v_fma(slopes[k].flat, v_set((1 - share) * b->factor), flat_up);
        flat_down = v_fma(slopes[k].flat, v_set(share * b->factor), flat_down);
    }
    for (uint32_t c = 0; c < b->planes; c++) {
        vf upper = v_load(b->d_upper + c * STK_LANES), lower = v_load(b->d_lower + c * STK_LANES);
        if (wide) {
            upper = v_fnma(flat_up, v_set(b->weights[c]), upper);
            lower = v_fnma(flat_down, v_set(b->weights[c]), lower);
        }
        for (uint32_t k = 0; k < lines; k++) {
            const vf e = v_load(b->room + (c * lines + k) * STK_LANES);
            upper = v_fma(e, up[k], upper);
            lower = v_fma(e, down[k], lower);
            if (!wide) continue;
            const float share = b->share[first + k];
            for (uint32_t m = 0; m < b->masks; m++) {
                if (b->mask[m].dice == 0) continue;
                const vf g = v_mul(e, v_mul(slopes[k].beta[m], v_set(b->factor * b->mask[m].overall[c])));
                upper = v_fma(g, v_set(1 - share), upper);
                lower = v_fma(g, v_set(share), lower);
            }
        }
        v_store(b->d_upper + c * STK_LANES, upper);
        v_store(b->d_lower + c * STK_LANES, lower);
    }
}

/* The labels' own part. After `descend`: its vectors would wait for these stores. */
STK_INLINE void push_labels(const stk_loss_block *b, uint32_t m, uint32_t line, const float *delta)
{
    const int32_t *labels = labels_of(b, m, line);
    const float share = b->share[line];
    if (v_pick_same(labels)) {
        if (labels[0] < 0) return;
        float *upper = b->d_upper + labels[0] * STK_LANES, *lower = b->d_lower + labels[0] * STK_LANES;
        v_store(upper, v_sub(v_load(upper), v_mul(v_set(1 - share), v_load(delta))));
        v_store(lower, v_sub(v_load(lower), v_mul(v_set(share), v_load(delta))));
        return;
    }
    for (uint32_t l = 0; l < STK_LANES; l++) {
        if (labels[l] < 0) continue;
        const size_t i = (size_t)labels[l] * STK_LANES + l;
        b->d_upper[i] -= (1 - share) * delta[l];
        b->d_lower[i] -= share * delta[l];
    }
}

STK_INLINE double pixels_of(const stk_loss_block *b, uint32_t first, uint32_t lines, int wide)
{
    softmax s;
    line_slopes slopes[STK_LOSS_LINES];
    float delta[2][STK_LOSS_LINES][STK_LANES];
    vf loss = v_zero();
    soften(b, first, lines, wide, &s);
    for (uint32_t k = 0; k < lines; k++) {
        slopes[k].alpha = slopes[k].flat = slopes[k].loss = v_zero();
        for (uint32_t m = 0; m < b->masks; m++) judge(b, m, first, k, wide, &s, &slopes[k], delta[m][k]);
        loss = v_add(loss, slopes[k].loss);
    }
    if (b->d_upper) {
        descend(b, first, lines, wide, &s, slopes);
        for (uint32_t m = 0; m < b->masks; m++)
            for (uint32_t k = 0; k < lines; k++) push_labels(b, m, first + k, delta[m][k]);
    }
    return v_sum(loss);
}

STK_INLINE double all_pixels(const stk_loss_block *b, int wide)
{
    if (b->lines == STK_LOSS_LINES) return pixels_of(b, 0, STK_LOSS_LINES, wide);
    double loss = 0;
    for (uint32_t i = 0; i < b->lines; i++) loss += pixels_of(b, i, 1, wide);
    return loss;
}

static double pixels(const stk_loss_block *b)
{
    const int wide = b->smoothing != 0 || b->mask[0].dice != 0 || (b->masks == 2 && b->mask[1].dice != 0);
    return wide ? all_pixels(b, 1) : all_pixels(b, 0);
}

STK_INLINE void sums_of(const stk_loss_block *b, uint32_t first, uint32_t lines)
{
    softmax s;
    soften(b, first, lines, 0, &s);
    for (uint32_t m = 0; m < b->masks; m++) {
        const stk_loss_mask *mask = &b->mask[m];
        vf part[STK_LOSS_LINES];
        for (uint32_t k = 0; k < lines; k++) {
            const int32_t *labels = labels_of(b, m, first + k);
            float counted[STK_LANES], inverse[STK_LANES];
            for (uint32_t l = 0; l < STK_LANES; l++) counted[l] = labels[l] < 0 ? 0 : 1;
            part[k] = v_div(v_load(counted), s.sum[k]);
            v_store(inverse, part[k]);
            for (uint32_t l = 0; l < STK_LANES; l++) {
                const uint32_t t = labels[l] < 0 ? 0 : (uint32_t)labels[l];
                mask->overlap[t * STK_LANES + l] += b->room[(t * lines + k) * STK_LANES + l] * inverse[l];
            }
        }
        for (uint32_t c = 0; c < b->planes; c++) {
            vf sum = v_load(mask->cover + c * STK_LANES);
            for (uint32_t k = 0; k < lines; k++)
                sum = v_fma(v_load(b->room + (c * lines + k) * STK_LANES), part[k], sum);
            v_store(mask->cover + c * STK_LANES, sum);
        }
    }
}

static void sums(const stk_loss_block *b)
{
    if (b->lines == STK_LOSS_LINES)
        sums_of(b, 0, STK_LOSS_LINES);
    else
        for (uint32_t i = 0; i < b->lines; i++) sums_of(b, i, 1);
}

/* The best so far and its class stay in registers: no probability is needed for the largest. */
STK_INLINE void best_of(const stk_loss_block *b, uint32_t first, uint32_t lines, uint16_t *labels)
{
    vf share[STK_LOSS_LINES], most[STK_LOSS_LINES], label[STK_LOSS_LINES];
    for (uint32_t k = 0; k < lines; k++) {
        share[k] = v_set(b->share[first + k]);
        most[k] = v_fma(share[k], v_sub(v_load(b->lower), v_load(b->upper)), v_load(b->upper));
        label[k] = v_zero();
    }
    for (uint32_t c = 1; c < b->planes; c++) {
        const vf upper = v_load(b->upper + c * STK_LANES), number = v_set((float)c);
        const vf change = v_sub(v_load(b->lower + c * STK_LANES), upper);
        for (uint32_t k = 0; k < lines; k++) {
            const vf z = v_fma(share[k], change, upper);
            label[k] = v_greater(z, most[k], number, label[k]);
            most[k] = v_greater(z, most[k], z, most[k]);
        }
    }
    for (uint32_t k = 0; k < lines; k++) {
        float numbers[STK_LANES];
        v_store(numbers, label[k]);
        for (uint32_t l = 0; l < STK_LANES; l++)
            labels[(first + k) * STK_LANES + l] = (uint16_t)(int32_t)numbers[l];
    }
}

static void best(const stk_loss_block *b, uint16_t *labels)
{
    if (b->lines == STK_LOSS_LINES)
        best_of(b, 0, STK_LOSS_LINES, labels);
    else
        for (uint32_t i = 0; i < b->lines; i++) best_of(b, i, 1, labels);
}

void STK_SIMD(stk_loss_fill)(stk_loss_table *table)
{
    *table = (stk_loss_table){
        .lanes = STK_LANES, .spread = spread, .collect = collect, .pixels = pixels, .sums = sums, .best = best
    };
}
